//! Two questions to any directory, for people: what is under a key, and which keys there are.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args as ClapArgs;
use pipeline_configs::plain;
use pipeline_transports::directory::{Store, StoreSettings, open};
use pipeline_transports::transport::BoxFuture;
use pipeline_transports::{Error, Nanos, clock};

use super::mend::mend;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::file;

/// How long it may take.
const ANSWER: Duration = Duration::from_secs(5);

/// Which directory is asked.
#[derive(Debug, ClapArgs)]
pub struct From {
    /// `http://host:port`, `etcd://host:port`, `redis://host:port`.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7080/metadata")]
    from: String,
}

/// Print the value of one key, as it is; exit 1 when there is none.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node directory get pipeline-node/nodes/decode-0 | jq .addresses
  pipeline-node directory get --from redis://10.0.0.1:6379 mooncake/ram/decode-0")]
pub struct GetArgs {
    #[command(flatten)]
    from: From,
    /// The key.
    key: String,
}

/// Print keys and their values, a line each: the key, a tab, the value.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  pipeline-node directory list                        # all keys of the directory on this machine
  pipeline-node directory list pipeline-node/nodes/   # nodes that publish there
  pipeline-node directory list --from etcd://10.0.0.1:2379 mooncake/ --json | jq -r .key")]
pub struct ListArgs {
    #[command(flatten)]
    from: From,
    /// What the keys begin with; without it all of them.
    #[arg(default_value = "")]
    prefix: String,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    most: usize,
    /// One object a line: key, value.
    #[arg(long)]
    json: bool,
}

/// Runs `get`.
///
/// # Errors
/// 1 when there is no such key, 2 for what is no directory, 69 when it does not answer.
pub fn get(args: &GetArgs) -> Outcome {
    let (store, settings) = store(&args.from)?;
    let value = ask(&settings, |by| store.get(&args.key, by))?;
    let Some(value) = value else {
        return Err(Failure::failed(format!("{} has no key `{}`", store.place(), args.key)));
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(&value).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::system(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}

/// Runs `list`.
///
/// # Errors
/// 2 for what is no directory, 69 when it does not answer.
pub fn list(args: &ListArgs) -> Outcome {
    let (store, settings) = store(&args.from)?;
    let found = ask(&settings, |by| store.list(&args.prefix, args.most, by))?;
    let lines = found.iter().map(|(key, value)| {
        let value = String::from_utf8_lossy(value);
        match args.json {
            true => format!("{}\n", serde_json::json!({ "key": key, "value": value })),
            // Anybody may have put it there: a line is a line.
            false => format!("{}\t{}\n", plain::line(key), plain::line(value.trim_end())),
        }
    });
    file::print(&lines.collect::<String>())
}

fn store(from: &From) -> Result<(Arc<dyn Store>, StoreSettings), Failure> {
    let wrong = |e: Error| Failure::usage(format!("--from: {e}"));
    let settings = StoreSettings::from_url(&from.from).map_err(wrong)?;
    Ok((open(&settings).map_err(wrong)?, settings))
}

/// What the error itself advises is for a node that goes on; nobody goes on here.
fn ask<'a, T>(
    settings: &StoreSettings,
    question: impl FnOnce(Nanos) -> BoxFuture<'a, Result<T, Error>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.map_err(|e| Failure::system(format!("cannot ask: {e}")))?;
    let by = clock::now() + ANSWER.as_nanos() as Nanos;
    let first = settings.endpoints.first().map_or("", String::as_str);
    runtime.block_on(async { question(by).await }).map_err(|error| match error {
        Error::Directory { place, reason } => Failure::peer(format!(
            "{place} does not answer as it should: {reason}; {}",
            mend(settings.kind.word(), first, "--from")
        )),
        error => Failure::peer(error),
    })
}
