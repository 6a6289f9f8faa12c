"""What the matrix came to, as text: one line for each release, directory and direction, and every cell that is not well."""

from collections import defaultdict
from typing import Iterable, List

from comparison import machine

from .matrix import Cell


def provenance() -> str:
    """Where a table comes from."""
    facts = machine.facts()
    return f"`tests/interop/full --write`: {facts['machine']}, Linux {facts['kernel']}, {facts['date']}."


def table(cells: Iterable[Cell]) -> List[str]:
    """Markdown: how many cells of each kind are well, and how long they took."""
    groups: dict = defaultdict(list)
    for cell in cells:
        groups[(cell.release, cell.directory, cell.direction)].append(cell)
    lines = ["| Mooncake | metadata | from | cells | well | seconds |", "|---|---|---|--:|--:|--:|"]
    for (release, directory, direction), some in groups.items():
        well = sum(not cell.wrong for cell in some)
        seconds = sum(cell.seconds for cell in some)
        lines.append(f"| {release} | {directory} | {direction} | {len(some)} | {well} | {seconds:.0f} |")
    return lines


def told(cell: Cell) -> str:
    """One cell in one line."""
    what = f"{cell.what} {cell.op}".strip()
    verdict = cell.wrong or "ok"
    return f"{cell.release:12} {cell.directory:18} {cell.direction:14} {what:44} {cell.seconds:6.2f} s  {verdict}"
