#!/usr/bin/env python3
"""Either end of NIXL's UCX backend between two processes, through the Python binding of its wheel.

    nixl_end.py target BYTES [--polling]
    nixl_end.py initiator BYTES [--polling]

Each tells one line when it is ready and then answers commands on stdin (process.py). By default an agent has a progress
thread that spins, beside the caller that polls for the end of its transfer. With `--polling` there is none: the
caller's polls are the progress, and the target's application loop polls as well. Descriptors are prepared once, outside
the clock.
"""

import argparse
import os
import select
import sys

import process
import timed
from memory import Buffer
from nixl_cu12._api import nixl_agent, nixl_agent_config


class End:
    """An agent with one registered buffer."""

    def __init__(self, name: str, length: int, polling: bool):
        self.agent = nixl_agent(name, nixl_agent_config(enable_prog_thread=not polling, backends=["UCX"]))
        self.buffer = Buffer(length)
        self.agent.register_memory([(self.buffer.address, length, 0, "")], "DRAM")
        self.polling = polling


class Target(End):
    """Waits for what initiators do; polls for them when nothing else does."""

    def ready(self) -> dict:
        metadata = self.agent.get_agent_metadata().hex()
        return {"metadata": metadata, "address": self.buffer.address, "pid": os.getpid()}

    def idle(self) -> None:
        while self.polling and not select.select([sys.stdin], [], [], 0)[0]:
            self.agent.get_new_notifs()


class Initiator(End):
    """Moves bytes between its buffer and a target's, at the same offsets."""

    def ready(self) -> dict:
        return {"pid": os.getpid()}

    def idle(self) -> None:
        pass

    def connect(self, target: dict) -> None:
        self.target = target
        name = self.agent.add_remote_agent(bytes.fromhex(target["metadata"]))
        self.name = name.decode() if isinstance(name, bytes) else name

    def prepare(self, op: str, size: int, batch: int):
        places = max(1, self.buffer.length // size)
        offsets = [i % places * size for i in range(batch)]
        ours = self.agent.get_xfer_descs([(self.buffer.address + o, size, 0) for o in offsets], "DRAM")
        theirs = self.agent.get_xfer_descs([(self.target["address"] + o, size, 0) for o in offsets], "DRAM")
        return self.agent.initialize_xfer(op.upper(), ours, theirs, self.name)

    def once(self, transfer) -> None:
        state = self.agent.transfer(transfer)
        while state == "PROC":
            state = self.agent.check_xfer_state(transfer)
        if state != "DONE":
            raise RuntimeError(f"the transfer ended {state}")

    def run(self, op: str, size: int, batch: int, seconds: float) -> dict:
        transfer = self.prepare(op, size, batch)
        try:
            return timed.run(lambda: self.once(transfer), batch, size, seconds, os.getpid(), self.target["pid"])
        finally:
            transfer.release()

    def move(self, op: str, length: int) -> None:
        """The first `length` bytes, once."""
        transfer = self.prepare(op, length, 1)
        self.once(transfer)
        transfer.release()


def main() -> None:
    process.end_with_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("end", choices=["target", "initiator"])
    parser.add_argument("bytes", type=int)
    parser.add_argument("--polling", action="store_true")
    args = parser.parse_args()
    end = {"target": Target, "initiator": Initiator}[args.end](args.end, args.bytes, args.polling)
    commands = {"fill": end.buffer.fill, "checksum": end.buffer.checksum}
    for name in ("connect", "run", "move"):
        if hasattr(end, name):
            commands[name] = getattr(end, name)
    process.say(end.ready())
    process.serve(commands, end.idle)


if __name__ == "__main__":
    main()
