//! The words by which two engines connect queue pairs: who asks whom for which NIC, and what an answer must be.
//!
//! ```text
//! active                                        passive
//! make queue pairs (INIT)
//!        ── GID, LID, numbers, ready_ack: false ──▶   make as many, told of the active's (RTR, RTS)
//!        ◀── GID, LID, numbers, ready_ack: false ──
//! told of the passive's (RTR), let loose (RTS)
//!        ── the same once more, ready_ack: true ──▶   may post from now on, if it wants to
//!        ◀── nothing in it ──
//! ```
//! They are paired one by one, all packets are numbered from 0, and nothing is said of their size: each side takes the
//! largest that its port has at present. Releases before 0.3.12 know no `ready_ack`, those before 0.3.11 tell neither GID nor
//! LID: these are in the descriptor. Deliberately no sockets and no verbs.

use std::fmt::Write;

use crate::mooncake::bodies::Connection;
use crate::mooncake::descriptor::Device;
use crate::rdma::opening::Ends;

/// Most queue pairs that are connected at once: their own default is 2.
pub(super) const QUEUE_PAIRS_MAX: usize = 64;
/// Longest path of a NIC, bytes: a name of a host, and what a system calls a device.
const PATH_MAX: usize = 512;
/// Between the server and its NIC.
const DELIMITER: char = '@';

/// A NIC of a server, as they name it: `10.0.0.2:15123@mlx5_0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NicPath<'a> {
    /// The node.
    pub(super) server: &'a str,
    /// Its NIC.
    pub(super) nic: &'a str,
}

impl<'a> NicPath<'a> {
    /// From its text; `None` if a part of it is missing, or it is longer than any can be.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (server, nic) = text.split_once(DELIMITER).filter(|_| text.len() <= PATH_MAX)?;
        (!server.is_empty() && !nic.is_empty()).then_some(Self { server, nic })
    }
}

impl std::fmt::Display for NicPath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{DELIMITER}{}", self.server, self.nic)
    }
}

/// A GID as they write it: sixteen bytes in hex with colons.
pub(super) fn gid_text(gid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(47);
    for (i, byte) in gid.iter().enumerate() {
        let colon = if i == 0 { "" } else { ":" };
        // Writing to a string does not fail.
        let _ = write!(text, "{colon}{byte:02x}");
    }
    text
}

/// A GID from their text.
pub(super) fn gid(text: &str) -> Option<[u8; 16]> {
    let mut parts = text.split(':');
    let mut gid = [0; 16];
    for byte in &mut gid {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(gid)
}

/// What one side says of its queue pairs.
pub(super) fn told(ours: &Ends, from: String, to: String) -> Connection {
    Connection {
        local_gid: gid_text(&ours.gid),
        local_lid: ours.lid,
        local_nic_path: from,
        peer_nic_path: to,
        qp_num: ours.numbers.clone(),
        ready_ack: Some(false),
        ..Connection::default()
    }
}

/// The other side's queue pairs, of what it said; where it has told no GID, as its descriptor tells of that NIC.
///
/// # Errors
/// What of it makes no sense.
pub(super) fn ends(said: &Connection, device: Option<&Device>) -> Result<Ends, String> {
    let path = NicPath::parse(&said.local_nic_path);
    let path = path.ok_or_else(|| format!("`{}` is no SERVER@NIC", said.local_nic_path))?;
    let (text, lid) = match device {
        Some(device) if said.local_gid.is_empty() => (&device.gid, device.lid),
        _ => (&said.local_gid, said.local_lid),
    };
    let gid = gid(text).ok_or_else(|| format!("`{text}` is no GID"))?;
    let numbers = said.qp_num.clone();
    if numbers.is_empty() || numbers.len() > QUEUE_PAIRS_MAX {
        return Err(format!("{} queue pairs: 1 to {QUEUE_PAIRS_MAX} can be connected", numbers.len()));
    }
    // 0 and 1 are the fabric's own, and a number has 24 bits.
    if let Some(number) = numbers.iter().find(|number| !(2..1 << 24).contains(*number)) {
        return Err(format!("{number} is no number of a queue pair"));
    }
    Ok(Ends { nic: path.nic.to_owned(), gid, lid, numbers })
}

/// Judges the answer to `asked`: whose queue pairs these are.
///
/// # Errors
/// It answers something else, or [`ends`].
pub(super) fn answered(
    asked: &Connection,
    answer: &Connection,
    device: Option<&Device>,
) -> Result<Ends, String> {
    if answer.local_nic_path != asked.peer_nic_path || answer.peer_nic_path != asked.local_nic_path {
        return Err(format!(
            "asked to connect {} with {}, it connects {} with {}",
            asked.local_nic_path, asked.peer_nic_path, answer.peer_nic_path, answer.local_nic_path
        ));
    }
    ends(answer, device)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mooncake::bodies;

    /// What 0.3.13.post1 sent over soft-RoCE to connect its two queue pairs, but for its newline.
    const ASKED: &str = "{\"local_gid\":\"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:0b\",\"local_lid\":0,\"local_nic_path\":\"10.9.0.11:16056@rxe1\",\"payload\":\"\",\"peer_nic_path\":\"10.9.0.10:16241@rxe0\",\"qp_num\":[17,18],\"ready_ack\":false,\"reply_msg\":\"\"}";
    /// What it answered.
    const ANSWERED: &str = "{\"local_gid\":\"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:0a\",\"local_lid\":0,\"local_nic_path\":\"10.9.0.10:16241@rxe0\",\"payload\":\"\",\"peer_nic_path\":\"10.9.0.11:16056@rxe1\",\"qp_num\":[19,20],\"ready_ack\":false,\"reply_msg\":\"\"}";

    fn read(text: &str) -> Connection {
        bodies::decode(text.as_bytes()).unwrap()
    }

    fn ours() -> Ends {
        let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 11];
        Ends { nic: "rxe1".into(), gid, lid: 0, numbers: vec![17, 18] }
    }

    /// What is said is said byte for byte as Mooncake says it, and what Mooncake answers is understood.
    #[test]
    fn captured_texts() {
        let asked = told(&ours(), "10.9.0.11:16056@rxe1".into(), "10.9.0.10:16241@rxe0".into());
        assert_eq!(bodies::encode(&asked), [ASKED.as_bytes(), b"\n"].concat());
        assert_eq!(ends(&asked, None).unwrap(), ours());
        let theirs = answered(&asked, &read(ANSWERED), None).unwrap();
        assert_eq!((theirs.nic.as_str(), theirs.gid[15], theirs.numbers), ("rxe0", 10, vec![19, 20]));
        let ready = Connection { ready_ack: Some(true), ..asked };
        let text = ASKED.replace("\"ready_ack\":false", "\"ready_ack\":true");
        assert_eq!(bodies::encode(&ready), [text.as_bytes(), b"\n"].concat());
    }

    /// Releases that tell no GID and no LID are known by their descriptor; without that they cannot be connected to, and what is
    /// said goes before what is published.
    #[test]
    fn before_gids_were_told() {
        let old = r#"{"local_nic_path":"a:1@mlx5_0","payload":"","peer_nic_path":"b:2@mlx5_1","qp_num":[300],"reply_msg":""}"#;
        let device = Device { gid: gid_text(&[7; 16]), lid: 9, name: "mlx5_0".into() };
        let got = ends(&read(old), Some(&device)).unwrap();
        assert_eq!((got.gid, got.lid, got.numbers.as_slice()), ([7; 16], 9, &[300][..]));
        assert!(ends(&read(old), None).unwrap_err().contains("no GID"));
        assert_eq!(ends(&read(ANSWERED), Some(&device)).unwrap().gid[15], 10);
    }

    /// An answer for another NIC, or to somebody else's question, is none.
    #[test]
    fn answers_of_others() {
        let asked = read(ASKED);
        for (from, to) in [("16241@rxe0", "16241@rxe9"), ("16056@rxe1", "16057@rxe1")] {
            let error = answered(&asked, &read(&ANSWERED.replace(from, to)), None).unwrap_err();
            assert!(error.contains(to), "{error}");
        }
    }

    /// What verbs do not allow is refused: no queue pairs or too many, numbers of the fabric or past 24 bits, no GID, no path.
    #[test]
    fn what_verbs_do_not_allow() {
        let good = read(ANSWERED);
        let many = vec![17; QUEUE_PAIRS_MAX + 1];
        for qp_num in [vec![], many, vec![17, 1], vec![1 << 24]] {
            assert!(ends(&Connection { qp_num, ..good.clone() }, None).is_err());
        }
        for local_gid in ["", "fe80::1", "0a:0b", "gg:00", &format!("{}:00", gid_text(&[1; 16]))] {
            assert!(ends(&Connection { local_gid: local_gid.into(), ..good.clone() }, None).is_err());
        }
        for local_nic_path in ["", "rxe0", "@rxe0", "a:1@", &"a@b".repeat(PATH_MAX)] {
            assert!(
                ends(&Connection { local_nic_path: local_nic_path.into(), ..good.clone() }, None).is_err()
            );
        }
    }

    proptest! {
        /// Every GID reads back as it was written; any other text is one or is refused.
        #[test]
        fn gids(bytes: [u8; 16], text in "[0-9a-f:]{0,60}") {
            prop_assert_eq!(gid(&gid_text(&bytes)), Some(bytes));
            if let Some(read) = gid(&text) {
                prop_assert_eq!(gid(&gid_text(&read)), Some(read));
            }
        }
    }
}
