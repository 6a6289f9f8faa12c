//! What a seed draws of a node: its pools, edges, waits, limits and its wire. Deliberately only files that validate:
//! what a file may not say is tested elsewhere.

use pipeline_graph::sim::Dice;

/// Who shares a worker with whom: the pools of `admit split route select post reap retry`.
const LAYOUTS: [[&str; 7]; 5] = [
    ["a", "a", "a", "a", "a", "a", "a"],
    ["a", "a", "a", "a", "n", "n", "n"],
    ["a", "b", "b", "b", "n", "n", "n"],
    ["a", "b", "c", "c", "n", "m", "m"],
    ["a", "a", "b", "b", "n", "m", "a"],
];
const STAGES: [&str; 7] = ["admit", "split", "route", "select", "post", "reap", "retry"];

/// The text of a file.
pub fn file(dice: &mut Dice, seed: u64, node: &str) -> String {
    let layout = *dice.one_of(&LAYOUTS);
    let (pools, workers) = pools(dice, &layout);
    let limits = format!(
        "requests = {}\nslices = {}\nbatches = 16\npeers = 4\nbytes_in_flight = \"{}KiB\"",
        dice.between(64, 256),
        // Each worker may keep a batch of free ones.
        64 * (workers + 1) + dice.between(0, 256),
        dice.one_of(&[16, 64, 256]),
    );
    let head = format!("version = 1\n[node]\nname = \"{node}\"\n[limits]\n{limits}\n[transports.mem]\n");
    head + &transport(dice, seed) + "[pools]\n" + &pools + &stages(dice, &layout) + &edges(dice, &layout)
}

fn transport(dice: &mut Dice, seed: u64) -> String {
    let slow = *dice.one_of(&[20, 300, 5_000]);
    let rate = |dice: &mut Dice, most: u64| if dice.percent(50) { dice.below(most) } else { 0 };
    format!(
        "type = \"sim\"\nseed = {seed}\nlanes = 1\ndepth = {}\ndelay_min = \"{}us\"\ndelay_max = \"{slow}us\"\n\
         bytes_per_s = {}\nreorder_ppm = {}\nloss_ppm = {}\nerror_ppm = {}\nrefuse_ppm = {}\nduplicate_ppm = {}\n",
        dice.one_of(&[1, 8, 64, 256]),
        slow / 10,
        dice.one_of(&[0, 50_000_000, 1_000_000_000]),
        rate(dice, 300_000),
        rate(dice, 10_000),
        rate(dice, 100_000),
        rate(dice, 5_000),
        rate(dice, 300_000),
    )
}

/// Their lines, and how many workers they have together.
fn pools(dice: &mut Dice, layout: &[&str; 7]) -> (String, u64) {
    let (mut text, mut workers) = (String::new(), 0);
    // Post and reap of one link have the same number, in whatever pool they are.
    let wire = dice.between(1, 3);
    for pool in ["a", "b", "c", "n", "m"] {
        if !layout.contains(&pool) {
            continue;
        }
        let threads = if pool == layout[4] || pool == layout[5] { wire } else { dice.between(1, 3) };
        workers += threads;
        let (spin, pause) = (dice.one_of(&[0, 5, 20]).to_string(), dice.one_of(&[0, 20]).to_string());
        let wait = match dice.percent(50) {
            true => format!("{{ spin = \"{spin}us\", yield = \"{pause}us\", park = \"1s\" }}"),
            false => "\"adaptive\"".to_owned(),
        };
        text += &format!("{pool} = {{ threads = {threads}, wait = {wait} }}\n");
    }
    (text, workers)
}

fn stages(dice: &mut Dice, layout: &[&str; 7]) -> String {
    let mut text = String::from("[stages]\nnotify = { type = \"completion_notify\" }\n");
    for (stage, pool) in STAGES.iter().zip(layout) {
        let body = match *stage {
            "admit" => "type = \"admit\"".to_owned(),
            "split" => format!("type = \"request_split\", slice = \"{}KiB\"", dice.one_of(&[1, 4, 16])),
            "route" => "type = \"protocol_route\"".to_owned(),
            "select" => "type = \"nic_select\"".to_owned(),
            "post" => "type = \"wr_post\"".to_owned(),
            "reap" => "type = \"cq_reap\"".to_owned(),
            _ => format!(
                "type = \"retry\", attempts = {}, backoff = \"{}us\"",
                dice.between(2, 6),
                dice.one_of(&[0, 100, 3_000])
            ),
        };
        text += &format!("{stage} = {{ {body}, pool = \"{pool}\" }}\n");
    }
    text
}

fn edges(dice: &mut Dice, layout: &[&str; 7]) -> String {
    let mut edge =
        |from: usize, to: usize, dispatch: &str| match layout[from] == layout[to] && dice.percent(60) {
            true => "\"inline\"".to_owned(),
            false => format!("{{ queue = {}, dispatch = \"{dispatch}\" }}", dice.one_of(&[1, 2, 8, 64])),
        };
    let mut text = String::from("[edges]\n\"retry -> select\" = \"return\"\n");
    text += "\"*.failed -> notify\" = \"inline\"\n\"reap -> notify\" = \"inline\"\n";
    text += &format!("\"admit -> split\" = {}\n", edge(0, 1, "any"));
    text += &format!("\"split -> route\" = {}\n", edge(1, 2, "any"));
    text += &format!("\"route -> select\" = {}\n", edge(2, 3, "any"));
    text += &format!("\"select -> post\" = {}\n", edge(3, 4, "owner"));
    text += &format!("\"post.retry -> retry\" = {}\n", edge(4, 6, "any"));
    text += &format!("\"reap.retry -> retry\" = {}\n", edge(5, 6, "any"));
    let dispatch = *dice.one_of(&["any", "hash"]);
    text + &format!(
        "\"submit -> admit\" = {{ queue = {}, dispatch = \"{dispatch}\" }}\n",
        dice.one_of(&[2, 16, 64])
    )
}
