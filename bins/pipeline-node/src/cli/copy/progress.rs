//! The bar of `copy`: on a terminal only, on stderr, so that a pipe stays silent.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counts what was copied, and draws it. Shared by all threads of a copy.
pub struct Progress {
    bar: ProgressBar,
    /// Said in front of what failed, when there are several destinations.
    label: String,
    files: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
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

    fn of(bar: ProgressBar, label: String) -> Self {
        let zero = || AtomicU64::new(0);
        Self { bar, label, files: zero(), bytes: zero(), failed: zero() }
    }

    /// Of one of several destinations: counts, and draws nothing.
    pub fn part(label: &str) -> Self {
        Self::of(ProgressBar::hidden(), format!("{label}: "))
    }

    /// Says something at once, beside the bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// So many bytes more have arrived.
    pub fn bytes(&self, count: u64) {
        self.bytes.fetch_add(count, Ordering::Relaxed);
        self.bar.inc(count);
    }

    /// A file is whole at its destination.
    pub fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Something failed: said at once, so that a long list needs no memory.
    pub fn failed(&self, what: &str, reason: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.bar.suspend(|| eprintln!("failed: {}{what}: {reason}", self.label));
    }

    /// Takes the bar away and answers files, bytes and failures.
    pub fn finish(&self) -> (u64, u64, u64) {
        self.bar.finish_and_clear();
        let count = |c: &AtomicU64| c.load(Ordering::Relaxed);
        (count(&self.files), count(&self.bytes), count(&self.failed))
    }
}
