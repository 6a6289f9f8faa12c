"""What is compared: an operation, a size, how many requests go together, and the congestion control."""

from dataclasses import dataclass
from typing import Iterator, List

KIB, MIB = 1 << 10, 1 << 20
OPS = ("write", "read")
CONGESTIONS = ("bbr", "cubic")
# Requests of a batch that is submitted whole and waited for whole, as an application moves the blocks of a sequence. Of
# the largest fewer, so that a batch is one lap of the memory and a round stays short.
BATCHES = ((64, 4 * KIB), (64, 64 * KIB), (64, MIB), (16, 16 * MIB))
SINGLE_SIZES = (4 * KIB, 64 * KIB, MIB)
# Bytes each end has; requests beyond it use places again. The same for all systems.
MEMORY_BYTES = 256 * MIB


@dataclass(frozen=True)
class Case:
    """One line of a table: every system runs it in every round."""

    op: str
    size: int
    batch: int
    congestion: str

    @property
    def label(self) -> str:
        """As `--only` sees it: `write 64x1MiB bbr`."""
        return f"{self.op} {shape(self.batch, self.size)} {self.congestion}"


def shape(batch: int, size: int) -> str:
    """`64x1MiB`; `stream` where a system chooses its own size."""
    return f"{batch}x{bytes_text(size)}" if size else "stream"


def bytes_text(size: int) -> str:
    """4096 as `4KiB`."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"


def all_cases(congestions: List[str]) -> Iterator[Case]:
    """In the order in which a round runs them."""
    for congestion in congestions:
        for batch, size in BATCHES:
            for op in OPS:
                yield Case(op, size, batch, congestion)
        for size in SINGLE_SIZES:
            for op in OPS:
                yield Case(op, size, 1, congestion)
        # What others measure where no request has a size: iperf3.
        yield Case("write", 0, 1, congestion)


def stream(case: Case) -> bool:
    """Whether requests have no size."""
    return case.size == 0
