//! NUMA nodes of memory: on which one pages lie, and from which one they shall come. Deliberately only asks and advises: a
//! kernel that knows no nodes leaves everything unknown, and nothing fails for that.

use std::ffi::{c_int, c_long, c_ulong};

use crate::error::Error;
use crate::memory::access::RegionId;
use crate::memory::mapping::Memory;
use crate::memory::regions::Regions;

/// Pages that are asked about, of one region.
const ASKED: usize = 16;

/// Nodes that a mask has room for.
const NODES: usize = 1024;

/// The node that the pages of a range lie on: of at least three in four of those that are asked about and are there. `None`:
/// nobody has touched them, they are spread, or the kernel knows no nodes.
fn node_of(base: u64, len: u64) -> Option<u16> {
    let page = rustix::param::page_size() as u64;
    let first = base & !(page - 1);
    let pages = (base + len - first).div_ceil(page);
    let asked = pages.min(ASKED as u64) as usize;
    let mut addresses = [std::ptr::null_mut::<u8>(); ASKED];
    for (at, address) in addresses[..asked].iter_mut().enumerate() {
        *address = (first + at as u64 * (pages / asked as u64) * page) as *mut u8;
    }
    let mut nodes = [-1 as c_int; ASKED];
    let nowhere = std::ptr::null::<c_int>();
    // SAFETY: without target nodes the call moves nothing: it writes one number for each of `asked` addresses, and both arrays
    // are as long. Addresses that are not mapped (any more) are answered with an error number.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0 as c_int,
            asked as c_ulong,
            addresses.as_ptr(),
            nowhere,
            nodes.as_mut_ptr(),
            0 as c_int,
        )
    };
    if done < 0 as c_long { None } else { agreed(&nodes[..asked]) }
}

/// The node of most, if those are three in four of the pages that are there.
fn agreed(nodes: &[c_int]) -> Option<u16> {
    let there = || nodes.iter().filter(|node| **node >= 0);
    let count = |node: c_int| there().filter(|n| **n == node).count();
    let most = there().copied().max_by_key(|node| count(*node))?;
    (4 * count(most) >= 3 * there().count()).then(|| u16::try_from(most).ok()).flatten()
}

impl Regions {
    /// The NUMA node that a region lies on, asked of the kernel for some of its pages (a system call). `None`: it is not
    /// registered, its pages are not there yet, they are spread over nodes, or the kernel knows none.
    pub fn node_of(&self, id: RegionId) -> Option<u16> {
        let (base, len) = self.range(id)?;
        node_of(base, len)
    }
}

impl Memory {
    /// Asks the kernel to take the pages from a NUMA node, as long as that has some. For memory that nobody has touched.
    ///
    /// # Errors
    /// [`Error::Io`]: there is no such node, or the kernel knows no nodes; the pages come from wherever it likes.
    pub fn prefer_node(&self, node: u16) -> Result<(), Error> {
        const WORD: usize = c_ulong::BITS as usize;
        let mut mask: [c_ulong; NODES / WORD] = [0; NODES / WORD];
        let at = usize::from(node);
        let word = mask.get_mut(at / WORD);
        let word =
            word.ok_or_else(|| Error::BadArgument(format!("NUMA node {node}: at most {}", NODES - 1)))?;
        *word |= 1 << (at % WORD);
        // SAFETY: advice on pages of our own or lent range, which changes no content; the mask is as long as is said.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.ptr(),
                self.len() as c_ulong,
                libc::MPOL_PREFERRED,
                mask.as_ptr(),
                (NODES + 1) as c_ulong,
                0 as c_int,
            )
        };
        if done == 0 {
            return Ok(());
        }
        let what = format!("taking {} bytes from NUMA node {node}", self.len());
        Err(Error::Io { what, source: std::io::Error::last_os_error() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Access;

    /// Pages that agree have a node; pages that are not there count for nothing, and spread ones have none.
    #[test]
    fn most_pages_decide() {
        assert_eq!([agreed(&[]), agreed(&[-2, -14])], [None, None]);
        assert_eq!([agreed(&[1, 1, -2, 1]), agreed(&[0, 1, 1, 1])], [Some(1), Some(1)]);
        assert_eq!([agreed(&[0, 1, 0, 1]), agreed(&[0, 0, 1])], [None, None]);
    }

    /// What the kernel says of touched memory is what it says of the node it was asked to come from; without NUMA it says
    /// nothing, and that is no error of anybody.
    #[test]
    fn the_kernel_is_asked() {
        let regions = Regions::new(2);
        let mut memory = Memory::allocate(1 << 20).unwrap();
        let placed = memory.prefer_node(0).is_ok();
        assert!(memory.prefer_node(9999).is_err());
        memory.write(0, &vec![7; 1 << 20]).unwrap();
        let id = regions.add(memory, Access::Local).unwrap();
        let node = regions.node_of(id);
        assert!(
            node == Some(0)
                || (node.is_none() && !std::path::Path::new("/sys/devices/system/node/node0").exists()),
            "{node:?}, placed: {placed}"
        );
        let gone = regions.add(Memory::allocate(4096).unwrap(), Access::Local).unwrap();
        assert_eq!(regions.node_of(gone), None, "nobody has touched it");
        regions.remove(gone).unwrap();
        assert_eq!(regions.node_of(gone), None);
    }
}
