"""Runs the cases in interleaved rounds: in each round every case, and of each case every system in turn, the next round
beginning with another one.
"""

import time
from typing import Callable, Dict, List

from .case import Case
from .machine import Others
from .record import Log, Run
from .system import System, Unavailable

Say = Callable[[str], None]


class Comparison:
    """What takes part, and where its results go."""

    def __init__(self, systems: List[System], cases: List[Case], seconds: float, log: Log, say: Say):
        self._systems, self._cases = systems, cases
        self._seconds, self._log, self._say = seconds, log, say
        self._ready: Dict[str, List[System]] = {}

    def start(self) -> None:
        """Starts what keeps processes; what cannot take part is said once."""
        said = set()
        for congestion in dict.fromkeys(case.congestion for case in self._cases):
            self._ready[congestion] = []
            for system in self._systems:
                if not any(system.takes(c) for c in self._cases if c.congestion == congestion):
                    continue
                try:
                    system.start(congestion)
                    self._ready[congestion].append(system)
                except Unavailable as why:
                    if (system.key, str(why)) not in said:
                        self._say(f"left out: {system.title}: {why}")
                    said.add((system.key, str(why)))

    def rounds(self, count: int) -> None:
        """So many more rounds."""
        session = f"{time.time_ns():x}"
        for number in range(count):
            begin = time.monotonic()
            for case in self._cases:
                systems = [s for s in self._ready[case.congestion] if s.takes(case)]
                first = number % len(systems) if systems else 0
                for system in systems[first:] + systems[:first]:
                    self._one(f"{session}-{number}", system, case)
            self._say(f"round {number + 1} of {count}: {time.monotonic() - begin:.0f} s")

    def _one(self, name: str, system: System, case: Case) -> None:
        others = Others(pid for s in self._systems for pid in s.pids())
        metrics = system.run(case, self._seconds)
        run = Run(name, system.key, case, others_pct=round(others.pct(), 1), **metrics)
        self._log.run(run)

    def check(self) -> bool:
        """Compares the bytes of both ends of every system; whether all were the same."""
        all_same = True
        for congestion, systems in self._ready.items():
            for system in systems:
                outcome = system.check(congestion)
                if outcome is None:
                    continue
                self._log.check({"system": system.key, "congestion": congestion, **outcome})
                if not outcome["same"]:
                    all_same = False
                    self._say(f"NOT THE SAME: {system.title}, {congestion}: {outcome}")
        return all_same

    def stop(self) -> None:
        """Ends every process."""
        for system in self._systems:
            system.stop()
