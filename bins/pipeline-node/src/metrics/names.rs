//! Every metric of a node: its name, what kind it is, its unit, its labels, where in an [`Observation`] it comes from, and what
//! it says. The one place for all of that: the export, `docs/metrics.md` and the tests of the Grafana board read it.
//!
//! Rules that the tests hold: `_total` on counters and nowhere else, base units, labels whose values the file bounds. Never an
//! address of whoever connects, never a request.
//!
//! [`Observation`]: crate::Observation

use ::metrics::Unit;

/// What a metric does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises. Those of time are fractions; the facade's counters are whole numbers, so another recorder gets them as
    /// gauges that only rise.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size, in seconds.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its whole name.
    pub name: &'static str,
    /// What it does over time.
    pub kind: Kind,
    /// What it is measured in; `None` for a state.
    pub unit: Option<Unit>,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Fields that it comes from, as `Type::field`.
    pub from: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

impl Metric {
    /// Whether it counts seconds: what the facade's counters of whole numbers cannot hold.
    pub(super) fn is_time(&self) -> bool {
        self.unit == Some(Unit::Seconds)
    }
}

macro_rules! metrics {
    (@unit none) => { None };
    (@unit items) => { Some(Unit::Count) };
    (@unit seconds) => { Some(Unit::Seconds) };
    (@unit bytes) => { Some(Unit::Bytes) };
    ($($id:ident = $kind:ident $name:literal [$($label:literal)*] $unit:ident [$($from:literal)*] $help:literal)*) => {
        $(pub(super) const $id: Metric = Metric {
            name: concat!("pipeline_node_", $name),
            kind: Kind::$kind,
            unit: metrics!(@unit $unit),
            labels: &[$($label),*],
            from: &[$($from),*],
            help: $help,
        };)*
        /// All of them, in the order of the page.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    // The node.
    BUILD_INFO = Gauge "build_info" ["version" "commit"] none [] "Always 1; the labels say which build runs."
    UPTIME = Counter "uptime_seconds_total" [] seconds ["Snapshot::elapsed_ns"] "Time that the engine has run."
    CPU = Counter "process_cpu_seconds_total" [] seconds ["Observation::cpu_ns"]
        "CPU time of the whole process, the application's own threads included."
    WINDOW_SHORT = Counter "window_short_seconds_total" [] seconds ["Observation::window_short_ns"]
        "Time that stages which cut requests found no window and no slice for what waits, over their workers."
    SLICES = Gauge "slices_in_use" [] items ["Usage::slices"] "Slices taken of limits.slices."
    REQUESTS_OPEN = Gauge "requests_in_use" [] items ["Usage::requests"]
        "Requests taken of limits.requests: under way, or of a batch that the application has not dropped."
    REQUESTS_UNDER_WAY = Gauge "requests_under_way" [] items ["Observation::under_way"]
        "Requests that have not ended."
    BATCHES_OPEN = Gauge "batches_in_use" [] items ["Usage::batches"]
        "Batches taken of limits.batches: under way, or ended and not dropped by the application."
    WINDOW = Gauge "in_flight_bytes" [] bytes ["Usage::bytes"] "Bytes taken of limits.bytes_in_flight."

    // Requests.
    REQUESTS_SUBMITTED = Counter "requests_submitted_total" [] items ["Counts::submitted"]
        "Requests of all batches that were taken. While nothing is under way: those done and those failed together."
    REQUESTS_REFUSED = Counter "requests_refused_total" [] items ["Counts::refused"]
        "Of those, the ones that failed at once: their memory was wrong, or their peer gone."
    REQUESTS_ENTERED = Counter "requests_entered_total" [] items ["Counts::entered"]
        "As how many the others entered the graph: neighbours that touch on both sides are merged."
    REQUESTS_DONE = Counter "requests_done_total" [] items ["Counts::done"] "Requests that ended well."
    REQUESTS_FAILED = Counter "requests_failed_total" ["reason"] items ["Counts::failed"]
        "Requests that did not end well, by reason."
    REQUESTS_BYTES = Counter "requests_done_bytes_total" [] bytes ["Counts::bytes"]
        "Bytes applied at their destinations, those of requests included of which a part failed."
    REQUEST_SECONDS = Histogram "request_seconds" [] seconds ["Counts::took"]
        "Time of requests that entered the graph, from submit to their end, good or not."
    BUSY = Counter "submissions_busy_total" [] items ["Counts::busy"] "How often `submit` answered busy."
    SLICES_CUT = Counter "slices_cut_total" [] items ["Counts::slices"]
        "Slices that were cut of requests; a request that travels whole is one."
    RETRIES = Counter "slices_retried_total" [] items ["Counts::retries"] "Slices that were sent again."
    STAGED_COPIES = Counter "staged_copies_total" [] items ["Counts::staged_copies"]
        "Work requests whose bytes a transport has copied through a staging buffer."
    STAGED_BYTES = Counter "staged_bytes_total" [] bytes ["Counts::staged_bytes"] "Bytes of those."
    STALE = Counter "stale_completions_total" [] items ["Counts::stale"]
        "Keys and completions that came too late or twice, and were dropped."
    CALLBACK_PANICS = Counter "callback_panics_total" [] items ["Counts::callback_panics"]
        "Callbacks and wakers of the application that panicked."
    COMPLETION_WAKES = Counter "completion_wakes_total" [] items ["Counts::wakes"]
        "Wake-ups of the application that ends of batches have cost."

    // Stages.
    STAGE_INFO = Gauge "stage_info" ["stage" "type" "pool"] none
        ["StageStats::name" "StageStats::kind" "StageStats::pool"]
        "Always 1; pool is empty for a stage that runs where it is reached."
    STAGE_WORKERS = Gauge "stage_workers" ["stage"] items ["StageStats::threads"] "Workers that run a stage."
    STAGE_CAPACITY = Gauge "stage_queue_capacity_batches" ["stage"] items ["StageStats::cap"]
        "Batches that the queues in front of a stage hold, over all of their rings; 0 if it is reached inline."
    STAGE_DEPTH_MAX = Gauge "stage_queue_depth_max_batches" ["stage"] items ["StageStats::depth_max"]
        "The deepest that one ring in front of a stage was found since the start."
    STAGE_DEPTH_SUM = Counter "stage_queue_depth_sum_batches_total" ["stage"] items ["StageStats::depth_sum"]
        "Sum of what a stage's workers found in a ring, each time they took something out; by the samples: the mean."
    STAGE_DEPTH_SAMPLES = Counter "stage_queue_depth_samples_total" ["stage"] items ["StageStats::depth_samples"]
        "How often workers of a stage took something out of a ring."
    STAGE_ITEMS = Counter "stage_items_total" ["stage"] items ["StageStats::items"] "Slices that a stage took from its inputs."
    STAGE_SHARD_ITEMS = Counter "stage_shard_items_total" ["stage" "shard"] items ["StageStats::worker_items"]
        "Of those, what each worker that runs the stage took; shards are its workers, from 0."
    STAGE_BATCHES = Counter "stage_batches_total" ["stage"] items ["StageStats::batches"] "Batches that a stage was run on."
    STAGE_POLLS = Counter "stage_polls_total" ["stage"] items ["StageStats::polls"] "Polls of a stage."
    STAGE_BUSY_POLLS = Counter "stage_busy_polls_total" ["stage"] items ["StageStats::busy_polls"]
        "Polls of a stage that found something."
    STAGE_BUSY = Counter "stage_busy_seconds_total" ["stage"] seconds ["StageStats::busy_ns"]
        "Time inside a stage, over all of its workers."
    STAGE_BLOCKED = Counter "stage_blocked_seconds_total" ["stage"] seconds ["StageStats::blocked_ns"]
        "Time that a stage had input and no room or resource to go on."
    STAGE_PANICS = Counter "stage_panics_total" ["stage"] items ["StageStats::panics"] "Panics that were caught in a stage."
    STAGE_STRAYS = Counter "stage_strays_total" ["stage"] items ["StageStats::strays"]
        "Slices that a stage gave to a port without an edge: 0, or there is a bug."
    STAGE_WAIT = Histogram "stage_wait_seconds" ["stage"] seconds ["StageStats::wait"]
        "Time that slices waited in the queues in front of a stage."
    STAGE_SERVICE = Histogram "stage_service_seconds" ["stage"] seconds ["StageStats::service"]
        "Time of one run of a stage on a batch, or of one poll that found something."
    STAGE_HELD = Histogram "stage_held_seconds" ["stage"] seconds ["StageStats::held"]
        "Time that slices were inside a stage, neither waiting nor in its hands: of cq_reap the time on the wire."

    // Edges.
    EDGE_INFO = Gauge "edge_info" ["edge" "mode"] none ["EdgeStats::name" "EdgeStats::mode"]
        "Always 1; mode is inline, queue or return."
    EDGE_RINGS = Gauge "edge_rings" ["edge"] items ["EdgeStats::rings"]
        "Rings of an edge: 1, or one for each worker behind it; 0 for inline."
    EDGE_CAPACITY = Gauge "edge_ring_capacity" ["edge"] items ["EdgeStats::capacity"]
        "What one ring of an edge holds: batches, or slices on a return edge."
    EDGE_DEPTH = Gauge "edge_depth_items" ["edge"] items ["EdgeStats::depth_items"] "Slices that lie in an edge now."
    EDGE_DEPTH_NOW = Gauge "edge_ring_depth" ["edge"] items ["EdgeStats::depth_now"]
        "What the rings of an edge hold now, as `edge_ring_capacity` counts it."
    EDGE_DEPTH_SUM = Counter "edge_ring_depth_sum_total" ["edge"] items ["EdgeStats::depth_sum"]
        "Sum of what workers found in a ring of an edge, each time they took something out; by the samples: the mean."
    EDGE_DEPTH_SAMPLES = Counter "edge_ring_depth_samples_total" ["edge"] items ["EdgeStats::depth_samples"]
        "How often workers took something out of a ring of an edge."
    EDGE_DEPTH_MAX = Gauge "edge_ring_depth_max" ["edge"] items ["EdgeStats::depth_max"]
        "Most that a worker found in a ring of an edge since the start."
    EDGE_BLOCKED = Counter "edge_blocked_seconds_total" ["edge"] seconds ["EdgeStats::blocked_ns"]
        "Time that batches were ready to go and their ring had no room, over all producers and rings."
    EDGE_PUSHED = Counter "edge_pushed_items_total" ["edge"] items ["EdgeStats::pushed"]
        "Slices that were pushed into an edge; minus those popped: its depth."
    EDGE_POPPED = Counter "edge_popped_items_total" ["edge"] items ["EdgeStats::popped"] "Slices that were popped from an edge."
    EDGE_BATCHES = Counter "edge_pushed_batches_total" ["edge"] items ["EdgeStats::batches"]
        "Batches that were pushed into an edge."
    EDGE_REJECTED = Counter "edge_rejected_items_total" ["edge"] items ["EdgeStats::rejected"]
        "Slices that found an edge full and were rejected."
    EDGE_OVERFLOWS = Counter "edge_overflows_total" ["edge"] items ["EdgeStats::overflows"]
        "How often a return edge was found full: 0, or there is a bug."

    // Workers.
    WORKER_INFO = Gauge "worker_info" ["pool" "worker" "cpu"] none
        ["WorkerStats::name" "WorkerStats::pool" "WorkerStats::cpu"]
        "Always 1; cpu is empty for a worker that is not pinned."
    WORKER_TURNS = Counter "worker_turns_total" ["pool" "worker"] items ["WorkerStats::turns"] "Turns of a worker's loop."
    WORKER_BUSY = Counter "worker_busy_seconds_total" ["pool" "worker"] seconds ["WorkerStats::busy_ns"]
        "Time in turns that did something."
    WORKER_PARKED = Counter "worker_parked_seconds_total" ["pool" "worker"] seconds ["WorkerStats::parked_ns"]
        "Time that a worker slept."
    WORKER_CPU = Counter "worker_cpu_seconds_total" ["pool" "worker"] seconds
        ["WorkerStats::cpu_ns" "WorkerStats::cpu_told"]
        "Time that a worker's thread was on a CPU; absent where the kernel does not tell."
    WORKER_CPU_WAIT = Counter "worker_cpu_wait_seconds_total" ["pool" "worker"] seconds ["WorkerStats::cpu_wait_ns"]
        "Time that a worker's thread could have run and had no CPU, likewise."
    WORKER_PARKS = Counter "worker_parks_total" ["pool" "worker"] items ["WorkerStats::parks"] "Sleeps of a worker."
    WORKER_WAKES = Counter "worker_wakes_total" ["pool" "worker"] items ["WorkerStats::wakes"]
        "Rings that found a worker asleep."
    WORKER_TIMED_WAKES = Counter "worker_timed_wakes_total" ["pool" "worker"] items ["WorkerStats::timed_wakes"]
        "Sleeps that a limit or a deadline ended."
    WORKER_SPINS = Counter "worker_spins_total" ["pool" "worker"] items ["WorkerStats::spins"] "Idle looks with a pause between."
    WORKER_YIELDS = Counter "worker_yields_total" ["pool" "worker"] items ["WorkerStats::yields"]
        "Idle looks with a yield between."
    WORKER_REFUSED_FDS = Counter "worker_refused_fds_total" ["pool" "worker"] items ["WorkerStats::refused_fds"]
        "Descriptors that a worker could not arm."
    WORKER_GAP = Gauge "worker_gap_seconds" ["pool" "worker"] seconds ["WorkerStats::gap_ns"]
        "Middle of the gaps without work that an adaptive worker sees; 0 for others."
    WORKER_SPIN_BUDGET = Gauge "worker_spin_budget_seconds" ["pool" "worker"] seconds ["WorkerStats::spin_budget_ns"]
        "How long a worker spins now before anything else."
    WORKER_YIELD_BUDGET = Gauge "worker_yield_budget_seconds" ["pool" "worker"] seconds ["WorkerStats::yield_budget_ns"]
        "How long a worker then yields now."
    WORKER_PARKS_AT_ONCE = Gauge "worker_parks_at_once" ["pool" "worker"] none ["WorkerStats::parks_at_once"]
        "1 if a worker sleeps now as soon as it runs dry."
    WORKER_WAKE = Gauge "worker_wake_seconds" ["pool" "worker"] seconds ["WorkerStats::wake_ns"]
        "Time from a ring to awake, as an adaptive worker has measured it."
    WORKER_WAKE_CPU = Gauge "worker_wake_cpu_seconds" ["pool" "worker"] seconds ["WorkerStats::wake_cpu_ns"]
        "CPU time of such a sleep."
    WORKER_DECISIONS = Counter "worker_wait_decisions_total" ["pool" "worker"] items ["WorkerStats::decisions"]
        "How often an adaptive worker has changed how long it spins and yields."

    // NICs.
    NIC_INFO = Gauge "nic_info" ["transport" "nic" "address" "numa"] none
        ["NicStats::transport" "NicStats::name" "NicFacts::address" "NicFacts::numa"]
        "Always 1; address and NUMA node of this node's own NIC, where they are known."
    NIC_SPEED = Gauge "nic_speed_bytes_per_second" ["transport" "nic"] none ["NicFacts::bits_per_s"]
        "Speed of a NIC's port; 0 where nobody knows."
    NIC_RESTING = Gauge "nic_resting" ["transport" "nic"] none ["NicFacts::resting"]
        "1 while no link is opened or chosen on a NIC, because it failed or its port is down."
    NIC_SLICES = Counter "nic_slices_total" ["transport" "nic"] items ["NicStats::slices"]
        "Slices that moved over a NIC and are applied at their destination."
    NIC_BYTES = Counter "nic_bytes_total" ["transport" "nic"] bytes ["NicStats::bytes"] "Bytes of those, read and written."
    NIC_READ = Counter "nic_read_bytes_total" ["transport" "nic"] bytes ["NicStats::bytes_read"]
        "Of those, the bytes that were read from peers."
    NIC_WRITTEN = Counter "nic_written_bytes_total" ["transport" "nic"] bytes ["NicStats::bytes_written"]
        "Of those, the bytes that were written to peers."
    NIC_SERVED_IN = Counter "nic_served_in_bytes_total" ["transport" "nic"] bytes ["NicStats::served_bytes_in"]
        "Payload that peers have written here; absent where this node's CPU takes no part in that (RDMA) and nobody here knows."
    NIC_SERVED_OUT = Counter "nic_served_out_bytes_total" ["transport" "nic"] bytes ["NicStats::served_bytes_out"]
        "Payload that peers have read from here, likewise."
    NIC_ERRORS = Counter "nic_errors_total" ["transport" "nic"] items ["NicStats::errors"]
        "Attempts of slices that came back undone; most are tried again."
    NIC_LOCAL_FAILURES = Counter "nic_local_failures_total" ["transport" "nic"] items ["NicStats::local_failures"]
        "Links that ended, and dials that failed, because of a NIC of this node."
    NIC_PATH_FAILURES = Counter "nic_path_failures_total" ["transport" "nic"] items ["NicStats::path_failures"]
        "Links on a NIC that ended because of the way to a peer's NIC."
    NIC_OUTSTANDING = Gauge "nic_outstanding_slices" ["transport" "nic"] items ["NicStats::outstanding"]
        "Slices that are on a NIC now."
    NIC_LINKS = Gauge "nic_links" ["transport" "nic"] items ["NicStats::links"] "Links on a NIC that live, over all peers."

    // Peers.
    PEERS = Gauge "peers" ["state"] items ["PeerStats::state"]
        "Peers that were opened, by where they stand: connecting, up, down or leaving."
    PEER_UP = Gauge "peer_up" ["peer"] none ["PeerStats::label" "PeerStats::state"]
        "1 while the session with a peer stands. Not for `other`."
    PEER_LINKS = Gauge "peer_links" ["peer"] items ["PeerStats::links"] "Links to a peer that live."
    PEER_OUTSTANDING = Gauge "peer_outstanding_slices" ["peer"] items ["PeerStats::outstanding"]
        "Slices that are on the way to or from a peer now."
    PEER_SLICES = Counter "peer_slices_total" ["peer"] items ["PeerStats::slices"]
        "Slices moved to and from a peer that are applied at their destination."
    PEER_READ = Counter "peer_read_bytes_total" ["peer"] bytes ["PeerStats::bytes_read"] "Bytes that were read from a peer."
    PEER_WRITTEN = Counter "peer_written_bytes_total" ["peer"] bytes ["PeerStats::bytes_written"]
        "Bytes that were written to a peer."
    PEER_ERRORS = Counter "peer_errors_total" ["peer"] items ["PeerStats::errors"]
        "Attempts of slices that came back undone; most are tried again."
    PEER_RETRIES = Counter "peer_retries_total" ["peer"] items ["PeerStats::retries"] "Slices that were sent to a peer again."
    PEER_PATH_FAILURES = Counter "peer_path_failures_total" ["peer"] items ["PeerStats::path_failures"]
        "Links to a peer that ended because of the way between two NICs."
    PEER_FAILURES = Counter "peer_failures_total" ["peer"] items ["PeerStats::peer_failures"]
        "Links to a peer that ended because of the peer as a whole."
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are unique, say `_total` exactly when they are counters and end in their base unit, and labels are words.
    #[test]
    fn names_follow_the_rules() {
        let is_word = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        for (i, metric) in METRICS.iter().enumerate() {
            let name = metric.name;
            assert!(METRICS[..i].iter().all(|other| other.name != name), "{name} twice");
            assert!(is_word(name) && metric.labels.iter().all(|label| is_word(label)), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), metric.unit == Some(Unit::Seconds), "{name}");
            assert_eq!(base.ends_with("_bytes"), metric.unit == Some(Unit::Bytes), "{name}");
            assert!(metric.help.ends_with('.') && metric.help.len() < 160, "{name}");
            assert!(!metric.labels.iter().any(|label| ["le", "instance", "job"].contains(label)), "{name}");
        }
    }
}
