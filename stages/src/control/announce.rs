//! Tells the directory where this node is: a record under its name, put again after each third of its life, so that a dead
//! node's goes away by itself, and a directory that came back empty knows this one within one interval. At a clean end it is
//! taken away.
//!
//! A name belongs to its latest start. A node that starts takes it, whatever is there: after a crash it must not wait for
//! its own old record. A node that finds a later start under its name says so once and publishes no more, until the name has
//! been free for a whole life of a record.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pipeline_transports::directory::NodeRecord;
use pipeline_transports::{Error as Reason, Nanos, clock};
use tokio::time::sleep;

use super::directory::Directory;
use super::published::published;
use super::shared::Shared;
use super::until::until;

/// Records are put so many times in one life.
const BEATS: u32 = 3;
/// The longest time that one question to the directory may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The longest time that a node which ends gives the directory to forget it.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// What this node is to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has not published yet, and takes the name whoever has it.
    New,
    /// It publishes.
    Holder,
    /// A later start has the name; free since so many beats.
    Yielded(u32),
}

/// What one look at the directory leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Put,
    Leave,
    /// Leave it, and say that somebody else has the name.
    Yield,
}

/// What to do about the record that is there, and what this node is then. May move `own.since`, so that a new start is later
/// than what it found, whatever the clocks of two machines say.
fn step(own: &mut NodeRecord, standing: Standing, there: Option<&NodeRecord>) -> (Step, Standing) {
    let other = there.filter(|there| there.incarnation != own.incarnation);
    match (standing, other) {
        (Standing::New, Some(other)) => {
            own.since = own.since.max(other.since.saturating_add(1));
            (Step::Put, Standing::Holder)
        }
        (Standing::Holder, Some(other)) if other.is_later_than(own) => (Step::Yield, Standing::Yielded(0)),
        (Standing::Yielded(_), Some(other)) if other.is_later_than(own) => {
            (Step::Leave, Standing::Yielded(0))
        }
        // Who has it may only be late, or the directory came back empty: a whole life is waited.
        (Standing::Yielded(free), None) if there.is_none() && free < BEATS => {
            (Step::Leave, Standing::Yielded(free + 1))
        }
        _ => (Step::Put, Standing::Holder),
    }
}

/// Tells of this node until it leaves or stops. On the runtime of control; nothing waits for it but the node's end.
pub(super) async fn keep(shared: Arc<Shared>) {
    let Some(directory) = shared.directory.as_ref().filter(|directory| directory.publishes) else { return };
    let (mut leaving, mut stop) = (shared.leaving.subscribe(), shared.stop.subscribe());
    let interval = directory.ttl / BEATS;
    let mut own = NodeRecord {
        name: shared.world.name.clone(),
        incarnation: shared.world.incarnation,
        since: now_ms(),
        addresses: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut standing = Standing::New;
    loop {
        // Half an interval and a quarter: in vain or not, the next attempt begins before one interval has passed.
        let by = clock::now() + (interval / 2).min(ANSWER_MAX).as_nanos() as Nanos;
        own.addresses = published(&shared);
        let pause = match beat(directory, &mut own, &mut standing, by).await {
            Ok(()) => interval,
            Err(Reason::Directory { .. }) => interval / 4,
            Err(error) => {
                tracing::error!("{} does not take the record of this node: {error}", directory.place());
                interval
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = until(&mut leaving, |leaving| *leaving) => break,
            _ = until(&mut stop, |stop| *stop) => break,
        }
    }
    let by = clock::now() + FAREWELL.as_nanos() as Nanos;
    let _ = withdraw(directory, &own, by).await;
}

async fn beat(
    directory: &Directory,
    own: &mut NodeRecord,
    standing: &mut Standing,
    by: Nanos,
) -> Result<(), Reason> {
    let there = directory.get(&own.name, by).await?;
    let (step, next) = step(own, *standing, there.as_ref());
    if step == Step::Put {
        directory.put(own, by).await?;
        if *standing != Standing::Holder {
            tracing::info!(addresses = own.addresses.join(", "), "published in {}", directory.place());
        }
    }
    if let (Step::Yield, Some(other)) = (step, &there) {
        tracing::error!(
            "another node has been started as `{}`, at {}: {} leads to that one, and this node publishes no more; give one \
             of them another [node] name",
            own.name,
            other.addresses.join(", "),
            directory.place()
        );
    }
    *standing = next;
    Ok(())
}

/// Takes the record away, if it is this node's.
async fn withdraw(directory: &Directory, own: &NodeRecord, by: Nanos) -> Result<(), Reason> {
    let there = directory.get(&own.name, by).await?;
    if there.is_some_and(|there| there.incarnation == own.incarnation) {
        directory.remove(&own.name, by).await?;
    }
    Ok(())
}

/// The wall clock: only to order the starts of one name, on machines that share nothing else.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(since: u64, incarnation: u64) -> NodeRecord {
        let (name, version) = ("n".to_owned(), "0".to_owned());
        NodeRecord { name, incarnation, since, addresses: vec!["h:1".into()], version }
    }

    /// A start takes its name at once, also from a record that a clock ahead of its own has written, and keeps it.
    #[test]
    fn a_start_takes_its_name() {
        let mut own = record(100, 7);
        for there in [None, Some(record(50, 1)), Some(record(900, 1))] {
            let (step, standing) = step(&mut own, Standing::New, there.as_ref());
            assert_eq!((step, standing), (Step::Put, Standing::Holder));
            assert!(there.is_none_or(|there| own.is_later_than(&there)));
        }
        assert_eq!(own.since, 901);
        assert_eq!(
            step(&mut own, Standing::Holder, Some(&record(900, 1))).0,
            Step::Put,
            "the earlier one is late"
        );
        assert_eq!(step(&mut own, Standing::Holder, None).0, Step::Put, "the directory came back empty");
    }

    /// The earlier start yields once, stays away while the later one is there, and comes back when the name has been free for
    /// a whole life.
    #[test]
    fn the_earlier_start_yields() {
        let (mut own, later) = (record(100, 7), record(200, 1));
        let (first, mut standing) = step(&mut own, Standing::Holder, Some(&later));
        assert_eq!((first, standing), (Step::Yield, Standing::Yielded(0)));
        for there in [Some(&later), None, None, Some(&later), None, None, None] {
            let (next, then) = step(&mut own, standing, there);
            assert_eq!(next, Step::Leave, "{standing:?}");
            standing = then;
        }
        assert_eq!(step(&mut own, standing, None), (Step::Put, Standing::Holder));
    }

    /// Two that start in one moment settle on one of them.
    #[test]
    fn two_at_once_settle() {
        let (mut a, mut b) = (record(100, 1), record(100, 2));
        let (mut of_a, mut of_b) = (Standing::Holder, Standing::Holder);
        // Both saw nothing and put; b's is there.
        let mut there = b.clone();
        for _ in 0..4 {
            let (did, then) = step(&mut a, of_a, Some(&there));
            of_a = then;
            if did == Step::Put {
                there = a.clone();
            }
            let (did, then) = step(&mut b, of_b, Some(&there));
            of_b = then;
            if did == Step::Put {
                there = b.clone();
            }
        }
        assert_eq!((of_a, of_b, there.incarnation), (Standing::Yielded(0), Standing::Holder, 2));
    }
}
