//! Which worker drives which half of which transport: the hand-over from `Transport::attach`, which makes the
//! halves of a pair together, to the stages post, reap and serve, which are built apart.
//! Deliberately only used while the graph starts: afterwards each stage owns its halves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Receiver;
use pipeline_graph::{Seat, Waker};
use pipeline_transports::{NicId, PairId, Post, Reap, Serve, Transport, Wakes};

use crate::mail::{Half, Mail, PostOffice, SeatId};
use crate::posted::Posted;

/// A pair: transport, NIC, index.
pub type Place = (u16, u16, u16);

/// What the three stages of a pair share.
pub(crate) struct Shared {
    /// Posted slices, from post to reap.
    pub(crate) posted: Posted,
    /// Bells of post, reap and serve; whoever is missing has a silent one.
    bells: Mutex<[Option<Waker>; 3]>,
}

impl Shared {
    /// The bell of a half, if a stage drives it. For the start and for rare events: takes a lock.
    pub(crate) fn bell(&self, half: Half) -> Option<Waker> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)[half as usize].clone()
    }

    fn ring(&self, half: Half) {
        if let Some(bell) = self.bell(half) {
            bell.wake();
        }
    }
}

#[derive(Default)]
struct Pair {
    shared: Option<Arc<Shared>>,
    attached: bool,
    post: Option<Box<dyn Post>>,
    reap: Option<Box<dyn Reap>>,
    serve: Option<Box<dyn Serve>>,
}

/// All pairs of a node.
#[derive(Default)]
pub struct Seats {
    pairs: Mutex<HashMap<Place, Pair>>,
}

/// A half that a stage asked for.
pub(crate) struct Joined {
    pub(crate) place: Place,
    pub(crate) shared: Arc<Shared>,
    pub(crate) mail: Receiver<Mail>,
}

impl Seats {
    fn pairs(&self) -> MutexGuard<'_, HashMap<Place, Pair>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage that is being built takes a half of `place`, and a letterbox for it.
    pub(crate) fn join(
        &self,
        office: &PostOffice,
        half: Half,
        place: Place,
        seat: &Seat,
        box_size: usize,
    ) -> Joined {
        let id: SeatId = (half, place.0, place.1, place.2);
        let mail = office.open(id, seat.worker as u32, box_size, seat.waker.clone());
        let mut pairs = self.pairs();
        let shared =
            pairs.entry(place).or_default().shared.get_or_insert_with(|| {
                Arc::new(Shared { posted: Posted::default(), bells: Mutex::default() })
            });
        shared.bells.lock().unwrap_or_else(PoisonError::into_inner)[half as usize] = Some(seat.waker.clone());
        Joined { place, shared: shared.clone(), mail }
    }

    /// Makes the halves of `place`, once, by whichever of its stages is polled first: by then all of them have
    /// been built and their bells are known.
    fn attached<'a>(
        pairs: &'a mut HashMap<Place, Pair>,
        place: Place,
        transport: &dyn Transport,
    ) -> Option<&'a mut Pair> {
        let pair = pairs.get_mut(&place)?;
        if !pair.attached {
            let shared = pair.shared.clone()?;
            let bell = |half| {
                let shared = shared.clone();
                match shared.bell(half) {
                    Some(_) => pipeline_transports::Waker::new(move || shared.ring(half)),
                    None => pipeline_transports::Waker::none(),
                }
            };
            let wakes = Wakes { post: bell(Half::Post), reap: bell(Half::Reap), serve: bell(Half::Serve) };
            match transport.attach(NicId(place.1), PairId(place.2), wakes) {
                Ok(halves) => {
                    pair.post = Some(halves.post);
                    pair.reap = Some(halves.reap);
                    pair.serve = halves.serve;
                }
                Err(error) => {
                    tracing::error!(?place, %error, "the transport gives no halves; its links stay shut")
                }
            }
            pair.attached = true;
        }
        Some(pair)
    }

    pub(crate) fn post(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Post>> {
        Self::attached(&mut self.pairs(), place, transport)?.post.take()
    }

    pub(crate) fn reap(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Reap>> {
        Self::attached(&mut self.pairs(), place, transport)?.reap.take()
    }

    pub(crate) fn serve(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Serve>> {
        Self::attached(&mut self.pairs(), place, transport)?.serve.take()
    }
}
