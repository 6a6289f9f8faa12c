//! What both directions of a copy share: the peer, a lease of its bounce region, and a crew of workers that each
//! own a part of it and a region of the same size here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use pipeline_node::{
    Engine, Error, FileAnswer, FileRequest, Options, Peer, Reason, Region, Request, Segment, Status,
};

use super::pace::Pace;
use super::progress::Progress;
use super::rules::Rules;
use crate::cli::exit::Failure;
use crate::cli::failures;

/// Bytes of a chunk, at most; less where the peer's bounce region is small.
const CHUNK: u64 = 1 << 20;
/// Chunks in flight, at most.
const WORKERS: u64 = 8;
/// A lease smaller than this is not worth sharing out.
const LEAST: u64 = 64 << 10;

/// A copy under way.
pub struct Session<'a> {
    engine: &'a Engine,
    peer: &'a Peer,
    segment: Segment,
    lease: u32,
    start: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    workers: u64,
    lost: AtomicBool,
    pace: Option<&'a Pace>,
    /// How the copy is made.
    pub rules: Rules,
    /// The bar, and the count of failures.
    pub progress: &'a Progress,
}

/// A worker's own part of the two bounce regions.
pub struct Bench {
    /// Here.
    pub region: Region,
    /// Offset in the lease there.
    pub lease_offset: u64,
    /// Bytes on their way between a file and `region`.
    pub buffer: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Leases a part of the segment's bounce region.
    ///
    /// # Errors
    /// The peer's reason.
    pub fn open(
        engine: &'a Engine,
        peer: &'a Peer,
        segment: &str,
        (rules, pace): (Rules, Option<&'a Pace>),
        progress: &'a Progress,
    ) -> Result<Self, Failure> {
        let seen = peer.segment(segment).map_err(|e| Failure::failed(&e))?;
        let attach = FileRequest::Attach { segment: segment.to_owned(), bytes: CHUNK * WORKERS };
        let (lease, start, len) = match peer.files(attach) {
            Ok(FileAnswer::Attached { lease, start, len }) if len > 0 => (lease, start, len),
            Ok(other) => return Err(Failure::failed(format!("{segment}: unexpected answer {other:?}"))),
            Err(e) => return Err(Failure::failed(format!("{segment}: {e}"))),
        };
        let workers = (len / LEAST.min(len)).clamp(1, WORKERS);
        let chunk = (len / workers).min(CHUNK).min(pace.map_or(CHUNK, Pace::chunk));
        Ok(Self {
            engine,
            peer,
            segment: seen,
            lease,
            start,
            chunk,
            workers,
            lost: AtomicBool::new(false),
            pace,
            rules,
            progress,
        })
    }

    /// The lease, for requests about files.
    pub fn lease(&self) -> u32 {
        self.lease
    }

    /// Asks the peer about files.
    ///
    /// # Errors
    /// The peer's reason; a lost peer ends the copy.
    pub fn ask(&self, request: FileRequest) -> Result<FileAnswer, String> {
        self.peer.files(request).map_err(|e| self.trouble(&e))
    }

    /// Asks for something that may take the peer's disk long.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_patiently(&self, request: FileRequest) -> Result<FileAnswer, String> {
        self.peer.files_within(request, DISK_TIMEOUT).map_err(|e| self.trouble(&e))
    }

    /// Moves `len` bytes of the bench's region into its part of the lease.
    ///
    /// # Errors
    /// Why not.
    pub fn put(&self, bench: &Bench, len: u64) -> Result<(), String> {
        let at = self.start + bench.lease_offset;
        self.paced(len);
        self.transfer(Request::write(&bench.region, 0, self.segment.at(at), len))
    }

    /// Moves `len` bytes of its part of the lease into the bench's region.
    ///
    /// # Errors
    /// Why not.
    pub fn get(&self, bench: &Bench, len: u64) -> Result<(), String> {
        let at = self.start + bench.lease_offset;
        self.paced(len);
        self.transfer(Request::read(&bench.region, 0, self.segment.at(at), len))
    }

    /// Waits until `len` bytes may be moved.
    fn paced(&self, len: u64) {
        if let Some(pace) = self.pace {
            pace.take(len);
        }
    }

    fn transfer(&self, request: Request) -> Result<(), String> {
        let batch = self.engine.submit_wait(&[request], Options::default(), SUBMIT_TIMEOUT);
        let batch = batch.map_err(|e| e.to_string())?;
        // Its deadline ends it, so this ends.
        while batch.wait(Duration::from_secs(60)).is_err() {}
        match batch.results().next() {
            Some(Status::Failed(failure)) => {
                if matches!(failure.reason, Reason::PeerGone | Reason::StalePeer) {
                    self.lost.store(true, Ordering::Relaxed);
                }
                Err(failures::request(&failure))
            }
            _ => Ok(()),
        }
    }

    /// Gives the lease back; if that fails, the end of the control session does it.
    pub fn close(&self) {
        let _ = self.peer.files(FileRequest::Detach { lease: self.lease });
    }

    /// Whether the peer is gone: nothing more can succeed.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// What an error of the peer says; a lost peer ends the copy.
    pub fn trouble(&self, error: &Error) -> String {
        if error.is_peer() {
            self.lost.store(true, Ordering::Relaxed);
        }
        failures::words(error)
    }

    /// Runs `produce` here and `work` on each worker, joined by a bounded channel, until all work is done.
    ///
    /// # Errors
    /// When a worker's region cannot be allocated.
    pub fn run<T: Send>(
        &self,
        produce: impl FnOnce(&Sender<T>),
        work: impl Fn(&mut Bench, T) + Sync,
    ) -> Result<(), Failure> {
        let mut benches = Vec::new();
        for i in 0..self.workers {
            let region = self.engine.allocate(self.chunk).map_err(|e| Failure::system(&e))?;
            let buffer = vec![0; self.chunk as usize];
            benches.push(Bench { region, lease_offset: i * self.chunk, buffer });
        }
        let (sender, receiver): (Sender<T>, Receiver<T>) = bounded(2 * self.workers as usize);
        std::thread::scope(|scope| {
            for mut bench in benches {
                let (receiver, work) = (receiver.clone(), &work);
                scope.spawn(move || {
                    receiver.iter().for_each(|task| work(&mut bench, task));
                    // A worker is the only user of its region, and its last transfer has ended.
                    let _ = bench.region.unregister();
                });
            }
            drop(receiver);
            produce(&sender);
            drop(sender);
        });
        Ok(())
    }
}

/// How long a copy waits for room in the engine's tables; there is always some for so few chunks.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a copy waits for a peer's disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a copy waits for a peer to be reached.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
