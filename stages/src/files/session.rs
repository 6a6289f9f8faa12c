//! What one control session holds of our files: leases and uploads, which end with it.
//! Deliberately quick: only bookkeeping happens on the control thread, the rest at the desk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pipeline_transports::Op;
use pipeline_transports::control::{FileAnswer, FileRequest, Pull};
use tokio::sync::oneshot;

use super::error::FileError;
use super::pull::Landing;
use super::root::{Lease, Root};
use super::upload::Upload;
use super::{listing, path};
use crate::control::lock;
use crate::world::World;

/// Uploads that a session may have open.
const UPLOADS: usize = 256;
/// Leases that a session may hold.
const LEASES: usize = 16;

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
    /// Uploads that are being begun and count already.
    beginning: usize,
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
            FileRequest::Detach { lease } => {
                let gone = lock(&self.held).leases.remove(&lease);
                gone.map(|_| FileAnswer::Done).ok_or(FileError::NoLease(lease))
            }
            FileRequest::List { segment, path, after } => {
                let root = self.root(&segment)?;
                self.job(move |_| listing::list(&root, &path, &after)).await
            }
            FileRequest::MakeDirectory { segment, path } => {
                let root = self.root(&segment)?;
                self.job(move |_| make_directory(&root, &path)).await
            }
            FileRequest::Begin { lease, path, len, executable } => {
                self.begin(lease, path, len, executable).await
            }
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
                self.job(move |_| upload.commit(crc32c).map(|()| FileAnswer::Done)).await
            }
            FileRequest::Abort { upload } => {
                let taken = lock(&self.held).uploads.remove(&upload);
                let upload = taken.ok_or(FileError::NoUpload(upload))?;
                self.job(move |_| {
                    drop(upload);
                    Ok(FileAnswer::Done)
                })
                .await
            }
            FileRequest::Read { lease, path, file_offset, lease_offset, len } => {
                let held = self.lease(lease)?;
                let into = held.at(lease_offset, len)?;
                let regions = self.world.regions.clone();
                let read = move |scratch: &mut [u8]| {
                    listing::read(&held, &regions, &path, file_offset, (into, len), scratch)
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
            FileRequest::ReadUpload { upload, lease, file_offset, lease_offset, len } => {
                let (upload, held) = (self.upload(upload)?, self.lease(lease)?);
                let into = held.at(lease_offset, len)?;
                let regions = self.world.regions.clone();
                let read = move |scratch: &mut [u8]| {
                    upload.reread(&regions, &held, (file_offset, len), into, scratch)
                };
                self.job(read).await
            }
            FileRequest::Pull(_) => Err(FileError::Unable("this node carries out no pulls")),
        }
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
        held.next += 1;
        let id = held.next;
        let lease = root.lease(id, bytes)?;
        let (start, len) = (lease.start, lease.len);
        held.leases.insert(id, Arc::new(lease));
        Ok(FileAnswer::Attached { lease: id, start, len })
    }

    async fn begin(
        self: &Arc<Self>,
        lease: u32,
        path: String,
        len: u64,
        executable: bool,
    ) -> Result<FileAnswer, FileError> {
        let lease = self.lease(lease)?;
        let place = Beginning::new(self)?;
        self.job(move |_| {
            let upload = Upload::begin(lease, &path, len, executable)?;
            let mut held = lock(&place.0.held);
            held.next += 1;
            let id = held.next;
            held.uploads.insert(id, Arc::new(upload));
            drop(held);
            Ok(FileAnswer::Begun { upload: id })
        })
        .await
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

impl Drop for FileSession {
    fn drop(&mut self) {
        // Removing unfinished files is work for the desk; with a full desk it is done here after all.
        let uploads = std::mem::take(&mut lock(&self.held).uploads);
        if !uploads.is_empty() {
            let _ = self.world.files.put(Box::new(move |_| drop(uploads)));
        }
    }
}

fn make_directory(root: &Root, path: &str) -> Result<FileAnswer, FileError> {
    root.allow(path, Op::Write)?;
    let place = path::below(path)?;
    if place != "." {
        root.dir.create_dir_all(place).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => FileError::NotDirectory(path.to_owned()),
            _ => FileError::io(path, "written", e),
        })?;
    }
    Ok(FileAnswer::Done)
}
