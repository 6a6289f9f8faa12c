"""Where things are, and getting them: the wheels of each release, our node, our end, etcd.

What cannot be had is an `Unavailable` with its reason. The environments of the wheels lie in `peers/` of the target folder, and
stay there for the next run.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Optional

from comparison import install
from comparison.system import Places as Peers
from comparison.system import Unavailable

REPO = Path(__file__).resolve().parents[3]
# Of each line of releases the last one; the newest is the first.
RELEASES = ("0.3.13.post1", "0.3.12.post1", "0.3.10.post2")


class Places:
    """The repository, its target folder, and what was built and installed there."""

    def __init__(self, node: Optional[Path] = None, end: Optional[Path] = None):
        self.repo = REPO
        self.target = install.target_folder(REPO)
        self.peers = self.target / "peers"
        self._node, self._end = node, end

    def python(self, release: str) -> Path:
        """The interpreter that has the wheel of a release."""
        return self.peers / install.mooncake(release).name / "bin" / "python"

    def wheel(self, release: str) -> None:
        """Installs it, unless it is there."""
        self.peers.mkdir(parents=True, exist_ok=True)
        try:
            install.install(install.mooncake(release), Peers(self.repo, self.peers, None))
        except install.Missing as why:
            raise Unavailable(f"Mooncake {release} could not be had: {why}") from why

    @property
    def node(self) -> Path:
        """`pipeline-node`."""
        if self._node is None:
            self._build()
        return self._node

    @property
    def end(self) -> Path:
        """Our end."""
        if self._end is None:
            self._build()
        return self._end

    @property
    def speaks_etcd(self) -> bool:
        """Whether ours are, or can be, built with it."""
        return shutil.which("protoc") is not None

    def _build(self) -> None:
        """Both, as they are released."""
        command = ["cargo", "build", "--release", "--locked", "-p", "pipeline-node", "-p", "pipeline-tests", "--bins"]
        command += ["--features", "pipeline-tests/etcd"] * self.speaks_etcd
        if subprocess.run(command, cwd=self.repo).returncode != 0:
            raise SystemExit("our node does not build")
        self._node = self._node or self.target / "release" / "pipeline-node"
        self._end = self._end or self.target / "release" / "interop_end"
