//! The lane's ring and death under loom: every interleaving of a poster and a reaper.

#[cfg(all(test, pipeline_loom))]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::super::ring::{Ring, Stand};
    use crate::life::Life;
    use crate::tcp::halves::TakenBack;
    use crate::wr::{Op, Outcome, WrId};

    fn somewhere() -> Result<*mut u8, Outcome> {
        Ok(std::ptr::dangling_mut())
    }

    /// A cancel and a begin of the same work request: exactly one wins, and both see it so.
    #[test]
    fn cancel_races_begin() {
        for op in [Op::Read, Op::Write] {
            loom::model(move || {
                let ring = Arc::new(Ring::new(1));
                let number = ring.append(WrId(9), op, somewhere(), 10);
                let reaper = thread::spawn({
                    let ring = ring.clone();
                    move || ring.cancel(WrId(9), &mut 0)
                });
                let begun = ring.begin(number, 10);
                let answer = reaper.join().unwrap();
                match (answer, op) {
                    (TakenBack::Dropped, _) => assert!(!begun),
                    (TakenBack::MustAbort, Op::Write) | (TakenBack::Discarding, Op::Read) => assert!(begun),
                    _ => panic!("{answer:?} for {op:?}"),
                }
                let stand = match answer {
                    TakenBack::Dropped => Stand::Cancelled,
                    TakenBack::Discarding => Stand::Discarding,
                    _ => Stand::Begun,
                };
                assert_eq!(ring.at(number).stand, stand);
            });
        }
    }

    /// What the reaper finds published it finds whole: its place, its length, the question behind it. And room that it has
    /// freed is written anew only after that.
    #[test]
    fn published_is_whole() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(1));
            let poster = thread::spawn({
                let ring = ring.clone();
                move || {
                    for id in [1, 2] {
                        if ring.room() == 0 {
                            return;
                        }
                        let number = ring.append(WrId(id), Op::Write, somewhere(), 10 * id);
                        assert!(ring.begin(number, 34));
                        ring.confirm(number, 58);
                        ring.publish(number + 1);
                    }
                }
            });
            let mut next = 0;
            for _ in 0..2 {
                if ring.published() > next {
                    let seen = ring.at(next);
                    assert_eq!((seen.id.0, seen.length), (next + 1, 10 * (next + 1)));
                    assert!(seen.confirmed && seen.stand == Stand::Begun);
                    next += 1;
                    ring.end(next);
                }
            }
            poster.join().unwrap();
        });
    }

    /// The reaper ends what is left only after the poster fell quiet: then the poster is done with the payload, and each
    /// work request ends as the poster left it.
    #[test]
    fn what_is_left_waits_for_quiet() {
        loom::model(|| {
            let shared = Arc::new((Ring::new(1), Life::default(), UnsafeCell::new(0u8)));
            let number = shared.0.append(WrId(9), Op::Write, somewhere(), 10);
            let poster = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (ring, life, payload) = &*shared;
                    let sends = !life.is_dead() && ring.begin(number, 10);
                    ring.publish(1);
                    if sends {
                        // SAFETY: loom checks that nobody writes it meanwhile: the very point.
                        payload.with(|bytes| assert_eq!(unsafe { *bytes }, 0));
                    }
                    life.die();
                    life.fall_quiet();
                    sends
                }
            });
            let (ring, life, payload) = &*shared;
            life.die();
            let quiet = life.is_quiet();
            let mut sent = None;
            let mut poster = Some(poster);
            if !quiet {
                sent = poster.take().map(|p| p.join().unwrap());
            }
            assert!(life.is_quiet());
            let left = ring.at(number).stand;
            // SAFETY: as above: the buffer is the user's again.
            payload.with_mut(|bytes| unsafe { *bytes = 1 });
            let sent = sent.unwrap_or_else(|| poster.take().unwrap().join().unwrap());
            assert_eq!(left, if sent { Stand::Begun } else { Stand::Queued });
        });
    }

    /// A poster that found no room is told of what is freed: it sees it itself, or the reaper sees that it waits. Never
    /// neither.
    #[test]
    fn starving_is_noticed() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(1));
            let number = ring.append(WrId(9), Op::Write, somewhere(), 10);
            assert!(ring.begin(number, 10) && !ring.hand_over(10));
            let reaper = thread::spawn({
                let ring = ring.clone();
                move || {
                    ring.end(1);
                    ring.room_wanted()
                }
            });
            let room = ring.room_or_starve();
            let told = reaper.join().unwrap();
            assert!(room == 1 || told, "the poster sleeps beside free room");
        });
    }

    /// An answer that overtakes the poster's return from its system call: the reaper sees that the bytes have left, or the
    /// poster sees that the reaper waits. Never neither.
    #[test]
    fn early_answers_are_noticed() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(1));
            let number = ring.append(WrId(9), Op::Write, somewhere(), 10);
            assert!(ring.begin(number, 10));
            let poster = thread::spawn({
                let ring = ring.clone();
                move || ring.hand_over(10)
            });
            let left = ring.has_left(number);
            let told = poster.join().unwrap();
            assert!(left || told, "the reaper waits for ever");
        });
    }
}
