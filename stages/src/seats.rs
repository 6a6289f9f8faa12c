//! Which worker drives which half of which transport: the hand-over from `Transport::attach`, which makes the
//! halves of a pair together, to the stages post, reap and serve, which are built apart.
//! Deliberately only used while the graph starts, and when a stage is built anew after a panic: afterwards each stage
//! owns its halves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::*, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Receiver;
use pipeline_graph::{Seat, Waker};
use pipeline_transports::{Error, NicId, PairId, Post, Reap, Serve, Transport, Wakes};

use crate::ledger::Ledger;
use crate::mail::{Half, Mail, PostOffice, SeatId};
use crate::posted::Posted;
use crate::reason::Code;
use crate::spec::Making;
use crate::traffic::{Moved, ServedBytes, Sum};
use crate::world::TransportEntry;

/// A pair: transport, NIC, index.
pub type Place = (u16, u16, u16);

/// What the three stages of a pair share.
#[repr(align(128))]
pub(crate) struct Shared {
    /// Posted slices, from post to reap.
    pub(crate) posted: Posted,
    /// Bells of post, reap and serve; whoever is missing has a silent one. Also the lock under which a reaper goes and
    /// comes back.
    bells: Mutex<[Option<Waker>; 3]>,
    /// While the reaper is gone, how the slices end that it would have taken from `posted`; else 0.
    reaper_gone: AtomicU32,
    /// What its reaper saw end. Here, so that a reaper which panicked takes none of it along.
    pub(crate) moved: Moved,
    /// What its serve half did.
    pub(crate) served: ServedBytes,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            posted: Posted::default(),
            bells: Mutex::default(),
            reaper_gone: AtomicU32::new(0),
            moved: Moved::default(),
            served: ServedBytes::default(),
        })
    }

    fn bells(&self) -> MutexGuard<'_, [Option<Waker>; 3]> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reaper has panicked and its half is dropped: what is posted from here on reaches nobody, and ends so.
    pub(crate) fn reaper_goes(&self, ledger: &Ledger, code: Code) {
        let _bells = self.bells();
        self.reaper_gone.store(code.raw(), Relaxed);
        // The pair of the one in `Posted::publish`: the poster sees that nobody reaps, or we its keys.
        fence(SeqCst);
        self.end_posted(ledger, code);
    }

    /// Poster, after it has published keys: ends them if nobody will reap them.
    #[inline]
    pub(crate) fn end_unreaped(&self, ledger: &Ledger) {
        if self.reaper_gone.load(Relaxed) != 0 {
            self.end_if_gone(ledger);
        }
    }

    #[cold]
    fn end_if_gone(&self, ledger: &Ledger) {
        let _bells = self.bells();
        // It may have come back meanwhile: then they are its own to end.
        match self.reaper_gone.load(Relaxed) {
            0 => {}
            code => self.end_posted(ledger, Code::from_raw(code)),
        }
    }

    /// In place of the reaper, under the lock.
    fn end_posted(&self, ledger: &Ledger, code: Code) {
        while let Some(key) = self.posted.take() {
            ledger.abandon_key(key, code);
        }
    }

    /// The bell of a half, if a stage drives it. For the start and for rare events: takes a lock.
    pub(crate) fn bell(&self, half: Half) -> Option<Waker> {
        self.bells()[half as usize].clone()
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
    let per_nic = pool.is_some_and(|p| p.is_per_nic());
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

struct Pair {
    shared: Arc<Shared>,
    /// Halves that no stage has taken yet; `None` before the pair is attached.
    halves: Option<Untaken>,
}

struct Untaken {
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

    /// A stage that is being built takes a half of `place`, and a letterbox for it. One that panicked comes back this
    /// way, and gets a new half.
    pub(crate) fn join(
        &self,
        office: &PostOffice,
        half: Half,
        place: Place,
        seat: &Seat,
        box_size: usize,
    ) -> Joined {
        let id: SeatId = (half, place.0, place.1, place.2);
        let mut pairs = self.pairs();
        let pair = pairs.entry(place).or_insert_with(|| Pair { shared: Shared::new(), halves: None });
        let mail = office.open(id, seat.worker as u32, box_size, seat.waker.clone());
        let shared = pair.shared.clone();
        let mut bells = shared.bells();
        bells[half as usize] = Some(seat.waker.clone());
        if half == Half::Reap {
            shared.reaper_gone.store(0, Relaxed);
        }
        drop(bells);
        Joined { place, shared, mail }
    }

    /// Makes the halves of every pair: after all stages were built and before any link is dialled. (A pair that was
    /// forgotten here is made when one of its stages is first polled.)
    ///
    /// # Errors
    /// What the first transport that fails says; the links of that pair could never work.
    pub fn attach_all(&self, transports: &[TransportEntry]) -> Result<(), Error> {
        for (place, pair) in self.pairs().iter_mut().filter(|(_, pair)| pair.halves.is_none()) {
            pair.halves = Some(attach(&pair.shared, *place, &*transports[usize::from(place.0)].transport)?);
        }
        Ok(())
    }

    /// What has moved over a NIC of a transport, over all of its workers.
    pub(crate) fn counts(&self, transport: u16, nic: u16) -> Sum {
        let mut sum = Sum::default();
        let pairs = self.pairs();
        let here = pairs.iter().filter(|((t, n, _), _)| (*t, *n) == (transport, nic));
        for (_, pair) in here {
            pair.shared.moved.add_to(&mut sum);
            pair.shared.served.add_to(&mut sum);
        }
        sum
    }

    /// The half that was made with its pair; once that was taken, and lost, one that is made for it alone.
    fn half<T>(
        &self,
        place: Place,
        transport: &dyn Transport,
        take: impl Fn(&mut Untaken) -> Option<T>,
    ) -> Option<T> {
        let mut pairs = self.pairs();
        let pair = pairs.get_mut(&place)?;
        if let Some(half) = pair.halves.as_mut().and_then(&take) {
            return Some(half);
        }
        match attach(&pair.shared, place, transport) {
            Ok(mut made) => {
                let half = take(&mut made);
                // The other halves of a second attach are not needed: those of the first are in use.
                pair.halves.get_or_insert(made);
                half
            }
            Err(error) => {
                tracing::error!(?place, %error, "the transport gives no halves: its links stay shut");
                None
            }
        }
    }

    pub(crate) fn post(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Post>> {
        self.half(place, transport, |halves| halves.post.take())
    }

    pub(crate) fn reap(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Reap>> {
        self.half(place, transport, |halves| halves.reap.take())
    }

    pub(crate) fn serve(&self, place: Place, transport: &dyn Transport) -> Option<Box<dyn Serve>> {
        self.half(place, transport, |halves| halves.serve.take())
    }
}

/// Asks the transport for the halves of a pair.
fn attach(shared: &Arc<Shared>, place: Place, transport: &dyn Transport) -> Result<Untaken, Error> {
    let bell = |half| match shared.bell(half) {
        Some(bell) => pipeline_transports::Waker::new(move || bell.wake()),
        None => pipeline_transports::Waker::none(),
    };
    let wakes = Wakes { post: bell(Half::Post), reap: bell(Half::Reap), serve: bell(Half::Serve) };
    let halves = transport.attach(NicId(place.1), PairId(place.2), wakes)?;
    Ok(Untaken { post: Some(halves.post), reap: Some(halves.reap), serve: halves.serve })
}
