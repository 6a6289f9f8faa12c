#!/usr/bin/env python3
"""The wheel's end of the interop tests: one engine with one registered buffer, both target and initiator, told by JSON lines
on stdin what to do, as our end is (`end/main.rs`).

    mooncake_end.py NAME METADATA BYTES

It ends with its stdin, or with whoever started it.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "peers", "ends"))

import process  # noqa: E402
import timed  # noqa: E402
from image import image, offsets  # noqa: E402
from memory import Buffer  # noqa: E402
from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode  # noqa: E402


class End:
    """One engine with one buffer."""

    def __init__(self, name: str, metadata: str, length: int):
        self.engine = TransferEngine()
        status = self.engine.initialize(name, metadata, "tcp", "")
        if status != 0:
            sys.exit(f"mooncake: initialize({name!r}, {metadata!r}): status {status}")
        self.buffer = Buffer(length)
        status = self.engine.register_memory(self.buffer.address, length)
        if status != 0:
            sys.exit(f"mooncake: register_memory: status {status}")
        # With a server for metadata the name is what was given; without it is where the engine listens.
        self.name = name if metadata != "P2PHANDSHAKE" else f"{name}:{self.engine.get_rpc_port()}"
        self.heard = []

    def ready(self) -> dict:
        return {
            "name": self.name,
            "address": self.buffer.address,
            "length": self.buffer.length,
            "rpc_port": self.engine.get_rpc_port(),
            "pid": os.getpid(),
        }

    def image(self, size: int, count: int, stride: int) -> dict:
        return image(memoryview(self.buffer._map), size, count, stride)

    def first_address(self, session: str) -> int:
        """Opens the session; the address of its first buffer."""
        return self.engine.get_first_buffer_address(session)

    def move(self, op: str, target: dict, size: int, count: int, stride: int, notice: str = "") -> dict:
        """One synchronous call; how it ended and how long it took."""
        places = offsets(size, count, stride, self.buffer.length)
        local = [self.buffer.address + at for at in places]
        remote = [target["address"] + at for at in places]
        code = TransferOpcode.Read if op == "read" else TransferOpcode.Write
        begin = time.perf_counter()
        if count == 1 and notice:
            call, rest = self.engine.transfer_sync, (local[0], remote[0], size, code)
        elif count == 1:
            call, rest = getattr(self.engine, f"transfer_sync_{op}"), (local[0], remote[0], size)
        elif notice:
            call, rest = self.engine.batch_transfer_sync, (local, remote, [size] * count, code)
        else:
            call, rest = getattr(self.engine, f"batch_transfer_sync_{op}"), (local, remote, [size] * count)
        if notice:
            rest = (*rest, TransferNotify(self.name, notice))
        status = call(target["session"], *rest)
        return {"status": status, "seconds": time.perf_counter() - begin}

    def run(self, op: str, target: dict, size: int, count: int, stride: int, run_ms: int) -> dict:
        """The same call again and again, for the comparison of speeds; what is timed is the call and nothing else."""
        places = offsets(size, count, stride, self.buffer.length)
        local = [self.buffer.address + at for at in places]
        remote = [target["address"] + at for at in places]
        if count == 1:
            call, rest = getattr(self.engine, f"transfer_sync_{op}"), (local[0], remote[0], size)
        else:
            call, rest = getattr(self.engine, f"batch_transfer_sync_{op}"), (local, remote, [size] * count)

        def once() -> None:
            status = call(target["session"], *rest)
            if status != 0:
                raise RuntimeError(f"{op} of {count} x {size} bytes: status {status}")

        told = timed.run(once, count, size, run_ms / 1000, os.getpid(), target["pid"])
        return {key: told[key] for key in ("gb_per_s", "p50_us", "p99_us")}

    def notices(self, count: int, wait_ms: int) -> list:
        """So many that have come, or fewer after some time."""
        until = time.monotonic() + wait_ms / 1000
        while True:
            self.heard += [{"name": n.name, "msg": n.msg} for n in self.engine.get_notifies()]
            if len(self.heard) >= count or time.monotonic() > until:
                break
            time.sleep(0.005)
        heard, self.heard = self.heard[:count], self.heard[count:]
        return heard


def main() -> None:
    process.end_with_parent()
    end = End(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    process.say(end.ready())
    names = ("image", "first_address", "move", "run", "notices")
    process.serve({"fill": end.buffer.fill, **{name: getattr(end, name) for name in names}})


if __name__ == "__main__":
    main()
