//! The receiving side: takes what peers send, each once, and remembers of whom it has taken what.
//! Deliberately bounded: a queue, and a window for each sender, of which those of senders that are gone are forgotten
//! first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pipeline_transports::control::message::{NOTICE_MAX, NoticeMessage};
use pipeline_transports::control::{ErrorCode, Hello, Message};
use pipeline_transports::foreign::ForeignNotice;

use super::window::{Number, Window};
use super::{Notice, Notices};
use crate::feed::{Feed, Told};

/// See the file's head.
pub struct Inbox {
    feed: Arc<Feed<Notice>>,
    senders: Mutex<Senders>,
}

struct Senders {
    /// Most that are remembered.
    limit: usize,
    /// Grows with each sender that is met.
    met: u64,
    known: HashMap<(u64, u32), Arc<Sender>>,
}

/// One sender: a start of a node, and one of its ways to this one.
struct Sender {
    /// Since when it is remembered; no other one has the same.
    epoch: u64,
    window: Mutex<Window>,
}

/// What a session needs to take notices: it keeps its sender from being forgotten.
pub(crate) struct Desk {
    name: Arc<str>,
    incarnation: u64,
    sender: OnceLock<(u32, Arc<Sender>)>,
}

impl Desk {
    /// For a session with a peer that says this of itself.
    pub(crate) fn new(hello: &Hello) -> Self {
        Self { name: hello.name.as_str().into(), incarnation: hello.incarnation, sender: OnceLock::new() }
    }
}

impl Inbox {
    /// A queue for `notices`, and memory for what `sessions` sessions at once and as many senders without one sent.
    pub fn new(notices: usize, sessions: usize) -> Self {
        let senders = Senders { limit: sessions.saturating_mul(2), met: 0, known: HashMap::new() };
        Self { feed: Arc::new(Feed::new(notices)), senders: Mutex::new(senders) }
    }

    /// Somebody listens from now on.
    pub fn listen(&self) -> Notices {
        Notices::new(self.feed.clone())
    }

    /// Nothing will come any more.
    pub(crate) fn stop(&self) {
        self.feed.stop();
    }

    /// Takes a notice, if it can; the answer to its sender.
    pub(crate) fn take(&self, desk: &Desk, message: NoticeMessage) -> Message {
        let (channel, sender) = desk.sender.get_or_init(|| {
            let sender = self.senders().meet((desk.incarnation, message.channel));
            (message.channel, sender)
        });
        if *channel != message.channel {
            return Message::error(ErrorCode::MALFORMED, "notices of two channels on one session");
        }
        // Held until it is told: of two copies at once the second must find the first one taken.
        let mut window = sender.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.settle(message.settled);
        let noticed = Message::Noticed { epoch: sender.epoch };
        if message.sequence == 0 {
            return noticed;
        }
        match window.look(message.sequence) {
            Number::Settled => return noticed,
            Number::Beyond => return Message::error(ErrorCode::BUSY, "too many notices are open at once"),
            Number::Fresh => {}
        }
        let notice = Notice {
            peer: desk.name.clone(),
            incarnation: desk.incarnation,
            requests: message.requests,
            failed: message.failed,
            body: message.body.into(),
        };
        match self.feed.tell(notice) {
            Told::Kept => {
                window.take(message.sequence);
                noticed
            }
            Told::Full => Message::error(ErrorCode::BUSY, "the queue of notices is full"),
            Told::Unheard => Message::error(ErrorCode::UNHEARD, "nobody listens to notices here"),
        }
    }

    /// Takes what a peer of another engine says; `false` if nobody listens, there is no room, or it is longer than a notice
    /// may be. Such notices have no number: that each comes once is for their protocol.
    pub(crate) fn hear(&self, notice: ForeignNotice) -> bool {
        let ForeignNotice { name, body } = notice;
        if body.len() > NOTICE_MAX {
            return false;
        }
        let peer = name.into();
        let notice = Notice { peer, incarnation: 0, requests: 0, failed: 0, body: body.into() };
        matches!(self.feed.tell(notice), Told::Kept)
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Senders {
    /// The sender of that name, remembered or new. Of those without a session the one met first makes room.
    fn meet(&mut self, name: (u64, u32)) -> Arc<Sender> {
        if let Some(sender) = self.known.get(&name) {
            return sender.clone();
        }
        if self.known.len() >= self.limit {
            let idle = self.known.iter().filter(|(_, sender)| Arc::strong_count(sender) == 1);
            let oldest = idle.min_by_key(|(_, sender)| sender.epoch).map(|(name, _)| *name);
            oldest.and_then(|name| self.known.remove(&name));
        }
        self.met += 1;
        let sender = Arc::new(Sender { epoch: self.met, window: Mutex::default() });
        self.known.insert(name, sender.clone());
        sender
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(incarnation: u64) -> Hello {
        Hello {
            incarnation,
            features: 0,
            message_max: 65_536,
            requests_max: 1,
            idle_ms: 1000,
            keyed: false,
            nonce: [0; 32],
            name: "a".into(),
        }
    }

    fn message(sequence: u64) -> NoticeMessage {
        NoticeMessage { channel: 1, sequence, settled: 1, requests: 2, failed: 1, body: vec![sequence as u8] }
    }

    fn code(answer: &Message) -> Option<ErrorCode> {
        if let Message::Error { code, .. } = answer { Some(*code) } else { None }
    }

    /// A notice that comes twice, on one session or on the next one of the same start, is given to the program once,
    /// and both are answered alike. One that found the queue full is taken when it comes again.
    #[test]
    fn each_once() {
        let inbox = Inbox::new(2, 4);
        let (first, second) = (Desk::new(&hello(7)), Desk::new(&hello(7)));
        assert_eq!(code(&inbox.take(&first, message(1))), Some(ErrorCode::UNHEARD));
        let notices = inbox.listen();
        let taken = inbox.take(&first, message(1));
        assert!(matches!(taken, Message::Noticed { .. }));
        assert_eq!(
            [&first, &second].map(|desk| inbox.take(desk, message(1))),
            [taken.clone(), taken.clone()]
        );
        assert_eq!(inbox.take(&second, message(2)), taken);
        assert_eq!(code(&inbox.take(&first, message(3))), Some(ErrorCode::BUSY));
        let read = notices.try_next().unwrap();
        assert_eq!((&read.body[..], read.requests, read.failed, &*read.peer), (&[1][..], 2, 1, "a"));
        assert_eq!(inbox.take(&first, message(3)), taken);
        let rest: Vec<u8> = std::iter::from_fn(|| notices.try_next()).map(|n| n.body[0]).collect();
        assert_eq!(rest, [2, 3]);
        let other = NoticeMessage { channel: 2, ..message(3) };
        assert_eq!(code(&inbox.take(&first, other.clone())), Some(ErrorCode::MALFORMED));
        // The same number of another start, or on another channel, is another notice.
        for (desk, message) in [(Desk::new(&hello(8)), message(3)), (Desk::new(&hello(7)), other)] {
            assert_ne!(inbox.take(&desk, message), taken);
            assert_eq!(&*notices.try_next().unwrap().body, [3]);
        }
    }

    /// Senders are forgotten only when there are too many, the oldest first, and never while they have a session; one
    /// that was forgotten is told so by another epoch. So the memory is bounded whoever comes.
    #[test]
    fn forgotten_senders_are_told() {
        let inbox = Inbox::new(100, 2);
        let _notices = inbox.listen();
        let kept = Desk::new(&hello(1));
        let epoch =
            |answer| if let Message::Noticed { epoch } = answer { epoch } else { panic!("{answer:?}") };
        let since = epoch(inbox.take(&kept, message(1)));
        let forgotten = epoch(inbox.take(&Desk::new(&hello(2)), message(0)));
        for incarnation in 3..100 {
            inbox.take(&Desk::new(&hello(incarnation)), message(0));
        }
        assert_eq!(inbox.senders().known.len(), 4);
        assert_eq!(epoch(inbox.take(&Desk::new(&hello(1)), message(1))), since);
        assert_ne!(epoch(inbox.take(&Desk::new(&hello(2)), message(0))), forgotten);
    }
}
