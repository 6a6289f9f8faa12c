//! The ring of a link and the bells of a pair under loom: every interleaving of a poster, its device and a reaper.

#[cfg(all(test, pipeline_loom))]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;

    use super::super::ring::{Bells, Fate, Ring};
    use crate::life::Life;
    use crate::wr::WrId;

    /// A poster that found no room is told of the end of a request: it sees it itself, or the reaper sees that it waits.
    /// Never neither.
    #[test]
    fn starving_is_noticed() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(1));
            let number = ring.append(WrId(9), Fate::Posted);
            let reaper = thread::spawn({
                let ring = ring.clone();
                move || {
                    ring.end(number.wrapping_add(1));
                    ring.room_wanted()
                }
            });
            let room = ring.room_or_starve();
            let told = reaper.join().unwrap();
            assert!(room == 1 || told, "the poster sleeps beside free room");
        });
    }

    /// Whatever the device completes, the reaper finds in the ring as it was appended: it needs no word of the poster
    /// beyond the ring. (The device is a flag without order of its own: it promises less than any hardware.)
    #[test]
    fn what_completes_is_there() {
        loom::model(|| {
            let shared = Arc::new((Ring::new(2), AtomicU32::new(0)));
            let poster = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (ring, device) = &*shared;
                    for id in [7, 8] {
                        let number = ring.append(WrId(id), Fate::Posted);
                        device.store(number + 1, Ordering::Release);
                    }
                }
            });
            let (ring, device) = &*shared;
            let completed = device.load(Ordering::Acquire);
            for number in 0..completed {
                assert_eq!(ring.at(number), (WrId(7 + u64::from(number)), Fate::Posted));
                assert!(ring.appended() > number);
            }
            ring.end(completed);
            poster.join().unwrap();
            assert_eq!(ring.len(), 2 - completed as usize);
        });
    }

    /// Once a reaper has found the poster of a dead link quiet, what was handed to the device is final, and what was not
    /// will never be: nothing is told as not begun of which a byte could leave.
    #[test]
    fn sent_is_final_once_quiet() {
        loom::model(|| {
            let shared = Arc::new((Ring::new(1), Life::default(), AtomicU32::new(0)));
            let poster = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (ring, life, device) = &*shared;
                    if !life.is_dead() {
                        let number = ring.append(WrId(9), Fate::Posted);
                        if life.begin_send() {
                            device.store(1, Ordering::Relaxed);
                            ring.note_sent(number + 1);
                            life.let_go();
                        }
                    }
                    life.die();
                    life.fall_quiet();
                }
            });
            let (ring, life, device) = &*shared;
            life.die();
            if life.is_quiet() {
                let (appended, sent) = (ring.appended(), ring.sent());
                assert_eq!(sent, device.load(Ordering::Relaxed), "told as not begun, and posted");
                poster.join().unwrap();
                assert_eq!((ring.appended(), ring.sent()), (appended, sent));
            } else {
                poster.join().unwrap();
            }
        });
    }

    /// A reaper that sleeps without a time because nothing is outstanding is woken by the next post: it sees what was
    /// appended, or the poster sees that nobody watches.
    #[test]
    fn somebody_watches() {
        loom::model(|| {
            let shared = Arc::new((Ring::new(1), Bells::default(), Life::default()));
            let poster = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (ring, bells, life) = &*shared;
                    ring.append(WrId(9), Fate::Posted);
                    assert!(life.begin_send());
                    life.let_go();
                    bells.must_watch()
                }
            });
            let (ring, bells, _) = &*shared;
            bells.leave_unwatched();
            let seen = ring.len() > 0;
            let told = poster.join().unwrap();
            assert!(seen || told, "work is outstanding and nobody looks whether it moves");
        });
    }
}
