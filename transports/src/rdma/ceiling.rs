//! The bare loop: what verbs give on two devices of this machine with our queue pairs, and nothing else. Lists are posted
//! and completions polled, by one thread that spins. What the halves add to that is what they cost.
//!
//! Deliberately no ring, no keys to look up, no life of links: only to be measured against.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ibverbs_sys as ffi;

use super::batch::{Batch, Handed, Transfer};
use super::completion_queue::CompletionQueue;
use super::device::Device;
use super::endpoint::{QueuePair, Sizes};
use super::library::Verbs;
use super::offer::End;
use super::registration::{MemoryRegion, access_flags};
use super::settings::{RdmaNic, RdmaSettings};
use crate::error::Error;
use crate::memory::{Access, Memory};
use crate::wr::Op;

const POLL: usize = 64;
const PSN: u32 = 1;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Direction.
    pub op: Op,
    /// Bytes a message.
    pub bytes: u32,
    /// Messages outstanding on a queue pair; a multiple of `list`.
    pub depth: u32,
    /// Queue pairs.
    pub pairs: u32,
    /// Messages posted at once, of which the last completes by itself.
    pub list: u32,
}

/// Queue pairs between two devices, ready to run.
pub struct Bare {
    load: Load,
    lanes: Vec<Lane>,
    queue: Arc<CompletionQueue>,
    _far: Vec<QueuePair>,
    // Before the memory: registrations end first.
    regions: [MemoryRegion; 2],
    memory: [Memory; 2],
}

struct Lane {
    queue_pair: QueuePair,
    batch: Batch,
    outstanding: u32,
    posted: u64,
}

impl Bare {
    /// Connects `near` to `far`, two devices of this machine.
    ///
    /// # Errors
    /// As for [`super::RdmaTransport`].
    pub fn new(near: &str, far: &str, load: Load) -> Result<Self, Error> {
        let nics = vec![RdmaNic::named(near), RdmaNic::named(far)];
        let settings = RdmaSettings { nics, ..RdmaSettings::default() };
        let verbs = Verbs::load()?;
        let (near, far) = (Device::open(&verbs, near, &settings)?, Device::open(&verbs, far, &settings)?);
        let bytes = u64::from(load.bytes) * u64::from(load.depth);
        let memory = [Memory::allocate(bytes)?, Memory::allocate(bytes)?];
        let regions = [register(&near, &memory[0])?, register(&far, &memory[1])?];
        let completions = (load.depth + 1) * load.pairs;
        let queue = Arc::new(CompletionQueue::new(&near, completions, false)?);
        let idle = Arc::new(CompletionQueue::new(&far, 1, false)?);
        let (mut lanes, mut served) = (Vec::new(), Vec::new());
        for _ in 0..load.pairs {
            let sizes = Sizes { send: load.depth + 1, inline_bytes: settings.inline_bytes, serves: false };
            let ours = QueuePair::new(&near, &queue, sizes)?;
            let theirs = QueuePair::new(&far, &idle, Sizes { send: 1, inline_bytes: 0, serves: true })?;
            let mtu = near.active_mtu().min(far.active_mtu());
            let reads = near.attr().max_init_rd_atom.min(far.attr().max_rd_atom).min(settings.read_depth);
            let reach = |source| Error::Io { what: format!("reaching {}", far.name()), source };
            theirs.meet(&end(&near, &ours), mtu, reads, &settings).map_err(reach)?;
            ours.meet(&end(&far, &theirs), mtu, 1, &settings).map_err(reach)?;
            ours.let_loose(PSN, reads, &settings)?;
            let batch = Batch::new(load.list as usize);
            lanes.push(Lane { queue_pair: ours, batch, outstanding: 0, posted: 0 });
            served.push(theirs);
        }
        Ok(Self { load, lanes, queue, _far: served, regions, memory })
    }

    /// Moves so many messages, a multiple of `list` on each queue pair. Answers how long it took from the first post to
    /// the last completion; `None` if a queue pair failed.
    pub fn run(&mut self, messages: u64) -> Option<Duration> {
        // SAFETY: integers only.
        let mut polled: Vec<ffi::ibv_wc> = vec![unsafe { std::mem::zeroed() }; POLL];
        let (begin, mut left, mut done) = (Instant::now(), messages, 0);
        while done < messages {
            for at in 0..self.lanes.len() {
                while left > 0 && self.lanes[at].outstanding + self.load.list <= self.load.depth {
                    self.post(at)?;
                    left = left.saturating_sub(u64::from(self.load.list));
                }
            }
            let got = self.queue.poll(&mut polled).ok()?;
            for completion in &polled[..got] {
                if completion.error().is_some() {
                    return None;
                }
                self.lanes[completion.wr_id() as usize].outstanding -= self.load.list;
                done += u64::from(self.load.list);
            }
        }
        Some(begin.elapsed())
    }

    fn post(&mut self, at: usize) -> Option<()> {
        let (lane, load) = (&mut self.lanes[at], &self.load);
        for _ in 0..load.list {
            let offset = lane.posted % u64::from(load.depth) * u64::from(load.bytes);
            let inline = load.op == Op::Write && load.bytes <= lane.queue_pair.inline_bytes();
            lane.batch.push(&Transfer {
                name: at as u64,
                op: load.op,
                local: self.memory[0].ptr() as u64 + offset,
                lkey: self.regions[0].keys().0,
                remote: self.memory[1].ptr() as u64 + offset,
                rkey: self.regions[1].keys().1,
                bytes: load.bytes,
                signalled: false,
                inline,
            });
            lane.posted += 1;
        }
        lane.outstanding += load.list;
        // SAFETY: a queue pair of ours that nobody else knows; memory and registrations live as long as it.
        (unsafe { lane.batch.hand_over(lane.queue_pair.raw()) } == Handed::All).then_some(())
    }
}

fn register(device: &Arc<Device>, memory: &Memory) -> Result<MemoryRegion, Error> {
    let base = memory.ptr() as u64;
    let flags = access_flags(Access::ReadWrite, true);
    // SAFETY: whoever registers drops the registration before the memory.
    let made = unsafe { MemoryRegion::of_process(device, base, memory.len(), base, flags) };
    made.map_err(|source| Error::Io { what: format!("registering memory with {}", device.name()), source })
}

fn end(device: &Device, queue_pair: &QueuePair) -> End {
    End {
        nic: device.nic().to_owned(),
        rail: None,
        layer: device.link_layer(),
        gid: queue_pair.gid().raw,
        lid: device.lid(),
        qpn: queue_pair.number(),
        psn: PSN,
        mtu: device.active_mtu(),
        reads: 1,
    }
}
