//! Reaches a peer that may have several names and addresses: in order, but never waiting long for a dead one.
//! Each address is tried alone for `stagger`; then the next joins, and the first finished handshake wins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pipeline_transports::Error as Reason;
use pipeline_transports::control::{Address, Established, handshake};
use pipeline_transports::exhausted::{connecting, spare};
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
    /// Addresses before it that failed or had not answered, with the reasons; empty when it was the first.
    pub(super) detours: String,
}

/// Addresses that failed, with the reasons.
type Failures = Vec<(String, Reason)>;

/// An attempt, with the address that it is about.
type Attempt<T> = (String, BoxFuture<'static, Result<T, Failures>>);

/// Who is wanted.
#[derive(Clone)]
struct Wanted {
    /// For messages.
    label: String,
    /// Only a node of this name will do: what listens at an address by now may be another one.
    name: Option<String>,
}

/// Connects and shakes hands; with a `name` only with the node of that name.
///
/// # Errors
/// [`Reason::Refused`] if an address refused us, [`Reason::Exhausted`] if this side could not even try, else what names
/// every address and its reason.
pub(super) async fn connect(
    shared: &Arc<Shared>,
    label: &str,
    addresses: &[Address],
    name: Option<&str>,
) -> Result<Connected, Reason> {
    let wanted = Wanted { label: label.to_owned(), name: name.map(str::to_owned) };
    let attempts = addresses.iter().map(|address| -> Attempt<_> {
        let attempt = by_address(shared.clone(), wanted.clone(), address.clone());
        (address.to_string(), Box::pin(attempt))
    });
    match race(attempts.collect(), shared.settings.stagger).await {
        (Some((connected, overtaken)), failures) => {
            let silent = overtaken.into_iter().map(|address| format!("{address}: no answer yet"));
            let detours: Vec<String> = list(&failures).chain(silent).collect();
            Ok(Connected { detours: detours.join("; "), ..connected })
        }
        (None, mut failures) => {
            // A refusal is what the user must act on, and so is what this side lacks; other addresses are then beside
            // the point.
            let find = |test: fn(&Reason) -> bool| failures.iter().position(|(_, e)| test(e));
            let first = find(|e| matches!(e, Reason::Refused { .. }))
                .or_else(|| find(|e| matches!(e, Reason::Exhausted { .. })));
            match (first, failures.len()) {
                (Some(at), _) => Err(failures.swap_remove(at).1),
                (None, 1) if !matches!(failures[0].1, Reason::Io { .. }) => Err(failures.swap_remove(0).1),
                _ => {
                    let reason = list(&failures).collect::<Vec<_>>().join("; ");
                    Err(Reason::Unreachable { peer: label.to_owned(), reason })
                }
            }
        }
    }
}

fn list(failures: &Failures) -> impl Iterator<Item = String> {
    failures.iter().map(|(address, e)| match e {
        Reason::Unreachable { reason, .. } | Reason::Protocol { reason, .. } => {
            format!("{address}: {reason}")
        }
        Reason::Io { source, .. } => format!("{address}: {source}"),
        Reason::Deadline { .. } => format!("{address}: no answer in time"),
        other => format!("{address}: {other}"),
    })
}

/// Resolves one address and races what it resolves to.
async fn by_address(shared: Arc<Shared>, wanted: Wanted, address: Address) -> Result<Connected, Failures> {
    let limit = shared.settings.connect;
    let text = address.to_string();
    let found = timeout(limit, lookup_host((address.host.as_str(), address.port))).await;
    let found: Vec<SocketAddr> = match found {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(source)) => {
            let what = format!("resolving {text}");
            return Err(vec![(text, Reason::Io { what, source })]);
        }
        Err(_) => return Err(vec![(text, Reason::Deadline { what: "resolving", peer: wanted.label })]),
    };
    if found.is_empty() {
        let reason = "the name has no address".to_owned();
        return Err(vec![(text, Reason::Unreachable { peer: wanted.label, reason })]);
    }
    let attempts = found.into_iter().map(|remote| -> Attempt<_> {
        (remote.to_string(), Box::pin(by_socket(shared.clone(), wanted.clone(), remote)))
    });
    match race(attempts.collect(), shared.settings.stagger).await {
        (Some((connected, _)), _) => Ok(connected),
        (None, failures) => Err(failures),
    }
}

async fn by_socket(shared: Arc<Shared>, wanted: Wanted, remote: SocketAddr) -> Result<Connected, Failures> {
    let Wanted { label, name } = wanted;
    let reach = async {
        let mut stream = TcpStream::connect(remote).await.map_err(|e| connecting(&label, e))?;
        spare(&stream).map_err(|e| connecting(&label, e))?;
        options(&stream, shared.settings.idle).map_err(|e| connecting(&label, e))?;
        let established = handshake::dial(&mut stream, &shared.identity, &label).await?;
        let there = &established.peer.name;
        if let Some(name) = name.filter(|name| name != there) {
            let reason = format!("the node there is `{there}`, not `{name}`");
            return Err(Reason::Unreachable { peer: label.clone(), reason });
        }
        Ok(Connected { stream, established, remote, detours: String::new() })
    };
    let late = || Reason::Deadline { what: "connecting", peer: label.clone() };
    let reached = timeout(shared.settings.connect, reach).await;
    reached.unwrap_or_else(|_| Err(late())).map_err(|e| vec![(remote.to_string(), e)])
}

/// Options of a control connection, on either side.
pub(super) fn options(stream: &TcpStream, silence: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    // Nobody answers for a host that vanished: then the system shall not keep for long what was still to be sent, the
    // goodbye included.
    rustix::net::sockopt::set_tcp_user_timeout(stream, silence.as_millis().min(u128::from(u32::MAX)) as u32)?;
    Ok(())
}

/// Starts attempts one after another: the next when `stagger` has passed, or when one has failed. Answers the first that
/// succeeds with the addresses that had not answered by then, and what had failed.
async fn race<T: Send + 'static>(
    attempts: Vec<Attempt<T>>,
    stagger: Duration,
) -> (Option<(T, Vec<String>)>, Failures) {
    let mut waiting = attempts.into_iter();
    let (mut running, mut failures) = (JoinSet::new(), Vec::new());
    let mut names = Vec::new();
    loop {
        match waiting.next() {
            Some((name, attempt)) => names.push((running.spawn(attempt).id(), name)),
            None if running.is_empty() => return (None, failures),
            None => {}
        }
        tokio::select! {
            Some(done) = running.join_next_with_id() => match done {
                Ok((id, done)) => {
                    names.retain(|(of, _)| *of != id);
                    match done {
                        Ok(won) => return (Some((won, names.into_iter().map(|n| n.1).collect())), failures),
                        Err(failed) => failures.extend(failed),
                    }
                }
                // Aborted with the runtime, or a panic that tokio has reported already.
                Err(e) => names.retain(|(of, _)| *of != e.id()),
            },
            () = sleep(stagger), if waiting.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn after(ms: u64, result: Result<u32, &str>) -> Attempt<u32> {
        let reason = |r: &str| Reason::BadArgument(r.to_owned());
        let result = result.map_err(|r| vec![(r.to_owned(), reason(r))]);
        let attempt = async move {
            sleep(Duration::from_millis(ms)).await;
            result
        };
        (format!("after {ms}"), Box::pin(attempt))
    }

    fn run(attempts: Vec<Attempt<u32>>) -> (Option<(u32, Vec<String>)>, usize, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let start = Instant::now();
        let (won, failures) = runtime.block_on(race(attempts, Duration::from_millis(100)));
        (won, failures.len(), start.elapsed())
    }

    /// Field case B24: a dead address costs nothing and a silent one costs one stagger, not its time-out.
    #[test]
    fn dead_and_silent_addresses_cost_little() {
        let (won, failures, took) = run(vec![after(0, Err("dead")), after(60_000, Ok(1)), after(0, Ok(2))]);
        assert_eq!((won, failures), (Some((2, vec!["after 60000".to_owned()])), 1));
        assert!(took >= Duration::from_millis(100) && took < Duration::from_secs(5), "{took:?}");
        let (won, failures, _) = run(vec![after(0, Err("a")), after(1, Err("b"))]);
        assert_eq!((won, failures), (None, 2));
    }
}
