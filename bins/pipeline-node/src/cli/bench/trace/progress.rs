//! How far a replay is: on a terminal only, on stderr, so that a pipe stays silent.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often it is brought up to date: the loop that is measured has better things to do.
const EVERY: Duration = Duration::from_millis(100);

/// A bar over the requests of the trace.
pub struct Progress {
    bar: Option<ProgressBar>,
    next: Instant,
}

impl Progress {
    /// For so many requests, unless nothing is to be shown.
    pub fn new(requests: u64, is_shown: bool) -> Self {
        let bar = (is_shown && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(Some(requests), ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{bar:32} {pos}/{len} requests  {msg}  {eta}");
            style.map_or(bar.clone(), |style| bar.with_style(style))
        });
        Self { bar, next: Instant::now() }
    }

    /// So many requests are done, and so many bytes have been moved in `elapsed`.
    pub fn tell(&mut self, requests: u64, bytes: u64, elapsed: Duration) {
        let Some(bar) = &self.bar else { return };
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        bar.set_position(requests);
        bar.set_message(format!("{:.2} GB/s", bytes as f64 / elapsed.as_nanos().max(1) as f64));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
