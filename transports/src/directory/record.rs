//! What a node of ours tells of itself in a directory: one JSON object under `PREFIX nodes/NAME`, small and readable by
//! people and scripts. Deliberately only where it is and who it is: what it has, it tells itself on a control session.

use serde::{Deserialize, Serialize};

/// Most addresses of one record.
const ADDRESSES_MAX: usize = 64;
/// Longest record, bytes.
const RECORD_MAX: usize = 64 << 10;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name of the node.
    pub name: String,
    /// Which start of it: 16 hexadecimal digits, because many readers of JSON keep only 53 bits of a number.
    #[serde(with = "hexadecimal")]
    pub incarnation: u64,
    /// Orders the starts of one name: milliseconds of the wall clock when the node started, or one more than the record that
    /// it found, if that is later. Never used as a time.
    pub since: u64,
    /// Where its control listener is reached, the likeliest first: `host:port`, `[v6]:port`.
    pub addresses: Vec<String>,
    /// Version of its program.
    pub version: String,
}

impl NodeRecord {
    /// As it is kept.
    pub fn encode(&self) -> Vec<u8> {
        // Strings and numbers under string keys: that cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads one; unknown keys are passed over.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > RECORD_MAX {
            return Err(format!("it has {} bytes; a record has at most {RECORD_MAX}", bytes.len()));
        }
        let record: Self = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        match record.addresses.len() {
            1..=ADDRESSES_MAX => Ok(record),
            n => Err(format!("it has {n} addresses; a record has 1 to {ADDRESSES_MAX}")),
        }
    }

    /// Whether this start came after the other one; of starts in the same moment one is taken, the same by everybody.
    pub fn is_later_than(&self, other: &Self) -> bool {
        (self.since, self.incarnation) > (other.since, other.incarnation)
    }
}

mod hexadecimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = digits.then(|| u64::from_str_radix(&text, 16).ok()).flatten();
        number.ok_or_else(|| D::Error::custom("an incarnation is 1 to 16 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(since: u64, incarnation: u64) -> NodeRecord {
        NodeRecord {
            name: "decode-0".into(),
            incarnation,
            since,
            addresses: vec!["10.0.0.1:7001".into(), "[fd00::1]:7001".into()],
            version: "0.1.0".into(),
        }
    }

    /// A record comes back as it was, all 64 bits of its incarnation too; keys of a later release are passed over.
    #[test]
    fn records_survive() {
        let written = record(7, u64::MAX - 1).encode();
        assert_eq!(NodeRecord::decode(&written), Ok(record(7, u64::MAX - 1)));
        let text = String::from_utf8(written).unwrap();
        assert!(text.contains(r#""incarnation":"fffffffffffffffe""#), "{text}");
        let newer = text.replacen('{', r#"{"rail":3,"#, 1);
        assert!(NodeRecord::decode(newer.as_bytes()).is_ok());
    }

    /// What is no record is refused, and says why: no JSON, no address, too many, too long, no incarnation.
    #[test]
    fn bad_records() {
        let with = |addresses: usize| {
            let addresses = vec!["h:1".to_owned(); addresses];
            NodeRecord { addresses, ..record(1, 1) }.encode()
        };
        assert!(NodeRecord::decode(b"null").is_err());
        assert!(NodeRecord::decode(&with(0)).unwrap_err().contains("0 addresses"));
        assert!(NodeRecord::decode(&with(65)).unwrap_err().contains("65 addresses"));
        assert!(NodeRecord::decode(&vec![b' '; RECORD_MAX + 1]).unwrap_err().contains("at most"));
        let text = String::from_utf8(with(1)).unwrap();
        let bad = text.replace("0000000000000001", "+1");
        assert!(NodeRecord::decode(bad.as_bytes()).unwrap_err().contains("hexadecimal"));
    }

    /// The later start is the later one whatever its incarnation, and two in one moment are told apart by everybody alike.
    #[test]
    fn starts_are_ordered() {
        assert!(record(2, 1).is_later_than(&record(1, 9)) && !record(1, 9).is_later_than(&record(2, 1)));
        assert!(record(2, 9).is_later_than(&record(2, 1)) && !record(2, 1).is_later_than(&record(2, 9)));
        assert!(!record(2, 1).is_later_than(&record(2, 1)));
    }
}
