"""Gets what the comparison needs: the peers' wheels in virtual environments of their own, the libraries they link, the
library that sets their congestion control, and our release binary.

What cannot be had is said in one line with its reason, and the comparison goes on without it. Deliberately nothing is
installed on the system unless this runs as root on a machine with apt.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from .system import Places

Say = Callable[[str], None]


@dataclass(frozen=True)
class Peer:
    """A wheel: how it is installed, and what shows that it works."""

    name: str
    installs: Tuple[Tuple[str, ...], ...]
    proof: str
    # Debian packages of the libraries it links.
    packages: Tuple[str, ...] = ()


MOONCAKE_RELEASE = "0.3.13.post1"


def mooncake(release: str) -> Peer:
    """The wheel of a release: that of the comparison under its plain name, others beside it."""
    package = "mooncake-transfer-engine-non-cuda"
    return Peer(
        "mooncake" if release == MOONCAKE_RELEASE else f"mooncake-{release}",
        ((f"{package}=={release}",),),
        f"import importlib.metadata as m, mooncake.engine; assert m.version('{package}') == '{release}', 'another release'",
        ("libibverbs1", "libnuma1", "libcurl4"),
    )


MOONCAKE = mooncake(MOONCAKE_RELEASE)
# It declares torch and gigabytes of CUDA, and imports none of it for DRAM over TCP.
NIXL = Peer("nixl", (("--no-deps", "nixl-cu12==1.5.1"), ("numpy",)), "import nixl_cu12._api", ("libnuma1",))
PEERS = (MOONCAKE, NIXL)


class Missing(Exception):
    """Something cannot be had, and why."""


def everything(places: Places, wanted: List[str], say: Say) -> None:
    """All that the systems of these keys need, as far as it can be had."""
    places.peers.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        if any(key.split("-")[0] == peer.name for key in wanted):
            attempt(peer.name, lambda peer=peer: install(peer, places), say)
    if any(key.split("-")[0] in {peer.name for peer in PEERS} for key in wanted):
        attempt("the library that sets peers' congestion control", lambda: build_shim(places), say)
    if any(key.startswith("iperf3") for key in wanted) and shutil.which("iperf3") is None:
        attempt("iperf3", lambda: apt("iperf3"), say)


def attempt(what: str, work: Callable[[], None], say: Say) -> None:
    """Does it or says why not."""
    try:
        work()
    except Missing as why:
        say(f"could not be had: {what}: {why}")


def install(peer: Peer, places: Places) -> None:
    """The wheel in its environment; nothing is done where it works already."""
    python = places.python(peer.name)
    if works(python, peer.proof) is None:
        return
    if not python.exists():
        make_environment(places.peers / peer.name)
    for arguments in peer.installs:
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])
    wrong = works(python, peer.proof)
    if wrong and "cannot open shared object file" in wrong and peer.packages:
        apt(*peer.packages)
        wrong = works(python, peer.proof)
    if wrong:
        raise Missing(wrong)


def works(python: Path, proof: str) -> Optional[str]:
    """None where it does, else the last line of what went wrong."""
    if not python.exists():
        return "no virtual environment"
    ended = subprocess.run([str(python), "-c", proof], capture_output=True, text=True)
    return None if ended.returncode == 0 else last_line(ended.stderr)


def make_environment(folder: Path) -> None:
    """A virtual environment; Debian keeps the module apart."""
    command = [sys.executable, "-m", "venv", "--clear", str(folder)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        apt("python3-venv")
        run(command)


def apt(*packages: str) -> None:
    """Installs Debian packages, as root."""
    wanted = " ".join(packages)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"it needs Debian's {wanted}: sudo apt-get install {wanted}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install_them = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    if subprocess.run(install_them, capture_output=True, env=quiet).returncode != 0:
        # The lists may be old or absent.
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, env=quiet)
        run(install_them, quiet)


def build_shim(places: Places) -> None:
    """Compiles ccshim.c, unless that was done since it changed."""
    source = places.repo / "tests" / "peers" / "ccshim.c"
    if places.shim.exists() and places.shim.stat().st_mtime >= source.stat().st_mtime:
        return
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Missing("there is no C compiler")
    run([compiler, "-shared", "-fPIC", "-O2", "-o", str(places.shim), str(source), "-ldl"])


def build_node(repo: Path) -> Path:
    """Our release binary, up to date."""
    ended = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "pipeline-node"], cwd=repo)
    if ended.returncode != 0:
        raise SystemExit("pipeline-node does not build")
    return target_folder(repo) / "release" / "pipeline-node"


def target_folder(repo: Path) -> Path:
    """Where cargo puts things."""
    return (repo / os.environ.get("CARGO_TARGET_DIR", "target")).resolve()


def run(command: List[str], environment: Optional[dict] = None) -> None:
    """Runs it; what goes wrong is a reason to go on without."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Missing(str(why)) from why
    if ended.returncode != 0:
        raise Missing(f"{command[0]}: {last_line(ended.stderr or ended.stdout)}")


def last_line(text: str) -> str:
    """For a message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
