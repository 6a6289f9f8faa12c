//! Zero-copy DMA: a device moves the bytes, nothing is staged, and a route that would stage is refused.

use pipeline_node::explain::Rejection;
use pipeline_node::{Engine, Error, Peer, Reason, Request};
use pipeline_transports::{Caps, Mover, Transport};

use crate::files::{MODELS, engine, over_sim, source, target, these};
use crate::rig::{PATIENCE, bytes_of, carry_out, done, nothing_left, open, pattern, reasons, region_of};

fn staging(allow: &[&str]) -> Engine {
    let set = over_sim("zero_copy_dma", "direct = false");
    engine("zero_copy_dma", &[&these(&set)[..], allow].concat())
}

/// Its routes are for both directions the same: what the first of them came to.
fn rejected(client: &Engine, peer: &Peer) -> Vec<(String, Rejection)> {
    client.explain(peer).routes[0].write.rejected.clone()
}

/// Writes a mebibyte and reads it back.
fn there_and_back(client: &Engine, target: &Engine) {
    let kv = open(client, target).segment("kv").unwrap();
    let bytes = pattern(3, 1 << 20);
    let (from, to) = (region_of(client, &bytes), client.allocate(1 << 20).unwrap());
    done(client, &[Request::write(&from, 0, kv.at(0), 1 << 20)]);
    done(client, &[Request::read(&to, 0, kv.at(0), 1 << 20)]);
    assert!(bytes_of(&to) == bytes);
    nothing_left(client, [from, to]);
}

/// The shipped file names a transport that needs a build and a machine for it: where one of them is missing the engine says
/// which, and does not run something slower.
#[test]
#[cfg_attr(feature = "rdma", ignore = "with RDMA devices it runs: tests/tests/rdma")]
fn it_is_refused_rather_than_slow() {
    let error = Engine::from_source(&source("zero_copy_dma", &[])).unwrap_err();
    let said = error.to_string();
    assert!(
        matches!(error, Error::Memory(_)) && said.contains("transport `rdma` cannot work here"),
        "{said}"
    );
}

/// Over a wire that passes for a NIC no byte goes through a staging buffer; with any of the seven files over what it speaks
/// none does either.
#[test]
fn nothing_is_staged() {
    let target = target("1MiB");
    for model in MODELS {
        let set = if model == "zero_copy_dma" { over_sim(model, "") } else { vec![] };
        let client = engine(model, &these(&set));
        there_and_back(&client, &target);
        assert_eq!((client.counts().staged_copies, client.counts().staged_bytes), (0, 0), "{model}");
    }
}

/// A route that would stage is refused, with the reason, and not a byte is moved; it is taken where the file allows it, and
/// then every copy is counted.
#[test]
fn a_route_that_stages_is_refused() {
    let target = target("1MiB");
    let client = staging(&[]);
    let peer = client.connect_within(&target.local_address().to_string(), PATIENCE).unwrap();
    let barred = (String::from("sim"), Rejection::Staging);
    assert!(rejected(&client, &peer).contains(&barred), "{:?}", rejected(&client, &peer));
    let kv = peer.segment("kv").unwrap();
    let local = region_of(&client, &pattern(3, 1 << 20));
    let (_, batch) = carry_out(
        &client,
        &[Request::write(&local, 0, kv.at(0), 4096), Request::read(&local, 0, kv.at(0), 4096)],
    );
    assert_eq!(reasons(&batch), [Some(Reason::NoRoute); 2]);
    assert!(batch.results().all(|status| format!("{status:?}").contains("route")), "the stage is named");
    drop(batch);
    assert_eq!(client.counts().staged_copies, 0);
    assert!(bytes_of(&local) == pattern(3, 1 << 20), "a READ that was refused has moved bytes");
    nothing_left(&client, [local]);

    let client = staging(&["stages.route.staging='allow'"]);
    there_and_back(&client, &target);
    let counts = client.counts();
    assert_eq!(counts.staged_bytes, 2 << 20);
    assert!(counts.staged_copies >= 8, "a mebibyte in slices of 256 KiB, twice: {counts:?}");
}

/// Transports say who moves their bytes: a CPU over TCP and in process, a device where the wire passes for a NIC, and a
/// copy through a buffer is a CPU's.
#[test]
fn transports_say_who_moves_bytes() {
    let mover = |set: &[String]| {
        let loaded = source("zero_copy_dma", set).load().unwrap();
        let declared = &loaded.config.transports[0];
        let regions = std::sync::Arc::new(pipeline_transports::Regions::new(1));
        let transport: std::sync::Arc<dyn Transport> =
            pipeline_stages::catalog::transport(declared, 0xD0D0 + set.len() as u64, &regions).unwrap();
        let Caps { mover, direct, .. } = *transport.caps();
        (mover, direct)
    };
    let own = |kind: &str| {
        vec![
            "transports.rdma=false".to_owned(),
            format!("transports.it={{ type = '{kind}' }}"),
            "stages.route.prefer=['it']".to_owned(),
        ]
    };
    assert_eq!(mover(&own("tcp")), (Mover::Cpu, true));
    assert_eq!(mover(&own("loopback")), (Mover::Cpu, true));
    assert_eq!(mover(&over_sim("zero_copy_dma", "")), (Mover::Device, true));
    assert_eq!(mover(&over_sim("zero_copy_dma", "direct = false")), (Mover::Cpu, false));
}
