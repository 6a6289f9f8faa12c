//! What the engine does to the process it lives in, and what that process may do to it: fork, exec, signals, and a wall
//! clock that jumps.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/audience.rs"]
mod audience;
mod awake;
mod clocks;
mod delivery;
mod fork;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../cli/node.rs"]
mod node;
#[allow(dead_code, reason = "each test program uses some of it")]
#[path = "../../../../tests/tests/engine/rig.rs"]
mod rig;
mod signals;

use std::process::Command;

/// A test of this program, in a process of its own: for what would disturb the others. `scene` is its path; it is
/// marked `#[ignore]` and does nothing unless [`is_scene`].
fn scene(scene: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", scene, "--ignored", "--nocapture", "--test-threads", "1"]).env("SCENE", scene);
    command
}

/// Whether this process was started to play `scene`.
fn is_scene(scene: &str) -> bool {
    std::env::var("SCENE").as_deref() == Ok(scene)
}
