//! How large a slice may be: what the file says, what transports demand, and what may be in flight at all.
//! Deliberately without the request: where that is cut is in [`super::plan`].

use std::collections::BTreeMap;

use pipeline_configs::Values;
use pipeline_configs::schema::Value;

use crate::ledger::Slot;
use crate::world::World;

/// Most bytes of a slice, by transport; `u64::MAX`: only what regions and transports demand.
pub(crate) struct Sizes {
    unrouted: u64,
    routed: Vec<u64>,
}

impl Sizes {
    /// From the keys of a stage of this type.
    pub(crate) fn of(world: &World, values: &Values) -> Self {
        let caps = world.transports.iter().map(|t| (&t.name, t.transport.caps()));
        let none = BTreeMap::new();
        let (word, number, table) = match values.0.get("slice") {
            Some(Value::Number(n)) => (None, Some(*n), &none),
            Some(Value::Text(word)) => (Some(word.as_str()), None, &none),
            Some(Value::PerName(table)) => (None, None, table),
            _ => (None, None, &none),
        };
        let limit = world.ledger.window.bytes_limit();
        let routed: Vec<u64> = caps
            .map(|(name, caps)| {
                let size = match (word, number.or_else(|| table.get(name).copied())) {
                    (_, Some(n)) => n.min(limit),
                    (Some("whole"), None) => u64::MAX,
                    _ => caps.preferred_bytes.min(limit),
                };
                size.min(caps.max_bytes).max(1)
            })
            .collect();
        Self { unrouted: routed.iter().copied().min().unwrap_or(u64::MAX), routed }
    }

    /// Most bytes of any slice.
    pub(crate) fn longest(&self) -> u64 {
        self.routed.iter().copied().max().unwrap_or(u64::MAX)
    }

    pub(super) fn of_slice(&self, cover: Slot) -> u64 {
        self.of_transport(cover.transport())
    }

    /// With a transport that was chosen before, or not yet.
    #[inline]
    pub(crate) fn of_transport(&self, transport: Option<u16>) -> u64 {
        let routed = transport.and_then(|t| self.routed.get(usize::from(t)).copied());
        routed.unwrap_or(self.unrouted)
    }
}
