//! Rules that neither the graph nor a single table can know: where requests are cut, and who posts with whom.
//! Deliberately only what would otherwise fail at run time, or never end.

use std::collections::BTreeSet;

use pipeline_configs::{Config, Objection};
use pipeline_graph::{Dispatch, Mode, PoolDecl, Subject};

/// All of them.
pub(super) const ALL: &[fn(&Config) -> Vec<Objection>] =
    &[one_split, pairs, posters, callbacks, super::checks::checks, super::ends::ends];

fn of_kind<'a>(config: &'a Config, kind: &'a str) -> impl Iterator<Item = usize> + 'a {
    config.stages.iter().enumerate().filter(move |(_, s)| s.kind == kind).map(|(i, _)| i)
}

/// Exactly one `request_split` on every way from `admit` to `wr_post`: a request that is not cut can be larger
/// than any window, and a slice cannot be cut again.
fn one_split(config: &Config) -> Vec<Objection> {
    let forward = || config.blueprint.edges.iter().filter(|e| !matches!(e.mode, Mode::Return { .. }));
    // Stages, with the number of splits behind them (2 stands for more).
    let mut reached: BTreeSet<(usize, u8)> = of_kind(config, "admit").map(|s| (s, 0)).collect();
    let mut open: Vec<(usize, u8)> = reached.iter().copied().collect();
    while let Some((stage, splits)) = open.pop() {
        for edge in forward().filter(|e| e.from == Some(stage)) {
            let splits = splits + u8::from(config.stages[edge.to].kind == "request_split");
            let next = (edge.to, splits.min(2));
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    let object = |stage: usize, text: &str, help: &str| Objection {
        subject: Subject::Stage(stage),
        text: format!("`{}` can be reached from `admit` {text}", config.stages[stage].name),
        help: help.into(),
    };
    let mut objections = Vec::new();
    for post in of_kind(config, "wr_post") {
        if reached.contains(&(post, 0)) {
            let help = "put a stage of type request_split between them; slice = \"whole\" cuts least";
            objections.push(object(post, "without a `request_split`", help));
        }
        if reached.contains(&(post, 2)) {
            objections.push(object(post, "through two stages `request_split`", "leave one of them out"));
        }
    }
    objections
}

/// The i-th post worker of a NIC shares its links with the i-th reap worker: each needs the other.
fn pairs(config: &Config) -> Vec<Objection> {
    let workers = |kind| {
        let pools = of_kind(config, kind).filter_map(|s| config.blueprint.stages[s].pool);
        let pools = pools.map(|p| &config.blueprint.pools[p]);
        pools.map(|p| if p.is_per_nic() { p.threads } else { p.workers() }).max()
    };
    let Some(post) = workers("wr_post") else { return Vec::new() };
    let reap = workers("cq_reap");
    if reap == Some(post) {
        return Vec::new();
    }
    let subject = of_kind(config, "cq_reap").chain(of_kind(config, "wr_post")).next();
    let text = match reap {
        Some(reap) => format!("{post} workers post on each NIC, and {reap} reap"),
        None => "work is posted, and no stage of type cq_reap collects completions".into(),
    };
    subject
        .map(|stage| Objection {
            subject: Subject::Stage(stage),
            text,
            help: "give the stages of types wr_post and cq_reap the same pool, or pools of as many threads"
                .into(),
        })
        .into_iter()
        .collect()
}

/// A link belongs to one post worker: what was chosen for it must come to that worker, and a worker that chooses for itself
/// must have links of every transport.
fn posters(config: &Config) -> Vec<Objection> {
    let blueprint = &config.blueprint;
    let mut objections = Vec::new();
    for post in of_kind(config, "wr_post") {
        let Some(pool) = blueprint.stages[post].pool.map(|p| &blueprint.pools[p]) else { continue };
        // The stages that are run on the worker that posts, up to the choice of the link.
        let (mut here, mut at) = (vec![post], 0);
        while at < here.len() {
            let into = blueprint.edges.iter().enumerate().filter(|(_, e)| e.to == here[at]);
            let mut behind = Vec::new();
            for (index, edge) in into {
                let Some(from) = edge.from else { continue };
                let chooses = config.stages[from].kind == "nic_select";
                match edge.mode {
                    Mode::Inline if !chooses => behind.push(from),
                    Mode::Inline => objections.extend(one_nic(config, pool, index, from)),
                    Mode::Queue { dispatch, .. } | Mode::Return { dispatch } => {
                        objections
                            .extend((dispatch != Dispatch::Owner).then(|| any_worker(pool, index)).flatten());
                    }
                }
            }
            behind.retain(|stage| !here.contains(stage));
            here.extend(behind);
            at += 1;
        }
    }
    objections
}

/// Slices come in over an edge that does not ask who posts them.
fn any_worker(pool: &PoolDecl, edge: usize) -> Option<Objection> {
    let (workers, name) = (pool.workers(), &pool.name);
    (workers > 1).then(|| Objection {
        subject: Subject::Edge(edge),
        text: format!(
            "this edge takes slices to any of the {workers} workers of pool `{name}`, but each link belongs to one of them"
        ),
        help: "write dispatch = \"owner\"".into(),
    })
}

/// The links of a worker are those of one NIC, and so of one transport.
fn one_nic(config: &Config, pool: &PoolDecl, edge: usize, select: usize) -> Option<Objection> {
    let nics = if pool.is_per_nic() { pool.groups.len() } else { 1 };
    let name = &config.stages[select].name;
    (nics > 1).then(|| Objection {
        subject: Subject::Edge(edge),
        text: format!("`{name}` would choose only links of its own NIC, and there are {nics}"),
        help: "use { queue = 64, dispatch = \"owner\" }, or a pool without `per`".into(),
    })
}

/// Functions left with batches need somebody who brings them, and somebody who runs them.
fn callbacks(config: &Config) -> Vec<Objection> {
    let brings = |s: &usize| config.stages[*s].values.texts("via").iter().any(|via| via == "callback");
    let bringer = of_kind(config, "completion_notify").find(brings);
    let (at, text, help) = match (bringer, of_kind(config, "callbacks").next()) {
        (Some(bringer), None) => (
            bringer,
            format!("`{}` tells callbacks, and no stage runs them", config.stages[bringer].name),
            "add a stage of type callbacks in a pool of its own, or take \"callback\" out of `via`",
        ),
        (None, Some(runner)) => (
            runner,
            format!(
                "`{}` runs callbacks, and no stage of type completion_notify brings any",
                config.stages[runner].name
            ),
            "add \"callback\" to `via` of completion_notify, or take this stage out",
        ),
        _ => return Vec::new(),
    };
    vec![Objection { subject: Subject::Stage(at), text, help: help.into() }]
}

#[cfg(test)]
mod tests {
    use pipeline_configs::{Options, load_str};

    use crate::catalog::catalog;

    const FILE: &str = r#"
version = 1
use = "tcp"
[node]
name = "n"
"#;

    fn verdict(file: &str) -> String {
        match load_str("t.toml", file, &catalog(), &Options::default()) {
            Ok(_) => String::new(),
            Err(findings) => format!("{findings:?}"),
        }
    }

    /// The preset breaks no rule.
    #[test]
    fn the_preset_passes() {
        assert_eq!(verdict(FILE), "");
    }

    /// Links of other workers are out of reach: an edge that does not ask for their owner, and a worker that chooses among
    /// the links of one NIC although there are several, of a transport or of two, are objected to; one worker, or one NIC, is fine.
    #[test]
    fn links_have_owners() {
        let file = |threads: usize, edge: &str, more: &str| {
            format!(
                "{FILE}{more}[pools]\nnic = {{ threads = {threads} }}\n[edges]\n\"select -> post\" = {edge}\n"
            )
        };
        let any = "{ queue = 8, dispatch = \"any\" }";
        assert!(
            verdict(&file(2, any, "")).contains("each link belongs to one"),
            "{}",
            verdict(&file(2, any, ""))
        );
        let sim = "[transports.sim]\ntype = \"sim\"\n";
        let two = verdict(&file(2, "\"inline\"", sim));
        assert!(two.contains("only links of its own NIC"), "{two}");
        let nics = "[transports.tcp]\nnics = [\"lo\", \"eth0\"]\n";
        let two = verdict(&file(2, "\"inline\"", nics));
        assert!(two.contains("only links of its own NIC"), "{two}");
        for fine in
            [file(1, any, ""), file(2, "\"inline\"", ""), file(2, "{ queue = 8, dispatch = \"owner\" }", sim)]
        {
            assert_eq!(verdict(&fine), "");
        }
    }

    /// A way around the split, and posting without reaping in pairs, are objected to.
    #[test]
    fn objections() {
        let around = format!(
            "{FILE}[edges]\n\"admit -> split -> route -> select\" = false\n\"admit -> route -> select\" = \"inline\"\n\"submit -> split\" = \"inline\"\n"
        );
        assert!(verdict(&around).contains("without a `request_split`"), "{}", verdict(&around));
        let unrun = format!("{FILE}[stages]\nnotify = {{ via = [\"event\", \"callback\"] }}\n");
        assert!(verdict(&unrun).contains("no stage runs them"), "{}", verdict(&unrun));
        let unbrought = format!(
            "{FILE}[pools]\ncalls = {{ threads = 1 }}\n[stages]\ncalls = {{ type = \"callbacks\", pool = \"calls\" }}\n"
        );
        assert!(verdict(&unbrought).contains("brings any"), "{}", verdict(&unbrought));
        let odd = format!(
            "{FILE}[pools]\nmore = {{ per = \"nic\", threads = 2 }}\n[stages]\nreap = {{ type = \"cq_reap\", pool = \"more\" }}\n"
        );
        assert!(verdict(&odd).contains("workers post on each NIC"), "{}", verdict(&odd));
    }
}
