//! What a seed draws: a wire, sizes, memory, and requests whose ends are known before they are carried out, whatever the
//! order in which slices travel. Deliberately without engines: what must come out is plain arithmetic on bytes.
//!
//! Why the ends are determined: the batches of one step have their destinations for themselves, and no source of a step is a
//! destination of it; a slice that fails is tried again until it is done; what is wrong is wrong from the start.

use pipeline_node::Reason;

use crate::rig::pattern;

/// A sequence of draws (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((u128::from(z ^ (z >> 31)) * u128::from(n)) >> 64) as u64
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Segments of the target, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Several regions that peers may read and write: requests cross their seams.
    Open,
    /// Only to be read.
    ReadOnly,
    /// Only to be written.
    WriteOnly,
    /// One whose memory was taken back after the peer was opened: the target itself refuses.
    Gone,
    /// No segment at all.
    Nowhere,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub write: bool,
    pub place: Place,
    pub local: u64,
    pub remote: u64,
    pub len: u64,
    pub rows: u32,
    pub strides: (u64, u64),
    /// In a local region that was unregistered before.
    pub unregistered: bool,
    /// What it must come to.
    pub ends: Option<Reason>,
}

/// Batches that are under way at the same time.
pub type Step = Vec<Vec<Ask>>;

/// See the file's head.
pub struct Program {
    /// Overrides of every file: sizes, and the wire.
    pub set: Vec<String>,
    /// Keys of the simulated wire.
    pub wire: String,
    /// Regions of [`Place::Open`].
    pub regions: Vec<u64>,
    /// Bytes of the local region.
    pub local: u64,
    pub steps: Vec<Step>,
    pub seed: u64,
}

/// Bytes of the segments that allow one direction only.
pub const NARROW: u64 = 20_000;
/// Most requests of a batch: `limits.requests` in every file.
pub const REQUESTS: u32 = 256;

/// A space of bytes during one step: on one side of the cut only sources, on the other only destinations, each once.
struct Space {
    len: u64,
    cut: u64,
    sources_first: bool,
    used: u64,
}

impl Space {
    fn new(len: u64, dice: &mut Dice) -> Self {
        let cut = len / 4 + dice.below(len / 2);
        let sources_first = dice.percent(50);
        Self { len, cut, sources_first, used: if sources_first { cut } else { 0 } }
    }

    fn source(&self, len: u64, dice: &mut Dice) -> Option<u64> {
        let (from, to) = if self.sources_first { (0, self.cut) } else { (self.cut, self.len) };
        (to - from >= len).then(|| from + dice.below(to - from - len + 1))
    }

    fn destination(&mut self, len: u64, dice: &mut Dice) -> Option<u64> {
        let end = if self.sources_first { self.len } else { self.cut };
        // As a rule a little further: neighbours that touch are merged, and those are drawn too.
        let at = self.used + if dice.percent(50) { dice.below(300) } else { 0 };
        (at + len <= end).then(|| {
            self.used = at + len;
            at
        })
    }
}

impl Program {
    pub fn new(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let regions: Vec<u64> = (0..1 + dice.below(4)).map(|_| 4_000 + dice.below(60_000)).collect();
        let local = 20_000 + dice.below(150_000);
        let steps = (0..2 + dice.below(4)).map(|_| step(local, regions.iter().sum(), dice)).collect();
        let rate = |dice: &mut Dice, most: u64| if dice.percent(60) { dice.below(most) } else { 0 };
        let wire = format!(
            "seed = {seed}, lanes = {}, depth = {}, prefers = '{}KiB', delay_min = '0s', delay_max = '{}us', error_ppm = {}, \
             reorder_ppm = {}, duplicate_ppm = {}",
            1 + dice.below(2),
            dice.one_of(&[1, 4, 64]),
            dice.one_of(&[1, 4, 64]),
            dice.one_of(&[0, 3, 40]),
            rate(dice, 150_000),
            rate(dice, 300_000),
            rate(dice, 300_000),
        );
        let set = vec![
            // 16 tries of which at most 15 in a hundred fail: less than one slice in 10^13 does not come through.
            "stages.retry.attempts=16".into(),
            "stages.retry.backoff='0s'".into(),
            format!("limits.requests={REQUESTS}"),
            "limits.batches=16".into(),
            "limits.regions=64".into(),
            "limits.peers=4".into(),
            "limits.links=64".into(),
            "limits.notices=4".into(),
            format!("limits.slices={}", 1024 + dice.below(512)),
            format!("limits.bytes_in_flight='{}KiB'", dice.one_of(&[8, 64, 1024])),
            format!("stages.admit.coalesce='{}KiB'", dice.one_of(&[0, 4, 64])),
        ];
        Self { set, wire, regions, local, steps, seed }
    }

    /// What the memories hold in the end: the local region, then the target's segments by [`Place`].
    pub fn memories(&self) -> Memories {
        let open = pattern(self.seed ^ 1, self.regions.iter().sum::<u64>() as usize);
        let mut memories = Memories {
            local: pattern(self.seed ^ 2, self.local as usize),
            open,
            read_only: pattern(self.seed ^ 3, NARROW as usize),
            write_only: vec![0; NARROW as usize],
        };
        for ask in self.steps.iter().flatten().flatten().filter(|ask| ask.ends.is_none()) {
            memories.apply(ask);
        }
        memories
    }
}

/// The bytes of everything that a program touches.
#[derive(PartialEq, Eq)]
pub struct Memories {
    pub local: Vec<u8>,
    pub open: Vec<u8>,
    pub read_only: Vec<u8>,
    pub write_only: Vec<u8>,
}

impl Memories {
    fn apply(&mut self, ask: &Ask) {
        let far = match ask.place {
            Place::Open => &mut self.open,
            Place::ReadOnly => &mut self.read_only,
            Place::WriteOnly => &mut self.write_only,
            Place::Gone | Place::Nowhere => unreachable!("nothing ends well there"),
        };
        for row in 0..u64::from(ask.rows) {
            let near_at = (ask.local + row * ask.strides.0) as usize;
            let far_at = (ask.remote + row * ask.strides.1) as usize;
            let (near, far) =
                (&mut self.local[near_at..][..ask.len as usize], &mut far[far_at..][..ask.len as usize]);
            if ask.write { far.copy_from_slice(near) } else { near.copy_from_slice(far) }
        }
    }
}

fn step(local: u64, open: u64, dice: &mut Dice) -> Step {
    let mut near = Space::new(local, dice);
    let mut spaces = [Space::new(open, dice), Space::new(NARROW, dice), Space::new(NARROW, dice)];
    // Of those that allow one direction only, all of it is that.
    (spaces[1].sources_first, spaces[1].cut) = (true, NARROW);
    (spaces[2].sources_first, spaces[2].cut, spaces[2].used) = (true, 0, 0);
    let batches = 1 + dice.below(3);
    (0..batches)
        .map(|_| {
            let most = dice.one_of(&[1, 5, 40]);
            (0..1 + dice.below(most)).filter_map(|_| ask(&mut near, &mut spaces, dice)).collect()
        })
        .collect()
}

/// One that fits in what the step has left, or one that is wrong.
fn ask(near: &mut Space, spaces: &mut [Space; 3], dice: &mut Dice) -> Option<Ask> {
    if dice.percent(12) {
        return Some(wrong(near.len, spaces[0].len, dice));
    }
    let (which, place, write) = match dice.below(10) {
        0 => (1, Place::ReadOnly, false),
        1 => (2, Place::WriteOnly, true),
        _ => (0, Place::Open, dice.percent(50)),
    };
    let longest = dice.one_of(&[64, 3_000, 3_000, 40_000]);
    let len = 1 + dice.below(longest);
    let rows = if dice.percent(15) { 2 + dice.below(6) as u32 } else { 1 };
    let gaps = if rows > 1 { (dice.below(200), dice.below(200)) } else { (0, 0) };
    let strides = (len + gaps.0, len + gaps.1);
    let span = |stride: u64| stride * u64::from(rows - 1) + len;
    let far = &mut spaces[which];
    let (local, remote) = match write {
        true => (near.source(span(strides.0), dice)?, far.destination(span(strides.1), dice)?),
        false => {
            let remote = far.source(span(strides.1), dice)?;
            (near.destination(span(strides.0), dice)?, remote)
        }
    };
    Some(Ask { write, place, local, remote, len, rows, strides, unregistered: false, ends: None })
}

/// A request that is wrong, each in one way.
fn wrong(local: u64, open: u64, dice: &mut Dice) -> Ask {
    let len = 1 + dice.below(5_000);
    let right = Ask {
        write: dice.percent(50),
        place: Place::Open,
        local: 0,
        remote: 0,
        len,
        rows: 1,
        strides: (len, len),
        unregistered: false,
        ends: None,
    };
    match dice.below(7) {
        0 => Ask { local: local - len + 1, ends: Some(Reason::LocalBounds), ..right },
        1 => Ask {
            remote: open - len.min(open) + 1,
            len: len.min(open),
            ends: Some(Reason::RemoteBounds),
            ..right
        },
        2 => Ask { write: true, place: Place::ReadOnly, ends: Some(Reason::Denied), ..right },
        3 => Ask { write: false, place: Place::WriteOnly, ends: Some(Reason::Denied), ..right },
        4 => Ask { place: Place::Nowhere, ends: Some(Reason::UnknownSegment), ..right },
        5 => Ask { unregistered: true, ends: Some(Reason::NotRegistered), ..right },
        _ => Ask { place: Place::Gone, ends: Some(crate::equivalence::GONE), ..right },
    }
}
