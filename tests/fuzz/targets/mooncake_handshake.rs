//! Mooncake's handshake port under libFuzzer, in `tests/fuzz`:
//! `cargo +nightly fuzz run --fuzz-dir . mooncake_handshake corpus/mooncake_handshake -- -max_len=4096`
#![no_main]

#[path = "../bodies/mooncake_handshake.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
