//! Model checks of a batch's end: who waits, who owns, who is called and who ends it, in every interleaving.
//!
//! `RUSTFLAGS="--cfg pipeline_loom" cargo test -p pipeline-stages --lib --release loom`

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::crowd::Crowd;
use super::word::{BatchWord, Ended, Marks};

const FOREVER: u64 = u64::MAX;

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(body);
}

/// A batch, what it came to, and how often it was freed and its callback run.
struct Scene {
    word: BatchWord,
    bytes: AtomicU32,
    freed: AtomicU32,
    called: AtomicU32,
}

impl Scene {
    fn new() -> Arc<Self> {
        let (bytes, freed, called) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let scene = Self { word: BatchWord::new(), bytes, freed, called };
        scene.word.open(false, Marks::default());
        Arc::new(scene)
    }

    fn free(&self) {
        assert_eq!(self.freed.fetch_add(1, Ordering::AcqRel), 0, "freed twice");
    }

    /// As the stage `callbacks` does with what is due.
    fn call(&self) {
        assert_eq!(self.freed.load(Ordering::Acquire), 0, "called after it was freed");
        assert_eq!(self.bytes.load(Ordering::Relaxed), 7, "called before the end");
        assert_eq!(self.called.fetch_add(1, Ordering::AcqRel), 0, "called twice");
        if self.word.callback_taken() {
            self.free();
        }
    }

    /// As the last slice does.
    fn end(&self) -> Ended {
        self.bytes.store(7, Ordering::Relaxed);
        let end = self.word.end();
        if end.callback {
            self.call();
        }
        if end.free {
            self.free();
        }
        if end.waited {
            self.word.wake();
        }
        end
    }
}

/// Two threads wait for one batch while it ends and somebody cancels it: both wake and see what it came to.
#[test]
fn everybody_who_waits_wakes() {
    model(|| {
        let scene = Scene::new();
        let waiter = scene.clone();
        let wait = thread::spawn(move || {
            while !waiter.word.wait(FOREVER, true) {}
            assert_eq!(waiter.bytes.load(Ordering::Relaxed), 7);
        });
        let other = scene.clone();
        let ender = thread::spawn(move || other.end());
        scene.word.cancel();
        while !scene.word.wait(FOREVER, true) {}
        wait.join().unwrap();
        assert!(!ender.join().unwrap().free);
        assert!(scene.word.detach(), "the owner frees what has ended");
    });
}

/// The owner leaves a callback and goes while the batch ends: it is called once, after the end, and freed once, after
/// that; without a callback it is freed once as well.
#[test]
fn one_side_calls_and_one_side_frees() {
    for callback in [true, false] {
        model(move || {
            let scene = Scene::new();
            let ender = scene.clone();
            let end = thread::spawn(move || ender.end());
            if callback && scene.word.register_callback() {
                scene.call();
            }
            if scene.word.detach() {
                scene.free();
            }
            end.join().unwrap();
            assert_eq!(scene.freed.load(Ordering::Acquire), 1);
            assert_eq!(scene.called.load(Ordering::Acquire), u32::from(callback));
        });
    }
}

/// Callbacks are taken by a third thread, as in the engine: whichever of it and the owner comes last frees.
#[test]
fn a_worker_takes_the_callback() {
    model(|| {
        let scene = Scene::new();
        let ender = scene.clone();
        assert!(!scene.word.register_callback());
        let worker = thread::spawn(move || {
            let end = ender.word.end();
            assert!(end.callback && !end.free);
            ender.bytes.store(7, Ordering::Relaxed);
            ender.call();
        });
        if scene.word.detach() {
            scene.free();
        }
        worker.join().unwrap();
        assert_eq!(scene.freed.load(Ordering::Acquire), 1);
    });
}

/// A thread sleeps in the crowd while another leads: it wakes when its batch ends, and when the lead is free.
#[test]
fn a_follower_wakes_for_its_batch_and_for_the_lead() {
    model(|| {
        let (scene, crowd) = (Scene::new(), Arc::new(Crowd::new()));
        let led = Arc::new(loom::sync::atomic::AtomicBool::new(true));
        let (one, hall, lead) = (scene.clone(), crowd.clone(), led.clone());
        // Leads, goes without having ended the other's batch, and passes on.
        let leader = thread::spawn(move || {
            lead.store(false, Ordering::Release);
            hall.pass_on();
            drop(one);
        });
        let (two, hall) = (scene.clone(), crowd.clone());
        let ender = thread::spawn(move || {
            let end = two.word.end();
            if end.waited {
                hall.tell(3);
            }
        });
        let mut has_lead = false;
        while !scene.word.is_done() && !has_lead {
            has_lead = led.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
            let follower = crowd.join();
            if led.load(Ordering::Acquire) && !has_lead && !scene.word.await_elsewhere() {
                follower.sleep(3, FOREVER);
            }
        }
        leader.join().unwrap();
        ender.join().unwrap();
    });
}

/// As above with only one of the two events: neither may be needed for the other.
#[test]
fn either_event_is_enough() {
    for ends in [true, false] {
        model(move || {
            let (scene, crowd) = (Scene::new(), Arc::new(Crowd::new()));
            let led = Arc::new(loom::sync::atomic::AtomicBool::new(true));
            let (other, hall, lead) = (scene.clone(), crowd.clone(), led.clone());
            let thread = thread::spawn(move || {
                if !ends {
                    lead.store(false, Ordering::Release);
                    hall.pass_on();
                } else if other.word.end().waited {
                    hall.tell(3);
                }
            });
            while !scene.word.is_done() && led.load(Ordering::Acquire) {
                let follower = crowd.join();
                if led.load(Ordering::Acquire) && !scene.word.await_elsewhere() {
                    follower.sleep(3, FOREVER);
                }
            }
            thread.join().unwrap();
        });
    }
}
