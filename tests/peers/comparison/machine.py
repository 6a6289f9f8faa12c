"""The machine: what it is, what its CPUs are busy with, and what of that is ours."""

import datetime
import os
import platform
import resource
import time
from pathlib import Path
from typing import Iterable, List

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1
# `clock_getcpuclockid(3)` as the kernel spells it.
CPUCLOCK_SCHED = 2


def name() -> str:
    """`2 vCPU VM`, or `16 CPUs` where no hypervisor shows."""
    virtual = " hypervisor" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return f"{CPUS} vCPU VM" if virtual else f"{CPUS} CPUs"


def facts() -> dict:
    """What a figure means nothing without."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "unknown CPU")
    return {
        "machine": name(),
        "cpu": model,
        "kernel": platform.release(),
        "default_congestion": ipv4("tcp_congestion_control"),
        "date": datetime.date.today().isoformat(),
    }


def ipv4(key: str) -> str:
    """A value of `net.ipv4`."""
    try:
        return Path(f"/proc/sys/net/ipv4/{key}").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def congestions(wanted: Iterable[str]) -> List[str]:
    """Those of `wanted` that this machine has and this user may choose."""
    available = ipv4("tcp_available_congestion_control").split()
    allowed = available if os.geteuid() == 0 else ipv4("tcp_allowed_congestion_control").split()
    return [c for c in wanted if c in available and c in allowed]


def busy_s() -> float:
    """Seconds all CPUs together were not idle since the machine started, with what the host took."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(v) for v in stat.readline().split()[1:]]
    # user nice system | idle iowait | irq softirq steal
    return (sum(ticks[:3]) + sum(ticks[5:8])) / TICKS_PER_S


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process; 0 once it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        return 0.0


class Others:
    """Measures, from its making to `pct`, how much of the CPUs went to processes that are not ours."""

    def __init__(self, pids: Iterable[int]):
        self._pids = list(pids)
        self._start, self._busy, self._own = time.monotonic(), busy_s(), self._own_s()

    def _own_s(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(cpu_s, self._pids))

    def pct(self) -> float:
        """Percent of all CPUs. The system counts in ticks, so a short time is told roughly."""
        elapsed = time.monotonic() - self._start
        others = (busy_s() - self._busy) - (self._own_s() - self._own)
        return max(0.0, 100 * others / (elapsed * CPUS))
