//! Every way to learn that a batch is done: alone, and all of them for one batch.

mod descriptors;
mod doorbells;
mod mixed;
mod tasks;

use pipeline_node::{Engine, Region, Remote, Segment};

use crate::audience::telling;
use crate::rig::{open, target};

/// A client that tells in all ways, with 64 KiB of its own and of a target's.
struct Pair {
    client: Engine,
    local: Region,
    kv: Segment,
    target: Engine,
}

/// Over the preset's TCP.
#[track_caller]
fn pair(set: &[&str]) -> Pair {
    let (target, client) = (target("64KiB"), telling(set));
    let kv = open(&client, &target).segment("kv").unwrap();
    Pair { local: client.allocate(1 << 16).unwrap(), kv, client, target }
}

/// Over a transport within the process that takes `delay` for each slice.
#[track_caller]
fn slow(delay: &str) -> Pair {
    let sim = format!("transports.sim={{ type='sim', delay_min='{delay}', delay_max='{delay}' }}");
    let set = ["transports.tcp=false", sim.as_str(), "stages.route.prefer=['sim']"];
    let kv = "segments.kv={ kind='dram', size='64KiB', access='read_write' }";
    let target = telling(&[&set[..], &[kv]].concat());
    let client = telling(&set);
    let kv = open(&client, &target).segment("kv").unwrap();
    Pair { local: client.allocate(1 << 16).unwrap(), kv, client, target }
}

impl Pair {
    fn at(&self, offset: u64) -> Remote {
        self.kv.at(offset)
    }
}
