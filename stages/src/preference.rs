//! Which transport a slice takes: what the stage `protocol_route` decides by, and what `explain` says of it.
//! Deliberately no look at links: a transport that is chosen and not yet linked is waited for.

use pipeline_configs::Values;
use pipeline_transports::Op;

use crate::ledger::TRANSPORTS_MAX;
use crate::peer::PeerView;
use crate::world::TransportEntry;

/// Why a transport is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// `prefer` does not name it, and `fallback` is `deny`.
    NotPreferred,
    /// It copies through a staging buffer, and `staging` is `deny`.
    Staging,
    /// The peer does not offer one of its type.
    NotOffered,
    /// The peer offers it, and this node declares none of its type.
    NotDeclared,
    /// It speaks to peers that run another engine, and has not found this one.
    AnotherEngine,
    /// It cannot READ.
    CannotRead,
    /// It cannot WRITE.
    CannotWrite,
    /// One that comes earlier can be taken.
    LessPreferred,
}

impl Rejection {
    /// What is wrong, and what would change it.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotPreferred => "not in `prefer`; add it there, or set fallback = \"allow\"",
            Self::Staging => "it copies through a staging buffer; set staging = \"allow\" to take it",
            Self::NotOffered => "the peer does not offer it; declare it there",
            Self::NotDeclared => "not declared here; add it to [transports] to take it",
            Self::AnotherEngine => {
                "it speaks to peers that run another engine; this one was not opened by a name there"
            }
            Self::CannotRead => "it cannot READ",
            Self::CannotWrite => "it cannot WRITE",
            Self::LessPreferred => "an earlier one can be taken",
        }
    }
}

/// The order in which transports are tried, and those that are not tried at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preference {
    order: Vec<u16>,
    /// How many at the head of `order` are there by name; the others as a fallback, or for want of names.
    pub(crate) named: usize,
    pub(crate) barred: Vec<(u16, Rejection)>,
}

impl Preference {
    /// From the keys of a `protocol_route`.
    pub(crate) fn of(values: &Values, transports: &[TransportEntry]) -> Self {
        let index = |name: &String| transports.iter().position(|t| t.name == *name);
        let prefer = values.texts("prefer");
        let mut order: Vec<usize> = prefer.iter().filter_map(index).collect();
        let falls_back = prefer.is_empty() || values.text("fallback") == Some("allow");
        let mut barred = Vec::new();
        for (at, entry) in transports.iter().enumerate() {
            // Whoever names a peer of another engine names the transport: nothing is left to prefer.
            if !order.contains(&at) && (falls_back || entry.is_foreign()) {
                order.push(at);
            } else if !order.contains(&at) {
                barred.push((at, Rejection::NotPreferred));
            }
        }
        if values.text("staging") != Some("allow") {
            let stages = |at: &usize| !transports[*at].transport.caps().direct;
            barred.extend(order.iter().copied().filter(stages).map(|at| (at, Rejection::Staging)));
            order.retain(|at| !stages(at));
        }
        let short = |at: usize| u16::try_from(at).ok().filter(|at| *at <= TRANSPORTS_MAX);
        let is_named = |at: &&usize| prefer.contains(&transports[**at].name);
        Self {
            named: order.iter().filter(is_named).count(),
            order: order.into_iter().filter_map(short).collect(),
            barred: barred.into_iter().filter_map(|(at, why)| Some((short(at)?, why))).collect(),
        }
    }

    /// The first that can be taken to a peer.
    pub(crate) fn choose(&self, transports: &[TransportEntry], view: &PeerView, op: Op) -> Option<u16> {
        self.order.iter().copied().find(|at| suits(&transports[usize::from(*at)], view, op).is_ok())
    }

    /// Transports in the order in which they are tried.
    pub(crate) fn order(&self) -> &[u16] {
        &self.order
    }
}

/// Whether a transport can be taken to a peer.
///
/// # Errors
/// Why not.
pub(crate) fn suits(entry: &TransportEntry, view: &PeerView, op: Op) -> Result<(), Rejection> {
    let caps = entry.transport.caps();
    match op {
        Op::Read if !caps.read => return Err(Rejection::CannotRead),
        Op::Write if !caps.write => return Err(Rejection::CannotWrite),
        Op::Read | Op::Write => {}
    }
    // A peer that runs another engine is reached by the transport that has found it.
    let mut of_kind = view.offers.iter().filter(|offer| offer.kind == entry.kind);
    let offered = of_kind.any(|offer| offer.name == entry.name || !entry.is_foreign());
    match offered {
        true => Ok(()),
        false if entry.is_foreign() => Err(Rejection::AnotherEngine),
        false => Err(Rejection::NotOffered),
    }
}
