//! The bar of `copy`: on a terminal only, on stderr, so that a pipe stays silent.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline_configs::plain;

/// Counts what was copied, and draws it. Shared by all threads of a copy.
pub struct Progress {
    bar: ProgressBar,
    /// Said in front of what failed, when there are several destinations.
    label: String,
    files: AtomicU64,
    file_bytes: AtomicU64,
    skipped: AtomicU64,
    sent_bytes: AtomicU64,
    resumed_bytes: AtomicU64,
    skipped_bytes: AtomicU64,
    failed: AtomicU64,
    first_failure: OnceLock<String>,
    missed: AtomicU64,
}

/// What a copy came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that there were to copy.
    pub wanted: u64,
    /// Files copied.
    pub files: u64,
    /// Bytes of those.
    pub file_bytes: u64,
    /// Files that were the same at the destination.
    pub skipped: u64,
    /// Bytes moved between the nodes, those of files that failed included.
    pub sent_bytes: u64,
    /// Bytes that were found where an earlier copy had left them.
    pub resumed_bytes: u64,
    /// Bytes of skipped files.
    pub skipped_bytes: u64,
    /// Whatever failed: files, and what `missed` counts.
    pub failed: u64,
    /// Those among them that are none of the files there were to copy: folders, links, what could not be looked at.
    pub missed: u64,
}

impl Progress {
    /// For `files` files of `bytes` bytes in all.
    pub fn new(files: u64, bytes: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(bytes), target);
        let style = "{bar:32} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_message(format!("{files} files"));
        Self::of(bar, String::new())
    }

    /// Of one of several destinations: counts, and draws nothing.
    pub fn part(label: &str) -> Self {
        Self::of(ProgressBar::hidden(), format!("{label}: "))
    }

    fn of(bar: ProgressBar, label: String) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            bar,
            label,
            files: zero(),
            file_bytes: zero(),
            skipped: zero(),
            sent_bytes: zero(),
            resumed_bytes: zero(),
            skipped_bytes: zero(),
            failed: zero(),
            first_failure: OnceLock::new(),
            missed: zero(),
        }
    }

    /// Says something at once, beside the bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{}", plain::line(text)));
    }

    /// So many bytes more have arrived.
    pub fn bytes(&self, count: u64) {
        self.sent_bytes.fetch_add(count, Ordering::Relaxed);
        self.bar.inc(count);
    }

    /// So many bytes need not be sent: an earlier copy has.
    pub fn resumed(&self, count: u64) {
        self.resumed_bytes.fetch_add(count, Ordering::Relaxed);
        self.bar.inc(count);
    }

    /// A file of so many bytes is whole at its destination.
    pub fn file(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.file_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file of so many bytes was the same already.
    pub fn skipped(&self, bytes: u64) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.skipped_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bar.inc(bytes);
    }

    /// Something failed that is none of the files which there were to copy; said at once as well.
    pub fn missed(&self, what: &str, reason: &str) {
        self.missed.fetch_add(1, Ordering::Relaxed);
        self.failed(what, reason);
    }

    /// A file failed: said at once, so that a long list needs no memory.
    pub fn failed(&self, what: &str, reason: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let _ = self.first_failure.set(format!("{what}: {reason}"));
        let line = format!("{}{what}: {reason}", self.label);
        self.bar.suspend(|| eprintln!("failed: {}", plain::line(&line)));
    }

    /// What failed first, and why.
    pub fn first_failure(&self) -> Option<&str> {
        self.first_failure.get().map(String::as_str)
    }

    /// Whether something has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) > 0
    }

    /// Takes the bar away and answers what came of `wanted` files.
    pub fn finish(&self, wanted: u64) -> Counts {
        self.bar.finish_and_clear();
        let count = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Counts {
            wanted,
            files: count(&self.files),
            file_bytes: count(&self.file_bytes),
            skipped: count(&self.skipped),
            sent_bytes: count(&self.sent_bytes),
            resumed_bytes: count(&self.resumed_bytes),
            skipped_bytes: count(&self.skipped_bytes),
            failed: count(&self.failed),
            missed: count(&self.missed),
        }
    }
}

impl Counts {
    /// Files that nobody came to.
    pub fn untried(&self) -> u64 {
        self.wanted.saturating_sub(self.files + self.skipped + self.failed.saturating_sub(self.missed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a file that failed after some had moved were sent, and are none of the copied files'.
    #[test]
    fn a_failed_file_has_no_bytes() {
        let progress = Progress::part("b");
        progress.bytes(7);
        progress.file(7);
        progress.bytes(100);
        progress.failed("big", "the test says so");
        progress.resumed(5);
        progress.file(5);
        let Counts { files, file_bytes, sent_bytes, failed, .. } = progress.finish(4);
        assert_eq!((files, file_bytes, sent_bytes, failed), (2, 12, 107, 1));
        progress.failed("later", "another reason");
        assert_eq!(progress.first_failure(), Some("big: the test says so"));
    }

    /// A link to nowhere and a folder that cannot be read are no files: they take none of those that nobody came to off the count.
    #[test]
    fn what_is_no_file_was_not_wanted() {
        let progress = Progress::part("b");
        progress.missed("link", "it leads nowhere");
        progress.missed("folder", "permission denied");
        progress.failed("a", "disk full");
        progress.file(7);
        let counts = progress.finish(5);
        assert_eq!((counts.failed, counts.untried()), (3, 3));
    }
}
