"""Where the pieces of a transfer lie in a buffer, and checksums of them and of all that lies between them, which no transfer
may touch. The same shapes and checksums as `end/image.rs`.
"""

import hashlib
from typing import List

# First byte of the first piece.
MARGIN = 64


def offsets(size: int, count: int, stride: int, length: int) -> List[int]:
    """Where the pieces begin; from the end of the buffer on they begin anew."""
    places = max(1, (length - 2 * MARGIN - size) // stride + 1)
    return [MARGIN + at % places * stride for at in range(count)]


def image(view: memoryview, size: int, count: int, stride: int) -> dict:
    """Checksums of the pieces, one behind the other, and of the gaps: before, between and behind them."""
    pieces, gaps, at = hashlib.sha256(), hashlib.sha256(), 0
    for offset in sorted(set(offsets(size, count, stride, len(view)))):
        gaps.update(view[at:offset])
        pieces.update(view[offset : offset + size])
        at = offset + size
    gaps.update(view[at : min(at + MARGIN, len(view))])
    return {"pieces": pieces.hexdigest(), "gaps": gaps.hexdigest()}
