//! The example that the documents show is the one that runs, and it is as short as they say.

#[path = "../examples/embed.rs"]
mod embed;

/// Two engines in one process write over TCP, read back and find the same bytes; the example stays under forty
/// lines.
#[test]
fn the_example_runs() {
    embed::main().unwrap();
    assert!(include_str!("../examples/embed.rs").lines().count() < 40);
}
