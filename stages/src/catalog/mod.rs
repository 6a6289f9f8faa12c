//! THE list: every stage type and every transport type that a file may name, and how each is made.
//! Deliberately one visible list: adding a stage is its file and one line here.

mod checks;
mod ends;
mod mooncake;
mod mooncake_rdma;
mod rdma;
mod reachable;
mod rules;
mod transport_kinds;

use std::sync::Arc;

use pipeline_configs::{Catalog, Config, Interface, StageKind, TransportConfig, TransportKind};
use pipeline_graph::Spec;
use pipeline_transports::loopback::{Loopback, LoopbackSettings};
use pipeline_transports::sim::{Sim, SimSettings};
use pipeline_transports::tcp::{Nic, Settings as TcpSettings, TcpTransport};
use pipeline_transports::{Error, Mover, Regions, Transport};

use crate::files::stage as file_serve;
use crate::key::Key;
use crate::spec::{Build, Making, StageSpec};
use crate::world::World;
use crate::{
    admit, callbacks, checksum, completion_notify, cq_reap, nic_select, protocol_route, read_back,
    request_split, retry, serve, wr_post,
};

pub use mooncake::settings as mooncake_settings;
#[cfg(feature = "rdma")]
pub use rdma::settings as rdma_settings;

const STAGES: &[(StageKind, Build)] = &[
    (admit::KIND, admit::build),
    (request_split::KIND, request_split::build),
    (protocol_route::KIND, protocol_route::build),
    (nic_select::KIND, nic_select::build),
    (wr_post::KIND, wr_post::build),
    (cq_reap::KIND, cq_reap::build),
    (retry::KIND, retry::build),
    (completion_notify::KIND, completion_notify::build),
    (serve::KIND, serve::build),
    (file_serve::KIND, file_serve::build),
    (callbacks::KIND, callbacks::build),
    (read_back::KIND, read_back::build),
    (checksum::KIND, checksum::build),
];

const TRANSPORTS: &[(TransportKind, Factory)] = &[
    (transport_kinds::TCP, tcp),
    (transport_kinds::LOOPBACK, loopback),
    (transport_kinds::SIM, sim),
    (transport_kinds::SHM, later),
    (transport_kinds::CMA, later),
    (transport_kinds::RDMA, rdma::make),
    (transport_kinds::CUDA, later),
    (transport_kinds::FILE, later),
    (transport_kinds::MOONCAKE_TCP, mooncake::make),
    (mooncake_rdma::KIND, mooncake_rdma::make),
];

type Factory = fn(&TransportConfig, u64, &Arc<Regions>) -> Result<Arc<dyn Transport>, Error>;

/// Everything that a file may name as a `type`.
pub fn catalog() -> Catalog {
    Catalog {
        stages: STAGES.iter().map(|(kind, _)| *kind).collect(),
        transports: TRANSPORTS.iter().map(|(kind, _)| *kind).collect(),
        rules: rules::ALL.to_vec(),
        transport_rules: vec![reachable::checks],
    }
}

/// The specs of all stages of a file, in its order: what `Engine::start` wants. Also tells the ledger the
/// stages' names.
///
/// # Errors
/// The first type that is not in the catalogue: such a file was not loaded with [`catalog`].
pub fn specs(config: &Arc<Config>, world: &Arc<World>) -> Result<Vec<Arc<dyn Spec<Key>>>, Error> {
    world.ledger.name_stages(config.stages.iter().map(|s| Arc::from(s.name.as_str())));
    (0..config.stages.len()).map(|stage| spec(config, stage, world)).collect()
}

/// The spec of one stage of a file.
///
/// # Errors
/// As [`specs`].
pub fn spec(config: &Arc<Config>, stage: usize, world: &Arc<World>) -> Result<Arc<dyn Spec<Key>>, Error> {
    let declared = &config.stages[stage];
    let (_, build) = STAGES
        .iter()
        .find(|(kind, _)| kind.name == declared.kind)
        .ok_or_else(|| unknown("stage", &declared.name, &declared.kind))?;
    let making = Making {
        world: world.clone(),
        config: config.clone(),
        stage,
        // A link is adopted once and aborted once.
        box_size: 2 * config.limits.links as usize + 16,
    };
    let shape = config.blueprint.stages[stage].shape.clone();
    let spread = declared.values.number("spread").unwrap_or(1).max(1);
    Ok(Arc::new(StageSpec { making, shape, build: *build, spread }))
}

/// Makes a declared transport for the node `incarnation` with these regions.
///
/// # Errors
/// What the transport says, or that its type is not in the catalogue.
pub fn transport(
    config: &TransportConfig,
    incarnation: u64,
    regions: &Arc<Regions>,
) -> Result<Arc<dyn Transport>, Error> {
    let (_, factory) = TRANSPORTS
        .iter()
        .find(|(kind, _)| kind.name == config.kind)
        .ok_or_else(|| unknown("transport", &config.name, &config.kind))?;
    factory(config, incarnation, regions)
}

/// Who moves the bytes of a declared transport: what its [`Caps`](pipeline_transports::Caps) say, told without making it, so
/// also of those that come with a later release.
pub fn mover(config: &TransportConfig) -> Mover {
    match config.kind.as_str() {
        "rdma" | "mooncake_rdma" | "cuda" => Mover::Device,
        // What it stands for, unless a staging buffer is asked for.
        "sim" if config.values.flag("direct") => Mover::Device,
        _ => Mover::Cpu,
    }
}

fn unknown(what: &str, name: &str, kind: &str) -> Error {
    Error::BadArgument(format!("{what} `{name}` has type `{kind}`, which this build does not have"))
}

fn later(config: &TransportConfig, _: u64, _: &Arc<Regions>) -> Result<Arc<dyn Transport>, Error> {
    Err(Error::BadArgument(format!(
        "transport `{}` has type `{}`, which comes with a later release",
        config.name, config.kind
    )))
}

fn tcp(config: &TransportConfig, _: u64, regions: &Arc<Regions>) -> Result<Arc<dyn Transport>, Error> {
    Ok(Arc::new(TcpTransport::new(&config.name, tcp_settings(config), regions.clone())))
}

/// What a file says of a TCP transport: sockets, lanes, frames.
pub fn tcp_settings(config: &TransportConfig) -> TcpSettings {
    let (values, usual) = (&config.values, TcpSettings::default());
    let number = |key, usual: u64| values.number(key).unwrap_or(usual);
    let size = |key| values.number(key).map(|n| n as usize);
    // A transport that names no NIC has one of its own name: no interface, the system's routing.
    let nics = config.nics.iter().zip(&config.interfaces);
    let described = nics.filter(|(_, at)| at.device.is_some() || at.address.is_some());
    let nic = |(name, at): (&String, &Interface)| Nic {
        name: name.clone(),
        address: at.address,
        device: at.device.clone(),
    };
    TcpSettings {
        nics: described.map(nic).collect(),
        bind_device: values.text("bind") == Some("device"),
        lanes: number("lanes", u64::from(usual.lanes)) as u16,
        nodelay: values.flag("nodelay"),
        congestion: values.text("congestion").map(str::to_owned),
        send_buffer_bytes: size("send_buffer"),
        receive_buffer_bytes: size("receive_buffer"),
        depth: number("depth", u64::from(usual.depth)) as u32,
        frame_descriptors: number("frame_descriptors", u64::from(usual.frame_descriptors)) as u16,
        frame_bytes: number("frame", usual.frame_bytes),
        preferred_bytes: number("prefers", usual.preferred_bytes),
        keepalive: values.time("keepalive").filter(|t| !t.is_zero()),
        stall: values.time("stall").filter(|t| !t.is_zero()),
        ..usual
    }
}

fn loopback(
    config: &TransportConfig,
    incarnation: u64,
    regions: &Arc<Regions>,
) -> Result<Arc<dyn Transport>, Error> {
    let (values, usual) = (&config.values, LoopbackSettings::default());
    let settings = LoopbackSettings {
        name: config.name.clone(),
        nics: config.nics.clone(),
        lanes: values.number("lanes").map_or(usual.lanes, |n| n as u16),
        preferred_bytes: values.number("prefers").unwrap_or(usual.preferred_bytes),
        queue: values.number("depth").map_or(usual.queue, |n| n as usize),
    };
    Ok(Arc::new(Loopback::new(settings, incarnation, regions.clone())?))
}

fn sim(
    config: &TransportConfig,
    incarnation: u64,
    regions: &Arc<Regions>,
) -> Result<Arc<dyn Transport>, Error> {
    let (values, usual) = (&config.values, SimSettings::default());
    let number = |key| values.number(key).unwrap_or(0);
    let ns = |key, usual| values.time(key).map_or(usual, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
    // What the file says of a NIC's speed is simulated too.
    let speed = |nic: &Interface| nic.bits_per_s.map_or_else(|| number("bytes_per_s"), |bits| bits / 8);
    let settings = SimSettings {
        name: config.name.clone(),
        nics: config.nics.clone(),
        nic_bytes_per_s: config.interfaces.iter().map(speed).collect(),
        seed: number("seed"),
        lanes: values.number("lanes").map_or(usual.lanes, |n| n as u16),
        preferred_bytes: values.number("prefers").unwrap_or(usual.preferred_bytes),
        queue: values.number("depth").map_or(usual.queue, |n| n as usize),
        direct: values.flag("direct"),
        moves_bytes: values.flag("move"),
        delay_ns_min: ns("delay_min", usual.delay_ns_min),
        delay_ns_max: ns("delay_max", usual.delay_ns_max),
        bytes_per_s: number("bytes_per_s"),
        reorder_ppm: number("reorder_ppm") as u32,
        loss_ppm: number("loss_ppm") as u32,
        error_ppm: number("error_ppm") as u32,
        refuse_ppm: number("refuse_ppm") as u32,
        duplicate_ppm: number("duplicate_ppm") as u32,
        corrupt_ppm: number("corrupt_ppm") as u32,
    };
    Ok(Arc::new(Sim::new(settings, incarnation, regions.clone())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline_configs::{Facts, Values};

    /// Every type has its own name, every key a sentence, and every default fits its own key.
    #[test]
    fn declarations_hold() {
        let catalog = catalog();
        let mut names: Vec<&str> = catalog.stages.iter().map(|s| s.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), catalog.stages.len());
        let keys = catalog.stages.iter().map(|s| s.keys).chain(catalog.transports.iter().map(|t| t.keys));
        for key in keys.flatten() {
            assert!(key.doc.len() > 20, "{} says too little", key.name);
            if let Some(default) = key.default {
                pipeline_configs::value::default_of(key, default).unwrap();
            }
        }
    }

    /// Who moves the bytes is told of a declared transport as the transport itself tells it.
    #[test]
    fn movers_are_those_of_the_transports() {
        let text = "version = 1\nuse = \"tcp\"\ntransports.a = { type = \"loopback\" }\n\
                    transports.b = { type = \"sim\" }\ntransports.c = { type = \"sim\", direct = false }\n";
        let loaded =
            pipeline_configs::load_str("movers", text, &catalog(), &pipeline_configs::Options::default());
        let loaded = loaded.unwrap_or_else(|findings| panic!("{findings}"));
        let regions = Arc::new(Regions::new(8));
        let told: Vec<_> = loaded.config.transports.iter().map(mover).collect();
        let made = loaded.config.transports.iter().zip(1..);
        let made =
            made.map(|(config, incarnation)| transport(config, incarnation, &regions).unwrap().caps().mover);
        assert_eq!(told, made.collect::<Vec<_>>());
        assert!(told.contains(&Mover::Cpu) && told.contains(&Mover::Device));
    }

    /// Every stage type that fails slices has a port for them, so that `"*.failed -> notify"` reaches all.
    #[test]
    fn shapes_hold() {
        for kind in catalog().stages {
            let shape = (kind.shape)(&Values::default(), &Facts::default());
            let holds = shape.contract.holds || shape.contract.expands;
            assert!(!holds || shape.ports.iter().any(|p| p.name == "failed"), "{}", kind.name);
        }
    }
}
