//! Descriptors, doorbells and tasks across `fork`, and in a process that may open no more descriptors.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pipeline_node::{
    Batch, DescriptorError, Doorbell, Engine, Options, Reason, Request, Segment, Status, WhenDone,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::audience::{block_on, is_readable, telling, until_readable};
use crate::fork::fork;
use crate::rig::{PATIENCE, nothing_left, open, until};
use crate::{is_scene, scene};

/// Two engines over a transport within the process, on which a READ takes a quarter of an hour.
fn endless() -> (Engine, Engine, Segment) {
    let sim = "transports.sim={ type='sim', delay_min='900s', delay_max='900s' }";
    let kv = "segments.kv={ kind='dram', size='64KiB', access='read_write' }";
    let set = ["transports.tcp=false", sim, "stages.route.prefer=['sim']"];
    let target = telling(&[&set[..], &[kv]].concat());
    let client = telling(&set);
    let kv = open(&client, &target).segment("kv").unwrap();
    (target, client, kv)
}

fn poll_once(future: &mut WhenDone<&Batch>) -> Poll<bool> {
    let polled = Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|summary| summary.unwrap().is_done())
}

/// What a child may try with what it was forked with.
fn in_the_child(client: &Engine, batch: &Batch, mut task: WhenDone<&Batch>, doorbell: &Doorbell) {
    let begin = Instant::now();
    assert_eq!(poll_once(&mut task), Poll::Ready(false), "the task hangs");
    assert_eq!(block_on(batch.into_future()).0.unwrap().failed, 1);
    assert!(batch.results().all(|s| matches!(s, Status::Failed(f) if f.reason == Reason::Forked)));
    assert!(matches!(batch.eventfd(), Err(DescriptorError::Forked)));
    assert!(matches!(client.doorbell(), Err(DescriptorError::Forked)));
    assert!(is_readable(doorbell, 0), "it has rung in the parent");
    assert_eq!(doorbell.take(), 0, "a child takes what is the parent's");
    drop(task);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

/// In a forked child a task that waited ends, and one that begins to; there are no descriptors, and a doorbell that it tries
/// to take still tells the parent. The parent's batch is told in all ways.
#[test]
fn a_child_takes_nothing() {
    let (_target, client, kv) = endless();
    let local = client.allocate(4096).unwrap();
    let doorbell = client.doorbell().unwrap();
    let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
    let beyond = Request::read(&local, 0, kv.at(1 << 30), 64);
    drop(client.submit(&[beyond], options.clone()).unwrap());
    let batch = client.submit(&[Request::read(&local, 0, kv.at(0), 64)], options).unwrap();
    batch.eventfd().unwrap();
    let (mut ours, mut theirs) = ((&batch).into_future(), (&batch).into_future());
    assert!(poll_once(&mut ours).is_pending() && poll_once(&mut theirs).is_pending());
    let part = {
        let (client, batch, doorbell) = (client.clone(), &batch, &doorbell);
        move || in_the_child(&client, batch, theirs, doorbell)
    };
    fork(part).ends_well();
    assert!(is_readable(&doorbell, 0) && doorbell.take() == 1);
    assert!(poll_once(&mut ours).is_pending() && !is_readable(&batch.eventfd().unwrap(), 0));
    batch.cancel();
    until_readable(&batch.eventfd().unwrap());
    until_readable(&doorbell);
    assert_eq!((doorbell.take(), poll_once(&mut ours)), (1, Poll::Ready(false)));
    drop(ours);
    drop(batch);
    until("the batches", || client.usage().batches == 0);
    nothing_left(&client, [local]);
}

const SCENE: &str = "delivery::scene_without_descriptors";

/// The rest of B21: when the process may open no more descriptors a batch says so, naming the way out; its other ways of
/// delivery work, a doorbell that is there rings, and once descriptors are closed there are some again.
#[test]
fn no_more_descriptors() {
    let output = scene(SCENE).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&text));
}

/// The process of [`no_more_descriptors`].
#[test]
#[ignore = "runs in a process of its own, started by another test"]
fn scene_without_descriptors() {
    if !is_scene(SCENE) {
        return;
    }
    let (_target, client, kv) = endless();
    let local = client.allocate(4096).unwrap();
    let doorbell = client.doorbell().unwrap();
    let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
    let mut batches: Vec<Batch> = (0..64)
        .map(|_| client.submit(&[Request::read(&local, 0, kv.at(0), 64)], options.clone()).unwrap())
        .collect();
    let highest = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let highest = highest.filter_map(|fd| fd.file_name().to_str()?.parse::<u64>().ok()).max().unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 10), maximum }).unwrap();
    // All but ten of those that may be opened are.
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    taken.truncate(taken.len() - 10);
    let had = batches.iter().take_while(|batch| batch.eventfd().is_ok()).count();
    assert!((1..64).contains(&had), "{had} descriptors where 10 may be opened");
    let error = batches[had].eventfd().map(|_| ()).unwrap_err();
    assert!(matches!(error, DescriptorError::System(_)), "{error}");
    assert!(error.to_string().contains("ulimit -n"), "{error}");
    batches.iter().for_each(Batch::cancel);
    let mut rung = 0;
    until("every ring", || {
        rung += doorbell.take();
        rung == 64
    });
    for batch in &batches {
        assert_eq!(batch.wait(PATIENCE).unwrap().failed, 1);
        assert_eq!(block_on(batch.into_future()).0.unwrap().failed, 1);
    }
    drop(batches.drain(..had));
    assert!(is_readable(&batches[0].eventfd().unwrap(), 0), "none again, after some were closed");
}
