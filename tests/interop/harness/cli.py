"""The command: which part of the matrix runs, and what is told of it."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import List

from comparison import page
from comparison.system import Unavailable

from . import failures, matrix, report
from .places import RELEASES, REPO, Places
from .servers import DIRECTORIES
from .shapes import all_shapes, few_shapes

PAGE = REPO / "docs" / "mooncake.md"
MARKER = "<!-- tests/interop/full writes from here: {} -->"
# For a quick look: releases with their directories. Both framings, both forms of descriptors, all directories.
QUICK = {"0.3.13.post1": ("p2p", "http-ours", "http-theirs", "etcd"), "0.3.10.post2": ("p2p",), "0.3.12.post1": ("p2p",)}


def main(arguments: List[str]) -> int:
    options = parse(arguments)
    places = Places(options.node, options.end)
    folder = Path(tempfile.mkdtemp(prefix="interop-"))
    say(f"interop: logs of all ends: {folder}")
    cells: list = []
    begin = time.monotonic()
    for release in options.releases.split(","):
        try:
            places.wheel(release)
        except Unavailable as why:
            say(f"interop: skipped: {why}")
            continue
        for cell in of_release(places, release, options, folder):
            cells.append(cell)
            if cell.wrong or options.verbose:
                say(report.told(cell))
    wrong = [cell for cell in cells if cell.wrong]
    told = report.table(cells)
    told += ["", f"{len(cells)} cells, {len(wrong)} wrong, {time.monotonic() - begin:.0f} s"]
    print("\n".join(told))
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replaced(text, "matrix", [report.provenance(), "", *told], MARKER), encoding="utf-8")
    return 1 if wrong else 0


def of_release(places: Places, release: str, options: argparse.Namespace, folder: Path):
    """The cells of one release."""
    keys = set(options.directories.split(","))
    if options.quick:
        keys &= set(QUICK.get(release, ()))
    if "matrix" in options.parts:
        for kind in (kind for kind in DIRECTORIES if kind.key in keys):
            shapes = few_shapes(large=kind is DIRECTORIES[0]) if options.quick else all_shapes()
            yield from matrix.run(places, release, kind, shapes, folder, say)
    if "failures" in options.parts and (release == RELEASES[0] or not options.quick):
        yield from failures.run(places, release, failures.QUICK if options.quick else failures.CHECKS, folder)


def parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/interop/full",
        description="Real peers of Mooncake against our node: every release, every directory, both directions, READ and "
        "WRITE, all sizes and batches, checksums at both ends, notices; and what happens when an end dies.",
    )
    option = parser.add_argument
    option("--quick", action="store_true", help="a part of it, in under three minutes")
    option("--parts", default="matrix,failures", help="matrix, failures")
    option("--releases", default=",".join(RELEASES), help="releases of the wheel")
    option("--directories", default=",".join(kind.key for kind in DIRECTORIES), help="where the two ends meet")
    option("--write", action="store_true", help=f"put the table into {PAGE.relative_to(REPO)}")
    option("--verbose", action="store_true", help="a line for every cell, not only for those that are not well")
    option("--node", type=Path, help="this pipeline-node instead of building one")
    option("--end", type=Path, help="this end of ours instead of building one")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
