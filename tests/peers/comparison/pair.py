"""A peer as two processes that live through all rounds: a target and an initiator, told by lines what to do.

Between their runs they are stopped by SIGSTOP, because some spin when they have nothing to do. They choose no
congestion control of their own, so a preloaded library (ccshim.c) sets it for each socket, and afterwards each end tells
what its connections really have.
"""

import json
import os
import select
import signal
import subprocess
import time
from typing import Dict, List, Optional

from .case import MEMORY_BYTES, Case, stream
from .system import Places, System, Unavailable

READY_S = 60
# For one command, besides the seconds it is told to run.
PATIENCE_S = 60
# Of the check of the bytes, and what it fills them from.
CHECKED_BYTES = 64 << 20


class End:
    """One process."""

    def __init__(self, command: List[str], environment: Dict[str, str], log: str):
        self._log = log
        with open(log, "a", encoding="utf-8") as stderr:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self._pending = b""
        self.ready = self._line(READY_S)
        while not self.ready.startswith(b"{"):
            self.ready = self._line(READY_S)  # A library greets.
        self.ready = json.loads(self.ready)

    def ask(self, do: str, patience_s: float = PATIENCE_S, **arguments: object) -> object:
        """Has it do something, and waits for what came of it."""
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._line(patience_s)
        while not answer.startswith((b'{"ok"', b'{"error"')):
            answer = self._line(patience_s)
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(f"{do}: {answer['error']} (more in {self._log})")
        return answer["ok"]

    def _line(self, patience_s: float) -> bytes:
        until = time.monotonic() + patience_s
        out = self.process.stdout.fileno()
        while b"\n" not in self._pending:
            if not select.select([out], [], [], max(0.0, until - time.monotonic()))[0]:
                raise RuntimeError(f"no answer for {patience_s:.0f} s (more in {self._log})")
            more = os.read(out, 1 << 16)
            if not more:
                raise Unavailable(f"its process ended: {last_line(self._log)}")
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


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


def last_line(path: str) -> str:
    """For a message."""
    with open(path, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1] if lines else "it said nothing"


class Mooncake(Pair):
    """Its transfer engine, connection pool on. The calling thread spins, its asio thread is parked."""

    key, title = "mooncake", "Mooncake"
    script, venv = "mooncake_end.py", "mooncake"
    environment = {
        # Without it every start looks for RDMA devices first.
        "MC_FORCE_TCP": "1",
        "MC_TCP_BIND_ADDRESS": "127.0.0.1",
        # Off by default in some releases, and then each transfer connects anew.
        "MC_TCP_ENABLE_CONNECTION_POOL": "1",
        # It greets each start with errors that are none.
        "GLOG_minloglevel": "2",
    }


class Nixl(Pair):
    """UCX over TCP as an agent is by default: a progress thread that spins beside the caller that polls."""

    key, title = "nixl", "NIXL, progress thread"
    script, venv = "nixl_end.py", "nixl"
    environment = {"UCX_TLS": "tcp"}


class NixlPolling(Nixl):
    """The same without that thread: one thread spins at each end."""

    key, title = "nixl-polling", "NIXL, no progress thread"
    arguments = ["--polling"]


def systems(places: Places) -> List[System]:
    """All peers that are pairs."""
    return [Mooncake(places), Nixl(places), NixlPolling(places)]
