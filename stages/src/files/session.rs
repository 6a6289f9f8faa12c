//! What one control session holds of our files: leases, uploads and generations, which end with it.
//! Deliberately quick: only bookkeeping happens on the control thread, the rest at the desk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pipeline_transports::Op;
use pipeline_transports::control::{Compared, FileAnswer, FileRequest, How, Pull};
use tokio::sync::oneshot;

use super::compare::{self, Theirs};
use super::error::FileError;
use super::generation::Generation;
use super::listing;
use super::made::Made;
use super::part::Part;
use super::pull::Landing;
use super::root::{Lease, Root};
use super::upload::Upload;
use crate::control::lock;
use crate::world::World;

/// Uploads that a session may have open.
const UPLOADS: usize = 256;
/// Generations that a session may have unpublished.
const GENERATIONS: usize = 16;
/// Leases that a session may hold.
const LEASES: usize = 16;
/// Directories that a session has made and remembers; more of a broken copy stay.
const MADE: usize = 4096;

/// See the module.
pub struct FileSession {
    world: Arc<World>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    next: u32,
    leases: HashMap<u32, Arc<Lease>>,
    uploads: HashMap<u32, Arc<Upload>>,
    generations: HashMap<u32, Arc<Staged>>,
    /// Uploads that are being begun and count already.
    beginning: usize,
    /// Directories that were made since somebody holds a lease: who gives the last one back has done what was to be done,
    /// and they stay.
    made: Folders,
}

/// Directories that go, as far as they are empty, when this is dropped.
#[derive(Default)]
struct Folders {
    made: Vec<(Arc<Root>, Made)>,
    count: usize,
}

impl Folders {
    fn add(&mut self, root: &Arc<Root>, made: Made) {
        if made.count() > 0 && self.count + made.count() <= MADE {
            self.count += made.count();
            self.made.push((root.clone(), made));
        }
    }

    /// They stay.
    fn leave(&mut self) {
        (self.count, self.made) = (0, Vec::new());
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        self.made.iter().rev().for_each(|(root, made)| root.tree.unmake(made));
    }
}

/// A generation, and the segment whose access counts for it.
struct Staged {
    root: Arc<Root>,
    generation: Generation,
}

/// A place among the open uploads, kept while one is being begun.
struct Beginning(Arc<FileSession>);

impl Beginning {
    fn new(session: &Arc<FileSession>) -> Result<Self, FileError> {
        let mut held = lock(&session.held);
        if held.uploads.len() + held.beginning >= UPLOADS {
            return Err(FileError::Limit { what: "open uploads of a session", limit: UPLOADS as u64 });
        }
        held.beginning += 1;
        Ok(Self(session.clone()))
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        lock(&self.0.held).beginning -= 1;
    }
}

impl FileSession {
    /// Over the desk and the regions of a node.
    pub fn new(world: Arc<World>) -> Self {
        Self { world, held: Mutex::default() }
    }

    /// Serves a request.
    ///
    /// # Errors
    /// [`FileError`], to be told to the peer.
    pub async fn serve(self: &Arc<Self>, request: FileRequest) -> Result<FileAnswer, FileError> {
        match request {
            FileRequest::Attach { segment, bytes } => self.attach(&segment, bytes),
            FileRequest::Detach { lease } => self.detach(lease),
            FileRequest::List { segment, path, after } => {
                let root = self.root(&segment)?;
                self.job(move |_| listing::list(&root, &path, &after)).await
            }
            FileRequest::MakeDirectory { segment, path, generation } => {
                let (root, staged) = (self.root(&segment)?, self.staged(generation)?);
                let session = self.clone();
                self.job(move |_| session.make_directory(&root, staged.as_deref(), &path)).await
            }
            FileRequest::Begin { lease, path, len, how, generation } => {
                self.begin(lease, path, len, how, generation).await
            }
            FileRequest::Compare { of, offset, len, digest } => self.compare(of, offset, len, digest).await,
            FileRequest::Stage { segment, path } => self.stage(&segment, path).await,
            FileRequest::Publish { generation, sync } => self.publish(generation, sync).await,
            FileRequest::Chunk { upload, file_offset, lease_offset, len } => {
                let upload = self.upload(upload)?;
                let from = upload.lease.at(lease_offset, len)?;
                let regions = self.world.regions.clone();
                let work = move |scratch: &mut [u8]| upload.chunk(&regions, from, file_offset, len, scratch);
                self.job(move |scratch| work(scratch).map(|()| FileAnswer::Done)).await
            }
            FileRequest::Commit { upload, crc32c } => {
                let taken = lock(&self.held).uploads.remove(&upload);
                let upload = taken.ok_or(FileError::NoUpload(upload))?;
                self.job(move |_| upload.part.commit(crc32c).map(|()| FileAnswer::Done)).await
            }
            FileRequest::Abort { upload } => self.abort(upload).await,
            FileRequest::Read { lease, path, file_offset, lease_offset, len } => {
                let held = self.lease(lease)?;
                let into = held.at(lease_offset, len)?;
                let regions = self.world.regions.clone();
                let read = move |scratch: &mut [u8]| {
                    let dir = &held.root.tree.dir;
                    listing::read(&held, dir, &regions, &path, file_offset, (into, len), scratch)
                };
                self.job(read).await
            }
            FileRequest::Share { lease } => {
                let token = self.world.files.shared.give(&self.lease(lease)?)?;
                Ok(FileAnswer::Shared { token })
            }
            FileRequest::Redeem { token } => {
                let lease = self.world.files.shared.redeem(token).ok_or(FileError::NoToken)?;
                let (start, len) = (lease.start, lease.len);
                Ok(FileAnswer::Place { segment: lease.root.name.clone(), start, len })
            }
            FileRequest::ReadUpload { upload, path, lease, file_offset, lease_offset, len } => {
                self.reread(upload, path, lease, file_offset, (lease_offset, len)).await
            }
            FileRequest::Pull(_) => Err(FileError::Unable("this node carries out no pulls")),
        }
    }

    /// Puts bytes of an upload, or of the file `path` of a generation, into a lease.
    async fn reread(
        &self,
        id: u32,
        path: String,
        lease: u32,
        offset: u64,
        (lease_offset, len): (u64, u64),
    ) -> Result<FileAnswer, FileError> {
        let held = self.lease(lease)?;
        let into = held.at(lease_offset, len)?;
        let regions = self.world.regions.clone();
        if path.is_empty() {
            let upload = self.upload(id)?;
            let read = move |scratch: &mut [u8]| upload.reread(&regions, &held, (offset, len), into, scratch);
            return self.job(read).await;
        }
        let staged = self.staged(id)?.ok_or(FileError::NoUpload(id))?;
        let read = move |scratch: &mut [u8]| {
            staged.root.allow(&path, Op::Read)?;
            listing::read(&held, staged.generation.dir(), &regions, &path, offset, (into, len), scratch)
        };
        self.job(read).await
    }

    /// Where the bytes of a pull shall land.
    pub(crate) fn landing(&self, pull: &Pull) -> Result<Landing, FileError> {
        Landing::new(self.upload(pull.upload)?, pull)
    }

    /// Has bytes that were pulled written into their file.
    pub(crate) async fn land(&self, landing: Arc<Landing>) -> Result<FileAnswer, FileError> {
        let regions = self.world.regions.clone();
        self.job(move |scratch| landing.land(&regions, scratch)).await
    }

    fn root(&self, segment: &str) -> Result<Arc<Root>, FileError> {
        let unknown = || FileError::UnknownSegment(segment.to_owned());
        self.world.files.root(segment).ok_or_else(unknown)
    }

    fn lease(&self, id: u32) -> Result<Arc<Lease>, FileError> {
        lock(&self.held).leases.get(&id).cloned().ok_or(FileError::NoLease(id))
    }

    fn upload(&self, id: u32) -> Result<Arc<Upload>, FileError> {
        lock(&self.held).uploads.get(&id).cloned().ok_or(FileError::NoUpload(id))
    }

    fn attach(&self, segment: &str, bytes: u64) -> Result<FileAnswer, FileError> {
        let root = self.root(segment)?;
        let mut held = lock(&self.held);
        if held.leases.len() >= LEASES {
            return Err(FileError::Limit { what: "leases of a session", limit: LEASES as u64 });
        }
        held.next = held.next.checked_add(1).unwrap_or(1);
        let id = held.next;
        let lease = root.lease(id, bytes)?;
        let (start, len) = (lease.start, lease.len);
        held.leases.insert(id, Arc::new(lease));
        Ok(FileAnswer::Attached { lease: id, start, len })
    }

    fn detach(&self, lease: u32) -> Result<FileAnswer, FileError> {
        let mut held = lock(&self.held);
        held.leases.remove(&lease).ok_or(FileError::NoLease(lease))?;
        if held.leases.is_empty() {
            held.made.leave();
        }
        Ok(FileAnswer::Done)
    }

    fn make_directory(
        &self,
        root: &Arc<Root>,
        staged: Option<&Staged>,
        path: &str,
    ) -> Result<FileAnswer, FileError> {
        root.allow(path, Op::Write)?;
        if let Some(staged) = staged {
            staged.root.allow(path, Op::Write)?;
            staged.generation.make_directory(path)?;
            return Ok(FileAnswer::Done);
        }
        let made = root.tree.make_directory(path)?;
        let mut held = lock(&self.held);
        if !held.leases.is_empty() {
            held.made.add(root, made);
        }
        Ok(FileAnswer::Done)
    }

    /// A generation of this session; none for 0, which is the segment's own tree.
    fn staged(&self, id: u32) -> Result<Option<Arc<Staged>>, FileError> {
        match id {
            0 => Ok(None),
            _ => lock(&self.held).generations.get(&id).cloned().map(Some).ok_or(FileError::NoUpload(id)),
        }
    }

    async fn begin(
        self: &Arc<Self>,
        lease: u32,
        path: String,
        len: u64,
        how: How,
        generation: u32,
    ) -> Result<FileAnswer, FileError> {
        let (lease, staged) = (self.lease(lease)?, self.staged(generation)?);
        let place = Beginning::new(self)?;
        self.job(move |_| {
            lease.root.allow(&path, Op::Write)?;
            if how.keep || how.link.is_some() {
                // What is there already could be guessed by comparing.
                lease.root.allow(&path, Op::Read)?;
            }
            let part = match (&staged, how.link) {
                (Some(staged), Some(stamp)) => {
                    staged.generation.link(&path, len, stamp, how.executable)?;
                    return Ok(FileAnswer::Done);
                }
                (None, Some(_)) => return Err(FileError::NoUpload(generation)),
                (Some(staged), None) => staged.generation.begin(&path, len, how)?,
                (None, None) => Part::begin(&lease.root.tree, &path, len, how)?,
            };
            let held = part.is_held();
            let id = lock(&place.0.held).add(|held, id| {
                held.uploads.insert(id, Arc::new(Upload { lease, part }));
            });
            Ok(FileAnswer::Begun { id, held })
        })
        .await
    }

    async fn compare(
        &self,
        of: Compared,
        offset: u64,
        len: u64,
        digest: [u8; 32],
    ) -> Result<FileAnswer, FileError> {
        compare::bounded(len)?;
        match of {
            Compared::Upload(upload) => {
                let upload = self.upload(upload)?;
                self.job(move |scratch| {
                    upload.lease.root.allow("", Op::Read)?;
                    let same = upload.part.same(offset, len, &digest, scratch)?.is_some();
                    Ok(FileAnswer::Same { same, stamp: 0 })
                })
                .await
            }
            Compared::File { segment, path, file_len, executable } => {
                let root = self.root(&segment)?;
                let theirs = Theirs { file_len, executable, offset, len, digest };
                self.job(move |scratch| compare::file(&root, &path, &theirs, scratch)).await
            }
        }
    }

    async fn stage(self: &Arc<Self>, segment: &str, path: String) -> Result<FileAnswer, FileError> {
        let (root, place) = (self.root(segment)?, Beginning::new(self)?);
        if lock(&self.held).generations.len() >= GENERATIONS {
            return Err(FileError::Limit { what: "generations of a session", limit: GENERATIONS as u64 });
        }
        self.job(move |_| {
            root.allow(&path, Op::Write)?;
            let generation = Generation::stage(&root.tree, &path)?;
            let id = lock(&place.0.held).add(|held, id| {
                held.generations.insert(id, Arc::new(Staged { root, generation }));
            });
            Ok(FileAnswer::Begun { id, held: false })
        })
        .await
    }

    async fn publish(&self, id: u32, sync: bool) -> Result<FileAnswer, FileError> {
        let staged = lock(&self.held).generations.remove(&id).ok_or(FileError::NoUpload(id))?;
        let begun = staged.clone();
        let answer = self.job(move |_| begun.generation.publish(sync).map(|()| FileAnswer::Done)).await;
        // Removing what it has replaced takes as long as that is large: nobody waits for it.
        self.later(staged);
        answer
    }

    async fn abort(&self, id: u32) -> Result<FileAnswer, FileError> {
        if let Some(staged) = lock(&self.held).generations.remove(&id) {
            self.later(staged);
            return Ok(FileAnswer::Done);
        }
        let upload = lock(&self.held).uploads.remove(&id).ok_or(FileError::NoUpload(id))?;
        self.job(move |_| {
            drop(upload);
            Ok(FileAnswer::Done)
        })
        .await
    }

    /// Has something dropped at the desk; with a full desk it is dropped here after all.
    fn later(&self, last: impl Send + 'static) {
        let _ = self.world.files.put(Box::new(move |_| drop(last)));
    }

    /// Has work done at the desk.
    async fn job(
        &self,
        work: impl FnOnce(&mut [u8]) -> Result<FileAnswer, FileError> + Send + 'static,
    ) -> Result<FileAnswer, FileError> {
        let (tell, told) = oneshot::channel();
        let job = Box::new(move |scratch: &mut [u8]| _ = tell.send(work(scratch)));
        if self.world.files.put(job).is_err() {
            let busy = "the file workers have no room for more, or there is no `file_serve` stage; try later";
            return Err(FileError::Busy(busy));
        }
        told.await.unwrap_or(Err(FileError::Busy("the file worker failed; see the log of that node")))
    }
}

impl Held {
    /// Gives the next number to something that is held from now on.
    fn add(&mut self, hold: impl FnOnce(&mut Self, u32)) -> u32 {
        // 0 names no generation.
        self.next = self.next.checked_add(1).unwrap_or(1);
        let id = self.next;
        hold(self, id);
        id
    }
}

impl Drop for FileSession {
    fn drop(&mut self) {
        // Removing unfinished files is work for the desk.
        let mut held = lock(&self.held);
        let (uploads, generations) =
            (std::mem::take(&mut held.uploads), std::mem::take(&mut held.generations));
        let made = std::mem::take(&mut held.made);
        drop(held);
        if !uploads.is_empty() || !generations.is_empty() || made.count > 0 {
            // In this order: what is in a directory goes before it.
            self.later((uploads, generations, made));
        }
    }
}
