//! More threads want to run than there are CPUs: then each stage takes as long as the others let it, and its own figures say
//! nothing.

use pipeline_graph::{PoolDecl, PoolKind};

use super::super::look::{Look, percent, threads};
use super::super::{Because, Knob, Limit, Rule, knob};

/// Threads of this process want this much more than there are CPUs.
const OVER: f64 = 1.1;
/// And workers wait for a CPU this part of the time in which they could run.
const WAITING: f64 = 0.2;
/// Where others have the CPUs: workers wait for this part of that time.
const HALF: f64 = 0.5;
/// A pool that looks for work without sleeping costs this many CPUs at least, to be what is wrong.
const LOOKING: f64 = 0.5;
/// Who looks for so long without sleeping, and does not adapt, takes CPUs from those who have work.
const LONG_NS: u64 = 1_000_000;

/// See the head of the file.
pub(crate) const RULE: Rule = Rule {
    because: Because::Cpu,
    says: "threads of the process want a tenth more CPUs than it may use, and workers wait for one a fifth of the time in which they could run",
    apply,
};

/// The CPUs are not this process's own to have.
pub(crate) const OTHERS: Rule = Rule {
    because: Because::Cpu,
    says: "nothing of this node is full, and its workers wait for a CPU half of the time in which they could run: other programs have them",
    apply: others,
};

fn others(look: &Look<'_>) -> Option<Limit> {
    let (ran, waited) =
        look.workers().iter().fold((0, 0), |(ran, waited), w| (ran + w.cpu_ns, waited + w.cpu_wait_ns));
    let waiting = waited as f64 / ((ran + waited) as f64).max(1.0);
    // Less than that of one thread's time is no matter, whatever part it is.
    if waiting < HALF || look.share(waited) < WAITING {
        return None;
    }
    let words = format!(
        "workers wait for a CPU {} of the time in which they could run, and this process wants only {:.1} of {:.1}: other programs have \
         them",
        percent(waiting),
        look.wanted_cpus(),
        look.cpus
    );
    Some(Limit { stage: None, because: Because::Cpu, words, knob: None })
}

fn apply(look: &Look<'_>) -> Option<Limit> {
    let wanted = look.wanted_cpus();
    if wanted < OVER * look.cpus {
        return None;
    }
    let (ran, waited) =
        look.workers().iter().fold((0, 0), |(ran, waited), w| (ran + w.cpu_ns, waited + w.cpu_wait_ns));
    let waiting = waited as f64 / ((ran + waited) as f64).max(1.0);
    // A kernel that does not tell leaves the count of those who do not sleep.
    if ran + waited > 0 && waiting < WAITING {
        return None;
    }
    let (pool, knob) = culprit(look)?;
    let told = if ran + waited > 0 {
        format!(", and workers wait for one {} of the time in which they could run", percent(waiting))
    } else {
        String::new()
    };
    let who = match &knob {
        Some(knob) if knob.path.ends_with(".wait") => {
            format!("{} of pool `{}` look for work without sleeping", threads(pool.workers()), pool.name)
        }
        _ => format!("pool `{}` alone has {}", pool.name, threads(pool.workers())),
    };
    let words = format!("threads want {wanted:.1} CPUs and there are {:.1}{told}: {who}", look.cpus);
    Some(Limit { stage: None, because: Because::Cpu, words, knob })
}

/// The pool that costs most CPUs, and what would make it cost less: that it sleeps, if it looks for work all the time.
fn culprit<'a>(look: &Look<'a>) -> Option<(&'a PoolDecl, Option<Knob>)> {
    let pools = || look.blueprint().pools.iter().filter(|pool| pool.kind != PoolKind::Caller);
    let looking = |pool: &PoolDecl| look.of_pool(&pool.name).map(|w| look.looking(w)).sum::<f64>();
    let spinning = pools().filter(|pool| pool.wait.park_ns == 0 || looks_long(pool));
    let spinning = spinning.max_by(|a, b| looking(a).total_cmp(&looking(b)));
    if let Some(pool) = spinning.filter(|pool| looking(pool) >= LOOKING) {
        return Some((pool, knob::wait(pool, "park")));
    }
    let wants = |pool: &PoolDecl| look.of_pool(&pool.name).map(|w| look.wants(w)).sum::<f64>();
    let pool = pools().max_by(|a, b| wants(a).total_cmp(&wants(b)))?;
    // As many as its part of the CPUs.
    let part = wants(pool) / look.wanted_cpus().max(1.0) * look.cpus / pool.groups.len().max(1) as f64;
    let fewer = (part as usize).clamp(1, pool.threads);
    Some((pool, knob::threads(pool, fewer)))
}

fn looks_long(pool: &PoolDecl) -> bool {
    !pool.wait.adaptive && pool.wait.spin_ns.saturating_add(pool.wait.yield_ns) >= LONG_NS
}
