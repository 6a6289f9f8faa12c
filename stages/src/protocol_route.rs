//! `protocol_route`: chooses the transport of a slice: the first of `prefer` that both sides have and that knows
//! the direction. Deliberately no look at links: a transport that is chosen and not yet linked is waited for.

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Kind, StageKind, Values};
use pipeline_graph::{BATCH, Batch, Context, Contract, Flow, Outlet, PortId, Seat, Shape, Stage};
use pipeline_transports::Op;

use crate::key::Key;
use crate::ledger::Slot;
use crate::preference::Preference;
use crate::reason::{Code, Reason, StageIx};
use crate::spec::{Making, ports};
use crate::world::{Own, World};

const ALLOW_DENY: &[&str] = &["deny", "allow"];

/// Its entry in the catalogue.
pub const KIND: StageKind = StageKind {
    name: "protocol_route",
    summary: "Chooses the transport of a slice.",
    keys: &[
        pipeline_configs::Key {
            name: "prefer",
            kind: Kind::Transports,
            default: None,
            required: false,
            doc: "Transports in order of preference; without it, all declared in the order of the file. One that speaks to another engine is taken for the peers that are named by it, whatever is said here.",
            change: Change::Live,
            ..pipeline_configs::Key::PLAIN
        },
        pipeline_configs::Key {
            name: "fallback",
            kind: Kind::Word(ALLOW_DENY),
            default: Some("deny"),
            required: false,
            doc: "Whether a declared transport that is not in `prefer` may be taken when none of those can.",
            change: Change::Live,
            ..pipeline_configs::Key::PLAIN
        },
        pipeline_configs::Key {
            name: "staging",
            kind: Kind::Word(ALLOW_DENY),
            default: Some("deny"),
            required: false,
            doc: "Whether a transport that copies through a staging buffer may be taken.",
            change: Change::Live,
            ..pipeline_configs::Key::PLAIN
        },
    ],
    shape,
    later: None,
};

const OUT: PortId = PortId(0);
const FAILED: PortId = PortId(1);

fn shape(_: &Values, _: &Facts) -> Shape {
    Shape { ports: ports(&[("out", true), ("failed", false)]), contract: Contract::default() }
}

pub(crate) fn build(making: &Making, _: &Seat) -> Result<Box<dyn Stage<Key>>, String> {
    let preference = Preference::of(making.values(), &making.world.transports);
    let choices = vec![Choice::default(); making.config.limits.peers as usize];
    Ok(Box::new(Route { world: making.own(), stage: making.ix(), preference, choices }))
}

/// What was found for one peer while its version was this.
#[derive(Clone, Copy, Default)]
struct Choice {
    /// Version plus one; 0: never looked.
    version: u64,
    read: Option<u16>,
    write: Option<u16>,
}

#[repr(align(128))]
struct Route {
    world: Own,
    stage: StageIx,
    preference: Preference,
    choices: Vec<Choice>,
}

fn choose(world: &World, preference: &Preference, choices: &mut [Choice], slot: Slot) -> Result<u16, Reason> {
    let peer = slot.peer();
    let target = world.peers.get(peer).ok_or(Reason::PeerGone)?;
    let choice = choices.get_mut(peer.0 as usize).ok_or(Reason::PeerGone)?;
    let version = target.version.load(std::sync::atomic::Ordering::Acquire) + 1;
    if choice.version != version {
        let view = target.view.load();
        let find = |op| preference.choose(&world.transports, &view, op);
        *choice = Choice { version, read: find(Op::Read), write: find(Op::Write) };
    }
    let found = match slot.op() {
        Op::Read => choice.read,
        Op::Write => choice.write,
    };
    found.ok_or(Reason::NoRoute)
}

impl Stage<Key> for Route {
    fn run(&mut self, input: &mut Batch<Key>, out: &mut Outlet<Key>, _: &mut Context) -> Flow {
        let Self { world, stage, preference, choices } = self;
        let ledger = &*world.ledger;
        // Slices of one request go the same way.
        let mut last = None;
        while !input.is_empty() {
            let (mut keys, mut n) = ([Key::default(); BATCH], 0);
            let room = out.room_for_all(OUT);
            for key in input.iter().take(room) {
                let Some(slot) = ledger.look(key) else { break };
                let request = slot.request();
                let choice = match last {
                    Some((of, choice)) if of == request => choice,
                    _ => choose(world, preference, choices, slot),
                };
                last = Some((request, choice));
                let Ok(transport) = choice else { break };
                slot.set_transport(transport);
                keys[n] = key;
                n += 1;
            }
            out.push_all(OUT, &keys[..n]);
            input.skip(n);
            // What stopped it: the end, an item that goes another way, or a full port.
            let Some(key) = input.peek() else { break };
            if let Some(slot) = ledger.live(key) {
                let port = match choose(world, preference, choices, slot) {
                    Ok(transport) => {
                        slot.set_transport(transport);
                        OUT
                    }
                    Err(reason) => {
                        slot.set_code(Code::new(reason, *stage));
                        FAILED
                    }
                };
                if out.push(port, key).is_err() {
                    return Flow::More;
                }
            }
            input.pop();
        }
        Flow::Done
    }
}
