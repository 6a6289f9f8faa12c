//! What happens to slices that the engine itself fails: a full edge with `reject`, a panic, a forced stop.
//! Deliberately the same end as any other: by `completion_notify` if the slice can still travel, else here.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pipeline_graph::{Fault, Faults};

use crate::key::Key;
use crate::ledger::{Ending, NIL};
use crate::reason::{Code, Reason, SUBMIT_STAGE};
use crate::world::World;

/// Hands the engine's verdicts to the ledger.
pub struct Verdicts(pub Arc<World>);

impl Faults<Key> for Verdicts {
    fn mark(&self, item: Key, fault: &Fault, travels: bool) {
        let ledger = &*self.0.ledger;
        let code = match fault {
            Fault::Rejected { .. } => Code::new(Reason::Busy, SUBMIT_STAGE),
            Fault::Panic { stage } => {
                Code::new(Reason::StagePanic, ledger.stage_named(stage).unwrap_or(SUBMIT_STAGE))
            }
            _ => Code::new(Reason::Stopped, SUBMIT_STAGE),
        };
        let mut next = ledger.position(item);
        if ledger.live(item).is_none() {
            return;
        }
        // Before `admit` an item stands for a whole chain, of which only the first can travel; after it, for itself.
        let mut stays = travels;
        while next != NIL {
            let (slot, key) = (ledger.at(next), ledger.key_at(next));
            next = slot.next().swap(NIL, Relaxed);
            slot.set_code(code);
            if !std::mem::take(&mut stays) {
                let mut ending = Ending::new(ledger);
                ending.end_contested(key);
                ending.finish();
            }
        }
    }
}
