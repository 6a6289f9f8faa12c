"""iperf3: what a plain stream of writes reaches, one connection and two. It has no requests, so no latencies."""

import json
import shutil
import socket
import subprocess
import time
from typing import Dict, List, Optional

from .case import Case, stream
from .system import System, Unavailable

CONNECT_S = 5.0


class Iperf(System):
    """A server for each run, and a client."""

    def __init__(self, connections: int):
        self.connections = connections
        self.key = f"iperf3-{connections}"
        self.title = f"iperf3, {connections} connection{'s' if connections > 1 else ''}"

    def takes(self, case: Case) -> bool:
        return stream(case)

    def start(self, congestion: str) -> None:
        if shutil.which("iperf3") is None:
            raise Unavailable("iperf3 is not installed")

    def run(self, case: Case, seconds: float) -> Dict[str, Optional[float]]:
        port = str(free_port())
        server = subprocess.Popen(
            ["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            listening(int(port))
            # It takes whole seconds only.
            client = ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", str(max(1, round(seconds))), "-J"]
            client += ["-C", case.congestion, "-P", str(self.connections)]
            ended = subprocess.run(client, capture_output=True, text=True, timeout=30)
            report = json.loads(ended.stdout)
            if "error" in report:
                raise RuntimeError(f"{' '.join(client)}: {report['error']}")
        finally:
            server.kill()
            server.communicate()
        end = report["end"]
        gb_per_s = end["sum_received"]["bits_per_second"] / 8e9
        # Percent of one CPU over the run.
        cpu = end["cpu_utilization_percent"]
        return {
            "gb_per_s": gb_per_s,
            "cpu_s_per_gb_initiator": cpu["host_total"] / 100 / gb_per_s,
            "cpu_s_per_gb_target": cpu["remote_total"] / 100 / gb_per_s,
        }


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port: int) -> None:
    """Waits until somebody listens there, without connecting: the server takes one client only."""
    wanted, until = f":{port:04X}", time.monotonic() + CONNECT_S
    while time.monotonic() < until:
        with open("/proc/net/tcp", encoding="ascii") as sockets:
            # sl local_address rem_address st; 0A is LISTEN
            if any(f[1].endswith(wanted) and f[3] == "0A" for f in (line.split() for line in sockets)):
                return
        time.sleep(0.01)
    raise RuntimeError(f"iperf3 did not listen within {CONNECT_S:.0f} s")


def systems() -> List[System]:
    """One connection and two, as our lanes are."""
    return [Iperf(1), Iperf(2)]
