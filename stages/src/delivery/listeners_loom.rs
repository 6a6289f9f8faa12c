//! Model checks of who listens for a batch's end: who asks, who is replaced, who goes and who ends it, in every interleaving.
//!
//! `RUSTFLAGS="--cfg pipeline_loom" cargo test -p pipeline-stages --lib --release loom`

use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::thread;

use super::doorbell::Unheard;
use super::listeners::{Listeners, Ticket};
use crate::ledger::{BatchWord, Marks};

const FOREVER: u64 = u64::MAX;
const BATCH: u32 = 0;

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// A batch with its place, and what it came to.
struct Scene {
    word: BatchWord,
    listeners: Listeners,
    bytes: AtomicU32,
}

impl Scene {
    fn new() -> Arc<Self> {
        let scene = Self { word: BatchWord::new(), listeners: Listeners::new(1), bytes: AtomicU32::new(0) };
        scene.word.open(false, Marks::default());
        Arc::new(scene)
    }

    /// As the last slice does, with what the ledger does about it.
    fn end(&self) {
        self.bytes.store(7, Ordering::Relaxed);
        let end = self.word.end();
        if end.waited {
            self.word.wake();
        }
        if end.listened {
            self.listeners.tell(BATCH, &self.word);
        }
    }

    /// Polls as a task: whether the batch is done.
    fn poll(&self, ticket: &mut Ticket, task: &Arc<Task>) -> bool {
        let done = self.word.is_done() || self.listeners.wait(BATCH, &self.word, ticket, &task.waker());
        if done {
            assert_eq!(self.bytes.load(Ordering::Relaxed), 7, "done before the end");
        }
        done
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU32::new(0)))
    }

    fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    fn woken(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// Two tasks ask while the batch ends: each is told that it is done, or woken once; not both, not neither.
#[test]
fn two_who_ask_at_once() {
    model(|| {
        let scene = Scene::new();
        let (other, ender) = (scene.clone(), scene.clone());
        let asks = |scene: &Scene| {
            let (task, mut ticket) = (Task::new(), Ticket::default());
            let done = scene.poll(&mut ticket, &task);
            (task, done)
        };
        let second = thread::spawn(move || asks(&other));
        let end = thread::spawn(move || ender.end());
        let (task, done) = asks(&scene);
        end.join().unwrap();
        let (other_task, other_done) = second.join().unwrap();
        // Somebody who is told that it is done may be woken besides, by an end that has found the waker before.
        assert!(done || task.woken() == 1, "the first: {}", task.woken());
        assert!(other_done || other_task.woken() == 1, "the second: {}", other_task.woken());
        assert!(task.woken() <= 1 && other_task.woken() <= 1);
    });
}

/// A task is polled by another waker while the batch ends: either it hears of the end there and then, or the new waker is
/// woken; and one that goes meanwhile leaves nothing behind.
#[test]
fn a_waker_is_replaced_at_the_end() {
    model(|| {
        let scene = Scene::new();
        let (before, after, gone) = (Task::new(), Task::new(), Task::new());
        let (mut ticket, mut going) = Default::default();
        assert!(!scene.poll(&mut ticket, &before) && !scene.poll(&mut going, &gone));
        let ender = scene.clone();
        let end = thread::spawn(move || ender.end());
        let done = scene.poll(&mut ticket, &after);
        scene.listeners.leave(BATCH, &mut going);
        end.join().unwrap();
        assert!(done || (after.woken(), before.woken()) == (1, 0), "{} {}", after.woken(), before.woken());
        assert!(before.woken() + after.woken() <= 1 && gone.woken() <= 1);
        assert_eq!(
            (Arc::strong_count(&before), Arc::strong_count(&after), Arc::strong_count(&gone)),
            (1, 1, 1)
        );
    });
}

/// The descriptor is asked for while the batch ends: it is raised once, whoever was first.
#[test]
fn a_descriptor_is_raised_once() {
    model(|| {
        let (scene, fd) = (Scene::new(), OnceLock::new());
        let (task, mut ticket) = (Task::new(), Ticket::default());
        // So that the end looks at the place in any case.
        assert!(!scene.poll(&mut ticket, &task));
        let ender = scene.clone();
        let end = thread::spawn(move || ender.end());
        scene.listeners.open(BATCH, &scene.word, &fd).unwrap();
        end.join().unwrap();
        let mut raised = [0; 8];
        rustix::io::read(fd.get().unwrap(), &mut raised).expect("it is readable");
        assert_eq!((u64::from_ne_bytes(raised), task.woken()), (1, 1));
        assert_eq!(Arc::strong_count(fd.get().unwrap()), 1, "the owner alone has it");
    });
}

/// The owner sees the end, goes, and another batch begins in the same place, before whoever ended the first one has come
/// to tell: the task of the second is not woken before its own end, and then once.
#[test]
fn who_comes_late_tells_nobody_else() {
    model(|| {
        let scene = Scene::new();
        let (old, mut ticket) = (Task::new(), Ticket::default());
        assert!(!scene.poll(&mut ticket, &old));
        let ender = scene.clone();
        let end = thread::spawn(move || ender.end());
        while !scene.word.wait(FOREVER, true) {}
        scene.listeners.clear(BATCH);
        assert!(scene.word.detach(), "what has ended is freed by its owner");
        scene.word.open(false, Marks::default());
        let (new, mut ticket) = (Task::new(), Ticket::default());
        assert!(!scene.listeners.wait(BATCH, &scene.word, &mut ticket, &new.waker()));
        end.join().unwrap();
        assert_eq!(new.woken(), 0, "told before its end");
        assert!(old.woken() <= 1);
        scene.end();
        assert_eq!(new.woken(), 1);
    });
}

/// The owner goes while the batch ends: one side frees it, and nobody who listened is left in its place.
#[test]
fn the_owner_goes_at_the_end() {
    model(|| {
        let scene = Scene::new();
        let (task, mut ticket) = (Task::new(), Ticket::default());
        assert!(!scene.poll(&mut ticket, &task));
        let ender = scene.clone();
        let end = thread::spawn(move || {
            let end = ender.word.end();
            assert!(end.listened);
            ender.listeners.tell(BATCH, &ender.word);
            end.free
        });
        scene.listeners.clear(BATCH);
        let owner_frees = scene.word.detach();
        let ender_frees = end.join().unwrap();
        assert!(owner_frees != ender_frees, "freed by one of the two");
        assert!(task.woken() <= 1);
        assert_eq!(Arc::strong_count(&task), 1, "nothing is left behind");
    });
}

/// Two threads ring while a third takes: what is taken, then and later, is what was rung, and whatever is not taken yet the
/// descriptor tells.
#[test]
fn no_ring_is_lost() {
    model(|| {
        let raised = Arc::new(AtomicBool::new(false));
        let unheard = Arc::new(Unheard { ended: AtomicU64::new(0), raised: AtomicBool::new(false) });
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let (unheard, fd) = (unheard.clone(), raised.clone());
                thread::spawn(move || {
                    if unheard.add(1) {
                        fd.store(true, Ordering::Release);
                    }
                })
            })
            .collect();
        let take = || unheard.take(|| raised.store(false, Ordering::Release));
        let mut taken = take();
        for ringer in ringers {
            ringer.join().unwrap();
        }
        assert!(taken == 2 || raised.load(Ordering::Acquire), "{taken} taken, and the rest is not told");
        taken += take();
        assert_eq!(taken, 2);
    });
}
