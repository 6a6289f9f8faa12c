//! Cases: the right bytes arrive at the right place, once, and nothing else is touched.

use crate::conformance::fixture::Fixture;
use crate::conformance::rig::Rig;
use crate::link::LinkId;
use crate::memory::Access;
use crate::wr::{Op, Outcome, WorkRequest};

const SIZES: [u64; 9] = [1, 7, 64, 4095, 4096, 65_537, (1 << 20) + 1, 3 << 20, 8 << 20];
const OFFSETS: [u64; 4] = [0, 1, 63, 4096];
/// Bytes around a span that must stay as they are.
const CANARY: u64 = 8192;

/// A WRITE of any size from any offset to any offset moves exactly its bytes; those around stay.
pub fn write_moves_exact_bytes<F: Fixture>() {
    moves_exact_bytes::<F>(Op::Write);
}

/// A READ of any size from any offset to any offset moves exactly its bytes; those around stay.
pub fn read_moves_exact_bytes<F: Fixture>() {
    moves_exact_bytes::<F>(Op::Read);
}

fn moves_exact_bytes<F: Fixture>(op: Op) {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    let whole = SIZES[SIZES.len() - 1] + CANARY;
    let access = if op == Op::Read { Access::Read } else { Access::Write };
    let (mut local, mut remote) = (rig.local(whole, 1), rig.remote(whole, 2, access));
    for (round, len) in SIZES.into_iter().enumerate() {
        let (near, far) = (OFFSETS[round % 4], OFFSETS[(round / 2 + 1) % 4]);
        let work = rig.request(op, local.at(near), remote.at(far), len);
        rig.post(link, &[work]);
        rig.finish();
        rig.all_ended(&[work], Outcome::Done);
        let (from, to) = (near as usize..(near + len) as usize, far as usize..(far + len) as usize);
        match op {
            Op::Write => remote.expect[to].copy_from_slice(&local.expect[from]),
            Op::Read => local.expect[from].copy_from_slice(&remote.expect[to]),
        }
        rig.check_local(&local);
        rig.check_remote(&remote);
    }
}

/// Batches of 1, 64 and 1000 requests, READs and WRITEs mixed, complete exactly once each, bytes exact.
pub fn batches_complete_once_each<F: Fixture>() {
    for batch in [1, 64, 1000] {
        let mut rig = Rig::<F>::new();
        let link = rig.fixture.connect();
        mixed(&mut rig, link, batch, 512);
    }
}

/// Far more requests than a link holds, kept at its limit, complete exactly once each, bytes exact.
pub fn many_outstanding_complete_once_each<F: Fixture>() {
    let mut rig = Rig::<F>::new();
    let link = rig.fixture.connect();
    for _ in 0..3 {
        mixed(&mut rig, link, 4000, 100);
    }
}

/// Request i of `count` owns block i on both sides; even ones WRITE, odd ones READ.
fn mixed<F: Fixture>(rig: &mut Rig<F>, link: LinkId, count: usize, block: u64) {
    let whole = count as u64 * block;
    let (mut local, mut remote) = (rig.local(whole, 3), rig.remote(whole, 4, Access::ReadWrite));
    let work: Vec<WorkRequest> = (0..count as u64)
        .map(|i| {
            let op = if i % 2 == 0 { Op::Write } else { Op::Read };
            // Not the whole block: its last byte must stay.
            rig.request(op, local.at(i * block), remote.at(i * block), block - 1)
        })
        .collect();
    rig.post(link, &work);
    rig.finish();
    rig.all_ended(&work, Outcome::Done);
    for request in &work {
        let at = request.local.offset as usize..(request.local.offset + request.len) as usize;
        match request.op {
            Op::Write => remote.expect[at.clone()].copy_from_slice(&local.expect[at]),
            Op::Read => local.expect[at.clone()].copy_from_slice(&remote.expect[at]),
        }
    }
    rig.check_local(&local);
    rig.check_remote(&remote);
}
