"""The targets: what must hold, the figure that shows it, and whether it is met.

A target is a quantity that must be at least 1, computed in each round from the runs of that round; the median decides.
Where it is "at least the smaller of two", each round takes the smaller of its own two.
"""

from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional

from .case import KIB, MIB, OPS, Case
from .figures import Figure, Rounds
from .ours import CEILING, PIPELINE, ceiling_of
from .record import Run

PEERS = (("mooncake", "Mooncake"), ("nixl", "NIXL, progress thread"), ("nixl-polling", "NIXL, no progress thread"))


def rate(run: Run) -> Optional[float]:
    """GB/s."""
    return run.gb_per_s


def p50(run: Run) -> Optional[float]:
    """Median latency, microseconds."""
    return run.p50_us


def p99(run: Run) -> Optional[float]:
    """99 % of the latencies, microseconds."""
    return run.p99_us


def cpu(run: Run) -> Optional[float]:
    """CPU seconds for 10^9 bytes, both ends."""
    return run.cpu_s_per_gb


@dataclass(frozen=True)
class Target:
    """One line of the table."""

    what: str
    case: Case
    # What `shown` counts, for the reader.
    wanted: str
    shown: Optional[Figure]
    # How far it is from its bound, at least 1 when met.
    score: Optional[Figure]
    # Whether the bound is the smaller of two, so that `shown` alone does not tell.
    either: bool = False

    @property
    def met(self) -> bool:
        """What was not measured is not met."""
        return self.score is not None and self.score.median >= 1.0


def all_targets(rounds: Rounds, congestions: List[str]) -> Iterator[Target]:
    """In the order of the table."""
    for maker in (of_the_ceiling, beside_peers, small_requests, cpu_seconds, one_at_a_time):
        for congestion in congestions:
            yield from maker(rounds, congestion)


def of_the_ceiling(rounds: Rounds, congestion: str) -> Iterator[Target]:
    """Large batches against the bare loop."""
    for batch, size in ((64, MIB), (16, 16 * MIB)):
        for op in OPS:
            case = Case(op, size, batch, congestion)
            shown = rounds.ratio(case, PIPELINE, CEILING, CEILING, rate)
            yield Target("share of the bare loop", case, "≥ 0.92", shown, scaled(shown, 1 / 0.92))


def beside_peers(rounds: Rounds, congestion: str) -> Iterator[Target]:
    """Medium and large batches against peers, or as much as the ceiling leaves."""
    bounds = ((64, MIB, 2.0, 0.92), (16, 16 * MIB, 2.0, 0.92), (64, 64 * KIB, 2.5, 0.9))
    for batch, size, times, share in bounds:
        for op in OPS:
            case = Case(op, size, batch, congestion)
            for peer, name in PEERS:
                shown = rounds.ratio(case, PIPELINE, peer, CEILING, rate)
                score = rounds.by_round(case, [PIPELINE, peer, CEILING], CEILING, of_the_smaller(times, share))
                wanted = f"≥ {times:g}, or {share:g} of the bare loop"
                yield Target(f"times {name}", case, wanted, shown, score, either=True)


def small_requests(rounds: Rounds, congestion: str) -> Iterator[Target]:
    """Small batches against peers."""
    for op in OPS:
        case = Case(op, 4 * KIB, 64, congestion)
        for peer, name in PEERS:
            times = 8 if peer == "mooncake" else 5
            shown = rounds.ratio(case, PIPELINE, peer, CEILING, rate)
            yield Target(f"times {name}", case, f"≥ {times}", shown, scaled(shown, 1 / times))
        # Without a progress thread its caller spins and does all the work: the same on our side.
        shown = rounds.ratio(case, "ours-spinning", "nixl-polling", "bare-spinning", rate)
        yield Target(f"run to completion, spinning, times {PEERS[2][1]}", case, "≥ 5", shown, scaled(shown, 1 / 5))


def cpu_seconds(rounds: Rounds, congestion: str) -> Iterator[Target]:
    """Both ends together, against the bare loop with the same congestion control and wait."""
    for batch, size in ((64, MIB), (16, 16 * MIB)):
        for op in OPS:
            case = Case(op, size, batch, congestion)
            shown = rounds.ratio(case, PIPELINE, CEILING, CEILING, cpu)
            yield Target("CPU s/GB, times the bare loop", case, "≤ 1.15", shown, inverse(shown, 1.15))


def one_at_a_time(rounds: Rounds, congestion: str) -> Iterator[Target]:
    """Latency: the ratio is how many times longer the other one takes, but for the bare loop."""
    for op in OPS:
        small, large = Case(op, 4 * KIB, 1, congestion), Case(op, MIB, 1, congestion)
        shown = rounds.ratio(small, "ours-parked", "bare-parked", "bare-parked", p50)
        yield Target("p50 parked, times the parked bare loop", small, "≤ 1.15", shown, inverse(shown, 1.15))
        shown = rounds.ratio(small, "mooncake", "ours-adaptive", ceiling_of("ours-adaptive"), p50)
        yield Target("times faster adaptive than Mooncake (p50)", small, "> 1", shown, shown)
        for peer, name in PEERS[1:]:
            shown = rounds.ratio(small, peer, "ours-spinning", "bare-spinning", p50)
            yield Target(f"times faster spinning than {name} (p50)", small, "≥ 1.5", shown, scaled(shown, 1 / 1.5))
        for peer, name in PEERS[1:]:
            shown = rounds.ratio(large, peer, "ours-spinning", "bare-spinning", p50)
            yield Target(f"times faster spinning than {name} (p50)", large, "> 1", shown, shown)


def of_the_smaller(times: float, share: float) -> Callable[[Run, Run, Run], Optional[float]]:
    """Ours over the smaller of `times` x the peer and `share` x the ceiling."""

    def score(ours: Run, peer: Run, ceiling: Run) -> Optional[float]:
        bound = min(times * peer.gb_per_s, share * ceiling.gb_per_s)
        return ours.gb_per_s / bound if bound else None

    return score


def scaled(figure: Optional[Figure], by: float) -> Optional[Figure]:
    """A figure in another unit."""
    return figure and Figure(figure.median * by, figure.least * by, figure.most * by, figure.rounds)


def inverse(figure: Optional[Figure], bound: float) -> Optional[Figure]:
    """`bound` over a figure that should stay under it."""
    return figure and Figure(bound / figure.median, bound / figure.most, bound / figure.least, figure.rounds)
