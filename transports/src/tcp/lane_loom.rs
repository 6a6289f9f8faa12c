//! The lane's slot table and death under loom: every interleaving of a poster and a reaper.

#[cfg(all(test, pipeline_loom))]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::super::halves::TakenBack;
    use super::super::slots::{Left, Slots};
    use crate::life::Life;
    use crate::wr::{Op, WrId};

    fn somewhere() -> Option<*mut u8> {
        Some(std::ptr::dangling_mut())
    }

    /// A cancel and a begin of the same work request: exactly one wins, and a slot taken back is used again.
    #[test]
    fn cancel_races_begin() {
        for op in [Op::Read, Op::Write] {
            loom::model(move || {
                let slots = Arc::new(Slots::new(1));
                let tag = slots.queue(0, WrId(9), op, somewhere(), 10);
                let reaper = thread::spawn({
                    let slots = slots.clone();
                    move || slots.cancel(WrId(9), &mut 0)
                });
                let begun = slots.begin(tag, 10);
                let answer = reaper.join().unwrap();
                match (answer, op) {
                    (TakenBack::Dropped, _) => assert!(!begun),
                    (TakenBack::MustAbort, Op::Write) | (TakenBack::Discarding, Op::Read) => assert!(begun),
                    _ => panic!("{answer:?} for {op:?}"),
                }
                let awaited = slots.awaited(tag);
                assert_eq!(awaited.map(|a| a.discarding), begun.then_some(answer == TakenBack::Discarding));
                if !begun {
                    let again = slots.queue(0, WrId(10), op, somewhere(), 10);
                    assert!(again.sequence != tag.sequence && slots.awaited(tag).is_none());
                }
            });
        }
    }

    /// The reaper flushes only after the poster fell quiet: then the poster is done with the payload, and each
    /// work request ends once, as begun or not begun, as the poster left it.
    #[test]
    fn flush_waits_for_quiet() {
        loom::model(|| {
            let shared = Arc::new((Slots::new(1), Life::default(), UnsafeCell::new(0u8)));
            let tag = shared.0.queue(0, WrId(9), Op::Write, somewhere(), 10);
            let poster = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (slots, life, payload) = &*shared;
                    let sends = !life.is_dead() && slots.begin(tag, 10);
                    if sends {
                        // SAFETY: loom checks that nobody writes it meanwhile: the very point.
                        payload.with(|bytes| assert_eq!(unsafe { *bytes }, 0));
                    }
                    life.die();
                    life.fall_quiet();
                    sends
                }
            });
            let (slots, life, payload) = &*shared;
            life.die();
            let quiet = life.is_quiet();
            let mut sent = None;
            let mut poster = Some(poster);
            if !quiet {
                sent = poster.take().map(|p| p.join().unwrap());
            }
            assert!(life.is_quiet());
            let left = slots.flush(0);
            // SAFETY: as above: the buffer is the user's again.
            payload.with_mut(|bytes| unsafe { *bytes = 1 });
            let sent = sent.unwrap_or_else(|| poster.take().unwrap().join().unwrap());
            assert_eq!(left, if sent { Left::Begun(WrId(9)) } else { Left::NotBegun(WrId(9)) });
            assert_eq!(slots.flush(0), Left::Nothing);
        });
    }

    /// A poster that found no room is told of the slot that is freed: it sees it itself, or the reaper sees that it
    /// waits. Never neither.
    #[test]
    fn starving_is_noticed() {
        loom::model(|| {
            let slots = Arc::new(Slots::new(1));
            let tag = slots.queue(0, WrId(9), Op::Write, somewhere(), 10);
            assert!(slots.begin(tag, 10) && !slots.hand_over(10));
            let reaper = thread::spawn({
                let slots = slots.clone();
                move || {
                    slots.finish(0);
                    slots.room_wanted()
                }
            });
            let seen = slots.take_freed_or_starve();
            let told = reaper.join().unwrap();
            assert!(seen == Some(0) || told, "the poster sleeps beside a free slot");
        });
    }

    /// An answer that overtakes the poster's return from its system call: the reaper sees that the payload is
    /// handed over, or the poster sees that the reaper waits. Never neither.
    #[test]
    fn early_answers_are_noticed() {
        loom::model(|| {
            let slots = Arc::new(Slots::new(1));
            let tag = slots.queue(0, WrId(9), Op::Write, somewhere(), 10);
            assert!(slots.begin(tag, 10));
            let poster = thread::spawn({
                let slots = slots.clone();
                move || slots.hand_over(10)
            });
            let handed_over = slots.awaited(tag).is_some_and(|a| a.handed_over);
            let told = poster.join().unwrap();
            assert!(handed_over || told, "the reaper waits for ever");
        });
    }
}
