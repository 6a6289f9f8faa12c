//! A peer that was opened, and places in its segments. Cheap to clone; deliberately without a connection of
//! its own: control keeps one for all.

use std::fmt;
use std::sync::Arc;

use std::time::Duration;

use pipeline_stages::Remote;
use pipeline_stages::peer::{PeerId, PeerState, PeerView, SegmentView};
use pipeline_transports::Access;
use pipeline_transports::control::message::Traffic;
use pipeline_transports::control::{FileAnswer, FileRequest, Message};

use crate::engine::{Engine, by};
use crate::error::Error;

/// How long a peer may take to answer a question on its control session. A file's commit syncs a disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// An opened peer.
#[derive(Clone)]
pub struct Peer {
    engine: Engine,
    id: PeerId,
    view: Arc<PeerView>,
}

impl Peer {
    pub(crate) fn of(engine: Engine, id: PeerId) -> Result<Self, Error> {
        let peer = engine.inner.world.peers.get(id).ok_or(pipeline_stages::control::Error::UnknownPeer)?;
        let view = peer.view.load_full();
        Ok(Self { engine, id, view })
    }

    /// The name it gave itself.
    pub fn name(&self) -> &str {
        &self.view.name
    }

    /// Where it stands now. One that is down is dialled again when somebody wants something of it.
    pub fn state(&self) -> PeerState {
        self.engine.inner.world.peers.get(self.id).map_or(PeerState::Down, |peer| peer.state())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn id(&self) -> PeerId {
        self.id
    }

    /// What it was opened by.
    pub fn label(&self) -> Arc<str> {
        self.engine.inner.world.peers.get(self.id).map_or_else(|| "".into(), |p| p.label.clone())
    }

    /// Changes with every start of that node. Requests to an earlier start fail `StalePeer`.
    pub fn incarnation(&self) -> u64 {
        self.view.incarnation
    }

    /// Names of its segments when it was opened.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        // An empty name is the place of a segment that the peer has taken away.
        self.view.segments.iter().map(|s| s.name.as_str()).filter(|name| !name.is_empty())
    }

    /// One of its segments.
    ///
    /// # Errors
    /// [`Error::UnknownSegment`], with the names there are.
    pub fn segment(&self, name: &str) -> Result<Segment, Error> {
        let index = self.view.segments.iter().position(|s| !name.is_empty() && s.name == name);
        let index = index.ok_or_else(|| Error::UnknownSegment {
            peer: self.label().to_string(),
            segment: name.to_owned(),
            known: self.segments().map(str::to_owned).collect(),
        })?;
        let start =
            Remote { peer: self.id, incarnation: self.view.incarnation, segment: index as u32, offset: 0 };
        Ok(Segment { start, view: self.view.segments[index].clone() })
    }

    /// The same peer with the segments that it has now: for a name, or an offset, that is not among those of when it was opened.
    ///
    /// # Errors
    /// [`Error::Control`] when it is gone, or does not answer within `timeout`.
    pub fn refresh(&self, timeout: Duration) -> Result<Self, Error> {
        self.engine.here()?;
        self.engine.inner.control.refresh(self.id, by(timeout))?;
        Self::of(self.engine.clone(), self.id)
    }

    /// Whether it runs another engine: then it has segments, and neither files nor a CPU time to tell nor a fence.
    pub fn is_foreign(&self) -> bool {
        self.engine.inner.control.is_foreign(self.id)
    }

    /// Waits until it has let go of every link that died with a WRITE unanswered. After that nothing which ended before
    /// changes its memory any more, requests that ended `Undetermined` included. WRITEs to it wait for the same by
    /// themselves; this is for whoever wants to hand that memory to somebody else.
    ///
    /// # Errors
    /// [`Error::Control`], which names the peer: it cannot be reached, did not confirm within `timeout`, or runs another engine,
    /// which knows no fence.
    pub fn fence(&self, timeout: Duration) -> Result<(), Error> {
        Ok(self.engine.inner.control.fence(self.id, &self.view, by(timeout))?)
    }

    /// CPU time its process has used since it started, nanoseconds.
    ///
    /// # Errors
    /// [`Error::Control`] when it is gone or runs another engine, [`Error::Answer`].
    pub fn cpu_ns(&self) -> Result<u64, Error> {
        match self.ask(Message::GetCpuTime)? {
            Message::CpuTime { process_ns } => Ok(process_ns),
            other => Err(self.unfit(&other)),
        }
    }

    /// What moves through it, whoever asked for it: counted since it started. Of two looks the difference is what its node did
    /// between them.
    ///
    /// # Errors
    /// [`Error::Control`] when it is gone, runs another engine, or a release that cannot tell; [`Error::Answer`].
    pub fn traffic(&self) -> Result<Traffic, Error> {
        match self.ask(Message::GetTraffic)? {
            Message::Traffic(traffic) => Ok(traffic),
            other => Err(self.unfit(&other)),
        }
    }

    /// Asks about files of a `dir` segment. Their bytes pass through the lease that `Attach` gives, by READ and
    /// WRITE.
    ///
    /// # Errors
    /// [`Error::Control`] with the peer's reason, or when it is gone or runs another engine; [`Error::Answer`].
    pub fn files(&self, request: FileRequest) -> Result<FileAnswer, Error> {
        self.files_within(request, ANSWER_TIMEOUT)
    }

    /// As [`Self::files`], for as long as `timeout`.
    ///
    /// # Errors
    /// As there.
    pub fn files_within(&self, request: FileRequest, timeout: Duration) -> Result<FileAnswer, Error> {
        match self.ask_within(Message::File(request), timeout)? {
            Message::Filed(answer) => Ok(answer),
            other => Err(self.unfit(&other)),
        }
    }

    fn ask(&self, message: Message) -> Result<Message, Error> {
        self.ask_within(message, ANSWER_TIMEOUT)
    }

    fn ask_within(&self, message: Message, timeout: Duration) -> Result<Message, Error> {
        self.engine.here()?;
        Ok(self.engine.inner.control.request(self.id, message, by(timeout))?)
    }

    fn unfit(&self, answer: &Message) -> Error {
        // It may hold a listing; a user needs its beginning.
        let answer = format!("{answer:?}").chars().take(200).collect();
        Error::Answer { peer: self.label().to_string(), answer }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("label", &self.label()).field("name", &self.name()).finish()
    }
}

/// A segment of a peer: one space of offsets.
#[derive(Clone, Debug)]
pub struct Segment {
    start: Remote,
    view: Arc<SegmentView>,
}

impl Segment {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.view.name
    }

    /// `dram`, `dir` …
    pub fn kind(&self) -> &str {
        &self.view.kind
    }

    /// Bytes.
    #[allow(
        clippy::len_without_is_empty,
        reason = "an empty segment is one that nothing was published in yet"
    )]
    pub fn len(&self) -> u64 {
        self.view.len
    }

    /// What its regions allow when they all allow the same; `None` when they differ, or there are none.
    pub fn access(&self) -> Option<Access> {
        let (first, others) = self.view.regions.split_first()?;
        others.iter().all(|region| region.access == first.access).then_some(first.access)
    }

    /// A place in it, for [`crate::Request::read`] and [`crate::Request::write`].
    pub fn at(&self, offset: u64) -> Remote {
        Remote { offset, ..self.start }
    }
}
