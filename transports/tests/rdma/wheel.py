"""A node of Mooncake with one buffer, for `mooncake_wheel.rs`: carries out JSON lines of stdin, answers each by one on stdout.

    wheel.py HOST DEVICE BYTES
"""

import ctypes
import hashlib
import json
import sys

from mooncake.engine import TransferEngine

HOST, DEVICE, BYTES = sys.argv[1], sys.argv[2], int(sys.argv[3])

libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def say(what: dict) -> None:
    print(json.dumps(what), flush=True)


def part(at: int, size: int):
    return (ctypes.c_char * size).from_address(buffer + at)


def carry_out(task: dict) -> dict:
    match task["do"]:
        case "fill":
            ctypes.memset(buffer + task["at"], task["byte"], task["size"])
            return {}
        case "digest":
            return {"sha256": hashlib.sha256(part(task["at"], task["size"])).hexdigest()}
        case "read" | "write":
            size, count = task["size"], task["count"]
            local = [buffer + task["at"] + i * size for i in range(count)]
            remote = [task["address"] + i * size for i in range(count)]
            move = getattr(engine, f"batch_transfer_sync_{task['do']}")
            return {"status": move(task["peer"], local, remote, [size] * count)}
        case "first":
            return {"address": engine.get_first_buffer_address(task["peer"])}
        case "probe":
            return {"status": engine.send_probe(task["peer"])}
        case "notices":
            return {"heard": [[n.name, n.msg] for n in engine.get_notifies()]}


engine = TransferEngine()
status = engine.initialize(HOST, "P2PHANDSHAKE", "rdma", DEVICE)
if status != 0:
    sys.exit(f"initialize: {status}")
buffer = libc.aligned_alloc(2 << 20, BYTES)
ctypes.memset(buffer, 0, BYTES)
status = engine.register_memory(buffer, BYTES)
if status != 0:
    sys.exit(f"register_memory: {status}")
say({"name": f"{HOST}:{engine.get_rpc_port()}", "address": buffer})
for line in sys.stdin:
    say(carry_out(json.loads(line)))
