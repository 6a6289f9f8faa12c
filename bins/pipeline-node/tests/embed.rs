//! The examples that the documents show are those that run, and they are as short as they say.

#[path = "../examples/embed.rs"]
mod embed;
#[path = "../examples/event_loop.rs"]
mod event_loop;

/// Two engines in one process write over TCP, read back and find the same bytes; the example stays under forty
/// lines.
#[test]
fn the_example_runs() {
    embed::main().unwrap();
    assert!(include_str!("../examples/embed.rs").lines().count() < 40);
}

/// A server with an epoll loop of its own answers every client, by one thread and one descriptor for all batches.
#[test]
fn the_event_loop_runs() {
    event_loop::main().unwrap();
    assert!(include_str!("../examples/event_loop.rs").lines().count() < 90);
}
