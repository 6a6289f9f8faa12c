//! How a lane reaches its peer: from the address of its NIC, to one of the addresses that the peer may have. The NICs of
//! both sides are paired by number, so that as many ways are used as there are, and an address that does not answer is
//! left for later. Deliberately no name is resolved here, and no control session goes this way.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::hello::{ANSWER_BYTES, Hello};
use super::nics::Nics;
use super::settings::{Nic, Settings};
use super::socket;
use super::source::{interface, is_on_link, source, tied_astray};
use crate::clock::{Nanos, until};
use crate::error::Error;
use crate::exhausted::{connecting, spare};
use crate::interfaces::Interfaces;
use crate::resting::Resting;
use crate::transport::Path;

/// How long an address is tried while there are others.
const PATIENCE: Duration = Duration::from_secs(1);

/// An address of the peer, and which of its NICs that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    remote_nic: u16,
    to: SocketAddr,
}

/// A connection whose hello was answered.
pub(super) struct Reached {
    pub(super) stream: TcpStream,
    pub(super) theirs: Hello,
    pub(super) remote_nic: u16,
}

/// Connects from the NIC of `path`, sends `hello` and takes the answer.
///
/// # Errors
/// [`Error::LocalNic`] when the NIC cannot be used, else what the last address said.
pub(super) async fn reach(
    settings: &Settings,
    nics: &Nics,
    resting: &Resting,
    path: &Path,
    hello: &[u8],
    by: Nanos,
) -> Result<Reached, Error> {
    let nic = nics.declared(path.nic.0);
    let on = nic.and_then(|_| nics.look());
    let mut candidates = candidates(nic, on.as_deref(), path, nics.count());
    candidates.sort_by_key(|c| (path.avoid.contains(&c.remote_nic), resting.has(path.nic.0, c.to)));
    let mut last = None;
    for (i, Candidate { remote_nic, to }) in candidates.iter().copied().enumerate() {
        let left = candidates.len() - i;
        // The last one has all the time that is left.
        let patience = if left > 1 { PATIENCE.min(until(by) / left as u32) } else { until(by) };
        let attempt = attempt(settings, nic, on.as_deref(), path, to, hello);
        let late = || Error::Deadline { what: "opening a TCP lane", peer: path.peer.clone() };
        match timeout(patience, attempt).await.unwrap_or_else(|_| Err(late())) {
            Ok((stream, theirs)) => return Ok(Reached { stream, theirs, remote_nic }),
            Err(error) => {
                // What went wrong may be the NIC's: it may have failed since it was looked at.
                if let Some(why) = nic.zip(nics.look()).and_then(|(nic, on)| source(nic, to, &on).err()) {
                    last = Some(local(nic, why));
                    continue;
                }
                let tied = nic.filter(|_| settings.bind_device).zip(nics.look());
                if let Some(why) = tied.and_then(|(nic, on)| tied_astray(nic, to, &on)) {
                    last = Some(local(nic, why));
                    continue;
                }
                if candidates.len() > 1 {
                    resting.add(path.nic.0, to);
                }
                last = Some(error);
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::Unreachable { peer: path.peer.clone(), reason: "no address".into() }))
}

fn local(nic: Option<&Nic>, reason: String) -> Error {
    Error::LocalNic { nic: nic.map(|nic| nic.name.clone()).unwrap_or_default(), reason }
}

/// The addresses to try, best first: lane `i` of NIC `n` takes address `n + i × NICs` of those that the NIC reaches
/// without a router, or if there are none, of those of a family that it has; then the address where control reached the
/// peer is the last resort, and the only one for a transport whose file names no NIC.
fn candidates(nic: Option<&Nic>, on: Option<&Interfaces>, path: &Path, nics: usize) -> Vec<Candidate> {
    let told = path.addresses.iter().enumerate();
    let all: Vec<Candidate> = told.map(|(i, to)| Candidate { remote_nic: i as u16, to: *to }).collect();
    let control = all.iter().find(|candidate| candidate.to == path.address).copied();
    let control = control.unwrap_or(Candidate { remote_nic: 0, to: path.address });
    let (near, far): (Vec<_>, Vec<_>) = match nic.zip(on) {
        // Nobody can tell which of them the system's routing reaches, but that one it did.
        None => return vec![control],
        Some((nic, on)) => {
            let usable = all.into_iter().filter(|c| source(nic, c.to, on).is_ok());
            usable.partition(|c| is_on_link(nic, c.to.ip(), on))
        }
    };
    let is_near = !near.is_empty();
    let mut found = if is_near { near } else { far };
    let first = usize::from(path.nic.0) + usize::from(path.lane) * nics;
    let count = found.len().max(1);
    found.rotate_left(first % count);
    // Rails are not crossed because one of them is dead.
    if !is_near && found.iter().all(|candidate| candidate.to != path.address) {
        found.push(control);
    }
    found
}

async fn attempt(
    settings: &Settings,
    nic: Option<&Nic>,
    on: Option<&Interfaces>,
    path: &Path,
    to: SocketAddr,
    hello: &[u8],
) -> Result<(TcpStream, Hello), Error> {
    let unreachable =
        |e: std::io::Error| Error::Unreachable { peer: path.peer.clone(), reason: format!("{to}: {e}") };
    let refused = |reason: String| Error::Refused { peer: path.peer.clone(), reason };
    let mut stream = connect(settings, nic, on, path, to).await?;
    stream.write_all(hello).await.map_err(unreachable)?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => refused("it closed the lane before answering its hello".into()),
        _ => unreachable(e),
    })?;
    let theirs = Hello::decode_answer(&answer).map_err(|e| refused(e.to_string()))?;
    Ok((stream, theirs))
}

async fn connect(
    settings: &Settings,
    nic: Option<&Nic>,
    on: Option<&Interfaces>,
    path: &Path,
    to: SocketAddr,
) -> Result<TcpStream, Error> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(|e| connecting(&path.peer, e))?;
    spare(&socket).map_err(|e| connecting(&path.peer, e))?;
    socket::before_connect(&socket, settings)?;
    if let Some(nic) = nic {
        bind(&socket, settings, nic, on, to).map_err(|why| local(Some(nic), why))?;
    }
    let stream = socket.connect(to).await.map_err(|e| connecting(&path.peer, e))?;
    socket::connected(&stream, settings)?;
    Ok(stream)
}

/// Ties a socket to its NIC.
fn bind(
    socket: &TcpSocket,
    settings: &Settings,
    nic: &Nic,
    on: Option<&Interfaces>,
    to: SocketAddr,
) -> Result<(), String> {
    let own = match on {
        Some(on) => source(nic, to, on)?,
        // The kernel tells nothing: it judges the address itself.
        None => nic.address.map(|own| SocketAddr::new(own, 0)),
    };
    let device = on.and_then(|on| interface(nic, on)).map(|through| through.name.as_str());
    if settings.bind_device
        && let Some(device) = device.or(nic.device.as_deref())
    {
        let bound = socket2::SockRef::from(socket).bind_device(Some(device.as_bytes()));
        bound.map_err(|e| {
            format!("a lane cannot be tied to interface `{device}`: {e}; take out bind = \"device\", or see `ip -br link`")
        })?;
    }
    let Some(own) = own else { return Ok(()) };
    socket::bind_source(socket, own)
        .map_err(|e| format!("a lane cannot leave from {}: {e}; see `ip -br address`", own.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::{Assigned, Interface};
    use crate::link::LinkId;
    use crate::transport::{NicId, PairId, SessionId};

    fn path(nic: u16, lane: u16, addresses: &[&str]) -> Path {
        Path {
            link: LinkId(1),
            nic: NicId(nic),
            pair: PairId(0),
            lane,
            peer: "b".into(),
            address: "10.0.0.2:7001".parse().unwrap(),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            session: SessionId([0; 16]),
            incarnation: 1,
            avoid: Vec::new(),
        }
    }

    fn two() -> (Vec<Nic>, Interfaces) {
        let nic = |i: u32| {
            let name = format!("eth{i}");
            let ip = format!("10.{i}.0.1").parse().unwrap();
            let address = Assigned { ip, prefix: 24, is_usable: true, is_deprecated: false };
            let through = Interface {
                name: name.clone(),
                index: i + 1,
                is_up: true,
                addresses: vec![address],
                ..Interface::default()
            };
            (Nic { name: name.clone(), address: None, device: Some(name) }, through)
        };
        let (nics, interfaces): (Vec<_>, Vec<_>) = (0..2).map(nic).unzip();
        (nics, interfaces.into_iter().collect())
    }

    fn order(nic: u16, lane: u16, addresses: &[&str]) -> Vec<String> {
        let (nics, on) = two();
        let found =
            candidates(nics.get(usize::from(nic)), Some(&on), &path(nic, lane, addresses), nics.len());
        found.iter().map(|c| format!("{}={}", c.remote_nic, c.to)).collect()
    }

    /// NICs whose networks differ are paired by network whatever the order; NICs that reach all addresses by number, further
    /// lanes to further addresses; one address, or none that suits, leaves that of control.
    #[test]
    fn nics_are_paired() {
        assert_eq!(order(0, 0, &[]), ["0=10.0.0.2:7001"]);
        let crossed = ["10.1.0.2:7001", "10.0.0.2:7001"];
        assert_eq!(order(0, 0, &crossed), ["1=10.0.0.2:7001"]);
        assert_eq!(order(1, 0, &crossed), ["0=10.1.0.2:7001"]);
        let far = ["10.8.0.2:1", "10.8.1.2:1", "10.8.2.2:1", "10.8.3.2:1"];
        let first = |nic, lane| order(nic, lane, &far)[0].clone();
        assert_eq!(
            [first(0, 0), first(0, 1), first(1, 0), first(1, 1), first(1, 2)],
            ["0=10.8.0.2:1", "2=10.8.2.2:1", "1=10.8.1.2:1", "3=10.8.3.2:1", "1=10.8.1.2:1"]
        );
        assert_eq!(order(0, 0, &["[fd00::2]:7001"]), ["0=10.0.0.2:7001"]);
        // Without a NIC of the file a lane goes where the session went.
        let session = "10.0.0.2:7001";
        let free = candidates(None, None, &path(0, 1, &[far[0], session]), 1);
        assert_eq!(free, [Candidate { remote_nic: 1, to: session.parse().unwrap() }]);
    }
}
