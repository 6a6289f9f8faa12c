//! What two nodes tell each other about their NICs and queue pairs: the body of an offer, the request of a dialler and
//! its answer. All integers are little-endian, texts and lists carry their length.
//!
//! ```text
//! offer    2 version   1 rails (0 any, 1 same)   4 count   count x NIC
//! NIC      text name   1 rail known   2 rail   1 link layer (1 InfiniBand, 2 Ethernet)   1 port   16 GID (0: none now)
//!          1 MTU (1: 256 bytes ... 5: 4096)   1 READs served at once
//! request  2 version   8 link   2 index of the acceptor's NIC   text its name   end   4 count   count x 8 links let go of
//! answer   2 version   end
//! end      text NIC   1 rail known   2 rail   1 link layer   16 GID   2 LID   4 QPN   4 PSN   1 MTU   1 READs at once
//! ```
//!
//! Deliberately no addresses and no keys of memory, and nothing is believed: whatever comes out of `decode` is within the
//! bounds that verbs set.

use super::port::{LinkLayer, Mtu};
use super::settings::Rails;
use crate::control::WireError;
use crate::control::fields::{Fields, Put};
use crate::link::LinkId;

/// Version of all three.
const VERSION: u16 = 1;
/// Most NICs in an offer: it must fit into one message.
pub(super) const NICS_MAX: usize = 32;
/// Longest name of a NIC, bytes.
pub(super) const NIC_NAME_MAX: usize = 64;
/// Most links that a request names as let go of.
pub(super) const GONE_MAX: usize = 64;

/// A NIC in an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NicOffer {
    pub(super) name: String,
    pub(super) rail: Option<u16>,
    pub(super) layer: LinkLayer,
    pub(super) port: u8,
    /// All zero while it has none.
    pub(super) gid: [u8; 16],
    pub(super) mtu: Mtu,
    /// READs that it serves at once.
    pub(super) reads: u8,
}

/// The body of an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) rails: Rails,
    pub(super) nics: Vec<NicOffer>,
}

/// One end of a queue pair's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) nic: String,
    pub(super) rail: Option<u16>,
    pub(super) layer: LinkLayer,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    /// Number of the queue pair, 24 bits.
    pub(super) qpn: u32,
    /// Its first packet, 24 bits.
    pub(super) psn: u32,
    pub(super) mtu: Mtu,
    /// READs under way at once: the dialler's that it would start, the acceptor's that it serves.
    pub(super) reads: u8,
}

/// What a dialler sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) link: LinkId,
    /// Index of the acceptor's NIC in its offer, and the name it has there.
    pub(super) nic: u16,
    pub(super) nic_name: String,
    pub(super) end: End,
    /// Links of the same session that the dialler has let go of: nobody needs their other ends any more.
    pub(super) gone: Vec<LinkId>,
}

impl Body {
    /// To bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(7 + self.nics.len() * 96);
        out.put_u16(VERSION);
        out.put_u8(u8::from(self.rails == Rails::Same));
        out.put_u32(self.nics.len() as u32);
        for nic in &self.nics {
            out.put_bytes(nic.name.as_bytes());
            put_rail(&mut out, nic.rail);
            out.put_u8(layer_code(nic.layer));
            out.put_u8(nic.port);
            out.extend_from_slice(&nic.gid);
            out.put_u8(nic.mtu.code());
            out.put_u8(nic.reads);
        }
        out
    }

    /// From bytes of a peer.
    ///
    /// # Errors
    /// Whatever is not exactly an offer within bounds.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        const WHAT: &str = "rdma offer";
        let mut f = versioned(bytes, WHAT)?;
        let rails = match f.u8()? {
            0 => Rails::Any,
            1 => Rails::Same,
            _ => return Err(WireError::Malformed(WHAT)),
        };
        let count = f.count(27)?;
        if count == 0 || count > NICS_MAX {
            return Err(WireError::Malformed(WHAT));
        }
        let mut nics = Vec::with_capacity(count);
        for _ in 0..count {
            nics.push(NicOffer {
                name: f.text(NIC_NAME_MAX)?,
                rail: rail(&mut f)?,
                layer: layer(&mut f, WHAT)?,
                port: f.u8()?,
                gid: f.array()?,
                mtu: mtu(&mut f, WHAT)?,
                reads: f.u8()?,
            });
        }
        f.end()?;
        Ok(Self { rails, nics })
    }
}

impl Request {
    /// To bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.put_u16(VERSION);
        out.put_u64(self.link.0);
        out.put_u16(self.nic);
        out.put_bytes(self.nic_name.as_bytes());
        self.end.put(&mut out);
        out.put_u32(self.gone.len() as u32);
        self.gone.iter().for_each(|link| out.put_u64(link.0));
        out
    }

    /// From bytes of a peer.
    ///
    /// # Errors
    /// Whatever is not exactly a request within bounds.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        const WHAT: &str = "rdma request";
        let mut f = versioned(bytes, WHAT)?;
        let (link, nic, nic_name) = (LinkId(f.u64()?), f.u16()?, f.text(NIC_NAME_MAX)?);
        let end = End::take(&mut f, WHAT)?;
        let count = f.count(8)?;
        if count > GONE_MAX {
            return Err(WireError::Malformed(WHAT));
        }
        let gone = (0..count).map(|_| Ok(LinkId(f.u64()?))).collect::<Result<_, WireError>>()?;
        f.end()?;
        Ok(Self { link, nic, nic_name, end, gone })
    }
}

impl End {
    /// An answer, to bytes.
    pub(super) fn encode_answer(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        out.put_u16(VERSION);
        self.put(&mut out);
        out
    }

    /// An answer, from bytes of a peer.
    ///
    /// # Errors
    /// Whatever is not exactly an answer within bounds.
    pub(super) fn decode_answer(bytes: &[u8]) -> Result<Self, WireError> {
        const WHAT: &str = "rdma answer";
        let mut f = versioned(bytes, WHAT)?;
        let end = Self::take(&mut f, WHAT)?;
        f.end()?;
        Ok(end)
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.nic.as_bytes());
        put_rail(out, self.rail);
        out.put_u8(layer_code(self.layer));
        out.extend_from_slice(&self.gid);
        out.put_u16(self.lid);
        out.put_u32(self.qpn);
        out.put_u32(self.psn);
        out.put_u8(self.mtu.code());
        out.put_u8(self.reads);
    }

    fn take(f: &mut Fields<'_>, what: &'static str) -> Result<Self, WireError> {
        let end = Self {
            nic: f.text(NIC_NAME_MAX)?,
            rail: rail(f)?,
            layer: layer(f, what)?,
            gid: f.array()?,
            lid: f.u16()?,
            qpn: f.u32()?,
            psn: f.u32()?,
            mtu: mtu(f, what)?,
            reads: f.u8()?,
        };
        // Queue pairs 0 and 1 are the fabric's own; where there is no LID there must be a GID.
        let numbered = (2..1 << 24).contains(&end.qpn) && end.psn < 1 << 24;
        let found = end.layer == LinkLayer::InfiniBand || end.gid != [0; 16];
        if !numbered || !found || end.reads == 0 {
            return Err(WireError::Malformed(what));
        }
        Ok(end)
    }
}

fn layer_code(layer: LinkLayer) -> u8 {
    match layer {
        LinkLayer::InfiniBand => 1,
        LinkLayer::Ethernet => 2,
    }
}

fn layer(f: &mut Fields<'_>, what: &'static str) -> Result<LinkLayer, WireError> {
    match f.u8()? {
        1 => Ok(LinkLayer::InfiniBand),
        2 => Ok(LinkLayer::Ethernet),
        _ => Err(WireError::Malformed(what)),
    }
}

fn versioned<'a>(bytes: &'a [u8], what: &'static str) -> Result<Fields<'a>, WireError> {
    let mut f = Fields::new(bytes, what);
    // Other versions are other layouts: there is nothing to say about the rest.
    if f.u16()? == VERSION { Ok(f) } else { Err(WireError::Malformed(what)) }
}

fn put_rail(out: &mut Vec<u8>, rail: Option<u16>) {
    out.put_u8(u8::from(rail.is_some()));
    out.put_u16(rail.unwrap_or(0));
}

fn rail(f: &mut Fields<'_>) -> Result<Option<u16>, WireError> {
    match (f.u8()?, f.u16()?) {
        (0, 0) => Ok(None),
        (1, rail) => Ok(Some(rail)),
        _ => Err(WireError::Malformed("rail")),
    }
}

fn mtu(f: &mut Fields<'_>, what: &'static str) -> Result<Mtu, WireError> {
    Mtu::from_verbs(u32::from(f.u8()?)).ok_or(WireError::Malformed(what))
}

#[cfg(all(test, not(pipeline_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nic(name: &str, rail: Option<u16>) -> NicOffer {
        let (layer, gid) = (LinkLayer::Ethernet, [7; 16]);
        NicOffer { name: name.into(), rail, layer, port: 1, gid, mtu: Mtu::at_most(4096), reads: 16 }
    }

    fn end() -> End {
        End {
            nic: "rxe0".into(),
            rail: Some(3),
            layer: LinkLayer::Ethernet,
            gid: [9; 16],
            lid: 0,
            qpn: 17,
            psn: 0x00AB_CDEF,
            mtu: Mtu::at_most(1024),
            reads: 16,
        }
    }

    fn request() -> Request {
        let gone = vec![LinkId(4), LinkId(u64::MAX)];
        Request { link: LinkId(5), nic: 1, nic_name: "rxe1".into(), end: end(), gone }
    }

    /// The golden bytes of `docs/wire.md`: an offer of one NIC.
    #[test]
    fn golden_offer() {
        let body = Body { rails: Rails::Same, nics: vec![nic("a", Some(258))] };
        let bytes = body.encode();
        let mut want = vec![1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, b'a', 1, 2, 1, 2, 1];
        want.extend([7; 16]);
        want.extend([5, 16]);
        assert_eq!(bytes, want);
        assert_eq!(Body::decode(&bytes).unwrap(), body);
    }

    /// The golden bytes of `docs/wire.md`: a request and its answer.
    #[test]
    fn golden_request_and_answer() {
        let mut tail = vec![4, 0, 0, 0, b'r', b'x', b'e', b'0', 1, 3, 0, 2];
        tail.extend([9; 16]);
        tail.extend([0, 0, 17, 0, 0, 0, 0xEF, 0xCD, 0xAB, 0, 3, 16]);
        let mut want = vec![1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, b'r', b'x', b'e', b'1'];
        want.extend(&tail);
        want.extend([2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        want.extend([0xFF; 8]);
        assert_eq!(request().encode(), want);
        assert_eq!(Request::decode(&want).unwrap(), request());
        let mut answer = vec![1, 0];
        answer.extend(&tail);
        assert_eq!(end().encode_answer(), answer);
        assert_eq!(End::decode_answer(&answer).unwrap(), end());
    }

    /// The largest offer there can be fits into its message, and so does the largest request.
    #[test]
    fn the_largest_fit() {
        use crate::control::message::{EXCHANGE_MAX, OFFER_BODY_MAX};
        let name = "n".repeat(NIC_NAME_MAX);
        let body = Body { rails: Rails::Any, nics: vec![nic(&name, Some(1)); NICS_MAX] };
        let bytes = body.encode();
        assert!(bytes.len() <= OFFER_BODY_MAX, "{}", bytes.len());
        assert_eq!(Body::decode(&bytes).unwrap(), body);
        let request = Request { gone: vec![LinkId(1); GONE_MAX], ..request() };
        assert!(request.encode().len() <= EXCHANGE_MAX);
        assert_eq!(Request::decode(&request.encode()).unwrap(), request);
    }

    /// Whatever verbs do not allow is refused: numbers past 24 bits, queue pairs of the fabric, MTUs that there are
    /// not, an Ethernet end without GID, no READs at all, more of anything than its bound, other versions.
    #[test]
    fn what_verbs_do_not_allow_is_refused() {
        assert!(End::decode_answer(&end().encode_answer()).is_ok());
        let bad = [
            End { qpn: 1, ..end() },
            End { qpn: 1 << 24, ..end() },
            End { psn: 1 << 24, ..end() },
            End { gid: [0; 16], ..end() },
            End { reads: 0, ..end() },
            End { nic: "n".repeat(NIC_NAME_MAX + 1), ..end() },
        ];
        for end in bad {
            assert!(End::decode_answer(&end.encode_answer()).is_err(), "{end:?}");
        }
        let many = Request { gone: vec![LinkId(1); GONE_MAX + 1], ..request() };
        assert!(Request::decode(&many.encode()).is_err());
        for nics in [vec![], vec![nic("a", None); NICS_MAX + 1]] {
            assert!(Body::decode(&Body { rails: Rails::Any, nics }.encode()).is_err());
        }
        let mut odd_mtu = end().encode_answer();
        let at = odd_mtu.len() - 2;
        for code in [0, 6, 255] {
            odd_mtu[at] = code;
            assert!(End::decode_answer(&odd_mtu).is_err());
        }
        let mut newer = end().encode_answer();
        newer[0] = 2;
        assert!(End::decode_answer(&newer).is_err());
    }

    /// Every cut short of the end is refused, and so is a byte too many.
    #[test]
    fn no_more_and_no_less() {
        let body = Body { rails: Rails::Any, nics: vec![nic("a", None), nic("b", Some(0))] };
        let (body, request, answer) = (body.encode(), request().encode(), end().encode_answer());
        let longer = |bytes: &[u8]| [bytes, &[0]].concat();
        assert!(Body::decode(&longer(&body)).is_err());
        assert!(Request::decode(&longer(&request)).is_err());
        assert!(End::decode_answer(&longer(&answer)).is_err());
        assert!((0..body.len()).all(|cut| Body::decode(&body[..cut]).is_err()));
        assert!((0..request.len()).all(|cut| Request::decode(&request[..cut]).is_err()));
        assert!((0..answer.len()).all(|cut| End::decode_answer(&answer[..cut]).is_err()));
    }

    proptest! {
        /// Bytes of a stranger are refused or mean something that is written the same way; they never do more.
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), versioned in any::<bool>()) {
            if versioned && bytes.len() >= 2 {
                bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
            }
            if let Ok(body) = Body::decode(&bytes) {
                prop_assert_eq!(body.encode(), &bytes[..]);
            }
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), &bytes[..]);
            }
            if let Ok(end) = End::decode_answer(&bytes) {
                prop_assert_eq!(end.encode_answer(), &bytes[..]);
            }
        }

        /// One changed byte of a good request is refused or means something within bounds.
        #[test]
        fn one_byte_off(at in 0usize..200, value in any::<u8>()) {
            let mut bytes = request().encode();
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
        }
    }
}
