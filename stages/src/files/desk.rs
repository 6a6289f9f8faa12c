//! Where file jobs wait for a worker of the pool `files`, and the `dir` segments they are about.
//! Deliberately bounded and not a queue of the graph: jobs are not slices, and control must never wait here.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use pipeline_graph::Waker;

use super::root::Root;
use super::tokens::Tokens;

/// A piece of work, done on a `file_serve` worker with that worker's buffer.
pub type Job = Box<dyn FnOnce(&mut [u8]) + Send>;

/// The desk between control and the workers of `file_serve`.
pub struct Desk {
    sender: Sender<Job>,
    receiver: Receiver<Job>,
    wakers: RwLock<Vec<Waker>>,
    roots: RwLock<HashMap<String, Arc<Root>>>,
    /// Leases that other nodes may pull from.
    pub(super) shared: Tokens,
}

impl Desk {
    /// A desk on which `capacity` jobs may wait.
    pub fn new(capacity: usize) -> Self {
        let (sender, receiver) = bounded(capacity);
        Self {
            sender,
            receiver,
            wakers: RwLock::default(),
            roots: RwLock::default(),
            shared: Tokens::default(),
        }
    }

    /// Serves a `dir` segment from now on.
    pub fn add(&self, root: Root) {
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        roots.insert(root.name.clone(), Arc::new(root));
    }

    pub(super) fn root(&self, segment: &str) -> Option<Arc<Root>> {
        self.roots.read().unwrap_or_else(PoisonError::into_inner).get(segment).cloned()
    }

    /// A worker's end; its bell rings for each job. The first one's first work is to clear away what an earlier
    /// start of the node, if it was killed, has left behind.
    pub fn attend(&self, waker: Waker) -> Receiver<Job> {
        let mut wakers = self.wakers.write().unwrap_or_else(PoisonError::into_inner);
        if wakers.is_empty() {
            for root in self.roots.read().unwrap_or_else(PoisonError::into_inner).values().cloned() {
                // A desk that is full already has other worries; the next start sweeps.
                let _ = self.sender.try_send(Box::new(move |_| root.tree.sweep()));
            }
        }
        wakers.push(waker);
        self.receiver.clone()
    }

    /// Puts a job on the desk; gives it back when the desk is full or nobody attends it.
    pub fn put(&self, job: Job) -> Result<(), Job> {
        let wakers = self.wakers.read().unwrap_or_else(PoisonError::into_inner);
        if wakers.is_empty() {
            return Err(job);
        }
        self.sender.try_send(job).map_err(|e| match e {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })?;
        wakers.iter().for_each(Waker::wake);
        Ok(())
    }
}
