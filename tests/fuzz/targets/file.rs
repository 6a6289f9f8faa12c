//! The file under libFuzzer: `cargo +nightly fuzz run file -- -dict=file.dict -max_len=4096` in `tests/fuzz`.
#![no_main]

#[path = "../bodies/file.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
