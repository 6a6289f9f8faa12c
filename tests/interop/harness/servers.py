"""Directories in which the two ends of a pair find each other: none, our embedded server, the wheel's, etcd.

Each is started anew for each pair on a port of its own, and gone with it.
"""

import ctypes
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from comparison.system import Unavailable

from .places import Places

READY_S = 30
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """In a child, before it becomes the server: however the tests end, it ends as well."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Directory:
    """None: each end tells its own."""

    key = "p2p"
    title = "P2P"
    metadata = "P2PHANDSHAKE"

    def __init__(self, places: Places, release: str, folder: Path):
        self.places, self.release, self.folder = places, release, folder

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


class Server(Directory):
    """A process."""

    def start(self) -> None:
        self.port = free_port()
        command = self.command()
        with open(self.folder / f"{self.key}.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)
        until = time.monotonic() + READY_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"{command[0]} does not answer at port {self.port}: {self.folder / self.key}.log")
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.probe(), timeout=2):
                return True
        except urllib.error.HTTPError as error:
            return error.code == 404
        except OSError:
            return False

    def probe(self) -> str:
        return f"{self.metadata}?key=nobody"

    @property
    def metadata(self) -> str:
        return f"http://127.0.0.1:{self.port}/metadata"

    def remove(self, key: str) -> None:
        """Takes a record away; none is as good."""
        request = urllib.request.Request(f"{self.metadata}?key={urllib.parse.quote(key, safe='')}", method="DELETE")
        try:
            urllib.request.urlopen(request, timeout=5).close()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Ours(Server):
    """`pipeline-node directory`."""

    key, title = "http-ours", "HTTP, our server"

    def command(self) -> list:
        return [str(self.places.node), "directory", "--listen", f"127.0.0.1:{self.port}"]


class Theirs(Server):
    """The one in the wheel."""

    key, title = "http-theirs", "HTTP, their server"

    def command(self) -> list:
        script = self.places.python(self.release).with_name("mooncake_http_metadata_server")
        python = str(self.places.python(self.release))
        return [python, str(script), "--host", "127.0.0.1", "--port", str(self.port), "--log-level", "WARNING"]


class Etcd(Server):
    """A real one, of one member."""

    key, title = "etcd", "etcd"

    def start(self) -> None:
        if not self.places.speaks_etcd:
            raise Unavailable("without protoc our node is built without etcd")
        if shutil.which("etcd") is None:
            raise Unavailable("there is no etcd")
        self.data = tempfile.mkdtemp(dir=self.folder)
        super().start()

    def command(self) -> list:
        peer, client = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{self.port}"
        command = ["etcd", "--data-dir", self.data, "--name", "one", "--log-level", "error"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        return [*command, "--initial-cluster", f"one={peer}"]

    def probe(self) -> str:
        return f"http://127.0.0.1:{self.port}/health"

    @property
    def metadata(self) -> str:
        return f"etcd://127.0.0.1:{self.port}"

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.data, ignore_errors=True)


DIRECTORIES = (Directory, Ours, Theirs, Etcd)
