//! Many threads that register overlapping memory at once (B03).

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pipeline_node::{Access, Error, Memory};

use crate::rig::{engine, nothing_left};

const THREADS: usize = 16;
const ROUNDS: usize = 1_000;
const MIB: usize = 1 << 20;

/// Sixteen threads, half of which register one range and half another that overlaps it, a thousand times: in each round
/// exactly one of them has it, the others are told that it overlaps, and at the end nothing is registered.
#[test]
fn one_of_many_wins() {
    let client = engine(&[]);
    let mut bytes = vec![0_u8; 2 * MIB];
    let base = bytes.as_mut_ptr() as usize;
    let (start, end) = (Barrier::new(THREADS), Barrier::new(THREADS));
    let live = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for t in 0..THREADS {
            let (client, start, end, live) = (&client, &start, &end, &live);
            scope.spawn(move || {
                let at = base + t % 2 * MIB / 2;
                for round in 0..ROUNDS {
                    start.wait();
                    // SAFETY: `bytes` outlives the engine's regions, and nobody looks at it meanwhile.
                    let memory = unsafe { Memory::from_raw(at as *mut u8, MIB as u64) };
                    let won = client.register(memory, Access::ReadWrite);
                    live.fetch_add(u32::from(won.is_ok()), Relaxed);
                    end.wait();
                    assert_eq!(live.load(Relaxed), 1, "round {round}");
                    match won {
                        Ok(region) => {
                            start.wait();
                            live.store(0, Relaxed);
                            client.unregister(region).map_err(|(_, e)| e).unwrap();
                        }
                        Err(error) => {
                            assert!(
                                matches!(&error, Error::Memory(pipeline_transports::Error::Overlap(_))),
                                "{error}"
                            );
                            start.wait();
                        }
                    }
                    end.wait();
                }
            });
        }
    });
    // SAFETY: as above.
    let memory = unsafe { Memory::from_raw(base as *mut u8, 2 * MIB as u64) };
    let whole = client.register(memory, Access::ReadWrite).expect("nothing is left that overlaps");
    nothing_left(&client, [whole]);
}
