//! How an extent of a file gets into a destination's upload: the one step that differs between a copy that sends the
//! bytes itself and one whose destination pulls them from another node. Deliberately without the choice of who pulls
//! from whom, and without beginning or committing anything.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pipeline_node::FileRequest;

use super::session::{Bench, Session};

/// Bytes of a file here that belong into an upload there.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// The file here.
    pub file: &'a File,
    /// Its path here, which names it for all destinations.
    pub from: &'a Path,
    /// The upload that the destination has begun for it.
    pub upload: u32,
    /// Where in the file.
    pub offset: u64,
    /// How many bytes, at most [`Session::chunk`].
    pub len: u64,
}

/// Where a file is that is whole at a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its path in the segment, where readers find it, or will once its generation is published.
    pub path: String,
    /// The generation that it is in until then, and its path there.
    pub staged: Option<(u32, String)>,
}

/// A way for extents to one destination. Used by all workers of its session at the same time.
pub trait Carrier: Sync {
    /// Has the extent in the upload when it returns, and answers its CRC32C as the source has it.
    ///
    /// # Errors
    /// Why it is not there; the file fails with this.
    fn carry(&self, session: &Session<'_>, bench: &mut Bench, extent: &Extent<'_>) -> Result<u32, String>;

    /// An extent need not be carried: an earlier copy has left it there. This is its CRC32C.
    fn there(&self, _extent: &Extent<'_>, _crc: u32) {}

    /// The file `from` is whole in the destination's segment.
    fn whole(&self, _from: &Path, _to: &Placed) {}

    /// The file `from` will not be there.
    fn missed(&self, _from: &Path) {}
}

/// From here: into the lease by WRITE, and from there into the file.
#[derive(Clone, Copy, Debug)]
pub struct ByWrite;

impl Carrier for ByWrite {
    fn carry(&self, session: &Session<'_>, bench: &mut Bench, extent: &Extent<'_>) -> Result<u32, String> {
        let &Extent { file, upload, offset, len, .. } = extent;
        let bytes = &mut bench.buffer[..len as usize];
        read_exact(file, bytes, offset)?;
        let crc = crc32c::crc32c(bytes);
        bench.region.write(0, bytes).map_err(|e| e.to_string())?;
        session.put(bench, len)?;
        let lease_offset = bench.lease_offset;
        session.ask(FileRequest::Chunk { upload, file_offset: offset, lease_offset, len })?;
        Ok(crc)
    }
}

/// All of `bytes` from `offset` on, or why not.
pub fn read_exact(file: &File, bytes: &mut [u8], offset: u64) -> Result<(), String> {
    file.read_exact_at(bytes, offset).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => "it shrank while it was being copied".to_owned(),
        _ => e.to_string(),
    })
}
