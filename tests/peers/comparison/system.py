"""What a system under comparison is to the rounds: something that can run a case, told what it came to."""

from pathlib import Path
from typing import Dict, List, Optional

from .case import Case


class Unavailable(Exception):
    """It cannot take part, and why, in words for the reader of the report."""


class System:
    """One way to move bytes. Those that keep processes between runs override what is about processes."""

    # Short, for `--systems` and the file of results.
    key: str
    # For tables, in Markdown.
    title: str

    def takes(self, case: Case) -> bool:
        """Whether it has such a case."""
        raise NotImplementedError

    def start(self, congestion: str) -> None:
        """Gets ready to run cases under this congestion control; raises `Unavailable`."""

    def run(self, case: Case, seconds: float) -> Dict[str, Optional[float]]:
        """Runs it once; the metrics of `record.Run`."""
        raise NotImplementedError

    def pids(self) -> List[int]:
        """Processes that live on between runs."""
        return []

    def check(self, congestion: str) -> Optional[dict]:
        """Moves known bytes both ways and compares what both ends hold; None where others do that for it."""
        return None

    def stop(self) -> None:
        """Leaves nothing behind."""


class Places:
    """Where things are: the repository, what was installed and built."""

    def __init__(self, repo: Path, peers: Path, node: Optional[Path]):
        self.repo, self.peers, self.node = repo, peers, node

    def python(self, peer: str) -> Path:
        """The interpreter of a peer's virtual environment."""
        return self.peers / peer / "bin" / "python"

    @property
    def shim(self) -> Path:
        """The preloaded library that sets a congestion control."""
        return self.peers / "ccshim.so"
