//! What a file asks of the application and of the CPUs: read from its pools and the `via` of its `completion_notify`.
//! Deliberately from the file alone: two files that say the same get the same words.

use pipeline_configs::Config;
use pipeline_graph::blueprint::Wait;
use pipeline_graph::{Blueprint, PoolKind};

use crate::cli::load::Waiting;

/// A worker that looks for work so long before it sleeps does not sleep while work comes.
const BUSY_NS: u64 = 1_000_000;

/// What is said of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// How the measured application waits.
    pub waits: Waiting,
    /// What every application has to do, in words.
    pub words: String,
    /// Threads that do not sleep while there is work: workers, and the application's own if it polls.
    pub spinning: usize,
}

impl Application {
    /// Of a file.
    pub fn of(config: &Config) -> Self {
        let blueprint = &config.blueprint;
        let stepped = pool_of(config, "admit").filter(|pool| pool.kind == PoolKind::Caller);
        let notify = config.stages.iter().find(|stage| stage.kind == "completion_notify");
        let via = notify.map_or(&[][..], |stage| stage.values.texts("via"));
        let has = |way: &str| via.iter().any(|told| told == way);
        let waits = match stepped {
            _ if via.is_empty() || has("event") => Waiting::Wait,
            _ if has("eventfd") => Waiting::Epoll,
            // Nobody wakes it: or only tasks and functions, of which this application has none.
            Some(_) => Waiting::Step,
            None => Waiting::Poll,
        };
        let own = [Waiting::Poll, Waiting::Step].contains(&waits)
            || stepped.is_some_and(|pool| is_busy(&pool.wait));
        let spinning = workers_that_spin(blueprint) + usize::from(own);
        Self { waits, words: words(via, stepped.is_some(), waits), spinning }
    }

    /// Whether so many CPUs are too few for what does not sleep, with a target that needs one of them or not.
    pub fn is_over_subscribed(&self, cpus: usize, target_is_here: bool) -> bool {
        self.spinning > 0 && self.spinning + usize::from(target_is_here) > cpus
    }
}

fn pool_of<'a>(config: &'a Config, kind: &str) -> Option<&'a pipeline_graph::PoolDecl> {
    let stage = config.blueprint.stages.iter().find(|stage| stage.kind == kind)?;
    config.blueprint.pools.get(stage.pool?)
}

fn workers_that_spin(blueprint: &Blueprint) -> usize {
    let resident = blueprint.pools.iter().filter(|pool| pool.kind == PoolKind::Resident);
    resident.filter(|pool| is_busy(&pool.wait)).map(|pool| pool.workers()).sum()
}

/// Whether it goes on looking where others sleep. One that adapts gives up where spinning cannot pay.
fn is_busy(wait: &Wait) -> bool {
    let looks_ns = wait.spin_ns.saturating_add(wait.yield_ns);
    wait.park_ns == 0 || (!wait.adaptive && looks_ns >= BUSY_NS)
}

/// `submit and wait, or step: nothing goes on otherwise; here: waits`.
fn words(via: &[String], steps: bool, waits: Waiting) -> String {
    let way = |way: &String| match way.as_str() {
        "event" => Some("wait"),
        "eventfd" => Some("epoll"),
        "waker" => Some("await"),
        "callback" => Some("leave a function"),
        _ => None,
    };
    let mut ways: Vec<&str> = via.iter().filter_map(way).collect();
    if via.is_empty() {
        ways.push("wait");
    }
    if ways.is_empty() {
        ways.push("poll");
    }
    let ways = ways.join(" or ");
    let asks = match steps {
        true if ways == "poll" => "submit, then step and poll: nothing goes on otherwise".into(),
        true => format!("submit and {ways}, or step: nothing goes on otherwise"),
        false => format!("submit, then {ways}"),
    };
    let here = match waits {
        Waiting::Wait => "waits",
        Waiting::Poll => "polls, and yields every 16th look",
        Waiting::Step => "steps and polls, and yields every 16th look",
        Waiting::Epoll => "waits for a doorbell's descriptor",
    };
    format!("{asks}; here it {here}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_node::Source;

    fn of(more: &[&str]) -> Application {
        let source = Source::text("test", "version = 1\nuse = \"run_to_completion\"\n").set(more.to_vec());
        Application::of(&source.load().unwrap().config)
    }

    /// How it waits and what it is told follow `via` and the pool of the initiator.
    #[test]
    fn the_file_says_how_to_wait() {
        let told = of(&[]);
        assert_eq!((told.waits, told.spinning), (Waiting::Wait, 0));
        assert_eq!(told.words, "submit and wait, or step: nothing goes on otherwise; here it waits");
        let told = of(&["stages.notify.via=['status']"]);
        assert_eq!((told.waits, told.spinning), (Waiting::Step, 1));
        let resident = ["pools.app.kind='resident'", "pools.app.threads=1", "stages.notify.via=['status']"];
        let told = of(&resident);
        assert_eq!((told.waits, told.spinning), (Waiting::Poll, 1));
        assert!(told.words.starts_with("submit, then poll;"), "{}", told.words);
        let told = of(&[
            "pools.app.kind='resident'",
            "pools.app.threads=1",
            "stages.notify.via=['eventfd', 'waker']",
        ]);
        assert_eq!((told.waits, told.spinning), (Waiting::Epoll, 0));
        assert!(told.words.starts_with("submit, then epoll or await;"), "{}", told.words);
    }

    /// Threads count as spinning if they never sleep or look for longer than a millisecond, unless they adapt; the
    /// application's does where it polls or leads a pool that spins.
    #[test]
    fn spinning_threads() {
        assert_eq!(of(&["pools.app.wait='spin'", "pools.nic.wait='yield'"]).spinning, 2);
        let long = "{ spin = '100ms', park = '1s' }";
        assert_eq!(of(&[&format!("pools.nic.wait={long}"), "pools.nic.threads=2"]).spinning, 2);
        let adaptive = "{ spin = '100ms', park = '1s', adaptive = true }";
        assert_eq!(of(&[&format!("pools.nic.wait={adaptive}")]).spinning, 0);
        let two = of(&["pools.app.wait='spin'", "pools.nic.wait='spin'"]);
        assert!(two.is_over_subscribed(2, true) && !two.is_over_subscribed(2, false));
        assert!(!of(&[]).is_over_subscribed(1, true));
    }
}
