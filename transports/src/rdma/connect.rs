//! Connecting: which NIC of the peer a link leads to, and the one exchange by which both sides make their queue pairs.
//!
//! ```text
//! dialler                              acceptor
//! make a queue pair (INIT)
//!            ── request: my end ──▶    make one (INIT), told of the dialler's end (RTR): it serves
//!            ◀── answer: my end ──
//! told of the acceptor's end (RTR), let loose (RTS): it posts
//! ```
//! Both nodes dial their own links, so two that open at once make two links. What a dialler has let go of travels with its
//! next request; whatever else it leaves behind ends with the session. Deliberately no halves in here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::completion_queue::CompletionQueue;
use super::device::Device;
use super::endpoint::{QueuePair, Sizes};
use super::graveyard::Graveyard;
use super::link::{Pair, RdmaLink};
use super::offer::{Body, End, NicOffer, Request};
use super::opening::{Opening, SOON};
use super::places::{AcceptedPlace, Asked, Places};
use super::port::{LinkLayer, Mtu, PortState};
use super::remote_keys::RemoteKeys;
use super::settings::{Rails, RdmaSettings};
use crate::clock::{Nanos, until};
use crate::control::{Control, WireError};
use crate::error::Error;
use crate::link::LinkId;
use crate::transport::{Asking, Offer, Path, SessionId};

/// One NIC of the transport.
pub(super) struct Nic {
    pub(super) name: String,
    pub(super) rail: Option<u16>,
    pub(super) device: Arc<Device>,
    pub(super) places: Arc<Places>,
    /// What queue pairs that only serve complete into: nothing ever does.
    pub(super) idle_queue: Arc<CompletionQueue>,
}

/// The queue pairs that peers have dialled, by session and by the peer's name of the link.
pub(super) struct Accepted {
    table: Mutex<HashMap<SessionId, HashMap<LinkId, Serving>>>,
    graveyard: Arc<Graveyard>,
}

/// A queue pair that serves. Dropping it destroys the queue pair first and gives its place back then.
struct Serving {
    queue_pair: QueuePair,
    _place: AcceptedPlace,
}

impl Nic {
    /// What peers are told of it.
    pub(super) fn offer(&self, settings: &RdmaSettings) -> NicOffer {
        NicOffer {
            name: self.name.clone(),
            rail: self.rail,
            layer: self.device.link_layer(),
            port: self.device.port(),
            gid: self.device.gid().map_or([0; 16], |gid| gid.raw),
            mtu: self.mtu(settings),
            reads: self.serves_reads(settings),
        }
    }

    pub(super) fn mtu(&self, settings: &RdmaSettings) -> Mtu {
        self.device.active_mtu().min(settings.mtu())
    }

    /// READs of a peer that a queue pair of it serves at once.
    pub(super) fn serves_reads(&self, settings: &RdmaSettings) -> u8 {
        self.device.attr().max_rd_atom.min(settings.read_depth).max(1)
    }

    /// READs of ours that a queue pair of it has under way at once.
    pub(super) fn starts_reads(&self, settings: &RdmaSettings) -> u8 {
        self.device.attr().max_init_rd_atom.min(settings.read_depth).max(1)
    }

    /// What the other side must know of a queue pair of it.
    pub(super) fn end(&self, queue_pair: &QueuePair, psn: u32, mtu: Mtu, reads: u8) -> End {
        End {
            nic: self.name.clone(),
            rail: self.rail,
            layer: self.device.link_layer(),
            gid: queue_pair.gid().raw,
            lid: self.device.lid(),
            qpn: queue_pair.number(),
            psn,
            mtu,
            reads,
        }
    }

    pub(super) fn is_up(&self) -> Result<(), Error> {
        match self.device.state() {
            PortState::Up => Ok(()),
            PortState::Down { .. } => {
                let reason = format!("the port of {} is down; bring its link up", self.device.name());
                Err(Error::LocalNic { nic: self.name.clone(), reason })
            }
        }
    }

    pub(super) fn is_full(&self, peer: &str) -> Error {
        Error::Exhausted {
            peer: peer.to_owned(),
            what: "all queue pairs of the NIC are in use",
            help: format!(
                "`endpoints` allows {} on {}; raise it, or `lanes` less",
                self.places.limit(),
                self.name
            ),
            source: std::io::ErrorKind::QuotaExceeded.into(),
        }
    }
}

/// Dials; the answer is the link, which its place follows until it is gone.
pub(super) async fn dial(
    nic: &Nic,
    pair: &Arc<Pair>,
    settings: &RdmaSettings,
    keys: Arc<RemoteKeys>,
    (path, peer): (&Path, &Offer),
    via: &mut dyn Control,
    by: Nanos,
) -> Result<Arc<RdmaLink>, Error> {
    let refused = |reason: String| Error::Refused { peer: path.peer.clone(), reason };
    let broken = |e: WireError| Error::Protocol { peer: path.peer.clone(), reason: e.to_string() };
    let body = Body::decode(&peer.body).map_err(broken)?;
    nic.is_up()?;
    let here = (usize::from(path.nic.0), nic.rail, nic.device.link_layer());
    let remote = choose(here, path.lane, settings.rails, &body, &path.avoid).map_err(refused)?;
    let opening = Opening::begin(nic, pair, settings, &path.peer, (0, psn()?), by).await?;
    let request = Request {
        link: path.link,
        nic: remote,
        nic_name: body.nics[usize::from(remote)].name.clone(),
        end: opening.end(),
        gone: nic.places.gone(path.session, path.incarnation),
    };
    // Until the link is open its other end may be there for nothing, whatever happens here.
    let withdrawn = Withdrawn { places: &nic.places, path };
    let answer = via.exchange(&request.encode(), by).await?;
    nic.places.told(path.incarnation, &request.gone);
    let theirs = End::decode_answer(&answer).map_err(broken)?;
    if theirs.nic != request.nic_name || theirs.layer != here.2 {
        return Err(refused(format!("it answered for NIC {}, not {}", theirs.nic, request.nic_name)));
    }
    let link = opening.connect(&theirs, path, remote, keys)?;
    std::mem::forget(withdrawn);
    Ok(link)
}

/// Work requests that a link may have outstanding.
pub(super) fn depth(device: &Device, settings: &RdmaSettings) -> u32 {
    settings.depth.clamp(1, device.attr().max_qp_wr.saturating_sub(1).max(1))
}

/// Notes, when it is dropped, that a link is not opened after all: its dial failed, or nobody waited for its end.
struct Withdrawn<'a> {
    places: &'a Places,
    path: &'a Path,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.places.withdraw(self.path.session, self.path.incarnation, self.path.link);
    }
}

/// Answers a dialler: makes the queue pair that it asks for.
pub(super) async fn answer(
    nics: &[Nic],
    accepted: &Accepted,
    settings: &RdmaSettings,
    (from, body): (&Asking, &[u8]),
    by: Nanos,
) -> Result<Vec<u8>, Error> {
    let refused = |reason: String| Error::Refused { peer: from.peer.clone(), reason };
    let request = Request::decode(body)
        .map_err(|e| Error::Protocol { peer: from.peer.clone(), reason: e.to_string() })?;
    request.gone.iter().for_each(|link| accepted.let_go(from.session, Some(*link)));
    let nic = nics.get(usize::from(request.nic)).filter(|nic| nic.name == request.nic_name);
    let nic =
        nic.ok_or_else(|| refused(format!("there is no NIC {} `{}`", request.nic, request.nic_name)))?;
    let layer = nic.device.link_layer();
    if request.end.layer != layer {
        return Err(refused(format!("NIC {} is {layer:?}, and {} is not", nic.name, request.end.nic)));
    }
    if settings.rails == Rails::Same && (nic.rail.is_none() || nic.rail != request.end.rail) {
        return Err(refused(crossed(&nic.name, nic.rail, &request.end.nic, request.end.rail)));
    }
    nic.is_up()?;
    let place = accepted_place(nic, &from.peer, by).await?;
    let sizes = Sizes { send: 1, inline_bytes: 0, serves: true };
    let queue_pair = QueuePair::new(&nic.device, &nic.idle_queue, sizes)?;
    let mtu = nic.mtu(settings).min(request.end.mtu);
    let reads = nic.serves_reads(settings).min(request.end.reads);
    let met = queue_pair.meet(&request.end, mtu, reads, settings);
    met.map_err(|e| no_way(nic, &from.peer, &request.end, &e))?;
    let end = nic.end(&queue_pair, psn()?, mtu, reads);
    accepted.keep(from.session, request.link, Serving { queue_pair, _place: place });
    Ok(end.encode_answer())
}

/// A place for a queue pair that a peer dials, waiting for one until `by`.
///
/// # Errors
/// [`Error::Exhausted`].
pub(super) async fn accepted_place(nic: &Nic, peer: &str, by: Nanos) -> Result<AcceptedPlace, Error> {
    loop {
        match nic.places.ask_for_accepted() {
            Asked::Place(place) => return Ok(place),
            Asked::Soon if !until(by).is_zero() => tokio::time::sleep(SOON).await,
            Asked::Soon | Asked::Full => return Err(nic.is_full(peer)),
        }
    }
}

impl Accepted {
    /// None yet. What is let go of is destroyed by `graveyard`.
    pub(super) fn new(graveyard: Arc<Graveyard>) -> Self {
        Self { table: Mutex::default(), graveyard }
    }

    /// Keeps a queue pair until it is let go of. One of the same name, which a peer that keeps to the rules has not, goes.
    fn keep(&self, session: SessionId, link: LinkId, serving: Serving) {
        let before = self.table().entry(session).or_default().insert(link, serving);
        before.into_iter().for_each(|serving| self.retire(serving));
    }

    /// Takes one out of use, or all of a session: when this returns, nothing of them touches memory.
    pub(super) fn let_go(&self, session: SessionId, only: Option<LinkId>) {
        let mut table = self.table();
        let gone = match only {
            None => table.remove(&session).unwrap_or_default(),
            Some(link) => {
                let links = table.get_mut(&session);
                links.and_then(|links| links.remove(&link)).map(|it| (link, it)).into_iter().collect()
            }
        };
        // Outside of the lock: that takes a while.
        drop(table);
        gone.into_values().for_each(|serving| self.retire(serving));
    }

    /// A fence waits for this, so it is no more than a RESET where that does: what the peer still sends is dropped.
    fn retire(&self, serving: Serving) {
        if serving.queue_pair.reset() {
            self.graveyard.take(Box::new(serving));
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table().values().map(HashMap::len).sum()
    }

    fn table(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, HashMap<LinkId, Serving>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of the peer's NICs a link leads to. `here`: index, rail and link layer of ours. Links of a path that differ in
/// their lane go round over all that fit, beginning with one of the own rail; those to avoid are left out, unless there are
/// no others.
fn choose(
    here: (usize, Option<u16>, LinkLayer),
    lane: u16,
    rails: Rails,
    body: &Body,
    avoid: &[u16],
) -> Result<u16, String> {
    let (index, rail, layer) = here;
    let same = rails == Rails::Same || body.rails == Rails::Same;
    if same && rail.is_none() {
        return Err(
            "`rails` is \"same\", and this side's NIC has no rail; give it one ([nics.NAME] rail)".into()
        );
    }
    let fits = |nic: &NicOffer| nic.layer == layer && (!same || nic.rail == rail);
    let fitting: Vec<usize> = (0..body.nics.len()).filter(|at| fits(&body.nics[*at])).collect();
    if fitting.is_empty() {
        let what =
            if same { format!("no NIC on rail {}", rail.unwrap_or(0)) } else { format!("no {layer:?} NIC") };
        return Err(format!("it has {what}"));
    }
    let own_rail = |at: &usize| rail.is_some() && body.nics[*at].rail == rail;
    let prefers = |fitting: &[usize]| fitting.iter().position(own_rail).unwrap_or(index);
    Ok(go_round(fitting, prefers, lane, avoid))
}

/// Which of the peer's NICs that fit (one at least) a lane leads to: they take turns, beginning with the one that is
/// preferred; those to avoid are left out, unless there are no others.
pub(super) fn go_round(
    mut fitting: Vec<usize>,
    prefers: impl Fn(&[usize]) -> usize,
    lane: u16,
    avoid: &[u16],
) -> u16 {
    let is_to_avoid = |at: &usize| avoid.iter().any(|nic| usize::from(*nic) == *at);
    if !fitting.iter().all(is_to_avoid) {
        fitting.retain(|at| !is_to_avoid(at));
    }
    fitting[(prefers(&fitting) + usize::from(lane)) % fitting.len()] as u16
}

/// The system finds no way to the other NIC: that one, or what is between, is not there. Anything else is ours.
pub(super) fn no_way(nic: &Nic, peer: &str, theirs: &End, why: &std::io::Error) -> Error {
    match why.raw_os_error() {
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ETIMEDOUT) => Error::Unreachable {
            peer: peer.to_owned(),
            reason: format!("its NIC {} from NIC {}: {why}", theirs.nic, nic.name),
        },
        _ => super::device::refused(&nic.name, "reach the peer's NIC", why),
    }
}

fn crossed(nic: &str, rail: Option<u16>, theirs: &str, their_rail: Option<u16>) -> String {
    let text = |rail: Option<u16>| rail.map_or("no rail".to_owned(), |rail| format!("rail {rail}"));
    format!("`rails` is \"same\": NIC {nic} is on {}, {theirs} on {}", text(rail), text(their_rail))
}

/// Number of a first packet, 24 bits.
fn psn() -> Result<u32, Error> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|e| Error::Io {
        what: "taking random bytes for a connection".into(),
        source: std::io::Error::other(e),
    })?;
    Ok(u32::from_le_bytes(bytes) & 0x00FF_FFFF)
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;

    fn body(rails: Rails, nics: &[Option<u16>]) -> Body {
        let nic = |rail: &Option<u16>| NicOffer {
            name: "n".into(),
            rail: *rail,
            layer: LinkLayer::Ethernet,
            port: 1,
            gid: [1; 16],
            mtu: Mtu::at_most(1024),
            reads: 1,
        };
        Body { rails, nics: nics.iter().map(nic).collect() }
    }

    fn chosen(index: usize, rail: Option<u16>, rails: Rails, body: &Body) -> Vec<Result<u16, ()>> {
        let here = (index, rail, LinkLayer::Ethernet);
        (0..4).map(|lane| choose(here, lane, rails, body, &[]).map_err(|_| ())).collect()
    }

    /// Without rails, lanes go round over the peer's NICs, and each NIC of ours begins at another one.
    #[test]
    fn lanes_go_round() {
        let body = body(Rails::Any, &[None, None]);
        assert_eq!(chosen(0, None, Rails::Any, &body), [Ok(0), Ok(1), Ok(0), Ok(1)]);
        assert_eq!(chosen(1, None, Rails::Any, &body), [Ok(1), Ok(0), Ok(1), Ok(0)]);
    }

    /// With rails that may be crossed, the first lane stays on its own, whatever the order of the NICs is.
    #[test]
    fn own_rail_first() {
        let body = body(Rails::Any, &[Some(7), Some(3), Some(5)]);
        assert_eq!(chosen(0, Some(5), Rails::Any, &body), [Ok(2), Ok(0), Ok(1), Ok(2)]);
        assert_eq!(chosen(0, Some(9), Rails::Any, &body)[0], Ok(0), "a rail that only we have");
    }

    /// Where one side says "same" nothing crosses: all lanes are on the rail of that number, and without one there is no
    /// link.
    #[test]
    fn same_never_crosses() {
        let rails = [Some(7), Some(3), Some(7), None];
        for (ours, theirs) in
            [(Rails::Same, Rails::Any), (Rails::Any, Rails::Same), (Rails::Same, Rails::Same)]
        {
            let body = body(theirs, &rails);
            assert_eq!(chosen(0, Some(7), ours, &body), [Ok(0), Ok(2), Ok(0), Ok(2)]);
            assert_eq!(chosen(1, Some(3), ours, &body), [Ok(1); 4]);
            assert_eq!(chosen(0, Some(4), ours, &body), [Err(()); 4]);
            assert_eq!(chosen(0, None, ours, &body), [Err(()); 4]);
        }
    }

    /// Ways that rest are not taken as long as there is another one, on the own rail or off it; where there is none, they
    /// are better than nothing.
    #[test]
    fn ways_that_rest_are_avoided() {
        let body = body(Rails::Any, &[Some(7), Some(3), Some(5)]);
        let chosen = |avoid: &[u16]| {
            let here = (0, Some(7), LinkLayer::Ethernet);
            [0, 1, 2].map(|lane| choose(here, lane, Rails::Any, &body, avoid).unwrap())
        };
        assert_eq!(chosen(&[1]), [0, 2, 0]);
        assert_eq!(chosen(&[0]), [1, 2, 1]);
        assert_eq!(chosen(&[0, 2]), [1, 1, 1]);
        assert_eq!(chosen(&[0, 1, 2]), chosen(&[]));
        let here = (0, Some(7), LinkLayer::Ethernet);
        assert_eq!(choose(here, 0, Rails::Same, &body, &[0]), Ok(0), "the only one that may be");
    }

    /// NICs of another link layer are never chosen.
    #[test]
    fn one_link_layer() {
        let mut body = body(Rails::Any, &[None, None]);
        body.nics[0].layer = LinkLayer::InfiniBand;
        assert_eq!(chosen(0, None, Rails::Any, &body), [Ok(1); 4]);
        body.nics.truncate(1);
        assert_eq!(chosen(0, None, Rails::Any, &body), [Err(()); 4]);
    }
}
