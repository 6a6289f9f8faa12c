//! `checksum`: compares what is here with what was read back from the other side (`read_back`), by a sum over each. A
//! difference fails the slice with both sums, or sends it again.
//! Deliberately stateless: what it needs to know of a slice is in the ledger, so it runs as jobs of a `stealing` pool.

mod sum;

use pipeline_configs::schema::Change;
use pipeline_configs::{Config, Facts, Key as ConfigKey, Kind, StageKind, Values};
use pipeline_graph::{Batch, Context, Contract, Flow, Outlet, PortId, Seat, Shape, Stage};
use pipeline_transports::{Access, RegionId};

use crate::key::Key;
use crate::ledger::Slot;
use crate::reason::{Code, Mismatch, Reason, StageIx};
use crate::request_split::Sizes;
use crate::spec::{Making, ports};
use crate::world::{Own, World};
use sum::{Algorithm, Summer};

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "checksum",
    summary: "Checks the bytes of a slice end to end: compares what is here with what `read_back` has read from the other side.",
    keys: &[
        ConfigKey {
            name: "algorithm",
            kind: Kind::Word(&["crc32c", "xxh3"]),
            default: Some("crc32c"),
            doc: "What is computed over the bytes of a slice.",
            change: Change::Rebuild,
            ..ConfigKey::PLAIN
        },
        ConfigKey {
            name: "mismatch",
            kind: Kind::Word(&["fail", "retry"]),
            default: Some("fail"),
            doc: "What becomes of a slice whose sums differ: it fails with both, or leaves by the port `retry`, to be carried out again as often as the stage `retry` allows; then it fails.",
            change: Change::Rebuild,
            ..ConfigKey::PLAIN
        },
    ],
    shape,
    later: None,
};

const OUT: PortId = PortId(0);
const RETRY: PortId = PortId(1);
const FAILED: PortId = PortId(2);

fn retries(values: &Values) -> bool {
    values.text("mismatch") == Some("retry")
}

fn shape(values: &Values, _: &Facts) -> Shape {
    let contract = Contract { parallel: true, gives: vec!["scratch"], ..Contract::default() };
    Shape { ports: ports(&[("out", true), ("retry", retries(values)), ("failed", true)]), contract }
}

pub(crate) fn build(making: &Making, _: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let algorithm = Algorithm::named(making.values().text("algorithm").unwrap_or_default());
    let port = if retries(making.values()) { RETRY } else { FAILED };
    let (world, stage, summer) = (making.own(), making.ix(), Summer::new(algorithm));
    Ok(Box::new(Checksum { world, stage, summer, differs: port }))
}

#[repr(align(128))]
struct Checksum {
    world: Own,
    stage: StageIx,
    summer: Summer,
    /// Where a slice goes whose sums differ.
    differs: PortId,
}

impl Checksum {
    /// Compares both sides: the port it goes to, and what is found.
    fn judge(&mut self, slot: Slot) -> (PortId, Code) {
        let ledger = &self.world.ledger;
        let code = |reason| Code::new(reason, self.stage);
        let Some(backed) = slot.backed() else { return (FAILED, code(Reason::Unverified)) };
        let (regions, len) = (&self.world.regions, slot.len());
        let mut sum = |at| self.summer.sum(regions, at, len);
        let (Ok(here), Ok(there)) = (sum(backed.here), sum(backed.there)) else {
            return (FAILED, code(Reason::NotRegistered));
        };
        if here == there {
            return (OUT, Code::DONE);
        }
        let found = Mismatch { offset: backed.here.offset, here, there };
        let noted = ledger.scratch().map_or(0, |scratch| scratch.note(slot.request(), found));
        (self.differs, Code::corrupt(noted, self.stage))
    }
}

impl Stage<Key> for Checksum {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, _: &mut Context) -> Flow {
        let world = self.world.clone();
        while let Some(key) = input.peek() {
            if let Some(slot) = world.ledger.live(key) {
                if [OUT, RETRY, FAILED].iter().any(|port| out.room(*port, key) == 0) {
                    return Flow::More;
                }
                let (port, code) = self.judge(slot);
                slot.set_code(code);
                if port == RETRY {
                    slot.set_strike();
                }
                // What it was before: it ends, or is carried out again, as that.
                slot.end_back();
                // Room was asked for.
                let _ = out.push(port, key);
            }
            input.pop();
        }
        Flow::Done
    }
}

/// Registers memory for a node: `Engine::register` of whoever assembles one.
pub type Register<'a> = &'a mut dyn FnMut(u64, Access) -> Result<RegionId, String>;

/// Opens the scratch that the stages `read_back` of a file want: before the graph starts. Nothing without such a stage.
///
/// # Errors
/// The scratch is smaller than a slice, slices have no greatest length, or what `register` says.
pub fn open_scratch(config: &Config, world: &World, register: Register<'_>) -> Result<(), String> {
    let stages = |kind| config.stages.iter().filter(move |stage| stage.kind == kind);
    let bytes: u64 = stages("read_back").filter_map(|stage| stage.values.number("scratch")).sum();
    let (Some(first), Some(split)) = (stages("read_back").next(), stages("request_split").next()) else {
        return Ok(());
    };
    let longest = Sizes::of(world, &split.values).longest();
    if longest > world.ledger.window.bytes_limit() {
        return Err(format!(
            "stage `{}`: slices have no greatest length; give stage `{}` a `slice` other than \"whole\"",
            first.name, split.name
        ));
    }
    let pieces = u32::try_from(bytes / longest.max(1)).unwrap_or(u32::MAX);
    if pieces == 0 {
        return Err(format!(
            "stage `{}`: a scratch of {bytes} bytes, and slices of up to {longest}; raise `scratch` or lower `slice`",
            first.name
        ));
    }
    let region = register(u64::from(pieces) * longest, Access::Local)?;
    // For as long as the node runs: no request of the program holds it.
    world.regions.pin(region).map_err(|e| e.to_string())?;
    let workers = config.blueprint.pools.iter().map(|pool| pool.workers() + 1).sum();
    world.ledger.open_scratch(region, longest, pieces, workers);
    Ok(())
}
