//! Memory of GPUs, as far as a machine without one can show it: which way is tried, in which order, and what is said when
//! none works. Soft-RoCE knows no dmabufs (EOPNOTSUPP, whatever the descriptor); peer memory is registered by address, which
//! memory of the host serves as well. That a GPU's bytes arrive is not shown by any of this.

use std::fs::File;

use super::super::domain::Domain;
use super::super::gpu::Reach;
use super::super::settings::{GpuMemory, RdmaNic, RdmaSettings};
use super::alone;
use crate::error::Error;
use crate::memory::{Access, GpuPart, Memory};
use crate::spread::InTurn;
use crate::transport::{NicId, Registered};

const LEN: u64 = 1 << 20;

fn domain(gpu_memory: GpuMemory) -> Domain {
    let nics = vec![RdmaNic::named("rxe1")];
    let mut settings = RdmaSettings { nics, gpu_memory, ..RdmaSettings::default() };
    Domain::open("rdma", &mut settings, 64).unwrap()
}

/// Memory at `host`, given out as that of GPU 2.
fn of_gpu(host: *mut u8, dmabuf: bool) -> Memory {
    let part = match dmabuf {
        true => GpuPart::with_dmabuf(2, File::open("/dev/null").unwrap().into(), 0),
        false => GpuPart::new(2),
    };
    // SAFETY: the caller keeps it mapped while it is registered, and nobody copies it.
    unsafe { Memory::of_gpu(host, LEN, part) }
}

/// A dmabuf that the NIC's driver cannot take is an error that says so, where the file wants nothing else; the pair is
/// known as one that does not reach.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn no_dmabufs_here() {
    let _alone = alone();
    let (host, domain) = (Memory::allocate(LEN).unwrap(), domain(GpuMemory::Dmabuf));
    let error = domain.register(&of_gpu(host.ptr(), true), Access::Read, &InTurn).err().unwrap();
    let Error::GpuUnreachable { nic, gpu, why } = &error else { panic!("{error}") };
    assert_eq!((nic.as_str(), *gpu), ("rxe1", 2));
    assert!(why.contains("driver does not know how") && !why.contains("peer memory"), "{why}");
    assert_eq!(domain.reach(NicId(0), 2), Some(Reach::No));
    let none = domain.register(&of_gpu(host.ptr(), false), Access::Read, &InTurn).err().unwrap().to_string();
    assert!(none.contains("its owner gave none"), "{none}");
}

/// Where the file leaves the choice, peer memory is tried after a dmabuf that was refused; what works is remembered for
/// the pair of NIC and GPU, and for no other.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn peer_memory_is_second() {
    let _alone = alone();
    let (host, domain) = (Memory::allocate(LEN).unwrap(), domain(GpuMemory::Auto));
    let registration = domain.register(&of_gpu(host.ptr(), true), Access::Read, &InTurn).ok().unwrap();
    assert!(!registration.keys().is_empty());
    assert_eq!((domain.reach(NicId(0), 2), domain.reach(NicId(0), 0)), (Some(Reach::PeerMemory), None));
}

/// When nothing works the error has the reason of each way and what to load.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn neither_way() {
    let _alone = alone();
    let gone = Memory::allocate(LEN).unwrap().ptr();
    let domain = domain(GpuMemory::Auto);
    let text = domain.register(&of_gpu(gone, true), Access::Read, &InTurn).err().unwrap().to_string();
    assert!(text.contains("as a dmabuf: ") && text.contains("by peer memory: "), "{text}");
    assert!(text.contains("modprobe nvidia_peermem") && text.contains("cuda:2"), "{text}");
    assert_eq!(domain.reach(NicId(0), 2), Some(Reach::No));
}
