//! Messages of route netlink, as far as they are needed here: requests to list, and what comes back of links and addresses.
//! Deliberately a cutter of bytes only; what cannot be read is left out. Numbers are in the machine's own order.

use std::net::IpAddr;

use super::{Assigned, Interface};

/// Asks for all links.
pub(super) const GET_LINK: u16 = 18;
/// Asks for all addresses.
pub(super) const GET_ADDRESS: u16 = 22;
/// Asks which way packets would go, and what answers it.
const GET_ROUTE: u16 = 26;
const NEW_ROUTE: u16 = 24;
/// Attributes of a way: to where, from where, by which interface.
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;

const HEAD: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
/// A request for one thing.
const REQUEST: u16 = 0x001;
/// Flags of a message: a request, for all there are; and in an answer: it changed while it was listed.
const REQUEST_DUMP: u16 = REQUEST | 0x300;
const INTERRUPTED: u16 = 0x010;

/// Of an interface: switched on; leads to this machine.
const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
/// `operstate`: does not tell; works.
const OPER_UNKNOWN: u8 = 0;
const OPER_UP: u8 = 6;
/// Attributes of a link: name, `operstate`.
const IFLA_IFNAME: u16 = 3;
const IFLA_OPERSTATE: u16 = 16;
/// Attributes of an address: that of the other end or its own, its own, flags.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Flags of an address: a duplicate was found; deprecated; not yet checked for one.
const DUPLICATE: u32 = 0x08;
const DEPRECATED: u32 = 0x20;
const TENTATIVE: u32 = 0x40;

/// A request to list all of a kind.
pub(super) fn request(kind: u16) -> [u8; HEAD + 16] {
    let mut message = [0; HEAD + 16];
    message[..4].copy_from_slice(&(HEAD as u32 + 16).to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    message
}

/// A request for the way that packets between two addresses of one family would go.
pub(super) fn request_route(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let family: u8 = if to.is_ipv4() { 2 } else { 10 };
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let bits = |ip: IpAddr| octets(ip).len() as u8 * 8;
    let mut body = vec![family, bits(to), bits(from), 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, ip) in [(RTA_DST, to), (RTA_SRC, from)] {
        let octets = octets(ip);
        body.extend((4 + octets.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(octets);
    }
    let mut message = ((HEAD + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(GET_ROUTE.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// The number of the interface in the answer to it; the kernel's refusal otherwise.
pub(super) fn route(datagram: &[u8]) -> Result<u32, i32> {
    let body = datagram.get(HEAD..).unwrap_or_default();
    match u16_at(datagram, 4) {
        Some(NEW_ROUTE) => {
            let mut attributes = Attributes(body.get(12..).unwrap_or_default());
            let by = attributes.find(|(kind, _)| *kind == RTA_OIF).and_then(|(_, value)| u32_at(value, 0));
            by.ok_or(0)
        }
        Some(ERROR) => Err(u32_at(body, 0).unwrap_or(0) as i32),
        _ => Err(0),
    }
}

/// What has come of a list.
#[derive(Debug, Default)]
pub(super) struct List {
    /// Links, without their addresses.
    pub(super) links: Vec<Interface>,
    /// Addresses by the number of their link.
    pub(super) addresses: Vec<(u32, Assigned)>,
    /// Something changed while it was listed: it is worth nothing.
    pub(super) has_changed: bool,
}

/// What a datagram said about the list it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// There is more to come.
    More,
    /// That was all.
    Done,
    /// The kernel's refusal.
    Refused(i32),
}

/// Takes in what one datagram tells.
pub(super) fn take(datagram: &[u8], list: &mut List) -> Rest {
    let mut rest = datagram;
    while let (Some(length), Some(kind), Some(flags)) = (u32_at(rest, 0), u16_at(rest, 4), u16_at(rest, 6)) {
        let length = length as usize;
        let Some(body) = rest.get(HEAD..length) else { break };
        list.has_changed |= flags & INTERRUPTED != 0;
        match kind {
            DONE => return Rest::Done,
            ERROR => return Rest::Refused(u32_at(body, 0).unwrap_or(0) as i32),
            NEW_LINK => list.links.extend(link(body)),
            NEW_ADDRESS => list.addresses.extend(address(body)),
            _ => {}
        }
        rest = rest.get(padded(length)..).unwrap_or_default();
    }
    Rest::More
}

fn link(body: &[u8]) -> Option<Interface> {
    let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
    let mut found = Interface { index, is_loopback: flags & IFF_LOOPBACK != 0, ..Interface::default() };
    let mut state = OPER_UNKNOWN;
    for (kind, value) in Attributes(body.get(16..)?) {
        match kind {
            IFLA_IFNAME => {
                let text = value.strip_suffix(&[0]).unwrap_or(value);
                found.name = String::from_utf8_lossy(text).into_owned();
            }
            IFLA_OPERSTATE => state = *value.first()?,
            _ => {}
        }
    }
    found.is_up = flags & IFF_UP != 0 && (state == OPER_UP || state == OPER_UNKNOWN);
    Some(found)
}

fn address(body: &[u8]) -> Option<(u32, Assigned)> {
    let (prefix, short_flags, index) = (*body.get(1)?, *body.get(2)?, u32_at(body, 4)?);
    let (mut flags, mut own, mut other) = (u32::from(short_flags), None, None);
    for (kind, value) in Attributes(body.get(8..)?) {
        match kind {
            IFA_LOCAL => own = ip(value),
            IFA_ADDRESS => other = ip(value),
            IFA_FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    let is_usable = flags & (TENTATIVE | DUPLICATE) == 0;
    let is_deprecated = flags & DEPRECATED != 0;
    Some((index, Assigned { ip: own.or(other)?, prefix, is_usable, is_deprecated }))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Kind and value of each attribute.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, kind) = (usize::from(u16_at(self.0, 0)?), u16_at(self.0, 2)?);
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(padded(length)..).unwrap_or_default();
        // The two highest bits say how it is nested.
        Some((kind & 0x3fff, value))
    }
}

fn padded(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, fixed: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = fixed.to_vec();
        for (kind, value) in attributes {
            body.extend((4 + value.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        message
    }

    fn linked(index: u32, flags: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let fixed = [&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
        message(NEW_LINK, 2, &fixed, attributes)
    }

    /// Links are up if they are switched on and say that they work or say nothing; names end at their zero.
    #[test]
    fn links_are_read() {
        let mut list = List::default();
        let datagram = [
            linked(1, IFF_UP | IFF_LOOPBACK, &[(IFLA_IFNAME, b"lo\0"), (IFLA_OPERSTATE, &[OPER_UNKNOWN])]),
            linked(2, IFF_UP, &[(IFLA_IFNAME, b"eth0\0"), (IFLA_OPERSTATE, &[OPER_UP])]),
            linked(3, IFF_UP, &[(IFLA_OPERSTATE, &[2]), (IFLA_IFNAME, b"nic12\0")]),
            linked(4, 0, &[(IFLA_IFNAME, b"off\0"), (IFLA_OPERSTATE, &[OPER_UNKNOWN])]),
            message(DONE, 2, &[0; 4], &[]),
        ];
        assert_eq!(take(&datagram.concat(), &mut list), Rest::Done);
        let told: Vec<_> = list.links.iter().map(|l| (l.index, &*l.name, l.is_up, l.is_loopback)).collect();
        let wanted = [
            (1, "lo", true, true),
            (2, "eth0", true, false),
            (3, "nic12", false, false),
            (4, "off", false, false),
        ];
        assert_eq!(told, wanted);
    }

    /// The own address counts, not that of the other end of a wire; one in doubt is not usable.
    #[test]
    fn addresses_are_read() {
        let mut list = List::default();
        let fixed = |prefix: u8, flags: u8| [&[2, prefix, flags, 0][..], &7_u32.to_ne_bytes()].concat();
        let datagram = [
            message(
                NEW_ADDRESS,
                2,
                &fixed(24, 0),
                &[(IFA_ADDRESS, &[10, 0, 0, 9]), (IFA_LOCAL, &[10, 0, 0, 1])],
            ),
            message(
                NEW_ADDRESS,
                2,
                &fixed(64, 0),
                &[(IFA_ADDRESS, &[0xfd; 16]), (IFA_FLAGS, &TENTATIVE.to_ne_bytes())],
            ),
            message(NEW_ADDRESS, 2, &fixed(8, DEPRECATED as u8), &[(IFA_LOCAL, &[127, 0, 0, 1])]),
        ];
        assert_eq!(take(&datagram.concat(), &mut list), Rest::More);
        let told: Vec<_> = list
            .addresses
            .iter()
            .map(|(i, a)| (*i, a.ip.to_string(), a.prefix, a.is_usable, a.is_deprecated))
            .collect();
        let v6 = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd".to_owned();
        assert_eq!(
            told,
            [
                (7, "10.0.0.1".to_owned(), 24, true, false),
                (7, v6, 64, false, false),
                (7, "127.0.0.1".to_owned(), 8, true, true)
            ]
        );
    }

    /// The interface is found among what the kernel says of a way; a refusal is told, and half an answer is none.
    #[test]
    fn routes_are_read() {
        let fixed = [2, 32, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let answer = message(NEW_ROUTE, 0, &fixed, &[(1, &[10, 0, 0, 9]), (RTA_OIF, &7_u32.to_ne_bytes())]);
        assert_eq!(route(&answer), Ok(7));
        assert_eq!(route(&message(ERROR, 0, &(-101_i32).to_ne_bytes(), &[])), Err(-101));
        assert!((0..answer.len()).all(|end| route(&answer[..end]).is_err()));
        let asked = request_route([10, 0, 0, 1].into(), [10, 0, 0, 9].into());
        assert_eq!(
            (asked.len(), &asked[16..20], &asked[32..36]),
            (44, &[2, 32, 32, 0][..], &[10, 0, 0, 9][..])
        );
    }

    /// A list that changed says so, whichever message tells; a refusal is told, and bytes cut anywhere read as less, never
    /// as a panic.
    #[test]
    fn odd_datagrams() {
        for kind in [NEW_LINK, DONE] {
            let mut list = List::default();
            take(&message(kind, INTERRUPTED, &[0; 16], &[]), &mut list);
            assert!(list.has_changed);
        }
        let take = |bytes: &[u8]| take(bytes, &mut List::default());
        assert_eq!(take(&message(ERROR, 0, &(-13_i32).to_ne_bytes(), &[])), Rest::Refused(-13));
        let whole = linked(2, IFF_UP, &[(IFLA_IFNAME, b"eth0\0"), (IFLA_OPERSTATE, &[OPER_UP])]);
        for end in 0..whole.len() {
            assert_eq!(take(&whole[..end]), Rest::More);
        }
        let mut short = whole;
        short[0] = 3;
        assert_eq!(take(&short), Rest::More);
    }
}
