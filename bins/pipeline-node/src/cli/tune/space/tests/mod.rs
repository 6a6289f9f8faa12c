//! What may be changed, and what not.

use pipeline_node::Source;

use super::*;

const TWO_POOLS: &str = "version = 1\nuse = \"tcp\"\n\
    pools.front = { threads = 4, wait = \"park\" }\npools.nic.threads = 1\n\
    stages = { admit.pool = \"front\", split = { pool = \"front\", slice = \"4KiB\" } }\n\
    edges.\"split -> route\" = { queue = 8 }\n";

fn space(bounds: &[&str], set: &[&str], allow: &[Allow]) -> Space {
    let source = Source::text("t", TWO_POOLS).set(set.to_vec());
    let bounds: Vec<Bound> = bounds.iter().map(|bound| Bound::parse(bound).unwrap()).collect();
    Space::new(source.load().unwrap_or_else(|f| panic!("{}", f.text())), &bounds, allow, 4)
}

fn knob<'a>(space: &'a Space, name: &str) -> &'a Knob {
    let names: Vec<&str> = space.knobs.iter().map(|knob| knob.name.as_str()).collect();
    space.knobs.iter().find(|knob| knob.name == name).unwrap_or_else(|| panic!("no {name} among {names:?}"))
}

fn sizes(space: &Space, name: &str) -> Vec<u64> {
    knob(space, name).levels.iter().map(|level| level.size).collect()
}

/// Threads go up to the CPUs there are, the file's own number stays the first; queues, slices and lanes have levels; `submit` keeps a
/// queue; nothing that never sleeps and no caller pool is there without the user's word.
#[test]
fn knobs_of_a_file() {
    let space = space(&[], &[], &[]);
    assert_eq!(sizes(&space, "pools.front.threads"), [4, 1, 2, 3]);
    assert_eq!(sizes(&space, "pools.nic.threads"), [1, 2, 3, 4]);
    assert_eq!(sizes(&space, "\"split -> route\"")[..2], [8, 0]);
    assert!(!sizes(&space, "\"submit -> admit\"").contains(&0));
    assert_eq!(sizes(&space, "stages.split.slice")[0], 4096);
    assert_eq!(sizes(&space, "transports.tcp.lanes"), [2, 1, 4, 8]);
    let words = |space: &Space| -> Vec<String> {
        space.knobs.iter().flat_map(|knob| knob.levels.iter().map(|level| level.words.clone())).collect()
    };
    assert!(!words(&space).iter().any(|level| level == "\"spin\""));
    assert!(space.knobs.iter().all(|knob| knob.kind != Kind::Caller && knob.kind != Kind::Limit));
    let allowed = self::space(&[], &[], &[Allow::Spin, Allow::Caller]);
    assert!(words(&allowed).iter().any(|level| level == "\"spin\""));
    assert_eq!(allowed.of_kind(|kind| *kind == Kind::Caller).count(), 1);
}

/// CPUs of the machine stay awake only by the user's word, and only where the file does not have it so already.
#[test]
fn awake_by_word_only() {
    let latency = |space: &Space| {
        space
            .of_kind(|kind| *kind == Kind::Awake)
            .map(|knob| space.knobs[knob].levels[1].changes[0].set())
            .next()
    };
    assert_eq!(latency(&space(&[], &[], &[Allow::Spin])), None);
    assert_eq!(latency(&space(&[], &[], &[Allow::Awake])).as_deref(), Some("node.cpu_dma_latency=\"0us\""));
    let has = TWO_POOLS.replace("pools.front", "node.cpu_dma_latency = \"0us\"\npools.front");
    let has = Space::new(Source::text("t", has).load().unwrap(), &[], &[Allow::Awake], 4);
    assert_eq!(latency(&has), None);
}

/// Bounds take levels out, but never what the file says; a limit is a knob only where a bound says how far.
#[test]
fn bounds_take_levels_out() {
    let space =
        space(&["threads<=2", "queue<=64", "lanes<=2", "slice<=64KiB", "bytes_in_flight<=1GiB"], &[], &[]);
    assert_eq!(sizes(&space, "pools.front.threads"), [4, 1, 2]);
    assert_eq!(sizes(&space, "transports.tcp.lanes"), [2, 1]);
    assert_eq!(sizes(&space, "\"split -> route\""), [8, 0, 4, 16, 64]);
    assert_eq!(sizes(&space, "stages.split.slice"), [4096, 16 << 10, 64 << 10]);
    assert_eq!(sizes(&space, "limits.bytes_in_flight"), [256 << 20, 512 << 20, 1 << 30]);
    let one = self::space(&["pools.nic.threads<=1"], &[], &[]);
    assert!(one.knobs.iter().all(|knob| knob.name != "pools.nic.threads"), "one level is no knob");
}

/// How far sizes miss their bounds: threads of all pools that carry transfers count together.
#[test]
fn sizes_are_judged() {
    let space = space(&[], &[], &[]);
    let of = |candidate: &Point, bound: &str| {
        super::excess(&space, candidate, &space.loaded.config.blueprint, &[Bound::parse(bound).unwrap()])
    };
    let excess = |bound: &str| of(&space.base(), bound);
    assert_eq!((excess("threads<=5"), excess("queue<=64"), excess("p99<=1us")), (0.0, 0.0, 0.0));
    assert!((excess("threads<=4") - (5.0_f64 / 4.0).ln()).abs() < 1e-9);
    assert!(excess("queue<=8") > 1.0);
    let twice = 2.0_f64.ln();
    for bound in ["lanes<=1", "pools.front.threads<=2", "slice<=2KiB"] {
        assert!((excess(bound) - twice).abs() < 1e-9, "{bound}: {}", excess(bound));
    }
    let at = |name: &str| space.knobs.iter().position(|knob| knob.name == name).unwrap();
    let with = |name: &str, is: u64| {
        let (mut candidate, knob) = (space.base(), at(name));
        candidate[knob] = space.knobs[knob].levels.iter().position(|level| level.size == is).unwrap() as u8;
        candidate
    };
    assert_eq!(of(&with("pools.front.threads", 2), "pools.front.threads<=2"), 0.0);
    assert!(of(&with("stages.split.slice", 0), "slice<=64KiB") > 2.0, "auto may be 1 MiB");
}

/// A bound about a key that is not there, or that has no size, is named with what may be bound; it would hold whatever the file says.
#[test]
fn strays_are_named() {
    let bounds = |text: &str| [Bound::parse(text).unwrap()];
    let space = space(&[], &[], &[]);
    for text in ["pools.nci.threads<=1", "pools.nic.wait<=1", "\"slect -> post\"<=4"] {
        assert!(space.stray(&bounds(text)).is_some(), "{text}");
    }
    let (_, help) =
        space.stray(&bounds("pools.nci.threads<=1")).map(|(bound, help)| (bound.to_string(), help)).unwrap();
    assert!(help.starts_with("did you mean `pools.nic.threads`"), "{help}");
    for text in [
        "pools.nic.threads<=1",
        "transports.tcp.lanes<=1",
        "threads<=1",
        "limits.slices<=9999",
        "\"split -> route\"<=4",
    ] {
        assert!(space.stray(&bounds(text)).is_none(), "{text}");
    }
}

/// What `--set` says is not changed: it would hold after the file was.
#[test]
fn overrides_are_fixed() {
    let space = space(&[], &["pools.nic.threads=2", "stages.split.slice='64KiB'"], &[]);
    let names: Vec<&str> = space.knobs.iter().map(|knob| knob.name.as_str()).collect();
    assert!(!names.contains(&"pools.nic.threads") && !names.contains(&"stages.split.slice"), "{names:?}");
    assert!(names.contains(&"pools.front.threads"));
}

/// Stages that move take their pool away, and with it what else was changed of it.
#[test]
fn a_pool_that_is_gone() {
    let space = space(&[], &[], &[]);
    let at = |name: &str| space.knobs.iter().position(|knob| knob.name == name).unwrap();
    let mut candidate = space.base();
    candidate[at("pools.front.threads")] = 1;
    assert_eq!(space.changes(&candidate).len(), 1);
    candidate[at("stages of front")] = 1;
    let keys: Vec<String> = space.changes(&candidate).iter().map(Change::key).collect();
    assert_eq!(keys, ["stages.admit.pool", "stages.split.pool", "pools.front"]);
    assert!(space.is_moot(at("pools.front.threads"), &candidate));
    assert_eq!(space.words(&space.base()), "the file as it is");
}
