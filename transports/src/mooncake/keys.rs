//! Where Mooncake keeps what in a directory that all nodes share. Deliberately no access to one.

/// The keys of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    /// Of a cluster with this name (`MC_METADATA_CLUSTER_ID`), or of none.
    pub fn new(cluster: Option<&str>) -> Self {
        let prefix = match cluster.filter(|cluster| !cluster.is_empty()) {
            Some(cluster) => format!("mooncake/{cluster}/"),
            None => "mooncake/".to_owned(),
        };
        Self { prefix }
    }

    /// Where the descriptor of a segment is. Names with a slash say where they are themselves.
    pub fn descriptor(&self, name: &str) -> String {
        let folder = if name.contains('/') { "" } else { "ram/" };
        format!("{}{folder}{name}", self.prefix)
    }

    /// Where the way to the handshake port of a node is.
    pub fn rpc_meta(&self, server: &str) -> String {
        format!("{}rpc_meta/{server}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys are Mooncake's, with and without a cluster.
    #[test]
    fn as_mooncake_has_them() {
        let (plain, of_c) = (Keys::new(None), Keys::new(Some("c")));
        assert_eq!(plain.descriptor("127.0.0.1:23001"), "mooncake/ram/127.0.0.1:23001");
        assert_eq!(plain.descriptor("a/b"), "mooncake/a/b");
        assert_eq!(plain.rpc_meta("decode-0"), "mooncake/rpc_meta/decode-0");
        assert_eq!(of_c.descriptor("decode-0"), "mooncake/c/ram/decode-0");
        assert_eq!(of_c.rpc_meta("decode-0"), "mooncake/c/rpc_meta/decode-0");
        assert_eq!(Keys::new(Some("")), plain);
    }
}
