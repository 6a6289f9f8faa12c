//! Work in the background: an application that keeps so many batches in flight, until it is dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use pipeline_node::{Engine, Options, Request};

use crate::rig::PATIENCE;

/// What it keeps in flight.
#[derive(Clone, Copy)]
pub struct Shape {
    pub bytes: u64,
    /// Requests a batch.
    pub batch: u64,
    /// Batches.
    pub depth: usize,
    /// How long it thinks after each batch.
    pub thinks: Duration,
}

/// A thread that writes to segment `kv` of a peer.
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Begins; what fails ends nothing, because peers may be killed meanwhile.
    #[track_caller]
    pub fn start(engine: &Engine, peer: &str, shape: Shape) -> Self {
        let kv = engine.open(peer).unwrap().segment("kv").unwrap();
        let region = engine.allocate(shape.bytes * shape.batch).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (engine, stopped) = (engine.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let write = |i: u64| {
                // With a gap between, so that each stays a request of its own.
                let there = (i * 2 * shape.bytes) % (kv.len() - shape.bytes + 1);
                Request::write(&region, i * shape.bytes, kv.at(there), shape.bytes)
            };
            let requests: Vec<Request> = (0..shape.batch).map(write).collect();
            let mut flying = VecDeque::new();
            while !stopped.load(Relaxed) {
                while flying.len() < shape.depth
                    && let Ok(batch) = engine.submit(&requests, Options::default())
                {
                    flying.push_back(batch);
                }
                if let Some(batch) = flying.pop_front() {
                    while !stopped.load(Relaxed) && batch.wait(Duration::from_millis(50)).is_err() {}
                }
                std::thread::sleep(shape.thinks);
            }
            flying.iter().for_each(pipeline_node::Batch::cancel);
            flying.iter().for_each(|batch| _ = batch.wait(PATIENCE));
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}
