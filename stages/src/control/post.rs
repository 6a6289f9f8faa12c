//! Hands letters to seats whose boxes may be full for a moment. Deliberately patient, but not for ever.

use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::LinkId;

use crate::mail::{Half, Mail, SeatId};
use crate::world::World;

/// Posts a letter; waits while the box is full. `false` when there is no such seat, or it has not
/// emptied its box for ten seconds.
pub(super) async fn deliver(world: &World, seat: SeatId, mut mail: Mail) -> bool {
    for _ in 0..2000 {
        match world.mail.post(seat, mail) {
            Ok(()) => return true,
            Err(back) => mail = back,
        }
        if world.mail.worker(seat).is_none() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tracing::error!(?seat, "a worker has not taken its mail for ten seconds; a link was dropped");
    false
}

/// Has a link killed by whoever owns it, without waiting for that.
pub(super) fn abort(world: &Arc<World>, seat: SeatId, link: LinkId) {
    if let Err(mail) = world.mail.post(seat, Mail::Abort(link)) {
        let world = world.clone();
        tokio::spawn(async move { deliver(&world, seat, mail).await });
    }
}

/// All seats of a half for a transport, over its NICs, in order.
pub(super) fn seats(world: &World, half: Half, transport: u16) -> Vec<SeatId> {
    let nics = world.transports.get(transport as usize).map_or(0, |t| t.transport.nics().len());
    let mut seats = Vec::new();
    for nic in 0..nics as u16 {
        seats.extend((0..world.mail.pairs(half, transport, nic)).map(|pair| (half, transport, nic, pair)));
    }
    seats
}
