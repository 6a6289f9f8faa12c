//! What mends a directory that does not answer: the command that starts it, or shows what it says, by its kind.

/// The command that starts or shows a directory of this kind at its first endpoint, which stands under `key`.
pub fn mend(kind: &str, first: &str, key: &str) -> String {
    let bare = first.split_once("://").map_or(first, |(_, rest)| rest);
    let bare = bare.split('/').next().unwrap_or(bare);
    match kind {
        "http" => format!("start it there: pipeline-node directory --listen {bare}; or correct `{key}`"),
        "etcd" => {
            format!("see what it says: etcdctl --endpoints {bare} endpoint health; or correct `{key}`")
        }
        _ => {
            let (host, port) = bare.rsplit_once(':').unwrap_or((bare, "6379"));
            format!("see what it says: redis-cli -h {host} -p {port} ping; or correct `{key}`")
        }
    }
}
