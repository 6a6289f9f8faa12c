"""Raw results: a file of JSON lines, one for each thing that was run. Pieces of a comparison add up by being appended to
the same file; tables come from nothing else.

A line is a session (what machine, which builds), a run (one system, one case, one round), or a check (the bytes of
both ends after the runs).
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

from .case import Case


@dataclass
class Run:
    """One system, one case, one round. Rates in 10^9 bytes; CPU seconds for 10^9 bytes, all threads of an end."""

    round: str
    system: str
    case: Case
    gb_per_s: float
    p50_us: Optional[float] = None
    p99_us: Optional[float] = None
    cpu_s_per_gb_initiator: Optional[float] = None
    cpu_s_per_gb_target: Optional[float] = None
    # What other processes and the host took of all CPUs meanwhile, percent.
    others_pct: float = 0.0

    @property
    def cpu_s_per_gb(self) -> Optional[float]:
        """Of both ends together."""
        ends = (self.cpu_s_per_gb_initiator, self.cpu_s_per_gb_target)
        return None if None in ends else sum(ends)


@dataclass
class Results:
    """All that a file holds."""

    sessions: List[dict] = field(default_factory=list)
    runs: List[Run] = field(default_factory=list)
    checks: List[dict] = field(default_factory=list)


class Log:
    """Appends to a file, so that what was measured outlives whatever ends the command."""

    def __init__(self, path: Path, add: bool):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a" if add else "w", encoding="utf-8")

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def session(self, facts: Dict[str, object]) -> None:
        self._write({"session": facts})

    def run(self, run: Run) -> None:
        self._write({"run": asdict(run)})

    def check(self, outcome: Dict[str, object]) -> None:
        self._write({"check": outcome})

    def _write(self, value: dict) -> None:
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()


def load(path: Path) -> Results:
    """What is in a file; runs of the same system, case and round may be there once only."""
    results, seen = Results(), set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        value = json.loads(line)
        if "session" in value:
            results.sessions.append(value["session"])
        elif "check" in value:
            results.checks.append(value["check"])
        else:
            fields = value["run"]
            run = Run(**{**fields, "case": Case(**fields["case"])})
            key = (run.round, run.system, run.case)
            if key in seen:
                raise ValueError(f"{path}:{number}: the same round twice; was the file concatenated with itself?")
            seen.add(key)
            results.runs.append(run)
    return results
