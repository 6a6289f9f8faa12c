//! What the fuzzers found is tried again by plain `cargo test`, together with every file that the findings are shown by.

#[path = "../fuzz/bodies/file.rs"]
mod file;
#[path = "../fuzz/bodies/mooncake_data.rs"]
mod mooncake_data;
#[path = "../fuzz/bodies/mooncake_handshake.rs"]
mod mooncake_handshake;

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

/// Runs each file of a corpus, whole and cut short at every so many bytes; answers how many files there were.
fn replay(corpus: &str, run: impl Fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(corpus);
    let entries = std::fs::read_dir(folder).expect("the folder is part of the repository");
    let mut count = 0;
    for entry in entries.flatten() {
        let bytes = std::fs::read(entry.path()).expect("it was listed");
        run(&bytes);
        let step = (bytes.len() / 8).max(1);
        (0..bytes.len()).step_by(step).for_each(|end| run(&bytes[..end]));
        count += 1;
    }
    count
}

/// Nothing that comes in at Mooncake's handshake port, or as its answer, makes the reader panic, and what it reads it writes back
/// as it was.
#[test]
fn mooncake_handshakes() {
    let count = replay("mooncake_handshake", mooncake_handshake::run);
    assert!(count >= 26, "{count} files");
}

/// Nothing that comes in at Mooncake's data port touches a byte outside of the region, keeps a connection open, or a request
/// under way.
#[test]
fn mooncake_data_connections() {
    let count = replay("mooncake_data", mooncake_data::run);
    assert!(count >= 22, "{count} files");
}
