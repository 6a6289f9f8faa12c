"""`pipeline-node bench`, and the bare loop it compares with, each as a system of its own.

A variant is a pipeline file with overrides. The bare loop of a variant has its lanes, congestion control and wait; it is
the ceiling of the rounds of that variant.
"""

import json
import subprocess
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from .case import KIB, MEMORY_BYTES, MIB, Case, stream
from .system import Places, System, Unavailable

# The pipeline that applications get, and the bare loop that belongs to it.
PIPELINE, CEILING = "ours-tcp", "bare-tcp"
MODELS = "configs/models/"
TIMEOUT_S = 120


@dataclass(frozen=True)
class Variant:
    """A pipeline, by its file."""

    key: str
    title: str
    # Relative to the repository; None is the preset `tcp`.
    file: Optional[str] = None
    overrides: Tuple[str, ...] = ()
    # The longest requests of which it takes part where 64 go together; None: in none.
    batches: Optional[int] = None
    # The variant whose bare loop is its ceiling: itself, unless another one has the same lanes and wait.
    like: Optional[str] = None


def waits(how: str) -> Tuple[str, ...]:
    """Overrides of `run_to_completion.toml`: the thread that submits and the pool that serves wait alike."""
    return (f"pools.app.wait='{how}'", f"pools.nic.wait='{how}'")


VARIANTS = (
    Variant("tcp", "preset `tcp`", batches=16 * MIB),
    Variant("parked", "run to completion, parked", MODELS + "run_to_completion.toml", waits("park")),
    Variant("spinning", "run to completion, spinning", MODELS + "run_to_completion.toml", waits("spin"), batches=4 * KIB),
    Variant("adaptive", "adaptive polling", MODELS + "adaptive_polling.toml", like="tcp"),
)


class Node(System):
    """What both have in common: one call of `bench` a run."""

    what: Tuple[str, ...] = ()

    def __init__(self, variant: Variant, places: Places):
        self.variant, self.places = variant, places

    def takes(self, case: Case) -> bool:
        return not stream(case) and (case.batch == 1 or case.size <= (self.variant.batches or 0))

    def start(self, congestion: str) -> None:
        if self.places.node is None:
            raise Unavailable("pipeline-node was not built")
        if self.variant.file and not (self.places.repo / self.variant.file).exists():
            raise Unavailable(f"there is no {self.variant.file}")

    def command(self, case: Case, *more: str) -> List[str]:
        command = [str(self.places.node), "bench", "--json", "--op", case.op, "--size", str(case.size)]
        command += ["--batch", str(case.batch), "--depth", "1", "--memory", str(MEMORY_BYTES), "--rounds", "1"]
        if self.variant.file:
            command += ["--config", str(self.places.repo / self.variant.file)]
        for override in (f"transports.tcp.congestion='{case.congestion}'", *self.variant.overrides):
            command += ["--set", override]
        return [*command, *more]

    def bench(self, case: Case, *more: str) -> dict:
        command = self.command(case, *more)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {ended.returncode}: {ended.stderr.strip()[-500:]}")
        return json.loads(ended.stdout.splitlines()[-1])


class Ours(Node):
    """The pipeline: what an application gets that uses the library."""

    def __init__(self, variant: Variant, places: Places):
        super().__init__(variant, places)
        self.key, self.title = f"ours-{variant.key}", variant.title

    def run(self, case: Case, seconds: float) -> Dict[str, Optional[float]]:
        line = self.bench(case, "--no-ceiling", "--seconds", str(seconds))
        if line["errors"]:
            raise RuntimeError(f"{case.label}: {line['errors']} requests failed")
        names = ("p50_us", "p99_us", "cpu_s_per_gb_initiator", "cpu_s_per_gb_target")
        return {"gb_per_s": line["gb_per_s_avg"], **{name: line[name] for name in names}}

    def check(self, congestion: str) -> Optional[dict]:
        wrong = 0
        for op in ("write", "read"):
            case = Case(op, 64 << 10, 64, congestion)
            wrong += self.bench(case, "--no-ceiling", "--iterations", "4", "--check")["wrong"]
        return {"same": wrong == 0, "how": "`bench --check`: every byte compared"}


class Bare(Node):
    """The bare loop with the variant's lanes, congestion control and wait."""

    def __init__(self, variant: Variant, places: Places):
        super().__init__(variant, places)
        self.key, self.title = f"bare-{variant.key}", f"bare loop, {variant.title}"

    def run(self, case: Case, seconds: float) -> Dict[str, Optional[float]]:
        line = self.bench(case, "--ceiling-only", "--seconds", str(seconds))
        names = ("gb_per_s", "p50_us", "p99_us", "cpu_s_per_gb_initiator", "cpu_s_per_gb_target")
        return {name: line.get(f"ceiling_{name}") for name in names}


def systems(places: Places) -> List[System]:
    """The bare loops, and all variants."""
    bare = [Bare(variant, places) for variant in VARIANTS if variant.like is None]
    return [*bare, *(Ours(variant, places) for variant in VARIANTS)]


def ceiling_of(system: str) -> str:
    """The bare loop that says which rounds of a system count: that of its variant, or of the preset."""
    for variant in VARIANTS:
        if system.partition("-")[2] == variant.key:
            return f"bare-{variant.like or variant.key}"
    return CEILING
