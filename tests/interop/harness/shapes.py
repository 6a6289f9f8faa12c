"""What is moved: sizes and batches, and where the pieces lie."""

from dataclasses import dataclass
from typing import List

KIB, MIB = 1 << 10, 1 << 20
# Of each end. The largest piece and room around it.
BUFFER_BYTES = 320 * MIB
SIZES = (1, 4 * KIB, 64 * KIB + 1, 8 * MIB, 300 * MIB)
OPS = ("write", "read")


@dataclass(frozen=True)
class Shape:
    """`count` pieces of `size` bytes, `stride` apart, so that neighbours do not touch unless they are large."""

    size: int
    count: int

    @property
    def stride(self) -> int:
        return self.size + 37 if self.size < MIB else self.size

    @property
    def label(self) -> str:
        return f"{self.count} x {size_label(self.size)}"

    def spans(self) -> int:
        """Bytes of the buffer that it touches or looks at."""
        return min(BUFFER_BYTES, self.stride * self.count + 2 * 64)

    def arguments(self) -> dict:
        return {"size": self.size, "count": self.count, "stride": self.stride}


def size_label(size: int) -> str:
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            rest = size % unit
            return f"{size // unit} {name}" + (f" + {rest}" if rest else "")
    return f"{size} B"


def all_shapes() -> List[Shape]:
    """Every size alone; up to 8 MiB 64 at a time; small ones 5 000 at a time."""
    shapes = []
    for size in SIZES:
        batches = [1] + [64] * (size <= 8 * MIB) + [5000] * (size <= 4 * KIB)
        shapes += [Shape(size, count) for count in batches]
    return shapes


def few_shapes(large: bool) -> List[Shape]:
    """For a quick look: each batch, and each size once; the large ones where asked for."""
    small = [Shape(1, 1), Shape(4 * KIB, 64), Shape(64 * KIB + 1, 1)]
    return small + [Shape(4 * KIB, 5000), Shape(8 * MIB, 4), Shape(300 * MIB, 1)] if large else small
