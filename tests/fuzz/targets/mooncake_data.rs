//! Mooncake's data port under libFuzzer, in `tests/fuzz`:
//! `cargo +nightly fuzz run --fuzz-dir . mooncake_data corpus/mooncake_data -- -max_len=4096`
#![no_main]

#[path = "../bodies/mooncake_data.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
