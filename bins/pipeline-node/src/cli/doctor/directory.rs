//! Whether the directories of a file answer, and let this node in: its own, and those in which transports to other engines
//! look. Asks each for one key and changes nothing.

use std::time::Duration;

use pipeline_configs::{Config, DirectoryConfig, TransportConfig};
use pipeline_node::directory::settings;
use pipeline_stages::catalog::mooncake_settings;
use pipeline_transports::directory::{NodeRecord, Store, StoreSettings, open};
use pipeline_transports::mooncake::Metadata;
use pipeline_transports::mooncake::bodies::{self, RpcMeta};
use pipeline_transports::mooncake::keys::Keys;
use pipeline_transports::mooncake::name::HostPort;
use pipeline_transports::{Error, Nanos, clock};

use super::Verdict;
use crate::cli::directory::mend::mend;

/// How long it may take.
const ANSWER: Duration = Duration::from_secs(3);

/// What an attempt found: where the directory is, and where it says that this node is; or what is wrong, and what mends it.
type Looked = Result<(String, Option<String>), (String, String)>;

/// The checks; none for a file without directories.
pub fn look(config: &Config) -> Vec<Verdict> {
    let name = &config.node.name;
    let own = config.directory.as_ref().map(|directory| verdict(name, ours(directory, name)));
    let foreign = config.transports.iter().filter(|transport| transport.foreign);
    own.into_iter().chain(foreign.filter_map(|transport| theirs(transport, name))).collect()
}

fn verdict(name: &str, looked: Looked) -> Verdict {
    match looked {
        Ok((place, None)) => Verdict::well("directory", format!("{place} answers")),
        Ok((place, Some(at))) => {
            Verdict::well("directory", format!("{place} answers; `{name}` is published there, at {at}"))
        }
        Err((said, mend)) => Verdict::ill("directory", said, mend),
    }
}

/// The directory of nodes of this kind.
fn ours(directory: &DirectoryConfig, name: &str) -> Looked {
    let made = settings(directory);
    let settings =
        made.map_err(|e| (e.to_string(), "correct [directory], or the file that it names".to_owned()))?;
    let store = open(&settings.store).map_err(|e| (e.to_string(), "correct [directory]".to_owned()))?;
    let first = directory.endpoints.first().map_or("", String::as_str);
    let mend = || mend(&directory.kind, first, "endpoints");
    let value = get(&*store, &format!("{}nodes/{name}", settings.prefix), mend)?;
    let record = value.and_then(|bytes| NodeRecord::decode(&bytes).ok());
    Ok((store.place(), record.map(|there| there.addresses.join(", "))))
}

/// That of a transport to another engine, where it has one.
fn theirs(transport: &TransportConfig, node: &str) -> Option<Verdict> {
    let said = mooncake_settings(transport);
    let Metadata::Central(url) = &said.metadata else { return None };
    let name = said.server_name.as_deref().unwrap_or(node);
    let looking = || {
        let wrong =
            |e: Error| (e.to_string(), format!("correct `metadata` of transport `{}`", transport.name));
        let settings = StoreSettings::from_url(url).map_err(wrong)?;
        let store = open(&settings).map_err(wrong)?;
        let first = settings.endpoints.first().map_or("", String::as_str);
        let mend = || mend(settings.kind.word(), first, "metadata");
        let value = get(&*store, &Keys::new(said.cluster.as_deref()).rpc_meta(name), mend)?;
        let there = value.and_then(|text| bodies::decode::<RpcMeta>(&text).ok());
        let at = there.map(|meta| HostPort::new(&meta.ip_or_host_name, meta.rpc_port).to_string());
        Ok((store.place(), at))
    };
    Some(verdict(name, looking()))
}

/// One key of a directory.
fn get(store: &dyn Store, key: &str, mend: impl Fn() -> String) -> Result<Option<Vec<u8>>, (String, String)> {
    let failed = |e: &dyn std::fmt::Display| (format!("{}: {e}", store.place()), mend());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.map_err(|e| failed(&e))?;
    let by = clock::now() + ANSWER.as_nanos() as Nanos;
    match runtime.block_on(async { store.get(key, by).await }) {
        Ok(value) => Ok(value),
        Err(Error::Directory { place, reason }) => {
            Err((format!("{place} does not answer as it should: {reason}"), mend()))
        }
        Err(error) => Err(failed(&error)),
    }
}
