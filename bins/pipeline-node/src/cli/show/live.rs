//! Commands that ask a running node: how it is found, how often it is asked, and how answers are shown one after the other.
//! Deliberately a question an interval: the node measures from one look to the next, and remembers nothing.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline_configs::plain;
use pipeline_node::admin::client::{AskError, Found};
use serde_json::{Value, json};

use super::super::exit::{Failure, Outcome};
use super::super::file;
use super::text;

/// Longest interval that a node measures.
const INTERVAL_MAX_S: f64 = 60.0;
/// Whoever waits longer than this is told for what.
const PATIENCE: Duration = Duration::from_secs(2);

/// Which node, and how it is shown.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node show runtime --node decode-0
  pipeline-node show edges --node ./decode-0.sock --watch 2
  pipeline-node show peers --since-start --json | jq '.peers[] | select(.state != \"up\")'")]
pub struct LiveArgs {
    /// The node, by its name or its admin socket [default: the only one that runs here].
    #[arg(long, value_name = "NAME|SOCKET")]
    node: Option<String>,
    /// Seconds over which figures are measured.
    #[arg(long, value_name = "SECS", default_value = "1", value_parser = seconds)]
    interval: f64,
    /// Since the start of the node, at once, in place of an interval.
    #[arg(long, conflicts_with_all = ["interval", "watch"])]
    since_start: bool,
    /// Again and again, each SECS seconds [default: --interval]: redrawn on a terminal, one block after the other in a pipe.
    #[arg(long, value_name = "SECS", num_args = 0..=1, value_parser = seconds)]
    watch: Option<Option<f64>>,
    /// The answer as one object; with --watch, one a line.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.001..=INTERVAL_MAX_S).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0.001 to 60".into()),
    }
}

/// Finds a node.
///
/// # Errors
/// 69 when there is none, 2 when there are several.
pub fn find(node: Option<&str>) -> Result<Found, Failure> {
    Found::new(node).map_err(failure)
}

/// What an answer that did not come, or says no, ends a command with.
pub fn failure(error: AskError) -> Failure {
    match error {
        AskError::NotThere(why) => Failure::peer(why),
        AskError::Refused(why) => Failure::failed(why),
        AskError::Several(_) => Failure::usage(error),
    }
}

/// Asks, and shows.
///
/// # Errors
/// 69 when there is no such node, or it goes; 1 when it refuses.
pub fn run(subject: &'static str, args: &LiveArgs) -> Outcome {
    let mut node = find(args.node.as_deref())?;
    // What only stands now has no interval.
    let timeless = ["regions", "batches"].contains(&subject);
    let each = Duration::from_secs_f64(args.watch.flatten().unwrap_or(args.interval));
    let interval = if args.since_start || timeless { Duration::ZERO } else { each };
    let mut question = json!({ "show": subject });
    if !interval.is_zero() {
        question["interval_ms"] = (interval.as_millis() as u64).max(1).into();
    }
    let redraws = args.watch.is_some() && !args.json && std::io::stdout().is_terminal();
    for round in 0.. {
        if round > 0 && interval.is_zero() {
            std::thread::sleep(each);
        }
        let patience = Patience::new(interval, args.watch.is_some());
        let answer = node.ask(&question, interval).map_err(failure)?;
        drop(patience);
        let block = if args.json { format!("{answer}\n") } else { text::block(subject, &answer) };
        let parted = if round > 0 && !args.json { "\n" } else { "" };
        match redraws {
            // From the corner on, and nothing left of what was there.
            true => file::draw(&format!("\x1b[H\x1b[J{}", plain::lines(&block)))?,
            false => file::print(&format!("{parted}{block}"))?,
        }
        if args.watch.is_none() || closed() {
            break;
        }
    }
    Ok(())
}

/// Whether nobody reads what is printed: `| head` has what it wanted.
fn closed() -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = poll(&mut fds, Some(&now)).is_ok();
    polled && fds[0].revents().contains(PollFlags::ERR)
}

/// Says on a terminal what is waited for.
struct Patience(Option<ProgressBar>);

impl Patience {
    fn new(interval: Duration, watches: bool) -> Self {
        let told = interval > PATIENCE && !watches && std::io::stderr().is_terminal();
        Self(told.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(20));
            let style = ProgressStyle::with_template("{spinner} {msg}");
            let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
            bar.set_message(format!("the node measures for {:.0} s", interval.as_secs_f64()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        }))
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A text of an answer; empty if there is none.
pub fn said<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer.get(key).and_then(Value::as_str).unwrap_or_default()
}
