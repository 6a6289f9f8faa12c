//! Where a node is, as its offer says it: a process of this boot, and which node in it.
//! Deliberately more than a pid: pids repeat across reboots, containers and hosts.

use std::sync::{Arc, OnceLock};

use crate::error::Error;
use crate::inproc::hub::Node;

/// First byte of an offer's body: the layout below.
const LAYOUT: u8 = 1;
/// Layout, pid, random of the process, incarnation.
const BYTES: usize = 1 + 4 + 16 + 8;

/// Which node of which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pid: u32,
    random: [u8; 16],
    incarnation: u64,
}

impl Place {
    /// A node of this process.
    pub(crate) fn here(incarnation: u64) -> Result<Self, Error> {
        static RANDOM: OnceLock<[u8; 16]> = OnceLock::new();
        if RANDOM.get().is_none() {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(|e| Error::Io {
                what: "reading random bytes".into(),
                source: std::io::Error::other(e.to_string()),
            })?;
            // Somebody may have been first: then theirs is kept.
            let _ = RANDOM.set(random);
        }
        let random = *RANDOM.get().expect("set above, by us or by whoever was first");
        // The pid is asked anew: after a fork the child has the random bytes but not the memory.
        Ok(Self { pid: std::process::id(), random, incarnation })
    }

    /// As an offer's body.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(BYTES);
        body.push(LAYOUT);
        body.extend_from_slice(&self.pid.to_le_bytes());
        body.extend_from_slice(&self.random);
        body.extend_from_slice(&self.incarnation.to_le_bytes());
        body
    }

    /// From an offer's body; `None` for any other bytes.
    fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; BYTES] = body.try_into().ok()?;
        let (layout, rest) = body.split_first()?;
        let (pid, rest) = rest.split_first_chunk()?;
        let (random, rest) = rest.split_first_chunk()?;
        let incarnation = u64::from_le_bytes(rest.try_into().ok()?);
        (*layout == LAYOUT).then_some(Self { pid: u32::from_le_bytes(*pid), random: *random, incarnation })
    }

    /// The node that a peer's offer speaks of.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a body of another make, [`Error::Refused`] when it is in another process or gone.
    pub(crate) fn find(&self, kind: &str, peer: &str, body: &[u8]) -> Result<Arc<Node>, Error> {
        let peer_name = || peer.to_owned();
        let there = Self::decode(body).ok_or_else(|| Error::Protocol {
            peer: peer_name(),
            reason: format!("its {kind} offer has {} bytes that this version cannot read", body.len()),
        })?;
        if (there.pid, there.random) != (self.pid, self.random) {
            return Err(Error::Refused {
                peer: peer_name(),
                reason: format!(
                    "{kind} reaches nodes of its own process only, and the peer is process {} while this is {}; \
                     declare another transport on both sides",
                    there.pid, self.pid
                ),
            });
        }
        Node::find(there.incarnation).ok_or_else(|| Error::Refused {
            peer: peer_name(),
            reason: "the node of that offer has stopped; open the peer again".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An offer comes back as it was made; cut, lengthened and foreign ones are not taken for one.
    #[test]
    fn body_round_trip() {
        let here = Place::here(42).unwrap();
        let body = here.encode();
        assert_eq!(Place::decode(&body), Some(here));
        for len in 0..body.len() {
            assert_eq!(Place::decode(&body[..len]), None);
        }
        assert_eq!(Place::decode(&[&body[..], &[0]].concat()), None);
        assert_eq!(Place::decode(&[&[9], &body[1..]].concat()), None);
    }

    /// Other processes, gone nodes and garbage are each refused with what to do.
    #[test]
    fn refusals_say_why() {
        let here = Place::here(7777).unwrap();
        let other = Place { pid: here.pid.wrapping_add(1), ..here };
        let text = |body: &[u8]| here.find("loopback", "b", body).err().unwrap().to_string();
        assert!(text(&other.encode()).contains("another transport"));
        assert!(text(&Place { random: [0; 16], ..here }.encode()).contains("own process only"));
        assert!(text(&here.encode()).contains("has stopped"));
        assert!(text(b"garbage").contains("7 bytes"));
    }
}
