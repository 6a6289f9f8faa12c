//! Finds peers as Mooncake's initiators do: asks a peer itself, at its handshake port, or looks into the directory that all
//! share. What it answers is what the peer said last; nothing is kept of it but the names of regions.
//!
//! Deliberately suspicious of a descriptor: buffers that overlap, or more than can be named, make it useless as a whole.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::lookup_host;
use tokio::time::timeout;

use super::ask::Ask;
use super::bodies::{self, RpcMeta};
use super::descriptor::{Buffer, Descriptor, TCP};
use super::keys::Keys;
use super::name::HostPort;
use super::peers::{REGIONS_MAX, keys_of};
use super::region_names::RegionNames;
use super::settings::{Metadata, Settings, is_every_address};
use super::transport::KIND;
use crate::clock::{Nanos, until};
use crate::directory::{self, Store, StoreSettings};
use crate::error::Error;
use crate::foreign::{ForeignNotice, Found, FoundRegion, FoundSegment};
use crate::memory::{Access, RegionId};
use crate::transport::Offer;

/// The segment whose offsets are the peer's addresses.
pub const MEMORY: &str = "memory";
/// Kind of all of its segments.
const DRAM: &str = "dram";
/// Least bytes of an answer that are read, whatever the limit for what others ask: 20 000 buffers take 2 MiB.
const ANSWER_BYTES: u64 = 64 << 20;

/// The directory that all nodes share.
pub(super) struct Central {
    pub(super) store: Arc<dyn Store>,
    pub(super) keys: Keys,
}

impl Central {
    /// The one that the settings name, if they name one.
    ///
    /// # Errors
    /// See [`directory::open`].
    pub(super) fn of(settings: &Settings) -> Result<Option<Arc<Self>>, Error> {
        let Metadata::Central(url) = &settings.metadata else { return Ok(None) };
        let store = directory::open(&StoreSettings::from_url(url)?)?;
        Ok(Some(Arc::new(Self { store, keys: Keys::new(settings.cluster.as_deref()) })))
    }
}

/// Finds peers. Any task of the control pool.
pub(super) struct Finder {
    /// Name of the transport.
    transport: String,
    /// `None`: peers tell themselves.
    central: Option<Arc<Central>>,
    max_bytes: u64,
    names: RegionNames,
}

impl Finder {
    /// `max_bytes`: longest message of the handshake port.
    pub(super) fn new(transport: &str, central: Option<Arc<Central>>, max_bytes: u64) -> Self {
        let max_bytes = max_bytes.max(ANSWER_BYTES);
        Self { transport: transport.to_owned(), central, max_bytes, names: RegionNames::default() }
    }

    /// Where peers tell themselves, their names are addresses.
    pub(super) fn judge(&self, name: &str) -> Result<(), String> {
        match &self.central {
            None => HostPort::parse(name).map(drop).map_err(|error| error.to_string()),
            Some(_) => Ok(()),
        }
    }

    /// See [`crate::Foreign::find`](crate::foreign::Foreign::find). `own` is what this node tells of itself.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn find(&self, name: &str, own: &Descriptor, by: Nanos) -> Result<Found, Error> {
        let finding = async {
            let (told, port) = match &self.central {
                None => self.ask(name, own, by).await?,
                Some(central) => central.look_up(name, by).await?,
            };
            self.found(name, told, port, by).await
        };
        timeout(until(by), finding).await.unwrap_or_else(|_| Err(late("finding a Mooncake peer", name)))
    }

    /// Whether its process answers.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub(super) async fn probe(&self, name: &str, by: Nanos) -> Result<(), Error> {
        let port = self.handshake_port(name, by).await?;
        match (Ask { of: &port, max: self.max_bytes, by }).probe().await {
            // Whoever reads a question and answers nonsense lives; releases up to 0.3.10 do not know this one and hang up.
            Err(Error::Protocol { .. }) => Ok(()),
            other => other,
        }
    }

    /// Gives it a notice.
    ///
    /// # Errors
    /// As [`Self::find`]; [`Error::Refused`]; [`Error::BadArgument`] for what is no text.
    pub(super) async fn notify(&self, name: &str, notice: &ForeignNotice, by: Nanos) -> Result<(), Error> {
        let text = std::str::from_utf8(&notice.body).map_err(|error| {
            let at = error.valid_up_to();
            Error::BadArgument(format!(
                "a notice to the Mooncake peer {name} must be text (UTF-8): byte {at} is none"
            ))
        })?;
        let port = self.handshake_port(name, by).await?;
        Ask { of: &port, max: self.max_bytes, by }.notify(&notice.name, text).await
    }

    /// Nobody works with this start of a peer any more.
    pub(super) fn forget(&self, incarnation: u64) {
        self.names.forget(incarnation);
    }

    /// What a peer tells of itself, and where its handshake port is: for protocols that are spoken there.
    ///
    /// # Errors
    /// As [`Self::find`].
    #[cfg(feature = "rdma")]
    pub(super) async fn descriptor(
        &self,
        name: &str,
        own: &Descriptor,
        by: Nanos,
    ) -> Result<(Descriptor, HostPort), Error> {
        let asking = async {
            match &self.central {
                None => self.ask(name, own, by).await,
                Some(central) => Ok((central.descriptor(name, by).await?, central.rpc_meta(name, by).await?)),
            }
        };
        timeout(until(by), asking).await.unwrap_or_else(|_| Err(late("finding a Mooncake peer", name)))
    }

    async fn handshake_port(&self, name: &str, by: Nanos) -> Result<HostPort, Error> {
        match &self.central {
            None => address(name),
            Some(central) => {
                let looking = central.rpc_meta(name, by);
                timeout(until(by), looking)
                    .await
                    .unwrap_or_else(|_| Err(late("looking up a Mooncake peer", name)))
            }
        }
    }

    async fn ask(&self, name: &str, own: &Descriptor, by: Nanos) -> Result<(Descriptor, HostPort), Error> {
        let port = address(name)?;
        let told = Ask { of: &port, max: self.max_bytes, by }.metadata(own).await?;
        Ok((told, port))
    }

    async fn found(&self, name: &str, told: Descriptor, port: HostPort, by: Nanos) -> Result<Found, Error> {
        let broken = |reason: String| Error::Protocol { peer: name.to_owned(), reason };
        if !told.speaks(TCP) {
            return Err(broken(format!(
                "it is reached by {:?}, not by {TCP}; a transport of another type may reach it",
                told.protocol
            )));
        }
        let host = told.data_host().filter(|host| !is_every_address(&HostPort::new(host, 0).host));
        let data = HostPort::new(host.unwrap_or(&port.host), told.tcp_data_port);
        let addresses = resolve(name, &data, by).await?;
        let incarnation = incarnation(&told.name, &data, port.port);
        let buffers: Vec<&Buffer> = told.buffers_of(TCP).collect();
        let names = self.names.name(incarnation, &buffers).ok_or_else(|| {
            broken(format!("it has {} buffers, and {REGIONS_MAX} are the most", buffers.len()))
        })?;
        let segments = segments(&buffers, &names).map_err(broken)?;
        let body = told.framing().to_offer();
        let offer = Offer { kind: KIND.to_owned(), name: self.transport.clone(), body };
        Ok(Found { name: told.name, incarnation, addresses, offer, segments })
    }
}

impl Central {
    async fn look_up(&self, name: &str, by: Nanos) -> Result<(Descriptor, HostPort), Error> {
        let told = self.descriptor(name, by).await?;
        let port = match told.data_host() {
            // Only for its host, where the descriptor has none: so it is not asked for in vain.
            None => self.rpc_meta(name, by).await?,
            Some(host) => HostPort::new(host, 0),
        };
        Ok((told, port))
    }

    async fn descriptor(&self, name: &str, by: Nanos) -> Result<Descriptor, Error> {
        // As Mooncake's `openSegment` takes it.
        let name = name.strip_prefix('/').unwrap_or(name);
        let text = self.get(&self.keys.descriptor(name), name, by).await?;
        Descriptor::decode(&text).map_err(|error| self.nonsense(name, error))
    }

    async fn rpc_meta(&self, name: &str, by: Nanos) -> Result<HostPort, Error> {
        let text = self.get(&self.keys.rpc_meta(name), name, by).await?;
        let meta: RpcMeta = bodies::decode(&text).map_err(|error| self.nonsense(name, error))?;
        Ok(HostPort::new(&meta.ip_or_host_name, meta.rpc_port))
    }

    async fn get(&self, key: &str, name: &str, by: Nanos) -> Result<Vec<u8>, Error> {
        let unknown = || Error::UnknownName { name: name.to_owned(), place: self.store.place() };
        self.store.get(key, by).await?.ok_or_else(unknown)
    }

    fn nonsense(&self, name: &str, error: impl std::fmt::Display) -> Error {
        let reason = format!("what {} has of it makes no sense: {error}", self.store.place());
        Error::Protocol { peer: name.to_owned(), reason }
    }
}

fn address(name: &str) -> Result<HostPort, Error> {
    HostPort::parse(name).map_err(|error| Error::BadArgument(error.to_string()))
}

fn late(what: &'static str, name: &str) -> Error {
    Error::Deadline { what, peer: name.to_owned() }
}

/// The addresses of a data port. Names are looked up by threads of the runtime that may block.
pub(super) async fn resolve(name: &str, data: &HostPort, by: Nanos) -> Result<Arc<[SocketAddr]>, Error> {
    let unreachable = |reason: String| Error::Unreachable { peer: name.to_owned(), reason };
    let looking = timeout(until(by), lookup_host((data.host.as_str(), data.port))).await;
    let found = looking.map_err(|_| late("looking up the data port", name))?;
    let found: Arc<[SocketAddr]> =
        found.map_err(|error| unreachable(format!("its data port is {data}: {error}")))?.collect();
    match found.is_empty() {
        true => Err(unreachable(format!("its data port is {data}, which has no address"))),
        false => Ok(found),
    }
}

/// Another process has another port as a rule: that is all the protocol gives.
fn incarnation(name: &str, data: &HostPort, rpc_port: u16) -> u64 {
    let told = format!("{name}\n{data}\n{rpc_port}");
    let hash = told
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    hash.max(1)
}

/// All memory by its addresses, and each buffer from its first byte.
fn segments(buffers: &[&Buffer], names: &[RegionId]) -> Result<Vec<FoundSegment>, String> {
    let region = |(buffer, id): (&&Buffer, &RegionId), start: u64| FoundRegion {
        id: *id,
        start,
        len: buffer.length,
        access: Access::ReadWrite,
        keys: keys_of(buffer.addr),
    };
    let segment = |name: String, regions| FoundSegment { name, kind: DRAM.to_owned(), regions };
    let mut memory: Vec<FoundRegion> =
        buffers.iter().zip(names).map(|(buffer, id)| region((buffer, id), buffer.addr)).collect();
    memory.sort_by_key(|region| region.start);
    let overlap = |pair: &&[FoundRegion]| pair[0].start + pair[0].len > pair[1].start;
    if let Some([one, two]) = memory.windows(2).find(overlap) {
        return Err(format!(
            "its buffers at {:#x} ({} bytes) and at {:#x} overlap: nobody knows which one is meant",
            one.start, one.len, two.start
        ));
    }
    let each = buffers.iter().zip(names).enumerate();
    let each = each.map(|(i, pair)| segment(format!("buffer-{i}"), vec![region(pair, 0)]));
    Ok(std::iter::once(segment(MEMORY.to_owned(), memory)).chain(each).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(addr: u64, length: u64) -> Buffer {
        Buffer { addr, length, name: "x".into(), ..Buffer::default() }
    }

    fn cut(buffers: &[Buffer]) -> Result<Vec<FoundSegment>, String> {
        let names: Vec<RegionId> = (1..=buffers.len() as u64).map(RegionId).collect();
        segments(&buffers.iter().collect::<Vec<_>>(), &names)
    }

    /// Memory is by address and ascending, buffers are in the order in which they were told, and both name the same regions.
    #[test]
    fn one_view_of_two_kinds() {
        let all = cut(&[buffer(8192, 100), buffer(4096, 4096), buffer(1 << 40, 1)]).unwrap();
        let told = |s: &FoundSegment| s.regions.iter().map(|r| (r.id.0, r.start, r.len)).collect::<Vec<_>>();
        assert_eq!((all[0].name.as_str(), all[0].kind.as_str()), ("memory", "dram"));
        assert_eq!(told(&all[0]), [(2, 4096, 4096), (1, 8192, 100), (3, 1 << 40, 1)]);
        assert_eq!((all[1].name.as_str(), told(&all[1])), ("buffer-0", vec![(1, 0, 100)]));
        assert_eq!((all[3].name.as_str(), told(&all[3])), ("buffer-2", vec![(3, 0, 1)]));
        assert_eq!(all[1].regions[0].keys, 8192u64.to_le_bytes());
        assert_eq!(cut(&[]).unwrap().len(), 1);
    }

    /// Buffers that overlap, or are told twice, make the whole useless; those that touch do not.
    #[test]
    fn overlaps() {
        assert!(cut(&[buffer(4096, 10), buffer(4106, 1)]).is_ok());
        for other in [buffer(4105, 1), buffer(4096, 10), buffer(4000, 97), buffer(1, u64::MAX - 1)] {
            let error = cut(&[buffer(4096, 10), other]).unwrap_err();
            assert!(error.contains("overlap"), "{error}");
        }
    }

    /// Whatever differs makes another start, and none is 0.
    #[test]
    fn starts_differ() {
        let at = |port| HostPort::new("h", port);
        let all = [
            incarnation("a", &at(1), 2),
            incarnation("b", &at(1), 2),
            incarnation("a", &at(3), 2),
            incarnation("a", &at(1), 3),
        ];
        assert!(all.iter().all(|one| *one != 0));
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    }
}
