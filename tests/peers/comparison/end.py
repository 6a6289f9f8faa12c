"""One process of a peer: started with its environment, told by JSON lines what to do, and asked what came of it."""

import json
import os
import select
import subprocess
import time
from typing import Dict, List

from .system import Unavailable

READY_S = 60
# For one command, besides the seconds it is told to run.
PATIENCE_S = 60


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


def last_line(path: str) -> str:
    """For a message."""
    with open(path, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1] if lines else "it said nothing"
