//! The file under libFuzzer, in `tests/fuzz`:
//! `cargo +nightly fuzz run --fuzz-dir . file corpus/file ../../configs/tests/ui -- -dict=file.dict -max_len=4096`
//! With the catalogue of the tests of `configs`, which is quick to build; the replay has the real one.
#![no_main]

#[path = "../bodies/file.rs"]
mod body;

#[path = "../../../configs/tests/kinds/mod.rs"]
mod kinds;

use std::sync::OnceLock;

use pipeline_configs::Catalog;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    body::run(data, CATALOG.get_or_init(kinds::catalog));
});
