//! What the fuzzers found is tried again by plain `cargo test`, together with every file that the findings are shown by.

#[path = "../fuzz/bodies/file.rs"]
mod file;

use std::path::Path;

/// No file of the corpus, of the golden set or of the shipped ones makes the loader panic, nor does any of them cut
/// short at a third or two thirds of its length.
#[test]
fn files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let catalog = pipeline_stages::catalog::catalog();
    let mut count = 0;
    for folder in ["fuzz/corpus/file", "../configs/tests/ui", "../configs/pipelines"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("the folder is part of the repository");
        for path in entries
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.is_file() && p.extension().is_none_or(|e| e != "txt"))
        {
            let bytes = std::fs::read(&path).expect("it was listed");
            for end in [bytes.len(), bytes.len() / 3, bytes.len() * 2 / 3] {
                file::run(&bytes[..end], &catalog);
            }
            count += 1;
        }
    }
    assert!(count > 400, "{count} files");
}
