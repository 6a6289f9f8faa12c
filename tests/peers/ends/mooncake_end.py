#!/usr/bin/env python3
"""Either end of Mooncake's transfer engine over TCP, through the Python binding of its wheel.

    mooncake_end.py target BYTES
    mooncake_end.py initiator BYTES

Each tells one line when it is ready and then answers commands on stdin (process.py). The calling thread spins on
the status of a transfer while the engine's asio thread is parked in epoll; that is how the wheel works. What its Python
binding costs a call is inside every figure.
"""

import os
import sys

import process
import timed
from memory import Buffer
from mooncake.engine import TransferEngine

HOST = "127.0.0.1"


class Target:
    """Registers one buffer and waits."""

    def __init__(self, length: int):
        self.engine, self.buffer = started(length)

    def ready(self) -> dict:
        session = f"{HOST}:{self.engine.get_rpc_port()}"
        return {"session": session, "address": self.buffer.address, "pid": os.getpid()}


class Initiator:
    """Moves bytes between its buffer and a target's, at the same offsets."""

    def __init__(self, length: int):
        self.engine, self.buffer = started(length)

    def ready(self) -> dict:
        return {"pid": os.getpid()}

    def connect(self, target: dict) -> None:
        self.target = target

    def call(self, op: str, size: int, batch: int):
        """A function that moves one batch and waits for it."""
        session, places = self.target["session"], max(1, self.buffer.length // size)
        offsets = [i % places * size for i in range(batch)]
        local = [self.buffer.address + o for o in offsets]
        remote = [self.target["address"] + o for o in offsets]
        if batch == 1:
            move = getattr(self.engine, f"transfer_sync_{op}")
            arguments = (session, local[0], remote[0], size)
        else:
            move = getattr(self.engine, f"batch_transfer_sync_{op}")
            arguments = (session, local, remote, [size] * batch)

        def once() -> None:
            status = move(*arguments)
            if status != 0:
                raise RuntimeError(f"{op} of {batch} x {size} bytes: status {status}")

        return once

    def run(self, op: str, size: int, batch: int, seconds: float) -> dict:
        return timed.run(self.call(op, size, batch), batch, size, seconds, os.getpid(), self.target["pid"])

    def move(self, op: str, length: int) -> None:
        """The first `length` bytes, once."""
        self.call(op, length, 1)()


def started(length: int):
    engine = TransferEngine()
    status = engine.initialize(HOST, "P2PHANDSHAKE", "tcp", "")
    if status != 0:
        sys.exit(f"mooncake: initialize: status {status}")
    buffer = Buffer(length)
    status = engine.register_memory(buffer.address, length)
    if status != 0:
        sys.exit(f"mooncake: register_memory: status {status}")
    return engine, buffer


def main() -> None:
    process.end_with_parent()
    end = {"target": Target, "initiator": Initiator}[sys.argv[1]](int(sys.argv[2]))
    commands = {"fill": end.buffer.fill, "checksum": end.buffer.checksum}
    for name in ("connect", "run", "move"):
        if hasattr(end, name):
            commands[name] = getattr(end, name)
    process.say(end.ready())
    process.serve(commands)


if __name__ == "__main__":
    main()
