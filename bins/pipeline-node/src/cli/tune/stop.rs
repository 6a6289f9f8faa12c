//! Ctrl-C: the search ends after the turn that runs, and what is sure by then is told. The second one ends the program at once.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use super::Stop;
use crate::cli::exit::Failure;

static STOP: AtomicBool = AtomicBool::new(false);
/// What a shell expects of a program that SIGINT ended.
const INTERRUPTED: i32 = 130;

/// A flag that is set when somebody interrupts the program. A thread of its own sleeps until then.
///
/// # Errors
/// When the system lets nobody wait for signals.
pub fn on_interrupt() -> Result<Stop, Failure> {
    let told = |e: std::io::Error| Failure::system(format!("cannot wait for signals: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
    let entered = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt()).map_err(told)?;
    drop(entered);
    let wait = move || {
        runtime.block_on(async {
            while interrupts.recv().await.is_some() {
                if STOP.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED);
                }
                eprintln!("stopping after what runs now; once more to stop at once");
            }
        });
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait).map_err(told)?;
    Ok(&STOP)
}
