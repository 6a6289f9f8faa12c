//! The typed messages of a control session. Deliberately plain data: no behaviour, and no sizes believed.
//!
//! A type that a side does not know is answered with [`Message::Error`] and skipped, so that later releases
//! may ask more.

use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::control::file_message::{FileAnswer, FileRequest};
use crate::control::page::SegmentPage;
use crate::link::LinkId;
use crate::transport::{Offer, SessionId};

/// Most transports a node may offer.
pub const OFFERS_MAX: usize = 64;
/// Longest body of an offer, bytes.
pub const OFFER_BODY_MAX: usize = 4096;
/// Longest body of an exchange, bytes.
pub const EXCHANGE_MAX: usize = 16 * 1024;
/// Longest notice, bytes.
pub const NOTICE_MAX: usize = 4096;
/// Longest text of an error or a farewell, bytes.
pub const TEXT_MAX: usize = 1024;
/// Most addresses a node may tell.
pub const ADDRESSES_MAX: usize = 64;
/// Longest address that is told, bytes: an IP address with zone and port.
pub const ADDRESS_MAX: usize = 128;
/// Longest name of a transport, a segment or a kind, bytes.
pub const NAME_MAX: usize = 64;

/// What travels on a control session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// "Are you there?" Answered with [`Message::Pong`].
    Ping,
    /// Answers [`Message::Ping`].
    Pong,
    /// Asks for the transports of the other side.
    GetOffers,
    /// Answers [`Message::GetOffers`].
    Offers(Vec<Offer>),
    /// Asks for a page of the segments.
    GetSegments {
        /// Index of the first segment wanted, in order of names.
        segment: u32,
        /// Index of the first region wanted of it.
        region: u32,
    },
    /// Answers [`Message::GetSegments`].
    Segments(SegmentPage),
    /// Asks for the CPU time of the other side's process.
    GetCpuTime,
    /// Answers [`Message::GetCpuTime`].
    CpuTime {
        /// Used by all of its threads since its start, in user mode and in the kernel, nanoseconds.
        process_ns: u64,
    },
    /// Asks what moves through the other side's node.
    GetTraffic,
    /// Answers [`Message::GetTraffic`].
    Traffic(Traffic),
    /// Bytes of a transport for its counterpart there.
    Exchange {
        /// The receiver's name of the transport.
        transport: String,
        /// The transport's own bytes.
        body: Vec<u8>,
    },
    /// Answers [`Message::Exchange`].
    Exchanged(Vec<u8>),
    /// Asks the other side to let go of lanes that the asker dialled, so that nothing of them touches memory there any
    /// more. Answered with [`Message::Fenced`] when that is so.
    Fence {
        /// Zero: `link` is a lane of the session that carries this. Else an earlier session of the asker, which ends
        /// with all of its lanes.
        session: SessionId,
        /// The asker's name of the lane; zero with a session.
        link: LinkId,
    },
    /// Answers [`Message::Fence`].
    Fenced,
    /// The sender is about to stop and asks that nothing new be begun with it; sent on sessions that the receiver opened,
    /// again and again. Answered by the same: how much of the answerer's is still under way.
    Leaving {
        /// In an answer: requests of the answerer to the asker that have not ended.
        requests: u64,
    },
    /// About files of a `dir` segment.
    File(FileRequest),
    /// Answers [`Message::File`].
    Filed(FileAnswer),
    /// Answers any request that cannot be served.
    Error {
        /// What kind of error.
        code: ErrorCode,
        /// What happened, for a human.
        text: String,
    },
    /// The sender ends the session.
    Bye {
        /// Why.
        text: String,
    },
    /// The requests of a batch have ended, and this is what the initiator wants the target's application to know.
    Notice(NoticeMessage),
    /// Answers [`Message::Notice`]: it was taken, now or before.
    Noticed {
        /// How long the receiver remembers what it took of this sender: from when this number was made. Another
        /// number means that it has forgotten.
        epoch: u64,
    },
    /// Asks for the addresses of the other side's listener.
    GetAddresses,
    /// Answers [`Message::GetAddresses`]: IP addresses with ports, in the order of its NICs; none where the one that
    /// the asker came by is all there is to say.
    Addresses(Vec<String>),
}

/// The body of [`Message::Traffic`]: payload since the start of that node, whoever asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that its peers have written and read there.
    pub served: u64,
    /// Bytes that it has written to and read from its peers.
    pub moved: u64,
    /// Slices of its own that are under way.
    pub outstanding: u64,
    /// Whether `served` is all of it: a transport whose target takes no part (RDMA) serves unseen.
    pub is_whole: bool,
}

/// The body of [`Message::Notice`]. What its numbers promise is in docs/wire.md.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeMessage {
    /// Which of the sender's ways to this receiver: sequences count for each of its own.
    pub channel: u32,
    /// Its number, from 1; 0 only asks for the epoch.
    pub sequence: u64,
    /// All numbers below this one are settled: they will not be sent (again).
    pub settled: u64,
    /// Requests of the batch.
    pub requests: u32,
    /// Those of them that did not end well.
    pub failed: u32,
    /// The application's own bytes.
    pub body: Vec<u8>,
}

/// What kind of error. Codes this release does not know keep their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u16);

#[allow(missing_docs)] // The names say it; docs/wire.md has the table.
impl ErrorCode {
    pub const UNSUPPORTED: Self = Self(1);
    pub const MALFORMED: Self = Self(2);
    pub const BUSY: Self = Self(3);
    pub const UNKNOWN_SEGMENT: Self = Self(4);
    pub const DENIED: Self = Self(5);
    pub const NOT_FOUND: Self = Self(16);
    pub const BAD_PATH: Self = Self(17);
    pub const NO_SPACE: Self = Self(18);
    pub const IS_DIRECTORY: Self = Self(19);
    pub const NOT_DIRECTORY: Self = Self(20);
    pub const NOT_A_FILE: Self = Self(21);
    pub const LIMIT: Self = Self(22);
    pub const MISMATCH: Self = Self(23);
    pub const NO_UPLOAD: Self = Self(24);
    pub const NO_LEASE: Self = Self(25);
    pub const CHANGED: Self = Self(26);
    pub const IO: Self = Self(27);
    pub const UNHEARD: Self = Self(28);
    pub const LEAVING: Self = Self(29);
    pub const UPSTREAM: Self = Self(30);
}

impl Message {
    /// The number of its type on the wire.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Ping => 1,
            Self::Pong => 2,
            Self::GetOffers => 3,
            Self::Offers(_) => 4,
            Self::GetSegments { .. } => 5,
            Self::Segments(_) => 6,
            Self::GetCpuTime => 7,
            Self::CpuTime { .. } => 8,
            Self::Exchange { .. } => 9,
            Self::Exchanged(_) => 10,
            Self::Error { .. } => 11,
            Self::Bye { .. } => 12,
            Self::Fence { .. } => 13,
            Self::Fenced => 14,
            Self::Leaving { .. } => 15,
            Self::Notice(_) => 16,
            Self::Noticed { .. } => 17,
            Self::GetAddresses => 18,
            Self::Addresses(_) => 19,
            Self::GetTraffic => 20,
            Self::Traffic(_) => 21,
            Self::File(request) => request.kind(),
            Self::Filed(answer) => answer.kind(),
        }
    }

    /// An error answer, its text cut to what the wire allows.
    pub fn error(code: ErrorCode, text: impl std::fmt::Display) -> Self {
        Self::Error { code, text: cut(text.to_string()) }
    }

    /// A farewell, its text cut to what the wire allows.
    pub fn bye(text: impl std::fmt::Display) -> Self {
        Self::Bye { text: cut(text.to_string()) }
    }

    /// Appends its body.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ping
            | Self::Pong
            | Self::GetOffers
            | Self::GetCpuTime
            | Self::GetTraffic
            | Self::Fenced
            | Self::GetAddresses => {}
            Self::Offers(offers) => {
                out.put_u32(offers.len() as u32);
                for offer in offers {
                    out.put_bytes(offer.kind.as_bytes());
                    out.put_bytes(offer.name.as_bytes());
                    out.put_bytes(&offer.body);
                }
            }
            Self::GetSegments { segment, region } => {
                out.put_u32(*segment);
                out.put_u32(*region);
            }
            Self::Segments(page) => page.put(out),
            Self::CpuTime { process_ns } => out.put_u64(*process_ns),
            Self::Traffic(traffic) => traffic.put(out),
            Self::Leaving { requests } => out.put_u64(*requests),
            Self::Exchange { transport, body } => {
                out.put_bytes(transport.as_bytes());
                out.put_bytes(body);
            }
            Self::Exchanged(body) => out.put_bytes(body),
            Self::Fence { session, link } => {
                out.extend_from_slice(&session.0);
                out.put_u64(link.0);
            }
            Self::File(request) => request.put(out),
            Self::Filed(answer) => answer.put(out),
            Self::Error { code, text } => {
                out.put_u16(code.0);
                out.put_bytes(text.as_bytes());
            }
            Self::Bye { text } => out.put_bytes(text.as_bytes()),
            Self::Notice(notice) => notice.put(out),
            Self::Noticed { epoch } => out.put_u64(*epoch),
            Self::Addresses(addresses) => {
                out.put_u32(addresses.len() as u32);
                addresses.iter().for_each(|address| out.put_bytes(address.as_bytes()));
            }
        }
    }

    /// From type and body; `None` for a type this release does not know.
    ///
    /// # Errors
    /// [`WireError`] when the body is not what the type demands.
    pub fn decode(kind: u16, body: &[u8]) -> Result<Option<Self>, WireError> {
        let mut f = Fields::new(body, "control message");
        let message = match kind {
            1 => Self::Ping,
            2 => Self::Pong,
            3 => Self::GetOffers,
            4 => Self::Offers(offers(&mut f)?),
            5 => Self::GetSegments { segment: f.u32()?, region: f.u32()? },
            6 => Self::Segments(SegmentPage::take(&mut f)?),
            7 => Self::GetCpuTime,
            8 => Self::CpuTime { process_ns: f.u64()? },
            9 => Self::Exchange { transport: f.text(NAME_MAX)?, body: f.bytes(EXCHANGE_MAX)?.to_vec() },
            10 => Self::Exchanged(f.bytes(EXCHANGE_MAX)?.to_vec()),
            11 => Self::Error { code: ErrorCode(f.u16()?), text: f.text(TEXT_MAX)? },
            12 => Self::Bye { text: f.text(TEXT_MAX)? },
            13 => Self::Fence { session: SessionId(f.array()?), link: LinkId(f.u64()?) },
            14 => Self::Fenced,
            15 => Self::Leaving { requests: f.u64()? },
            16 => Self::Notice(NoticeMessage::take(&mut f)?),
            17 => Self::Noticed { epoch: f.u64()? },
            18 => Self::GetAddresses,
            19 => Self::Addresses(addresses(&mut f)?),
            20 => Self::GetTraffic,
            21 => Self::Traffic(Traffic::take(&mut f)?),
            _ => match FileRequest::take(kind, &mut f)? {
                Some(request) => Self::File(request),
                None => match FileAnswer::take(kind, &mut f)? {
                    Some(answer) => Self::Filed(answer),
                    None => return Ok(None),
                },
            },
        };
        f.end()?;
        Ok(Some(message))
    }
}

impl Traffic {
    fn put(&self, out: &mut Vec<u8>) {
        [self.served, self.moved, self.outstanding].into_iter().for_each(|count| out.put_u64(count));
        out.put_u8(u8::from(self.is_whole));
    }

    fn take(f: &mut Fields<'_>) -> Result<Self, WireError> {
        let (served, moved, outstanding) = (f.u64()?, f.u64()?, f.u64()?);
        let is_whole = match f.u8()? {
            0 => false,
            1 => true,
            _ => return Err(WireError::Malformed("traffic")),
        };
        Ok(Self { served, moved, outstanding, is_whole })
    }
}

impl NoticeMessage {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.channel);
        out.put_u64(self.sequence);
        out.put_u64(self.settled);
        out.put_u32(self.requests);
        out.put_u32(self.failed);
        out.put_bytes(&self.body);
    }

    fn take(f: &mut Fields<'_>) -> Result<Self, WireError> {
        let notice = Self {
            channel: f.u32()?,
            sequence: f.u64()?,
            settled: f.u64()?,
            requests: f.u32()?,
            failed: f.u32()?,
            body: f.bytes(NOTICE_MAX)?.to_vec(),
        };
        if notice.failed > notice.requests { Err(WireError::Malformed("notice")) } else { Ok(notice) }
    }
}

fn offers(f: &mut Fields<'_>) -> Result<Vec<Offer>, WireError> {
    let count = f.count(12)?;
    if count > OFFERS_MAX {
        return Err(WireError::TooLong { what: "offers", got: count as u64, limit: OFFERS_MAX as u64 });
    }
    let mut offers = Vec::with_capacity(count);
    for _ in 0..count {
        let (kind, name) = (f.text(NAME_MAX)?, f.text(NAME_MAX)?);
        offers.push(Offer { kind, name, body: f.bytes(OFFER_BODY_MAX)?.to_vec() });
    }
    Ok(offers)
}

fn addresses(f: &mut Fields<'_>) -> Result<Vec<String>, WireError> {
    let count = f.count(4)?;
    if count > ADDRESSES_MAX {
        return Err(WireError::TooLong { what: "addresses", got: count as u64, limit: ADDRESSES_MAX as u64 });
    }
    (0..count).map(|_| f.text(ADDRESS_MAX)).collect()
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many addresses as were said, and no more; their golden bytes are those of docs/wire.md.
    #[test]
    fn addresses_are_bounded() {
        let mut body = Vec::new();
        Message::Addresses(vec!["10.0.0.1:7001".into()]).put(&mut body);
        let golden = [&[1, 0, 0, 0, 13, 0, 0, 0][..], b"10.0.0.1:7001"].concat();
        assert_eq!(body, golden);
        body.clear();
        Message::Addresses(vec!["::1".into(); ADDRESSES_MAX + 1]).put(&mut body);
        assert!(matches!(Message::decode(19, &body), Err(WireError::TooLong { .. })));
        body.clear();
        Message::Addresses(vec!["x".repeat(ADDRESS_MAX + 1)]).put(&mut body);
        assert!(Message::decode(19, &body).is_err());
    }

    /// Every message survives its own bytes, and no prefix of them is taken for it.
    #[test]
    fn messages_round_trip() {
        let offer = Offer { kind: "tcp".into(), name: "fast".into(), body: vec![1, 2, 3] };
        for message in [
            Message::Ping,
            Message::Pong,
            Message::GetOffers,
            Message::Offers(vec![offer.clone(), offer]),
            Message::GetSegments { segment: 1, region: 2 },
            Message::GetCpuTime,
            Message::CpuTime { process_ns: u64::MAX },
            Message::GetTraffic,
            Message::Traffic(golden_traffic()),
            Message::Exchange { transport: "tcp".into(), body: vec![9; 100] },
            Message::Exchanged(vec![8; 100]),
            Message::error(ErrorCode::NOT_FOUND, "no such file"),
            Message::Fence { session: SessionId([5; 16]), link: LinkId(0) },
            Message::Fence { session: SessionId([0; 16]), link: LinkId(u64::MAX) },
            Message::Fenced,
            Message::bye("stopping"),
            Message::Leaving { requests: 1 << 40 },
            Message::Notice(golden_notice()),
            Message::Noticed { epoch: 3 },
            Message::GetAddresses,
            Message::Addresses(vec!["10.0.0.1:7001".into(), "[fd00::1]:7001".into()]),
        ] {
            let mut body = Vec::new();
            message.put(&mut body);
            assert_eq!(Message::decode(message.kind(), &body).unwrap().as_ref(), Some(&message));
            for cut in 0..body.len() {
                assert!(Message::decode(message.kind(), &body[..cut]).is_err(), "{message:?} at {cut}");
            }
            body.push(0);
            assert!(Message::decode(message.kind(), &body).is_err());
        }
        assert!(Message::decode(999, b"whatever").unwrap().is_none());
    }

    fn golden_traffic() -> Traffic {
        Traffic { served: 1 << 40, moved: 7, outstanding: 3, is_whole: true }
    }

    /// The golden bytes of docs/wire.md; what is neither whole nor not is malformed.
    #[test]
    fn golden_bytes_of_traffic() {
        let mut body = Vec::new();
        Message::Traffic(golden_traffic()).put(&mut body);
        let golden = [0, 0, 0, 0, 0, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(body, golden);
        body[24] = 2;
        assert!(Message::decode(21, &body).is_err());
    }

    fn golden_notice() -> NoticeMessage {
        NoticeMessage { channel: 2, sequence: 7, settled: 5, requests: 10, failed: 1, body: b"kv".to_vec() }
    }

    /// The golden bytes of docs/wire.md.
    #[test]
    fn golden_bytes_of_a_notice() {
        let mut body = Vec::new();
        Message::Notice(golden_notice()).put(&mut body);
        let golden = [
            2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0,
            b'k', b'v',
        ];
        assert_eq!(body, golden);
        body.clear();
        Message::Noticed { epoch: 3 }.put(&mut body);
        assert_eq!(body, [3, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// A notice with more failures than requests, and one above its limit, are malformed.
    #[test]
    fn impossible_notices_are_refused() {
        let refused = |notice: NoticeMessage| {
            let mut body = Vec::new();
            notice.put(&mut body);
            Message::decode(16, &body).is_err()
        };
        assert!(refused(NoticeMessage { failed: 11, ..golden_notice() }));
        assert!(refused(NoticeMessage { body: vec![0; NOTICE_MAX + 1], ..golden_notice() }));
        assert!(!refused(NoticeMessage { body: vec![0; NOTICE_MAX], ..golden_notice() }));
    }

    /// Texts are cut at a character, so that no answer is too long to be sent.
    #[test]
    fn long_texts_are_cut() {
        let Message::Error { text, .. } = Message::error(ErrorCode::IO, "é".repeat(4000)) else { panic!() };
        assert_eq!(text.len(), TEXT_MAX);
    }

    proptest::proptest! {
        /// No bytes make the decoder panic or allocate more than a few times their own length.
        #[test]
        fn never_panics(kind in 0u16..64, body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = Message::decode(kind, &body);
        }
    }
}
