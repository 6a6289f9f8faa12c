//! What runs now, how much of the budget is used, and the best so far: on a terminal only, on stderr. Deliberately drawn between
//! turns: a bar that moves by itself would be a thread of its own beside what is measured.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::search::News;
use super::space::Space;

/// A bar over the budget.
pub struct Progress {
    bar: Option<ProgressBar>,
    best: String,
    race: String,
}

impl Progress {
    /// For so long.
    pub fn new(budget: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let length = u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(20));
            let template = format!("{{bar:24}} {{elapsed}} of {}s  {{wide_msg}}", budget.as_secs());
            let style = ProgressStyle::with_template(&template);
            style.map_or(bar.clone(), |style| bar.with_style(style))
        });
        Self { bar, best: "best: the file as it is".into(), race: String::new() }
    }

    /// What runs now.
    pub fn tell(&self, spent: Duration, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(u64::try_from(spent.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(format!("{} | {}, now {what}", self.best, self.race));
        }
    }

    /// What goes on.
    pub fn news(&mut self, news: &News<'_>, space: &Space) {
        match news {
            News::Best { candidate, gain } => {
                let percent = 100.0 * (gain.exp() - 1.0);
                self.best = format!("best: about {percent:+.0} %, {}", space.words(candidate));
            }
            News::Final => self.best = format!("old against new | {}", self.best),
            News::Race { field } => self.race = format!("{field} challengers"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
