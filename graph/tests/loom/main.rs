//! Model checks: every interleaving (within a bound of preemptions) of the pieces that threads share.
//!
//! `RUSTFLAGS="--cfg pipeline_loom" cargo test -p pipeline-graph --test loom --release`
#![cfg(pipeline_loom)]

mod jobs;

use std::sync::Arc;

use loom::thread;
use pipeline_graph::bell::{Bell, Sleeper};
use pipeline_graph::caller::seat::{Seat, Stepped};
use pipeline_graph::caller::watch::Watch;
use pipeline_graph::edge::back::Back;
use pipeline_graph::edge::queue::Ring;
use pipeline_graph::inlet::Gate;
use pipeline_graph::{Arena, Arming, Batch, Cache, Waker};

/// More preemptions than a lost wake-up or an ABA needs, few enough to end within seconds.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// A worker as the walker drives it: looks, announces, looks once more, sleeps. Loom reports a sleep that
/// nobody ends as a deadlock.
fn look_until(sleeper: &mut Sleeper, mut done: impl FnMut() -> bool) {
    loop {
        if done() {
            return;
        }
        sleeper.announce();
        if done() {
            sleeper.stay();
            return;
        }
        sleeper.sleep(0, u64::MAX);
    }
}

/// Work that is published before a ring is found by a worker that is about to sleep.
#[test]
fn a_ring_is_never_lost() {
    model(4, || {
        let bell = Arc::new(Bell::new());
        let work = Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let (ringer, published) = (bell.clone(), work.clone());
        let other = thread::spawn(move || {
            for _ in 0..2 {
                published.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
                ringer.ring();
            }
        });
        let mut sleeper = Sleeper::new(bell);
        look_until(&mut sleeper, || work.load(loom::sync::atomic::Ordering::Relaxed) == 2);
        other.join().unwrap();
    });
}

/// The same while a descriptor is armed, when the sleep changes from one kind to another after it was announced: a ring
/// that saw the first kind reaches the second.
#[test]
fn a_ring_reaches_a_sleep_that_changes_kind() {
    model(4, || {
        let bell = Arc::new(Bell::new());
        let work = Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let (ringer, published) = (bell.clone(), work.clone());
        let other = thread::spawn(move || {
            for _ in 0..2 {
                published.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
                ringer.ring();
            }
        });
        let mut sleeper = Sleeper::new(bell);
        let done = || work.load(loom::sync::atomic::Ordering::Relaxed) == 2;
        while !done() {
            sleeper.announce();
            if done() {
                sleeper.stay();
                break;
            }
            sleeper.fd(0);
            sleeper.sleep(0, u64::MAX);
        }
        other.join().unwrap();
    });
}

/// Two threads ring at once: what both have published is found.
#[test]
fn two_ringers_wake_for_both() {
    model(3, || {
        let bell = Arc::new(Bell::new());
        let work = Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let (bell, work) = (bell.clone(), work.clone());
                thread::spawn(move || {
                    work.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
                    bell.ring();
                })
            })
            .collect();
        let mut sleeper = Sleeper::new(bell);
        look_until(&mut sleeper, || work.load(loom::sync::atomic::Ordering::Relaxed) == 2);
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}

/// A ring of one: producer and consumer both sleep when they cannot go on, and both always go on.
#[test]
fn a_full_ring_wakes_its_producer() {
    model(3, || {
        let (eater, feeder) = (Arc::new(Bell::new()), Arc::new(Bell::new()));
        let ring = Arc::new(Ring::new(1, vec![eater.clone()], vec![feeder.clone()]));
        let fed = ring.clone();
        let producer = thread::spawn(move || {
            let mut sleeper = Sleeper::new(feeder);
            for item in 0..3u32 {
                look_until(&mut sleeper, || !fed.is_full() && fed.push(item).is_ok());
            }
        });
        let mut sleeper = Sleeper::new(eater);
        let mut next = 0;
        look_until(&mut sleeper, || {
            while let Some(item) = ring.pop() {
                assert_eq!(item, next);
                next += 1;
            }
            next == 3
        });
        producer.join().unwrap();
    });
}

/// Two producers that both found the ring full are both woken.
#[test]
fn a_full_ring_wakes_all_its_producers() {
    model(2, || {
        let eater = Arc::new(Bell::new());
        let feeders: Vec<_> = (0..2).map(|_| Arc::new(Bell::new())).collect();
        let ring = Arc::new(Ring::new(1, vec![eater.clone()], feeders.clone()));
        let producers: Vec<_> = feeders
            .into_iter()
            .map(|bell| {
                let ring = ring.clone();
                thread::spawn(move || {
                    let mut sleeper = Sleeper::new(bell);
                    look_until(&mut sleeper, || ring.push(1u32).is_ok());
                })
            })
            .collect();
        let mut sleeper = Sleeper::new(eater);
        let mut sum = 0;
        look_until(&mut sleeper, || {
            sum += ring.pop().unwrap_or(0);
            sum == 2
        });
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

/// A ring that two workers serve: whatever is pushed is popped, though a push wakes only one of them.
#[test]
fn a_shared_ring_is_served() {
    model(2, || {
        let bells: Vec<_> = (0..2).map(|_| Arc::new(Bell::new())).collect();
        let ring = Arc::new(Ring::new(2, bells.clone(), vec![]));
        let left = Arc::new(loom::sync::atomic::AtomicU32::new(2));
        let workers: Vec<_> = bells
            .iter()
            .map(|bell| {
                let (ring, left, all) = (ring.clone(), left.clone(), bells.clone());
                let mut sleeper = Sleeper::new(bell.clone());
                thread::spawn(move || {
                    look_until(&mut sleeper, || {
                        if ring.pop().is_some()
                            && left.fetch_sub(1, loom::sync::atomic::Ordering::AcqRel) == 1
                        {
                            Bell::ring_all(&all);
                        }
                        left.load(loom::sync::atomic::Ordering::Acquire) == 0
                    });
                })
            })
            .collect();
        ring.push(1u32).unwrap();
        ring.push(2u32).unwrap();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// A return edge of as many places as there are tokens is never full, and every item comes back once,
/// although both sides sleep in between.
#[test]
fn a_return_edge_brings_all_back() {
    model(3, || {
        let bell = Arc::new(Bell::new());
        let back = Arc::new(Back::<u32>::new(2, vec![bell.clone()]));
        let pushers: Vec<_> = [1u32, 2]
            .into_iter()
            .map(|item| {
                let back = back.clone();
                thread::spawn(move || {
                    let mut batch = Batch::new();
                    batch.push(item).unwrap();
                    assert_eq!(back.push(&mut batch, 0), 1);
                })
            })
            .collect();
        let mut sleeper = Sleeper::new(bell);
        let mut got = Vec::new();
        look_until(&mut sleeper, || {
            let mut batch = Batch::new();
            back.pop(&mut batch);
            got.extend(batch.iter());
            got.len() == 2
        });
        got.sort_unstable();
        assert_eq!((got, back.overflows()), (vec![1, 2], 0));
        for pusher in pushers {
            pusher.join().unwrap();
        }
    });
}

/// Two threads that take, give and take again never hold the same slot at once, by whatever detour a slot
/// left and came back (ABA), and no slot is lost.
#[test]
fn a_slot_has_one_owner() {
    model(4, || {
        let arena = Arc::new(Arena::new(2));
        let owners: Arc<Vec<_>> =
            Arc::new((0..2).map(|_| loom::sync::atomic::AtomicU32::new(0)).collect::<Vec<_>>());
        let use_it = |me: u32, arena: &Arena, owners: &[loom::sync::atomic::AtomicU32]| {
            for _ in 0..2 {
                let Some(slot) = arena.alloc() else { continue };
                assert!(arena.is_live(slot));
                let owner = &owners[slot.index as usize];
                assert_eq!(owner.swap(me, loom::sync::atomic::Ordering::Relaxed), 0, "two owners");
                owner.store(0, loom::sync::atomic::Ordering::Relaxed);
                arena.free(slot).unwrap();
            }
        };
        let (shared, theirs) = (arena.clone(), owners.clone());
        let other = thread::spawn(move || use_it(1, &shared, &theirs));
        use_it(2, &arena, &owners);
        other.join().unwrap();
        assert_eq!((arena.free_slots(), arena.live(), arena.stale_frees()), (2, 0, 0));
        assert!(arena.alloc().is_some() && arena.alloc().is_some() && arena.alloc().is_none());
    });
}

/// Chains taken and given by a cache do not tear against single slots taken and given beside it.
#[test]
fn chains_do_not_tear() {
    model(3, || {
        let arena = Arc::new(Arena::new(3));
        let shared = arena.clone();
        let other = thread::spawn(move || {
            let mut cache = Cache::new(4);
            let slots = [cache.alloc(&shared), cache.alloc(&shared)];
            for slot in slots.into_iter().flatten() {
                cache.free(&shared, slot).unwrap();
            }
            cache.flush(&shared);
        });
        let first = arena.alloc();
        let second = arena.alloc();
        if let (Some(a), Some(b)) = (first, second) {
            assert_ne!(a.index, b.index);
        }
        for slot in [first, second].into_iter().flatten() {
            arena.free(slot).unwrap();
        }
        other.join().unwrap();
        let all: Vec<_> = std::iter::from_fn(|| arena.alloc()).map(|s| s.index).collect();
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((all.len(), distinct.len()), (3, 3));
    });
}

/// Of two frees of one slot exactly one wins; the other is counted and changes nothing.
#[test]
fn a_double_free_loses() {
    model(4, || {
        let arena = Arc::new(Arena::new(1));
        let slot = arena.alloc().unwrap();
        let shared = arena.clone();
        let other = thread::spawn(move || shared.free(slot).is_ok());
        let mine = arena.free(slot).is_ok();
        assert!(mine ^ other.join().unwrap());
        assert_eq!((arena.stale_frees(), arena.free_slots()), (1, 1));
        assert!(arena.alloc().is_some() && arena.alloc().is_none());
    });
}

/// Submitters that reserve before they push never find a paid ring full, however pops and refunds fall.
#[test]
fn a_paid_entry_has_room() {
    model(3, || {
        let bell = Arc::new(Bell::new());
        let ring = Arc::new(Ring::new(1, vec![bell.clone()], vec![]));
        let gate = Arc::new(Gate::new(1));
        let submitters: Vec<_> = (0..2)
            .map(|_| {
                let (ring, gate) = (ring.clone(), gate.clone());
                thread::spawn(move || {
                    let paid = gate.reserve(1).is_ok();
                    assert!(!paid || ring.push(1u32).is_ok(), "a paid entry found no room");
                    u32::from(paid)
                })
            })
            .collect();
        let mut popped = 0;
        if ring.pop().is_some() {
            gate.refund();
            popped += 1;
        }
        let paid: u32 = submitters.into_iter().map(|s| s.join().unwrap()).sum();
        popped += u32::from(ring.pop().is_some());
        assert_eq!(paid, popped);
    });
}

/// A submitter that found no credit, and sleeps until it is rung for, is rung for by the credit that comes back, or
/// by the close; with two of them, both go on.
#[test]
fn room_rings_whoever_wants_it() {
    model(3, || {
        let gate = Arc::new(Gate::new(0));
        let bells = [Arc::new(Bell::new()), Arc::new(Bell::new())];
        let all = bells.clone();
        gate.ring_for_room(Waker::new(move || all.iter().for_each(|bell| bell.ring())));
        let waiters = bells.map(|bell| {
            let gate = gate.clone();
            thread::spawn(move || look_until(&mut Sleeper::new(bell), || gate.reserve(1).is_ok()))
        });
        gate.refund();
        gate.refund();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// A worker without a thread whose work is a count: each turn takes what is there, and the last one rouses.
struct Count {
    left: Arc<loom::sync::atomic::AtomicU32>,
    ring: Arc<Ring<u32>>,
    bell: Arc<Bell>,
    watch: Arc<Watch>,
}

impl Stepped for Count {
    fn attend(&mut self) {
        self.bell.attend();
    }

    fn turn(&mut self) -> bool {
        let mut moved = false;
        while self.ring.pop().is_some() {
            if self.left.fetch_sub(1, loom::sync::atomic::Ordering::AcqRel) == 1 {
                self.watch.rouse();
            }
            moved = true;
        }
        moved
    }

    fn settle(&mut self) -> bool {
        self.bell.leave();
        let moved = self.turn();
        if moved {
            self.bell.attend();
        }
        moved
    }
}

/// What the models of a seat share: the seat, the ring before it, where a leader sleeps, and what is left to do.
struct Stand {
    seat: Seat<Count>,
    ring: Arc<Ring<u32>>,
    watch: Arc<Watch>,
    left: Arc<loom::sync::atomic::AtomicU32>,
}

impl Stand {
    fn new(work: u32) -> Arc<Self> {
        let (bell, watch) = (Arc::new(Bell::new()), Arc::new(Watch::new().unwrap()));
        bell.watched_by(&watch);
        let ring = Arc::new(Ring::new(2, vec![bell.clone()], vec![]));
        let left = Arc::new(loom::sync::atomic::AtomicU32::new(work));
        let count = Count { left: left.clone(), ring: ring.clone(), bell, watch: watch.clone() };
        let mailbox = ring.clone();
        Arc::new(Self { seat: Seat::new(count, move || !mailbox.is_empty()), ring, watch, left })
    }

    fn left(&self) -> u32 {
        self.left.load(loom::sync::atomic::Ordering::Acquire)
    }

    /// As a submission does.
    fn submit(&self) {
        self.ring.put(1).unwrap();
        if self.seat.visit(2, || self.watch.is_watched()).more && self.watch.is_watched() {
            self.watch.knock();
        }
    }

    /// As the thread that leads does.
    fn lead(&self) {
        while self.left() > 0 {
            self.watch.answer();
            self.seat.visit(1, || self.watch.is_watched());
            if self.left() == 0 {
                return;
            }
            self.watch.set_asleep(true);
            self.watch.answer();
            let visit = self.seat.visit(1, || self.watch.is_watched());
            if !visit.moved && !visit.more && self.left() > 0 {
                self.watch.sleep(u64::MAX);
            }
            self.watch.set_asleep(false);
        }
    }
}

/// Two threads submit and go: when both are gone, nothing is left before the seat, whoever of them had it.
#[test]
fn a_seat_strands_no_work() {
    model(3, || {
        let stand = Stand::new(2);
        let other = stand.clone();
        let thread = thread::spawn(move || other.submit());
        stand.submit();
        thread.join().unwrap();
        assert_eq!(stand.left(), 0, "work was left before a free seat");
    });
}

/// A thread that leads sleeps when nothing is to do, and always wakes: for what another thread has submitted and
/// done itself, and for what a worker with a thread has put before the seat.
#[test]
fn a_leader_wakes() {
    model(3, || {
        let stand = Stand::new(1);
        let other = stand.clone();
        let pusher = thread::spawn(move || other.ring.push(1).unwrap());
        stand.lead();
        pusher.join().unwrap();
    });
}

/// As above, while a thread that only submits comes and goes between.
#[test]
fn a_leader_wakes_beside_a_submitter() {
    model(2, || {
        let stand = Stand::new(2);
        let (one, two) = (stand.clone(), stand.clone());
        let submitter = thread::spawn(move || one.submit());
        let pusher = thread::spawn(move || two.ring.push(1).unwrap());
        stand.lead();
        submitter.join().unwrap();
        pusher.join().unwrap();
    });
}
