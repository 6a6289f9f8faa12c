//! A graph as a picture: text for a terminal, Graphviz dot, mermaid.
//! Deliberately from the blueprint alone: what is drawn is what is declared, whether it passes the check or not.

mod dot;
mod mermaid;
mod text;

pub use dot::dot;
pub use mermaid::mermaid;
pub use text::text;

use crate::blueprint::{Blueprint, Dispatch, EdgeDecl, Mode, OUT, PoolDecl, PoolKind, WhenFull};

/// Title of a pool's box: `nic: 2 threads (eth0, eth1)`.
fn pool_title(pool: &PoolDecl) -> String {
    let threads = match pool.workers() {
        _ if pool.kind == PoolKind::Caller => "callers' threads".to_owned(),
        n if pool.kind == PoolKind::Stealing => {
            format!("jobs on {n} thread{}", if n == 1 { "" } else { "s" })
        }
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    let groups =
        if pool.groups.is_empty() { String::new() } else { format!(" ({})", pool.groups.join(", ")) };
    format!("{}: {threads}{groups}", pool.name)
}

/// What an edge is made of: `inline`, `queue 64, owner, reject`, `return`.
fn mode(mode: &Mode) -> String {
    let to = |dispatch: &Dispatch| match dispatch {
        Dispatch::Any => "",
        Dispatch::Owner => ", owner",
        Dispatch::Hash => ", hash",
    };
    match mode {
        Mode::Inline => "inline".to_owned(),
        Mode::Queue { capacity, when_full, dispatch } => {
            let reject = if *when_full == WhenFull::Reject { ", reject" } else { "" };
            format!("queue {capacity}{}{reject}", to(dispatch))
        }
        Mode::Return { dispatch } => format!("return{}", to(dispatch)),
    }
}

/// Name of the port an edge leaves by; `None` for `out` and for `submit`.
fn port<'a>(blueprint: &'a Blueprint, edge: &EdgeDecl) -> Option<&'a str> {
    let port = blueprint.stages.get(edge.from?)?.shape.ports.get(edge.port)?;
    (port.name != OUT).then_some(&*port.name)
}

/// What is written along an edge: its port unless `out`, and its bounds unless inline.
fn label(blueprint: &Blueprint, edge: &EdgeDecl) -> String {
    let bound = (edge.mode != Mode::Inline).then(|| mode(&edge.mode));
    port(blueprint, edge).map(str::to_owned).into_iter().chain(bound).collect::<Vec<_>>().join(": ")
}
