"""The loop that is timed at an initiator: the same call again and again, for a time, one after the other.

Deliberately the same for all peers; what differs is the call. `pipeline-node bench` times its own side.
"""

import math
import time
from typing import Callable

from process import cpu_seconds

# As `pipeline-node bench`: congestion windows open and caches fill before it counts.
WARM_UP_S = 0.1


def run(call: Callable[[], None], requests: int, size: int, seconds: float, pid: int, target_pid: int) -> dict:
    """Calls `call`, which moves `requests` of `size` bytes, for `seconds`: rates, latencies, CPU time of both ends."""
    end = time.perf_counter() + WARM_UP_S
    call()
    while time.perf_counter() < end:
        call()
    latencies = []
    own, target = cpu_seconds(pid), cpu_seconds(target_pid)
    start = before = time.perf_counter()
    end = start + seconds
    while before < end:
        call()
        after = time.perf_counter()
        latencies.append(after - before)
        before = after
    elapsed = before - start
    own, target = cpu_seconds(pid) - own, cpu_seconds(target_pid) - target
    moved = len(latencies) * requests * size
    latencies.sort()
    return {
        "gb_per_s": moved / elapsed / 1e9,
        "p50_us": percentile(latencies, 0.5) * 1e6,
        "p99_us": percentile(latencies, 0.99) * 1e6,
        "cpu_s_per_gb_initiator": own / moved * 1e9,
        "cpu_s_per_gb_target": target / moved * 1e9,
    }


def percentile(ordered: list, share: float) -> float:
    """The least value that `share` of `ordered` do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
