"""The arithmetic of the comparison, and nothing else: which rounds count, medians, spreads, and ratios round by round.

The machine's speed drifts while the comparison runs, so two systems are never compared by their medians: each round
gives one ratio, of runs that followed each other, and the median of those is told.
"""

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from .case import Case
from .record import Run

# A round whose ceiling is under this share of the median ceiling of its case saw another machine.
SLOW = 0.7
# A run while which others had more than this share of all CPUs says nothing, percent.
OTHERS_PCT = 10.0

Metric = Callable[[Run], Optional[float]]


@dataclass(frozen=True)
class Figure:
    """A median with its spread and how many rounds it stands on."""

    median: float
    least: float
    most: float
    rounds: int


def figure(values: Iterable[float]) -> Optional[Figure]:
    """None of nothing."""
    values = list(values)
    if not values:
        return None
    return Figure(statistics.median(values), min(values), max(values), len(values))


def slow_rounds(ceilings: Dict[str, float]) -> Set[str]:
    """Rounds whose ceiling is under `SLOW` of the median of all."""
    if not ceilings:
        return set()
    least = SLOW * statistics.median(ceilings.values())
    return {name for name, value in ceilings.items() if value < least}


class Rounds:
    """All runs, by case, system and round; what is disturbed or slow is left out and counted."""

    def __init__(self, runs: Iterable[Run], others_pct: float = OTHERS_PCT):
        self.others_pct = others_pct
        self.made = self.disturbed = 0
        self._runs: Dict[Tuple[Case, str], Dict[str, Run]] = defaultdict(dict)
        made: Dict[Case, Set[str]] = defaultdict(set)
        for run in runs:
            self.made += 1
            made[run.case].add(run.round)
            if run.others_pct > others_pct:
                self.disturbed += 1
            else:
                self._runs[run.case, run.system][run.round] = run

        # Of the case that has most: pieces may have left some out.
        self.count = max((len(names) for names in made.values()), default=0)

    def systems(self, case: Case) -> List[str]:
        """Those that have a run of the case that counts."""
        return [system for (c, system), runs in self._runs.items() if c == case and runs]

    def slow(self, case: Case, ceiling: str) -> Set[str]:
        """Rounds of the case that `ceiling` shows to be slow."""
        return slow_rounds({r: run.gb_per_s for r, run in self._runs.get((case, ceiling), {}).items()})

    def kept(self, case: Case, system: str, ceiling: str) -> Dict[str, Run]:
        """The runs of `system` that count, by round."""
        slow = self.slow(case, ceiling)
        return {r: run for r, run in self._runs.get((case, system), {}).items() if r not in slow}

    def figure(self, case: Case, system: str, ceiling: str, metric: Metric) -> Optional[Figure]:
        """Median and spread of a metric."""
        values = (metric(run) for run in self.kept(case, system, ceiling).values())
        return figure(v for v in values if v is not None)

    def by_round(
        self, case: Case, systems: List[str], ceiling: str, combine: Callable[..., Optional[float]]
    ) -> Optional[Figure]:
        """Median and spread of `combine(run of each system)`, over the rounds in which all of them count."""
        kept = [self.kept(case, system, ceiling) for system in systems]
        values = []
        for name in kept[0]:
            if all(name in runs for runs in kept):
                value = combine(*(runs[name] for runs in kept))
                if value is not None:
                    values.append(value)
        return figure(values)

    def ratio(self, case: Case, over: str, under: str, ceiling: str, metric: Metric) -> Optional[Figure]:
        """`over` divided by `under`, round by round."""

        def divide(a: Run, b: Run) -> Optional[float]:
            x, y = metric(a), metric(b)
            return None if x is None or not y else x / y

        return self.by_round(case, [over, under], ceiling, divide)

    def slow_count(self) -> Tuple[int, int]:
        """Rounds left out as slow, of how many, over all cases and bare loops."""
        ceilings = [(case, system) for case, system in self._runs if system.startswith("bare-")]
        slow = sum(len(self.slow(case, system)) for case, system in ceilings)
        return slow, sum(len(self._runs[key]) for key in ceilings)
