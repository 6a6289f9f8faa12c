//! The answer of our HTTP directory to a list query, as JSON: read by the client, written by the server.

use serde::{Deserialize, Serialize};

/// All keys that were asked for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Listing {
    /// In the order of the keys.
    pub(super) entries: Vec<Listed>,
    /// There are more, behind the last one.
    #[serde(default)]
    pub(super) more: bool,
}

/// One key and its value.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) key: String,
    /// The value, where it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    /// Its bytes, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<Vec<u8>>,
}

impl Listed {
    pub(super) fn new(key: String, value: Vec<u8>) -> Self {
        match String::from_utf8(value) {
            Ok(value) => Self { key, value: Some(value), bytes: None },
            Err(e) => Self { key, value: None, bytes: Some(e.into_bytes()) },
        }
    }

    pub(super) fn into_pair(self) -> (String, Vec<u8>) {
        let value = self.value.map(String::into_bytes).or(self.bytes).unwrap_or_default();
        (self.key, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and other bytes come back as they were, empty ones too.
    #[test]
    fn values_survive() {
        for value in [&b"{}"[..], b"", &[0xff, 0, 7]] {
            let listed = vec![Listed::new("k/ä".into(), value.to_vec())];
            let json = serde_json::to_string(&Listing { entries: listed, more: false }).unwrap();
            let read: Listing = serde_json::from_str(&json).unwrap();
            let pairs: Vec<_> = read.entries.into_iter().map(Listed::into_pair).collect();
            assert_eq!(pairs, [("k/ä".to_owned(), value.to_vec())]);
        }
    }
}
