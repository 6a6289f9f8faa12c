"""The matrix: for each release and each directory both directions, both operations, all shapes. After each cell the bytes of both ends
are compared by checksum, and all that lies around them is as it was.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, List, Type

from comparison.system import Unavailable

from .ends import Ours, Theirs
from .places import Places
from .servers import Directory
from .shapes import OPS, Shape

LATE_S = 20.0
DIRECTIONS = ("ours to theirs", "theirs to ours")


@dataclass(frozen=True)
class Cell:
    """One transfer, and what came of it."""

    release: str
    directory: str
    direction: str
    what: str
    op: str
    seconds: float
    # Empty when it is well.
    wrong: str


Say = Callable[[str], None]


def run(
    places: Places, release: str, kind: Type[Directory], shapes: List[Shape], folder: Path, say: Say
) -> Iterator[Cell]:
    """All cells of a release and a directory; where that cannot be had, it is said and passed over."""
    directory = kind(places, release, folder)
    try:
        directory.start()
    except Unavailable as why:
        say(f"interop: skipped: {directory.title}: {why}")
        return
    try:
        yield from pair(places, release, directory, shapes, folder)
    finally:
        directory.stop()


def pair(places: Places, release: str, directory: Directory, shapes: List[Shape], folder: Path) -> Iterator[Cell]:
    """All cells of two ends."""
    ends: list = []
    try:
        ends.append(Ours(places, directory, folder / f"ours-{release}-{directory.key}.log"))
        ends.append(Theirs(places, release, directory, folder / f"theirs-{release}-{directory.key}.log"))
        for direction, here, there in zip(DIRECTIONS, ends, reversed(ends)):
            for shape in shapes:
                for op in OPS:
                    yield timed(release, directory, direction, shape.label, op, lambda: moved(op, here, there, shape))
            for op in OPS:
                yield timed(release, directory, direction, "notice", op, lambda: noticed(op, here, there))
    finally:
        for end in ends:
            end.stop()


def timed(release: str, directory: Directory, direction: str, what: str, op: str, work: Callable[[], str]) -> Cell:
    begin = time.monotonic()
    try:
        wrong = work()
    except RuntimeError as error:
        wrong = str(error)
    return Cell(release, directory.title, direction, what, op, time.monotonic() - begin, wrong)


_seeds = iter(range(1, 1 << 30))


def moved(op: str, here, there, shape: Shape, **more) -> str:
    """Fills both ends with different bytes, moves, and compares."""
    source, destination = (here, there) if op == "write" else (there, here)
    source.fill(next(_seeds), shape)
    destination.fill(next(_seeds), shape)
    sent, before = source.image(shape), destination.image(shape)
    if sent["pieces"] == before["pieces"]:
        return "both ends were the same before: nothing would be seen"
    wrong = here.move(op, there.target(), shape, **more)
    if wrong:
        return wrong
    after = destination.image(shape)
    # Without an acknowledgement their WRITE is done when it has left; where it has to be is looked at until it is there.
    until = time.monotonic() + LATE_S
    while op == "write" and here.is_early and after["pieces"] != sent["pieces"] and time.monotonic() < until:
        time.sleep(0.02)
        after = destination.image(shape)
    if after["pieces"] != sent["pieces"]:
        return "bytes differ"
    if after["gaps"] != before["gaps"]:
        return "bytes beside the pieces were touched"
    return "" if source.image(shape) == sent else "the source was touched"


def noticed(op: str, here, there) -> str:
    """A batch with a notice: heard once, after all of its bytes are in place."""
    shape, text = Shape(64 << 10, 8), f"{op} by {here.title} \u2713"
    wrong = moved(op, here, there, shape, notice=text)
    if wrong:
        return wrong
    heard = there.notices(1)
    if [notice["msg"] for notice in heard] != [text]:
        return f"heard {heard}"
    return "" if there.ask("notices", count=1, wait_ms=50) == [] else "heard twice"
