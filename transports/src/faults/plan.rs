//! What shall go wrong: rules that a test sets before a node starts and changes while it runs.
//! Deliberately counted and seeded, never by the clock: the same events in the same order strike the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sim::random::Random;

/// Where a rule looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// A work request that is handed to the transport.
    Slice,
    /// A completion that comes back from it.
    Completion,
    /// A step of the target's side that has answered work requests; no peer is known to it.
    Serve,
    /// Memory that is registered with it.
    Registration,
    /// A link that is dialled.
    Dial,
    /// A link that is accepted.
    Accept,
}

/// Which of the events at its site a rule strikes; counted by the rule, from 1, since it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// That one only.
    Nth(u64),
    /// So many, from the first on.
    First(u64),
    /// Each n-th; 1 for all.
    Every(u64),
    /// So many in a million, drawn from the plan's seed.
    Chance(u32),
}

/// What a rule does to an event. Several rules may strike one event: all of their effects come true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It happens so much later; others are not held up by that.
    Delay(Duration),
    /// It never happens, and nobody is told: a work request does not leave, a completion does not come, a connection
    /// is not answered.
    Drop,
    /// A completion comes once more, so much later, with the outcome it really had.
    Duplicate(Duration),
    /// It fails: a work request without having been posted, a completion though the transport said otherwise, a
    /// registration or a connection with an error.
    Fail,
    /// A registration keeps all pages of the memory in place for as long as it lives, as one with a device does: so it costs
    /// what that costs.
    Lock,
    /// The stage that handles it panics: when it hands the work request over, takes the completion, serves.
    Panic,
}

/// One rule. It never strikes twice in the same event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    site: Site,
    when: When,
    effect: Effect,
    peer: Option<String>,
    transport: Option<String>,
}

impl Rule {
    /// At `site`, `when`, `effect`.
    ///
    /// # Panics
    /// When the effect makes no sense there. Only completions can be duplicated: a work request posted twice would
    /// read and write memory that has been given back meanwhile. And a registration cannot be dropped.
    pub fn new(site: Site, when: When, effect: Effect) -> Self {
        let stage = matches!(site, Site::Slice | Site::Completion | Site::Serve);
        let sense = match effect {
            Effect::Duplicate(_) => site == Site::Completion,
            Effect::Drop => site != Site::Registration && site != Site::Serve,
            Effect::Delay(_) | Effect::Fail => site != Site::Serve,
            Effect::Lock => site == Site::Registration,
            Effect::Panic => stage,
        };
        assert!(sense, "a rule that {site:?} shall {effect:?} makes no sense");
        assert!(!matches!(when, When::Nth(0) | When::Every(0)), "events are counted from 1");
        Self { site, when, effect, peer: None, transport: None }
    }

    /// Only what concerns this peer, by the name or address it was opened by. (On the accepting side: by the name
    /// that control logs for it.)
    #[must_use]
    pub fn peer(self, peer: &str) -> Self {
        Self { peer: Some(peer.to_owned()), ..self }
    }

    /// Only what concerns the transport of this name in the file.
    #[must_use]
    pub fn transport(self, transport: &str) -> Self {
        Self { transport: Some(transport.to_owned()), ..self }
    }
}

/// Names a rule of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// All that shall go wrong in one node. Clones share it; any thread may change it at any time.
#[derive(Clone, Debug)]
pub struct Plan(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Random,
    added: u64,
    rules: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    id: RuleId,
    rule: Rule,
    /// Events that it looked at.
    seen: u64,
    /// Events that it struck.
    struck: u64,
}

/// What an event has coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) delay: Option<Duration>,
    pub(super) lost: bool,
    pub(super) echo: Option<Duration>,
    pub(super) fails: bool,
    pub(super) locks: bool,
    panics: bool,
}

impl Fate {
    /// Panics if that is what shall happen. Call it without any lock.
    pub(super) fn or_panic(self) -> Self {
        assert!(!self.panics, "a panic that a test has planned");
        self
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Plan {
    /// Nothing goes wrong yet; chances will be drawn from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { random: Random::new(seed, 0), added: 0, rules: Vec::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule; it begins to count now.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut state = self.state();
        state.added += 1;
        let id = RuleId(state.added);
        state.rules.push(Entry { id, rule, seen: 0, struck: 0 });
        id
    }

    /// Takes a rule away; what it has struck stays so.
    pub fn remove(&self, id: RuleId) {
        self.state().rules.retain(|entry| entry.id != id);
    }

    /// How often a rule has struck; 0 for one that was taken away.
    pub fn struck(&self, id: RuleId) -> u64 {
        self.state().rules.iter().find(|entry| entry.id == id).map_or(0, |entry| entry.struck)
    }

    /// Shows an event to all rules.
    pub(super) fn judge(&self, site: Site, transport: &str, peer: &str) -> Fate {
        let State { random, rules, .. } = &mut *self.state();
        let mut fate = Fate::default();
        for Entry { rule, seen, struck, .. } in rules {
            let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|name| name == is);
            if rule.site != site || !fits(&rule.transport, transport) || !fits(&rule.peer, peer) {
                continue;
            }
            *seen += 1;
            let strikes = match rule.when {
                When::Nth(n) => *seen == n,
                When::First(n) => *seen <= n,
                When::Every(n) => seen.is_multiple_of(n),
                When::Chance(ppm) => random.chance(ppm),
            };
            if !strikes {
                continue;
            }
            *struck += 1;
            match rule.effect {
                Effect::Delay(by) => fate.delay = Some(fate.delay.unwrap_or_default() + by),
                Effect::Drop => fate.lost = true,
                Effect::Duplicate(after) => fate.echo = Some(after),
                Effect::Fail => fate.fails = true,
                Effect::Lock => fate.locks = true,
                Effect::Panic => fate.panics = true,
            }
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strikes(plan: &Plan, events: usize) -> Vec<usize> {
        (1..=events).filter(|_| plan.judge(Site::Slice, "tcp", "b").fails).collect()
    }

    /// Each way of choosing events strikes those it says, counted from when the rule was added, and no others; a rule
    /// that is taken away strikes no more.
    #[test]
    fn rules_choose_their_events() {
        let with = |when| {
            let plan = Plan::seeded(3);
            let id = plan.add(Rule::new(Site::Slice, when, Effect::Fail));
            (plan, id)
        };
        assert_eq!(strikes(&with(When::Nth(3)).0, 9), [3]);
        assert_eq!(strikes(&with(When::First(2)).0, 9), [1, 2]);
        assert_eq!(strikes(&with(When::Every(4)).0, 9), [4, 8]);
        let drawn = strikes(&with(When::Chance(500_000)).0, 100);
        assert_eq!(drawn, strikes(&with(When::Chance(500_000)).0, 100), "the same seed, the same chances");
        assert!((30..70).contains(&drawn.len()), "{drawn:?}");
        let (plan, id) = with(When::Every(1));
        assert_eq!((strikes(&plan, 2), plan.struck(id)), (vec![1, 2], 2));
        plan.remove(id);
        assert_eq!((strikes(&plan, 2), plan.struck(id)), (vec![], 0));
    }

    /// A rule looks only at its site, peer and transport; several rules strike the same event together.
    #[test]
    fn rules_keep_to_their_site() {
        let plan = Plan::default();
        let ms = Duration::from_millis;
        plan.add(Rule::new(Site::Completion, When::Every(1), Effect::Delay(ms(2))).peer("b"));
        plan.add(Rule::new(Site::Completion, When::Every(1), Effect::Duplicate(ms(5))).transport("tcp"));
        plan.add(Rule::new(Site::Dial, When::Every(1), Effect::Drop));
        let fate = |site, transport, peer| plan.judge(site, transport, peer);
        let both = Fate { delay: Some(ms(2)), echo: Some(ms(5)), ..Fate::default() };
        assert_eq!(fate(Site::Completion, "tcp", "b"), both);
        assert_eq!(fate(Site::Completion, "shm", "c"), Fate::default());
        assert_eq!(fate(Site::Slice, "tcp", "b"), Fate::default());
        assert!(fate(Site::Dial, "tcp", "b").lost);
    }

    /// What makes no sense is refused where it is written down.
    #[test]
    fn senseless_rules_are_refused() {
        let twice = Effect::Duplicate(Duration::ZERO);
        for (site, effect) in [
            (Site::Slice, twice),
            (Site::Dial, twice),
            (Site::Registration, Effect::Drop),
            (Site::Dial, Effect::Panic),
            (Site::Serve, Effect::Fail),
        ] {
            assert!(std::panic::catch_unwind(|| Rule::new(site, When::Nth(1), effect)).is_err(), "{site:?}");
        }
    }
}
