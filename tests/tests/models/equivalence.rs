//! Outcomes do not depend on the model: a program of requests, drawn by a seed, is carried out by each of the seven files over
//! a wire that fails, reorders and doubles. Each request must end as it has to, and every byte of all memories must be what
//! plain arithmetic says: so all seven are the same.
//!
//! `EQUIVALENCE_SEEDS=n` runs so many instead of a few, `EQUIVALENCE_FIRST=n` begins there; what fails names its seed and model.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pipeline_node::{
    Access, Batch, Engine, Memory, Options, Peer, Reason, Region, Remote, Request, SubmitError,
};

use pipeline_stages::reason::Transport;
use pipeline_transports::Refusal;

use crate::files::{MODELS, over_sim, source};
use crate::program::{Ask, Memories, NARROW, Place, Program, REQUESTS};
use crate::rig::{PATIENCE, bytes_of, nothing_left, open, pattern, reasons};

/// What a request to memory that was taken back comes to.
pub const GONE: Reason = Reason::Transport(Transport::Refused(Refusal::UnknownRegion));

/// The target's memory during one run.
struct Shown {
    open: Vec<Region>,
    read_only: Region,
    write_only: Region,
    gone: Option<Region>,
}

/// Segments of one run, whose names end in `of`; regions hold what the program says.
fn show(target: &Engine, program: &Program, of: &str) -> Shown {
    let region = |access, bytes: &[u8]| {
        let region = target.register(Memory::allocate(bytes.len() as u64).unwrap(), access).unwrap();
        region.write(0, bytes).unwrap();
        region
    };
    let publish = |name: &str, regions: &[&Region]| {
        target.add_segment(&format!("{name}-{of}")).unwrap();
        regions.iter().for_each(|region| {
            target.publish(&format!("{name}-{of}"), region).unwrap();
        });
    };
    let bytes = pattern(program.seed ^ 1, program.regions.iter().sum::<u64>() as usize);
    let mut at = 0;
    let mut open = Vec::new();
    for len in &program.regions {
        open.push(region(Access::ReadWrite, &bytes[at..at + *len as usize]));
        at += *len as usize;
    }
    let read_only = region(Access::Read, &pattern(program.seed ^ 3, NARROW as usize));
    let write_only = region(Access::Write, &vec![0; NARROW as usize]);
    let gone = region(Access::ReadWrite, &vec![0; NARROW as usize]);
    publish("open", &open.iter().collect::<Vec<_>>());
    publish("read_only", &[&read_only]);
    publish("write_only", &[&write_only]);
    publish("gone", &[&gone]);
    Shown { open, read_only, write_only, gone: Some(gone) }
}

/// One model at work.
struct Run<'a> {
    client: &'a Engine,
    peer: &'a Peer,
    of: &'a str,
    local: &'a Region,
    unregistered: pipeline_transports::RegionId,
    what: String,
}

impl Run<'_> {
    fn at(&self, ask: &Ask) -> Remote {
        let name = match ask.place {
            Place::Open => "open",
            Place::ReadOnly => "read_only",
            Place::WriteOnly => "write_only",
            Place::Gone => "gone",
            Place::Nowhere => {
                let any = self.peer.segment(&format!("open-{}", self.of)).unwrap().at(0);
                return Remote { segment: 4_000, ..any };
            }
        };
        self.peer.segment(&format!("{name}-{}", self.of)).unwrap().at(ask.remote)
    }

    fn request(&self, ask: &Ask) -> Request {
        let local = if ask.unregistered { self.unregistered } else { self.local.id() };
        let make = if ask.write { Request::write } else { Request::read };
        let request = make(local, ask.local, self.at(ask), ask.len);
        if ask.rows > 1 { request.strided(ask.rows, ask.strides.0, ask.strides.1) } else { request }
    }

    /// Submits the batches of a step, waits for all of them, and looks at every end.
    fn step(&self, step: &[Vec<Ask>]) {
        let submitted: Vec<(Batch, &Vec<Ask>)> = step
            .iter()
            .filter(|asks| !asks.is_empty())
            .map(|asks| {
                let requests: Vec<Request> = asks.iter().map(|ask| self.request(ask)).collect();
                let batch = self.client.submit_wait(&requests, Options::default(), PATIENCE);
                (batch.unwrap_or_else(|e| panic!("{}: {e}", self.what)), asks)
            })
            .collect();
        for (batch, asks) in submitted {
            let summary = batch.wait(PATIENCE).unwrap_or_else(|e| panic!("{}: {e}", self.what));
            let expected: Vec<Option<Reason>> = asks.iter().map(|ask| ask.ends).collect();
            assert_eq!(reasons(&batch), expected, "{}: {asks:?}", self.what);
            let bytes: u64 =
                asks.iter().filter(|ask| ask.ends.is_none()).map(|ask| ask.len * u64::from(ask.rows)).sum();
            let failed = expected.iter().flatten().count() as u32;
            assert_eq!((summary.requests as usize, summary.failed), (asks.len(), failed), "{}", self.what);
            assert!(summary.bytes >= bytes, "{}: {summary:?}", self.what);
        }
    }

    /// What no model takes at all.
    fn refusals(&self) {
        let one = Ask { len: 1, ..RIGHT };
        let submit = |requests: &[Request]| self.client.submit(requests, Options::default()).map(drop);
        let many = vec![self.request(&one); REQUESTS as usize + 1];
        let (asked, limit) = (u64::from(REQUESTS) + 1, u64::from(REQUESTS));
        assert_eq!(submit(&many), Err(SubmitError::TooLarge { asked, limit }), "{}", self.what);
        assert_eq!(submit(&[]), Err(SubmitError::Empty), "{}", self.what);
        let empty = [self.request(&one), self.request(&Ask { len: 0, ..one })];
        assert!(matches!(submit(&empty), Err(SubmitError::BadRequest { index: 1, .. })), "{}", self.what);
    }
}

const RIGHT: Ask = Ask {
    write: true,
    place: Place::Open,
    local: 0,
    remote: 0,
    len: 1,
    rows: 1,
    strides: (1, 1),
    unregistered: false,
    ends: None,
};

fn carry_out(program: &Program, model: &str, target: &Engine) -> Memories {
    let mut set = over_sim(model, &program.wire);
    set.extend(program.set.iter().cloned());
    let what = format!("EQUIVALENCE_FIRST={}: {model}", program.seed);
    let client = Engine::from_source(&source(model, &set)).unwrap_or_else(|e| panic!("{what}: {e}"));
    let mut shown = show(target, program, model);
    let peer = open(&client, target);
    let gone = shown.gone.take().expect("it was made just now");
    target.unregister(gone).map_err(|(_, e)| e).unwrap();
    let local = client.allocate(program.local).unwrap();
    local.write(0, &pattern(program.seed ^ 2, program.local as usize)).unwrap();
    let short = client.allocate(NARROW).unwrap();
    let unregistered = short.id();
    client.unregister(short).map_err(|(_, e)| e).unwrap();
    let run = Run { client: &client, peer: &peer, of: model, local: &local, unregistered, what };
    run.refusals();
    program.steps.iter().for_each(|step| run.step(step));
    let memories = Memories {
        local: bytes_of(&local),
        open: shown.open.iter().flat_map(bytes_of).collect(),
        read_only: bytes_of(&shown.read_only),
        write_only: bytes_of(&shown.write_only),
    };
    nothing_left(&client, [local]);
    memories
}

fn one(seed: u64) {
    let program = Program::new(seed);
    let mut set = vec!["transports.sim={ type = 'sim' }", "pools.nic.wait='park'"];
    set.extend(["limits.requests=256", "limits.slices=512", "limits.regions=256", "limits.peers=16"]);
    let target = crate::rig::engine(&set);
    let expected = program.memories();
    for model in MODELS {
        let found = carry_out(&program, model, &target);
        assert!(found.local == expected.local, "EQUIVALENCE_FIRST={seed}: {model}: local bytes differ");
        let same = (found.open == expected.open, found.read_only == expected.read_only);
        assert_eq!(same, (true, true), "EQUIVALENCE_FIRST={seed}: {model}: bytes of the target differ");
        assert!(
            found.write_only == expected.write_only,
            "EQUIVALENCE_FIRST={seed}: {model}: write_only differs"
        );
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |n| n.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Whatever a seed asks for, all seven files end every request the same way, and leave the same bytes everywhere.
#[test]
fn seven_files_one_outcome() {
    let (first, seeds) = (number("EQUIVALENCE_FIRST", 1), number("EQUIVALENCE_SEEDS", 24));
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        // Most of a seed is waiting: for threads that start, sessions that open, a wire that delays.
        let workers = 8.min(seeds as usize);
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Relaxed)).filter(|seed| *seed < first + seeds) {
                    one(seed);
                }
            });
        }
    });
}

/// Programs ask for something: over a hundred seeds every kind of request occurs, right and wrong, and most are right.
#[test]
fn programs_are_broad() {
    let programs: Vec<Program> = (1..=100).map(Program::new).collect();
    let asks = || programs.iter().flat_map(|p| p.steps.iter().flatten().flatten());
    let count = |of: &dyn Fn(&Ask) -> bool| asks().filter(|ask| of(ask)).count();
    let all = count(&|_| true);
    assert!(count(&|ask| ask.ends.is_none()) * 10 > all * 7, "{all}");
    for place in [Place::Open, Place::ReadOnly, Place::WriteOnly] {
        assert!(count(&|ask| ask.place == place && ask.ends.is_none()) > 20, "{place:?}");
    }
    for reason in [Reason::LocalBounds, Reason::RemoteBounds, Reason::Denied, Reason::NotRegistered, GONE] {
        assert!(count(&|ask| ask.ends == Some(reason)) > 20, "{reason:?}");
    }
    assert!(count(&|ask| ask.place == Place::Gone) > 20 && count(&|ask| ask.rows > 1) > 20);
    let crossing = |p: &Program, ask: &Ask| {
        let seams = p.regions.iter().scan(0, |at, len| {
            *at += len;
            Some(*at)
        });
        seams
            .into_iter()
            .any(|seam| ask.place == Place::Open && ask.remote < seam && seam < ask.remote + ask.len)
    };
    let crossed =
        programs.iter().map(|p| p.steps.iter().flatten().flatten().filter(|ask| crossing(p, ask)).count());
    assert!(crossed.sum::<usize>() > 50);
}
