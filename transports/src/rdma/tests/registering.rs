//! Registering regions: with every device or with none, whole or in pieces.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::super::domain::Domain;
use super::super::region_keys::RegionKeys;
use super::super::settings::{RdmaNic, RdmaSettings};
use super::alone;
use crate::error::Error;
use crate::memory::{Access, Memory, RegionId};
use crate::spread::InTurn;
use crate::transport::Registered;
use crate::wr::{Op, Refusal};

const MIB: u64 = 1 << 20;

/// A domain of both devices.
fn domain(change: impl FnOnce(&mut RdmaSettings)) -> Domain {
    let nics = ["rxe0", "rxe1"].map(RdmaNic::named).to_vec();
    let mut settings = RdmaSettings { nics, ..RdmaSettings::default() };
    change(&mut settings);
    Domain::open("rdma", &mut settings, 64).unwrap()
}

/// Bytes of this process that are pinned for devices.
fn pinned() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A region is registered with both devices at once, under keys that are found when it has a name and are gone when its
/// registration is dropped, as is what was pinned for it.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn whole() {
    let _alone = alone();
    let domain = domain(|_| {});
    let memory = Memory::allocate(3 * MIB).unwrap();
    let id = RegionId::new(5, 1);
    let registration = domain.register(&memory, Access::Read, &InTurn).unwrap();
    assert!(domain.local().find(id, 0, 0, 1).is_none(), "it has no name yet");
    registration.bind(id);
    let of = |nic| domain.local().find(id, nic, MIB, 7).unwrap();
    assert_ne!(of(0).lkey, 0);
    assert_eq!((of(0).at, of(1).address), (memory.ptr() as u64 + MIB, of(0).address));
    assert!(domain.local().find(id, 2, 0, 1).is_none());
    domain.learnt().learn(9, id, memory.len(), &registration.keys()).unwrap();
    let peer = domain.learnt().of(9);
    assert_eq!(peer.find(id, 1, Op::Read, MIB, 7).unwrap().address, of(0).address);
    assert_eq!(peer.find(id, 1, Op::Write, MIB, 7), Err(Refusal::Denied));
    drop(registration);
    assert!(domain.local().find(id, 0, 0, 1).is_none());
}

/// A region that is longer than a registration may be is registered in pieces with every device: every work request up to
/// the longest has a key at every place of it, to its very end.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn in_pieces() {
    let _alone = alone();
    let domain = domain(|settings| {
        settings.register_max_bytes = 256 << 10;
        settings.max_bytes = 64 << 10;
    });
    assert_eq!(domain.max_bytes(), 64 << 10);
    let (memory, id) = (Memory::allocate(2 * MIB + 12_345).unwrap(), RegionId::new(0, 1));
    let registration = domain.register(&memory, Access::ReadWrite, &InTurn).unwrap();
    registration.bind(id);
    let keys = RegionKeys::decode(&registration.keys(), memory.len()).unwrap();
    assert_eq!((keys.pieces.count(), keys.rkeys.len()), (11, 22));
    let distinct: std::collections::HashSet<u32> = (0..memory.len() - 65_536)
        .step_by(1000)
        .map(|offset| domain.local().find(id, 1, offset, 65_536).unwrap().lkey)
        .collect();
    assert_eq!(distinct.len(), 11);
    assert!(domain.local().find(id, 1, memory.len() - 1, 1).is_some());
    assert!(domain.local().find(id, 1, memory.len(), 1).is_none());
}

/// A region that would take more keys than a page carries is refused with both numbers, before anything is registered.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn too_many_pieces() {
    let _alone = alone();
    let domain = domain(|settings| settings.register_max_bytes = 8192);
    let memory = Memory::allocate(2 * MIB).unwrap();
    let error = domain.register(&memory, Access::Read, &InTurn).err().unwrap().to_string();
    assert!(
        error.contains("more than 124 registrations of 8192 bytes") && error.contains("register_max"),
        "{error}"
    );
}

/// When the second device refuses (here: too much locked memory), what the first had taken is given back, and the error
/// says which NIC, how much, and which limit to raise. After that the same memory can be registered.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn all_or_none() {
    let _alone = alone();
    let domain = domain(|_| {});
    let memory = Memory::allocate(4 * MIB).unwrap();
    let before = pinned();
    let was = getrlimit(Resource::Memlock);
    let mut own = capabilities(None).unwrap();
    own.effective.remove(CapabilitySet::IPC_LOCK);
    let limit = Rlimit { current: Some(before + 6 * MIB), maximum: was.maximum };
    let refused = std::thread::scope(|scope| {
        // On a thread of its own, which loses the right to lock as much as it likes.
        let attempt = scope.spawn(|| {
            set_capabilities(None, own).unwrap();
            setrlimit(Resource::Memlock, limit).unwrap();
            let refused = domain.register(&memory, Access::Read, &InTurn).err();
            let after = pinned();
            setrlimit(Resource::Memlock, was).unwrap();
            (refused, after)
        });
        attempt.join().unwrap()
    });
    let Some(Error::NotRegisterable { nic, len, help, .. }) = &refused.0 else {
        panic!("{:?}", refused.0.map(|e| e.to_string()))
    };
    assert_eq!((nic.as_str(), *len), ("rxe1", 4 * MIB));
    assert!(help.contains("ulimit -l unlimited"), "{help}");
    assert_eq!(refused.1, before, "nothing stays pinned");
    let registration = domain.register(&memory, Access::Read, &InTurn).unwrap();
    assert_eq!(pinned(), before + 8 * MIB, "once for each device");
    drop(registration);
    assert_eq!(pinned(), before);
}

/// Memory that is not there cannot be registered, and the error says so.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn no_memory() {
    let _alone = alone();
    let domain = domain(|_| {});
    let gone = Memory::allocate(MIB).unwrap().ptr();
    // SAFETY: nobody reads or writes it: it is not mapped any more, which is the point.
    let memory = unsafe { Memory::from_raw(gone, MIB) };
    let error = domain.register(&memory, Access::Read, &InTurn).err().unwrap();
    assert!(
        matches!(&error, Error::NotRegisterable { nic, help, .. } if nic == "rxe0" && (help.contains("not mapped") || help.contains("memory that this process"))),
        "{error}"
    );
}

/// Many threads register and give back at once; each finds its own keys, and at the end nothing is pinned.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn many_at_once() {
    let _alone = alone();
    let domain = domain(|_| {});
    let before = pinned();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let domain = &domain;
            scope.spawn(move || {
                for generation in 1..=8 {
                    let (memory, id) = (Memory::allocate(MIB).unwrap(), RegionId::new(thread, generation));
                    let registration = domain.register(&memory, Access::ReadWrite, &InTurn).unwrap();
                    registration.bind(id);
                    assert_eq!(domain.local().find(id, 1, 9, 1).unwrap().at, memory.ptr() as u64 + 9);
                }
            });
        }
    });
    assert_eq!(pinned(), before);
}
