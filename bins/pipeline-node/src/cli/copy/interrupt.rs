//! SIGINT and SIGTERM to a copy to here: it ends at once, as without this, but takes away what it had made and is still empty.
//! Deliberately without waiting for what is under way: files that are not whole have no names.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::folders::Folders;
use crate::cli::exit::Failure;

/// What a shell expects of a program that a signal ended.
const INTERRUPTED: i32 = 130;
const TERMINATED: i32 = 143;
/// A disk that answers no more must not keep the program: it ends without, after this or at the next signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Has the folders taken away when somebody ends the program. A thread of its own sleeps until then.
///
/// # Errors
/// When the system lets nobody wait for signals.
pub fn on_interrupt(folders: &Arc<Folders>) -> Result<(), Failure> {
    let told = |e: std::io::Error| Failure::system(format!("cannot wait for signals: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
    let entered = runtime.enter();
    let mut interrupts = signal(SignalKind::interrupt()).map_err(told)?;
    let mut terms = signal(SignalKind::terminate()).map_err(told)?;
    drop(entered);
    let folders = folders.clone();
    let wait = move || {
        runtime.block_on(async {
            let code = tokio::select! {
                _ = interrupts.recv() => INTERRUPTED,
                _ = terms.recv() => TERMINATED,
            };
            let away = move || folders.end(|| std::process::exit(code));
            let _ = std::thread::Builder::new().name("away".into()).spawn(away);
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terms.recv() => {}
                () = tokio::time::sleep(PATIENCE) => {}
            }
            std::process::exit(code);
        });
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(wait).map_err(told)?;
    Ok(())
}
