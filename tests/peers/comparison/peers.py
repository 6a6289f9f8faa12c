"""The peers that are pairs: their scripts, environments and settings."""

from typing import List

from .pair import Pair
from .system import Places, System


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
