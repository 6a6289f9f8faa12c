//! Thread per core: a pinned worker on each CPU, and what one of them has it shares with no other.

use pipeline_graph::Cpus;

use crate::files::engine;
use crate::threads;

/// Each worker may run on one CPU and no other, no two on the same, and each CPU that this process may use has one.
#[test]
fn each_worker_has_a_cpu() {
    let before = threads::all();
    let client = engine("thread_per_core", &[]);
    let workers: Vec<_> = client.stats().workers.into_iter().filter(|worker| worker.pool == "core").collect();
    let mut cpus = Vec::new();
    for worker in &workers {
        let ids = threads::started(&before, &worker.name);
        assert_eq!(ids.len(), 1, "{}: {ids:?}", worker.name);
        let mask = threads::mask(ids[0]);
        assert_eq!(Some(&mask), worker.cpu.map(|cpu| cpu.to_string()).as_ref(), "{}", worker.name);
        cpus.push(mask.parse::<usize>().unwrap());
    }
    cpus.sort_unstable();
    assert_eq!(cpus, Cpus::of_process().allowed);
}
