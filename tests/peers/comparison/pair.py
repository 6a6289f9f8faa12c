"""A peer as two processes that live through all rounds: a target and an initiator.

Between their runs they are stopped by SIGSTOP, because some spin when they have nothing to do. They choose no
congestion control of their own, so a preloaded library (ccshim.c) sets it for each socket, and afterwards each end tells
what its connections really have.
"""

import signal
from typing import Dict, List, Optional

from .case import MEMORY_BYTES, Case, stream
from .end import PATIENCE_S, End
from .system import Places, System, Unavailable

# Of the check of the bytes, and of the first transfer, which connects.
CHECKED_BYTES = 64 << 20


class Pair(System):
    """A peer's target and initiator, one pair for each congestion control."""

    # Its script among `ends/`, its virtual environment, more arguments and environment for both ends.
    script: str
    venv: str
    arguments: List[str] = []
    environment: Dict[str, str] = {}

    def __init__(self, places: Places):
        self.places = places
        self._ends: Dict[str, List[End]] = {}

    def takes(self, case: Case) -> bool:
        return not stream(case)

    def start(self, congestion: str) -> None:
        if not self.places.python(self.venv).exists():
            raise Unavailable("it is not installed")
        if not self.places.shim.exists():
            raise Unavailable("nothing can set its congestion control: there was no C compiler")
        shim = {"LD_PRELOAD": str(self.places.shim), "PEERS_CONGESTION": congestion}
        ends = self._ends[congestion] = []
        for end in ("target", "initiator"):
            script = self.places.repo / "tests" / "peers" / "ends" / self.script
            command = [str(self.places.python(self.venv)), "-B", str(script), end, str(MEMORY_BYTES), *self.arguments]
            log = str(self.places.peers / f"{self.key}-{congestion}-{end}.log")
            ends.append(End(command, {**self.environment, **shim}, log))
        target, initiator = ends
        initiator.ask("connect", target=target.ready)
        initiator.ask("move", op="write", length=CHECKED_BYTES)
        self._pause(congestion)

    def run(self, case: Case, seconds: float) -> Dict[str, Optional[float]]:
        self._resume(case.congestion)
        _, initiator = self._ends[case.congestion]
        try:
            return initiator.ask(
                "run", PATIENCE_S + seconds, op=case.op, size=case.size, batch=case.batch, seconds=seconds
            )
        finally:
            self._pause(case.congestion)

    def pids(self) -> List[int]:
        return [end.process.pid for ends in self._ends.values() for end in ends]

    def check(self, congestion: str) -> Optional[dict]:
        self._resume(congestion)
        target, initiator = self._ends[congestion]
        sums = {}
        for op, source, sink in (("write", initiator, target), ("read", target, initiator)):
            source.ask("fill", seed=len(sums) + 1, length=CHECKED_BYTES)
            sink.ask("fill", seed=99, length=CHECKED_BYTES)
            initiator.ask("move", op=op, length=CHECKED_BYTES)
            sums[op] = [end.ask("checksum", length=CHECKED_BYTES) for end in (source, sink)]
        used = sorted({name for end in (target, initiator) for name in end.ask("congestion")})
        self._pause(congestion)
        same = all(a == b for a, b in sums.values()) and sums["write"] != sums["read"]
        return {"same": same and used == [congestion], "crc32": sums, "congestion_used": used}

    def stop(self) -> None:
        for ends in self._ends.values():
            for end in ends:
                end.stop()
        self._ends.clear()

    def _pause(self, congestion: str) -> None:
        for end in self._ends[congestion]:
            end.signal(signal.SIGSTOP)

    def _resume(self, congestion: str) -> None:
        for end in self._ends[congestion]:
            end.signal(signal.SIGCONT)
