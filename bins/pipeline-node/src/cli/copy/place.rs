//! `PEER:SEGMENT[/PATH]` or a local path: which of the two an argument of `copy` is.
//! Deliberately decided by the text alone, so that a script does not change meaning with the folder it runs in.

use std::path::PathBuf;

/// One side of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path here.
    Local(PathBuf),
    /// A path in a segment of a peer.
    Remote(RemotePlace),
}

/// A path in a segment of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePlace {
    /// Name or address.
    pub peer: String,
    /// Segment.
    pub segment: String,
    /// Path in it, without leading or trailing `/`; empty: its root.
    pub path: String,
    /// Whether it was written with a `/` at its end: "into this folder".
    pub into: bool,
}

impl RemotePlace {
    /// The name under which it lands inside a folder: its last one, or that of the segment.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&self.segment)
    }
}

/// As it was written, but for a `/` at its end.
impl std::fmt::Display for RemotePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.peer, self.segment)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

impl Place {
    /// Remote when a `:` stands before the first `/` (outside brackets); `./a:b` is local.
    ///
    /// # Errors
    /// What is wrong with it, when it looks remote and is not whole.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((transport, _)) = text.split_once("://").filter(|(word, _)| is_word(word)) {
            return Err(format!(
                "`{text}`: a peer that is reached by `{transport}://` runs another engine, which has memory and no files; copy \
                 moves files between nodes of this kind, PEER:SEGMENT[/PATH]"
            ));
        }
        let head = text.split('/').next().unwrap_or_default();
        let Some((peer, segment)) = head.rsplit_once(':') else { return Ok(Self::Local(text.into())) };
        // Names of segments begin with a letter: what is a number was meant as a port.
        let is_port = segment.bytes().all(|b| b.is_ascii_digit());
        if peer.is_empty() || is_port || segment.contains(']') {
            return Err(format!(
                "`{text}` names no segment: write PEER:SEGMENT[/PATH], as in `10.0.0.2:7001:models/llama`; \
                 a local path with a colon starts with `./`"
            ));
        }
        let path = text[head.len()..].trim_matches('/');
        Ok(Self::Remote(RemotePlace {
            peer: peer.to_owned(),
            segment: segment.to_owned(),
            path: path.to_owned(),
            into: text.ends_with('/'),
        }))
    }
}

/// Whether a text could be the name of a transport.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> (String, String, String, bool) {
        match Place::parse(text) {
            Ok(Place::Remote(p)) => (p.peer, p.segment, p.path, p.into),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Peers with ports, names, and IPv6 in brackets or bare are cut from the segment at the right colon, and said as written.
    #[test]
    fn remote_places() {
        let cases = [
            ("10.0.0.2:7001:models/llama", ("10.0.0.2:7001", "models", "llama", false)),
            ("[::1]:7001:models", ("[::1]:7001", "models", "", false)),
            ("[::1]:models/a/b/", ("[::1]", "models", "a/b", true)),
            ("store:models/", ("store", "models", "", true)),
            ("store:m/a:b", ("store", "m", "a:b", false)),
        ];
        for (text, (peer, segment, path, into)) in cases {
            assert_eq!(remote(text), (peer.into(), segment.into(), path.into(), into), "{text}");
            let Ok(Place::Remote(place)) = Place::parse(text) else { unreachable!("it was one above") };
            assert_eq!(place.to_string(), text.trim_end_matches('/'));
        }
    }

    /// A path is local as long as no colon comes before its first slash; half a remote place is refused.
    #[test]
    fn local_and_broken_places() {
        for text in ["a", "/a:b", "./a:b", "dir/a:b", ".", "-"] {
            assert_eq!(Place::parse(text), Ok(Place::Local(text.into())));
        }
        for text in [":7001", "host:", "[::1]", ":", "host:/abs", "10.0.0.2:7001", "[::1]:7001/models"] {
            assert!(Place::parse(text).unwrap_err().contains("PEER:SEGMENT"), "{text}");
        }
        for text in ["mooncake://10.0.0.2:15123:kv/", "mooncake://decode-0"] {
            let error = Place::parse(text).unwrap_err();
            assert!(error.contains("`mooncake://` runs another engine"), "{error}");
        }
    }
}
