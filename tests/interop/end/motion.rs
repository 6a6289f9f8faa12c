//! One batch of requests between the region and a peer's memory: submitted, waited for, and what each came to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pipeline_node::{Options, Request, Status};
use serde_json::{Value, json};

use crate::image::Shape;
use crate::node::Node;
use crate::{Answer, number, text};

/// What a batch shall do.
pub struct Motion {
    is_read: bool,
    peer: String,
    segment: String,
    /// Where the peer's buffer begins in that segment.
    base: u64,
    shape: Shape,
    deadline: Duration,
    notice: Option<String>,
}

impl Motion {
    /// From a command.
    pub fn of(command: &Value) -> Result<Self, String> {
        let target = &command["target"];
        Ok(Self {
            is_read: text(command, "op")? == "read",
            peer: text(target, "peer")?.to_owned(),
            segment: text(target, "segment")?.to_owned(),
            base: number(target, "base")?,
            shape: Shape::of(command)?,
            deadline: Duration::from_millis(number(command, "deadline_ms")?),
            notice: command["notice"].as_str().map(str::to_owned),
        })
    }
}

/// What is asked of the peer, which is opened for it.
fn requests(node: &Node, motion: &Motion) -> Result<Vec<Request>, String> {
    let peer = node.engine.open_within(&motion.peer, motion.deadline).map_err(|e| e.to_string())?;
    let segment = peer.segment(&motion.segment).map_err(|e| e.to_string())?;
    let one = |offset: u64| {
        let (region, there, len) = (&node.region, segment.at(motion.base + offset), motion.shape.size);
        match motion.is_read {
            true => Request::read(region, offset, there, len),
            false => Request::write(region, offset, there, len),
        }
    };
    Ok(motion.shape.offsets(node.region.len()).map(one).collect())
}

/// Before it counts, as in the wheel's end: congestion windows open and caches fill.
const WARM_UP: Duration = Duration::from_millis(100);

/// The same batch again and again, one after the other, for a time: for the comparison of speeds.
pub fn again(node: &Node, motion: &Motion, run_ms: u64) -> Answer {
    let requests = requests(node, motion)?;
    let once = || {
        let options = Options { deadline: Some(motion.deadline), ..Options::default() };
        let batch = node.engine.submit(&requests, options).map_err(|e| e.to_string())?;
        let ended = batch.wait(motion.deadline * 2).map_err(|e| e.to_string())?;
        if ended.is_done() { Ok(()) } else { Err(format!("{} of {} failed", ended.failed, ended.requests)) }
    };
    let warm = Instant::now();
    once()?;
    while warm.elapsed() < WARM_UP {
        once()?;
    }
    let mut latencies = Vec::new();
    let (begin, whole) = (Instant::now(), Duration::from_millis(run_ms));
    let mut before = begin;
    while before - begin < whole {
        once()?;
        let after = Instant::now();
        latencies.push((after - before).as_nanos() as u64);
        before = after;
    }
    let bytes = latencies.len() as u64 * motion.shape.size * requests.len() as u64;
    latencies.sort_unstable();
    let percentile = |share: usize| latencies[(latencies.len() * share).div_ceil(100) - 1] as f64 / 1e3;
    Ok(json!({
        "gb_per_s": bytes as f64 / (before - begin).as_nanos() as f64, "bytes": bytes,
        "p50_us": percentile(50), "p99_us": percentile(99),
    }))
}

/// Does it. A peer that cannot be opened is an error; requests that fail are told with their reasons.
pub fn carry_out(node: &Node, motion: &Motion) -> Answer {
    let begin = Instant::now();
    let requests = requests(node, motion)?;
    let opened = begin.elapsed();
    let notice = motion.notice.as_ref().map(|text| text.as_bytes().into());
    let options = Options { deadline: Some(motion.deadline), notice, ..Options::default() };
    let submitted = node.engine.submit_wait(&requests, options, motion.deadline);
    let batch = submitted.map_err(|e| e.to_string())?;
    // What is promised is the deadline; how much later it comes is for whoever asks to judge.
    let ended = batch.wait(motion.deadline * 4).map_err(|e| e.to_string())?;
    let mut reasons = BTreeMap::<String, u64>::new();
    for status in batch.results() {
        if let Status::Failed(failure) = status {
            *reasons.entry(format!("{:?}: {failure}", failure.reason)).or_default() += 1;
        }
    }
    let told = match batch.notice() {
        Some(Status::Failed(failure)) => failure.to_string().into(),
        Some(_) => "taken".into(),
        None => Value::Null,
    };
    let seconds = begin.elapsed().as_secs_f64();
    Ok(json!({
        "failed": ended.failed, "bytes": ended.bytes, "reasons": reasons, "notice": told, "seconds": seconds,
        "opened_s": opened.as_secs_f64(),
    }))
}
