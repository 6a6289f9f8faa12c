//! Which worker drives which half of which transport: the hand-over from `Transport::attach`, which makes the
//! halves of a pair together, to the stages post, reap and serve, which are built apart.
//! Deliberately only used while the graph starts: afterwards each stage owns its halves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Receiver;
use pipeline_graph::{Seat, Waker};
use pipeline_transports::{Error, NicId, PairId, Post, Reap, Serve, Transport, Wakes};

use crate::mail::{Half, Mail, PostOffice, SeatId};
use crate::posted::Posted;
use crate::spec::Making;
use crate::world::TransportEntry;

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

    pub(crate) fn ring(&self, half: Half) {
        if let Some(bell) = self.bell(half) {
            bell.wake();
        }
    }
}

/// The pairs that a stage on `seat` drives: of the seat's NIC in a pool with `per = "nic"`, else one of every NIC;
/// only of the transports in the stage's key `transports`, if it has one.
pub(crate) fn places(making: &Making, seat: &Seat) -> Vec<Place> {
    let config = &*making.config;
    let pool = config.blueprint.stages[making.stage].pool.and_then(|p| config.blueprint.pools.get(p));
    let per_nic = pool.is_some_and(|p| !p.groups.is_empty());
    let listed = making.values().texts("transports");
    let mut places = Vec::new();
    for (t, transport) in config.transports.iter().enumerate() {
        if !listed.is_empty() && !listed.contains(&transport.name) {
            continue;
        }
        for nic in 0..transport.nics.len() {
            if per_nic && pipeline_configs::nic_group(&config.transports, t, nic) != Some(seat.group) {
                continue;
            }
            let pair = if per_nic { seat.pair } else { seat.worker };
            places.push((t as u16, nic as u16, pair as u16));
        }
    }
    places
}

/// The key that post, reap and serve share.
pub(crate) const TRANSPORTS: pipeline_configs::Key = pipeline_configs::Key {
    name: "transports",
    kind: pipeline_configs::Kind::Transports,
    default: None,
    required: false,
    doc: "The transports it works for; without it, all declared.",
    change: pipeline_configs::schema::Change::Restart,
    ..pipeline_configs::Key::PLAIN
};

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

impl Joined {
    /// The letterbox of the seat.
    pub(crate) fn id(&self, half: Half) -> SeatId {
        (half, self.place.0, self.place.1, self.place.2)
    }
}

impl Seats {
    fn pairs(&self) -> MutexGuard<'_, HashMap<Place, Pair>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage that is being built takes a half of `place`, and a letterbox for it.
    ///
    /// # Errors
    /// The half went down with a stage that panicked: there is no second one.
    pub(crate) fn join(
        &self,
        office: &PostOffice,
        half: Half,
        place: Place,
        seat: &Seat,
        box_size: usize,
    ) -> Result<Joined, String> {
        let id: SeatId = (half, place.0, place.1, place.2);
        let mut pairs = self.pairs();
        let pair = pairs.entry(place).or_default();
        if pair.attached {
            return Err("its links went down with a panic; restart the node to have them back".into());
        }
        let mail = office.open(id, seat.worker as u32, box_size, seat.waker.clone());
        let shared = pair
            .shared
            .get_or_insert_with(|| Arc::new(Shared { posted: Posted::default(), bells: Mutex::default() }));
        shared.bells.lock().unwrap_or_else(PoisonError::into_inner)[half as usize] = Some(seat.waker.clone());
        Ok(Joined { place, shared: shared.clone(), mail })
    }

    /// Makes the halves of every pair: after all stages were built and before any link is dialled. (A pair that was
    /// forgotten here is made when one of its stages is first polled.)
    ///
    /// # Errors
    /// What the first transport that fails says; the links of that pair could never work.
    pub fn attach_all(&self, transports: &[TransportEntry]) -> Result<(), Error> {
        let mut pairs = self.pairs();
        let places: Vec<Place> = pairs.keys().copied().collect();
        for place in places {
            if let Some(pair) = pairs.get_mut(&place) {
                attach(pair, place, &*transports[usize::from(place.0)].transport)?;
            }
        }
        Ok(())
    }

    fn attached<T>(
        &self,
        place: Place,
        transport: &dyn Transport,
        take: impl FnOnce(&mut Pair) -> Option<T>,
    ) -> Option<T> {
        let mut pairs = self.pairs();
        let pair = pairs.get_mut(&place)?;
        if let Err(error) = attach(pair, place, transport) {
            tracing::error!(?place, %error, "the transport gives no halves: its links stay shut");
        }
        take(pair)
    }

    pub(crate) fn post(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Post>> {
        self.attached(place, transport, |pair| pair.post.take())
    }

    pub(crate) fn reap(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Reap>> {
        self.attached(place, transport, |pair| pair.reap.take())
    }

    pub(crate) fn serve(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Serve>> {
        self.attached(place, transport, |pair| pair.serve.take())
    }
}

/// Asks the transport for the halves of a pair, once.
fn attach(pair: &mut Pair, place: Place, transport: &dyn Transport) -> Result<(), Error> {
    let Some(shared) = pair.shared.clone().filter(|_| !pair.attached) else { return Ok(()) };
    pair.attached = true;
    let bell = |half| match shared.bell(half) {
        Some(bell) => pipeline_transports::Waker::new(move || bell.wake()),
        None => pipeline_transports::Waker::none(),
    };
    let wakes = Wakes { post: bell(Half::Post), reap: bell(Half::Reap), serve: bell(Half::Serve) };
    let halves = transport.attach(NicId(place.1), PairId(place.2), wakes)?;
    (pair.post, pair.reap, pair.serve) = (Some(halves.post), Some(halves.reap), halves.serve);
    Ok(())
}
