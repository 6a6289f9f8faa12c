"""What every end has in common as a process: it talks JSON lines with the command that started it, ends with it, and can
tell its congestion control and anybody's CPU time.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import time
from typing import Callable, Dict

PR_SET_PDEATHSIG = 1
TCP_CONGESTION = getattr(socket, "TCP_CONGESTION", 13)
# `clock_getcpuclockid(3)` as the kernel spells it: the CPU time of all threads of a process, in nanoseconds.
CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of process `pid` so far."""
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def congestion_of_connections() -> list:
    """The congestion control of each TCP connection this process has, once each."""
    names = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM:
                    sock.getpeername()
                    names.add(sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).split(b"\0")[0].decode())
        except OSError:
            pass  # Closed meanwhile, or a listener.
    return sorted(names)


def say(value: object) -> None:
    """One line to the command."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """However the command ends, this process ends as well."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(commands: Dict[str, Callable], idle: Callable[[], None] = lambda: None) -> None:
    """Answers `{"do": NAME, ...}` lines by calling `commands[NAME](...)` until stdin ends; `idle` waits for a line."""
    commands = {"congestion": congestion_of_connections, **commands}
    while True:
        idle()
        line = sys.stdin.readline()
        if not line:
            # Not sys.exit: the libraries' threads may be in the middle of something, and nothing is left to save.
            os._exit(0)
        arguments = json.loads(line)
        try:
            say({"ok": commands[arguments.pop("do")](**arguments)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the command tells it and stops.
            say({"error": f"{type(error).__name__}: {error}"})
