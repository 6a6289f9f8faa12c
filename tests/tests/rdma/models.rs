//! The seven threading models of `configs/models/` over RDMA: the shipped files, with nothing overridden but the transport and
//! its devices. Event-driven sleeps until its completion queue has something; zero-copy moves nothing by CPU.

use std::time::Duration;

use pipeline_node::{Engine, Options, Request, Source};

use crate::bed::{device, shipped};
use crate::node::{Node, kv};
use crate::pair::LONG;
use crate::rig::{bytes_of, nothing_left, pattern, region_of};
use crate::threads;
use crate::wire::Wire;

const MODELS: [&str; 7] = [
    "run_to_completion",
    "pipeline",
    "thread_per_core",
    "submit_then_poll",
    "event_driven",
    "zero_copy_dma",
    "adaptive_polling",
];

/// What makes a model's file speak RDMA over a device; `zero_copy_dma` does.
fn over_rdma(model: &str, index: usize, keys: &str) -> Vec<String> {
    let nics = format!("nics=['{}']", device(index));
    if model == "zero_copy_dma" {
        return vec![format!("transports.rdma.{nics}")];
    }
    vec![
        "transports.tcp=false".into(),
        format!("transports.rdma={{ type='rdma', {nics}{keys} }}"),
        "stages.route.prefer=['rdma']".into(),
    ]
}

#[track_caller]
fn engine(model: &str, set: Vec<String>) -> Engine {
    let source = Source::file(shipped(&format!("models/{model}.toml"))).set(set);
    Engine::from_source(&source).unwrap_or_else(|e| panic!("{model}: {e}"))
}

/// Submits, and does what the model leaves to its caller until the end: waits, or looks and steps.
#[track_caller]
fn carried_out(client: &Engine, model: &str, requests: &[Request]) {
    let options = Options { deadline: Some(LONG), ..Options::default() };
    let batch = client.submit(requests, options).unwrap_or_else(|e| panic!("{model}: {e}"));
    let begin = std::time::Instant::now();
    while batch.poll().is_none() {
        assert!(begin.elapsed() < LONG, "{model}: no end");
        if !client.step() {
            std::thread::yield_now();
        }
    }
    assert!(batch.poll().unwrap().is_done(), "{model}: {:?}", crate::rig::reasons(&batch));
}

/// A mebibyte goes to a node and comes back with each of the seven files, and no byte of it through a buffer of ours.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn seven_files_over_rdma() {
    for model in MODELS {
        let target = Node::target(&[1], "1MiB");
        let client = engine(model, over_rdma(model, 0, ""));
        let segment = client.open_within(&target.address, LONG).unwrap().segment("kv").unwrap();
        let bytes = pattern(3, 1 << 20);
        let (from, to) = (region_of(&client, &bytes), client.allocate(1 << 20).unwrap());
        carried_out(&client, model, &[Request::write(&from, 0, segment.at(0), 1 << 20)]);
        carried_out(&client, model, &[Request::read(&to, 0, segment.at(0), 1 << 20)]);
        assert!(bytes_of(&to) == bytes, "{model}: bytes differ");
        let counts = client.counts();
        assert_eq!((counts.staged_copies, counts.staged_bytes), (0, 0), "{model}");
        nothing_left(&client, [from, to]);
        client.stop();
        target.leave();
    }
}

/// Both sides of a transfer run the files as they are shipped: event-driven at the one end, zero-copy at the other.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn a_model_on_either_side() {
    let set = [over_rdma("event_driven", 1, ""), vec![kv("1MiB")]].concat();
    let target = Node::of("models/event_driven.toml", &set);
    let client = engine("zero_copy_dma", over_rdma("zero_copy_dma", 0, ""));
    let segment = client.open_within(&target.address, LONG).unwrap().segment("kv").unwrap();
    let bytes = pattern(4, 1 << 20);
    let (from, to) = (region_of(&client, &bytes), client.allocate(1 << 20).unwrap());
    carried_out(&client, "zero_copy_dma", &[Request::write(&from, 0, segment.at(0), 1 << 20)]);
    carried_out(&client, "zero_copy_dma", &[Request::read(&to, 0, segment.at(0), 1 << 20)]);
    assert!(bytes_of(&to) == bytes);
    nothing_left(&client, [from, to]);
    target.leave();
}

/// While a WRITE's acknowledgement takes two seconds, whoever waits for it and the workers behind it use next to no CPU: the
/// completion queue is armed, not looked at. A few milliseconds of work are more here than elsewhere, so: a fiftieth.
#[test]
#[ignore = "needs RDMA devices: tests/rdma-vm runs it"]
fn whoever_waits_uses_no_cpu() {
    let before = threads::all();
    let client = engine("event_driven", over_rdma("event_driven", 0, ", ack_timeout='8s', stall='60s'"));
    let workers: Vec<u32> =
        client.stats().workers.iter().flat_map(|worker| threads::started(&before, &worker.name)).collect();
    assert_eq!(workers.len(), client.stats().workers.len());
    let target = Node::target(&[1], "1MiB");
    let segment = client.open_within(&target.address, LONG).unwrap().segment("kv").unwrap();
    let local = region_of(&client, &pattern(1, 1 << 16));
    let request = [Request::write(&local, 0, segment.at(0), 4096)];
    assert!(client.submit(&request, Options::default()).unwrap().wait(LONG).unwrap().is_done());

    let mut wire = Wire::of(1);
    wire.delay(2000);
    let busy = || workers.iter().map(|id| threads::cpu(*id)).sum::<Duration>();
    let mut shares = Vec::new();
    for _ in 0..3 {
        let (begin, workers, own) = (std::time::Instant::now(), busy(), threads::own_cpu());
        let options = Options { deadline: Some(LONG), ..Options::default() };
        assert!(client.submit(&request, options).unwrap().wait(LONG).unwrap().is_done());
        let took = begin.elapsed();
        assert!(took >= Duration::from_secs(2), "{took:?}: the wire was not slow");
        let used = busy() - workers + (threads::own_cpu() - own);
        println!("measured: event-driven over {took:?} of waiting: {used:?} of CPU");
        shares.push(used.as_secs_f64() / took.as_secs_f64());
        if shares.last().is_some_and(|share| *share < 0.02) {
            break;
        }
    }
    assert!(shares.last().is_some_and(|share| *share < 0.02), "{shares:?}");
    wire.mend();
    nothing_left(&client, [local]);
    target.leave();
}
