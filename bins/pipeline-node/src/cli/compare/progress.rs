//! What runs now and how long it will take: on a terminal only, on stderr, so that a pipe stays silent. Deliberately drawn
//! between cells: a bar that moves by itself would be a thread of its own beside what is measured.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over the turns of all rounds.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// For so many turns, which take about `about_s` seconds.
    pub fn new(turns: u64, about_s: f64) -> Self {
        Self(std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(turns), ProgressDrawTarget::stderr_with_hz(20));
            // What was told before, not what a bar would make of the turns so far: these take their time by the clock.
            let template = format!("{{bar:32}} {{elapsed}} of about {about_s:.0}s  {{msg}}");
            let style = ProgressStyle::with_template(&template);
            style.map_or(bar.clone(), |style| bar.with_style(style))
        }))
    }

    /// What runs now.
    pub fn tell(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
        }
    }

    /// A turn is over.
    pub fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
