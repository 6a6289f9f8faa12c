//! Waiting for something that is watched to be so. Deliberately without what [`watch::Receiver::wait_for`] answers with: that is a
//! guard of the watched value's lock, and whoever keeps it (in a variable, or in a `join!` whose other parts go on) while a task of the
//! same thread changes the value stops that thread for ever.

use tokio::sync::watch;

/// Waits until it is so; `false` when nobody is left who could change it.
#[expect(clippy::disallowed_methods, reason = "the guard is dropped here")]
pub(super) async fn until<T>(watched: &mut watch::Receiver<T>, is_so: impl FnMut(&T) -> bool) -> bool {
    watched.wait_for(is_so).await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// What has been waited for may change again on the same thread while whoever waited goes on with something else: nothing is locked.
    /// (A stop that waited for all sessions and then for a directory was held for ever by a peer that was just dialled again.)
    #[test]
    fn nothing_is_locked_afterwards() {
        let (told, hear) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let running = watch::Sender::new(0);
                let mut watched = running.subscribe();
                let other = async {
                    tokio::task::yield_now().await;
                    running.send_modify(|n| *n += 1);
                };
                told.send(tokio::join!(until(&mut watched, |n| *n == 0), other).0).unwrap();
            });
        });
        assert_eq!(hear.recv_timeout(Duration::from_secs(20)), Ok(true));
    }

    /// Where nobody is left who could make it so, that is said, and nothing waits.
    #[test]
    fn nobody_is_left() {
        let mut watched = watch::Sender::new(false).subscribe();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(!runtime.block_on(until(&mut watched, |stop| *stop)));
    }
}
