//! Whether the directory of a file answers, and lets this node in. Asks for one key and changes nothing.

use std::time::Duration;

use pipeline_configs::{Config, DirectoryConfig};
use pipeline_node::directory::settings;
use pipeline_transports::directory::{NodeRecord, open};
use pipeline_transports::{Error, Nanos, clock};

use super::Verdict;

/// How long it may take.
const ANSWER: Duration = Duration::from_secs(3);

/// The check; nothing for a file without a directory.
pub fn look(config: &Config) -> Option<Verdict> {
    let directory = config.directory.as_ref()?;
    Some(match ask(directory, &config.node.name) {
        Ok((place, None)) => Verdict::well("directory", format!("{place} answers")),
        Ok((place, Some(there))) => {
            let at = there.addresses.join(", ");
            Verdict::well(
                "directory",
                format!("{place} answers; `{}` is published there, at {at}", there.name),
            )
        }
        Err((said, mend)) => Verdict::ill("directory", said, mend),
    })
}

/// Where it is, and the record of this node's name; or what was found instead, and what mends it.
fn ask(directory: &DirectoryConfig, name: &str) -> Result<(String, Option<NodeRecord>), (String, String)> {
    let made = settings(directory);
    let settings =
        made.map_err(|e| (e.to_string(), "correct [directory], or the file that it names".to_owned()))?;
    let store = open(&settings.store).map_err(|e| (e.to_string(), "correct [directory]".to_owned()))?;
    let failed = |e: &dyn std::fmt::Display| (format!("{}: {e}", store.place()), mend(directory));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.map_err(|e| failed(&e))?;
    let key = format!("{}nodes/{name}", settings.prefix);
    let by = clock::now() + ANSWER.as_nanos() as Nanos;
    match runtime.block_on(async { store.get(&key, by).await }) {
        Ok(value) => Ok((store.place(), value.and_then(|bytes| NodeRecord::decode(&bytes).ok()))),
        Err(Error::Directory { place, reason }) => {
            Err((format!("{place} does not answer as it should: {reason}"), mend(directory)))
        }
        Err(error) => Err(failed(&error)),
    }
}

/// The command that starts or shows it.
fn mend(directory: &DirectoryConfig) -> String {
    let first = directory.endpoints.first().map_or("", String::as_str);
    let bare = first.split_once("://").map_or(first, |(_, rest)| rest);
    let bare = bare.split('/').next().unwrap_or(bare);
    match directory.kind.as_str() {
        "http" => format!("start it there: pipeline-node directory --listen {bare}; or correct `endpoints`"),
        "etcd" => {
            format!("see what it says: etcdctl --endpoints {bare} endpoint health; or correct `endpoints`")
        }
        _ => {
            let (host, port) = bare.rsplit_once(':').unwrap_or((bare, "6379"));
            format!("see what it says: redis-cli -h {host} -p {port} ping; or correct `endpoints`")
        }
    }
}
