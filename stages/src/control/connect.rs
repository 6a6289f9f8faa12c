//! Reaches a peer that may have several names and addresses: in order, but never waiting long for a dead one.
//! Each address is tried alone for `stagger`; then the next joins, and the first finished handshake wins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::Error as Reason;
use pipeline_transports::control::{Address, Established, handshake};
use pipeline_transports::transport::BoxFuture;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::shared::Shared;

/// A control connection whose handshake is done.
pub(super) struct Connected {
    pub(super) stream: TcpStream,
    pub(super) established: Established,
    pub(super) remote: SocketAddr,
}

/// Addresses that failed, with the reasons.
type Failures = Vec<(String, Reason)>;

/// Connects and shakes hands.
///
/// # Errors
/// [`Reason::Refused`] if an address refused us, else what names every address and its reason.
pub(super) async fn connect(
    shared: &Arc<Shared>,
    label: &str,
    addresses: &[Address],
) -> Result<Connected, Reason> {
    let attempts = addresses.iter().map(|address| -> BoxFuture<'static, _> {
        Box::pin(by_address(shared.clone(), label.to_owned(), address.clone()))
    });
    match race(attempts.collect(), shared.settings.stagger).await {
        (Some(connected), failures) => {
            if !failures.is_empty() {
                tracing::warn!(peer = label, via = %connected.remote, failed = list(&failures), "reached");
            }
            Ok(connected)
        }
        (None, mut failures) => {
            // A refusal is what the user must act on; other addresses are then beside the point.
            let refused = failures.iter().position(|(_, e)| matches!(e, Reason::Refused { .. }));
            match (refused, failures.len()) {
                (Some(at), _) => Err(failures.swap_remove(at).1),
                (None, 1) if !matches!(failures[0].1, Reason::Io { .. }) => Err(failures.swap_remove(0).1),
                _ => Err(Reason::Unreachable { peer: label.to_owned(), reason: list(&failures) }),
            }
        }
    }
}

fn list(failures: &Failures) -> String {
    let each: Vec<String> = failures
        .iter()
        .map(|(address, e)| match e {
            Reason::Unreachable { reason, .. } | Reason::Protocol { reason, .. } => {
                format!("{address}: {reason}")
            }
            Reason::Io { source, .. } => format!("{address}: {source}"),
            Reason::Deadline { .. } => format!("{address}: no answer in time"),
            other => format!("{address}: {other}"),
        })
        .collect();
    each.join("; ")
}

/// Resolves one address and races what it resolves to.
async fn by_address(shared: Arc<Shared>, label: String, address: Address) -> Result<Connected, Failures> {
    let limit = shared.settings.connect;
    let text = address.to_string();
    let found = timeout(limit, lookup_host((address.host.as_str(), address.port))).await;
    let found: Vec<SocketAddr> = match found {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(source)) => {
            let what = format!("resolving {text}");
            return Err(vec![(text, Reason::Io { what, source })]);
        }
        Err(_) => return Err(vec![(text, Reason::Deadline { what: "resolving", peer: label })]),
    };
    if found.is_empty() {
        let reason = "the name has no address".to_owned();
        return Err(vec![(text, Reason::Unreachable { peer: label, reason })]);
    }
    let attempts = found.into_iter().map(|remote| -> BoxFuture<'static, _> {
        Box::pin(by_socket(shared.clone(), label.clone(), remote))
    });
    match race(attempts.collect(), shared.settings.stagger).await {
        (Some(connected), _) => Ok(connected),
        (None, failures) => Err(failures),
    }
}

async fn by_socket(shared: Arc<Shared>, label: String, remote: SocketAddr) -> Result<Connected, Failures> {
    let reach = async {
        let unreachable =
            |e: std::io::Error| Reason::Unreachable { peer: label.clone(), reason: e.to_string() };
        let mut stream = TcpStream::connect(remote).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let established = handshake::dial(&mut stream, &shared.identity, &label).await?;
        Ok(Connected { stream, established, remote })
    };
    let late = || Reason::Deadline { what: "connecting", peer: label.clone() };
    let reached = timeout(shared.settings.connect, reach).await;
    reached.unwrap_or_else(|_| Err(late())).map_err(|e| vec![(remote.to_string(), e)])
}

/// Starts attempts one after another: the next when `stagger` has passed, or when one has failed.
async fn race<T: Send + 'static>(
    attempts: Vec<BoxFuture<'static, Result<T, Failures>>>,
    stagger: Duration,
) -> (Option<T>, Failures) {
    let mut waiting = attempts.into_iter();
    let (mut running, mut failures) = (JoinSet::new(), Vec::new());
    loop {
        match waiting.next() {
            Some(attempt) => _ = running.spawn(attempt),
            None if running.is_empty() => return (None, failures),
            None => {}
        }
        tokio::select! {
            Some(done) = running.join_next() => match done {
                Ok(Ok(won)) => return (Some(won), failures),
                Ok(Err(failed)) => failures.extend(failed),
                // Aborted with the runtime, or a panic that tokio has reported already.
                Err(_) => {}
            },
            () = sleep(stagger), if waiting.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn after(ms: u64, result: Result<u32, &str>) -> BoxFuture<'static, Result<u32, Failures>> {
        let reason = |r: &str| Reason::BadArgument(r.to_owned());
        let result = result.map_err(|r| vec![(r.to_owned(), reason(r))]);
        Box::pin(async move {
            sleep(Duration::from_millis(ms)).await;
            result
        })
    }

    fn run(attempts: Vec<BoxFuture<'static, Result<u32, Failures>>>) -> (Option<u32>, usize, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let start = Instant::now();
        let (won, failures) = runtime.block_on(race(attempts, Duration::from_millis(100)));
        (won, failures.len(), start.elapsed())
    }

    /// Field case B24: a dead address costs nothing and a silent one costs one stagger, not its time-out.
    #[test]
    fn dead_and_silent_addresses_cost_little() {
        let (won, failures, took) = run(vec![after(0, Err("dead")), after(60_000, Ok(1)), after(0, Ok(2))]);
        assert_eq!((won, failures), (Some(2), 1));
        assert!(took >= Duration::from_millis(100) && took < Duration::from_secs(5), "{took:?}");
        let (won, failures, _) = run(vec![after(0, Err("a")), after(1, Err("b"))]);
        assert_eq!((won, failures), (None, 2));
    }
}
