"""Both ends of a pair with one interface: ours (`end/`), and the wheel's (`ends/mooncake_end.py`)."""

import itertools
from pathlib import Path
from typing import Optional

from comparison.end import End

from .places import Places
from .servers import Directory
from .shapes import BUFFER_BYTES, Shape

# Servers refuse a name twice, and nobody takes it away from an end that was killed.
_numbers = itertools.count(20_000)
DEADLINE_MS = 30_000
# For one command besides: checksums of all bytes on a busy machine.
PATIENCE_S = 180

FILE = """version = 1
use = "tcp"
node = {{ name = "{name}", listen = "127.0.0.1:0" }}
[transports.mooncake]
type = "mooncake_tcp"
{transport}
[stages.route]
prefer = ["mooncake", "tcp"]
[log]
level = "debug"
"""


def fresh_name() -> str:
    """As people name them: an address, which with a server for metadata is only a name."""
    return f"127.0.0.1:{next(_numbers)}"


class Theirs:
    """An engine of the wheel."""

    title = "theirs"

    @property
    def is_early(self) -> bool:
        """Whether its WRITEs are done before they are applied: it speaks no framing with acknowledgements."""
        return self.release.startswith("0.3.10.")

    def __init__(
        self, places: Places, release: str, directory: Directory, log: Path, name: str = "", **environment: str
    ):
        central = directory.metadata != "P2PHANDSHAKE"
        self.release = release
        environment = {
            "MC_FORCE_TCP": "1",
            "MC_LOG_LEVEL": "ERROR",
            # Theirs tells the address of another interface otherwise.
            "MC_TCP_BIND_ADDRESS": "127.0.0.1",
            # A batch that is longer than its queue fails as a whole; the queue is for its own side only.
            "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER": "65535",
            **environment,
        }
        script = places.repo / "tests" / "interop" / "ends" / "mooncake_end.py"
        name = name or (fresh_name() if central else "127.0.0.1")
        command = [str(places.python(release)), "-B", str(script), name, directory.metadata, str(BUFFER_BYTES)]
        self.end = End(command, environment, str(log))
        self.pid, self.name = self.end.ready["pid"], self.end.ready["name"]
        self.address = self.end.ready["address"]
        self.ask = self.end.ask

    def target(self) -> dict:
        """How our end names its buffer, and how another engine of the wheel does."""
        ours = {"peer": f"mooncake://{self.name}", "segment": "memory", "base": self.address}
        return {"session": self.name, "address": self.address, **ours, "pid": self.pid}

    def fill(self, seed: int, shape: Shape) -> None:
        self.ask("fill", seed=seed, length=shape.spans(), patience_s=PATIENCE_S)

    def image(self, shape: Shape) -> dict:
        return self.ask("image", patience_s=PATIENCE_S, **shape.arguments())

    def move(self, op: str, target: dict, shape: Shape, notice: Optional[str] = None) -> str:
        """Empty when all is well, else what went wrong."""
        told = self.ask("move", op=op, target=target, notice=notice or "", patience_s=PATIENCE_S, **shape.arguments())
        return "" if told["status"] == 0 else f"status {told['status']} after {told['seconds']:.1f} s"

    def run(self, op: str, target: dict, shape: Shape, run_ms: int) -> dict:
        """The same call again and again; how fast that was."""
        return self.ask("run", op=op, target=target, run_ms=run_ms, patience_s=PATIENCE_S, **shape.arguments())

    def notices(self, count: int) -> list:
        return self.ask("notices", count=count, wait_ms=10_000)

    def stop(self) -> None:
        self.end.stop()


class Ours:
    """A node of ours. Done is applied, whatever the peer speaks."""

    title, is_early = "ours", False

    def __init__(self, places: Places, directory: Directory, log: Path, transport: str = ""):
        self.name = f"ours-{next(_numbers)}"
        central = directory.metadata != "P2PHANDSHAKE"
        lines = [f'metadata = "{directory.metadata}"', *([f'server_name = "{self.name}"'] if central else []), transport]
        file = log.with_suffix(".toml")
        file.write_text(FILE.format(name=self.name, transport="\n".join(lines)), encoding="utf-8")
        self.end = End([str(places.end), str(file), str(BUFFER_BYTES)], {}, str(log))
        ready = self.end.ready
        self.pid, self.address, self.native = ready["pid"], ready["address"], ready["native"]
        self.session = ready["names"]["mooncake"]
        self.ask = self.end.ask

    def target(self) -> dict:
        """How an engine of the wheel names its buffer, and how another node of ours does in Mooncake's protocol."""
        ours = {"peer": f"mooncake://{self.session}", "segment": "memory", "base": self.address}
        return {"session": self.session, "address": self.address, **ours, "pid": self.pid}

    def native_target(self) -> dict:
        """How another node of ours names it, in our own protocol."""
        return {"peer": self.native, "segment": "kv", "base": 0, "pid": self.pid}

    fill, image = Theirs.fill, Theirs.image

    def move(
        self, op: str, target: dict, shape: Shape, notice: Optional[str] = None, deadline_ms: int = DEADLINE_MS
    ) -> str:
        """Empty when all is well, else what went wrong."""
        told = self.told(op, target, shape, notice, deadline_ms)
        if told["failed"]:
            return f"{told['failed']} failed: {told['reasons']}"
        if notice is not None and told["notice"] != "taken":
            return f"notice: {told['notice']}"
        return ""

    def told(self, op, target, shape, notice=None, deadline_ms: int = DEADLINE_MS) -> dict:
        """What became of a batch."""
        arguments = {"op": op, "target": target, "notice": notice, "deadline_ms": deadline_ms, **shape.arguments()}
        return self.ask("move", patience_s=PATIENCE_S + 5 * deadline_ms / 1000, **arguments)

    def run(self, op: str, target: dict, shape: Shape, run_ms: int) -> dict:
        """The same batch again and again; how fast that was."""
        arguments = {"op": op, "target": target, "run_ms": run_ms, "deadline_ms": DEADLINE_MS, **shape.arguments()}
        return self.ask("run", patience_s=PATIENCE_S, **arguments)

    def notices(self, count: int) -> list:
        return self.ask("notices", count=count, wait_ms=10_000)

    def stop(self) -> None:
        self.end.stop()
