"""Speeds, interleaved in one run: their client and ours, against their target and ours, in each round every pair in turn, the
next round beginning with another one. Ratios are taken round by round, of runs that followed each other.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List

from comparison import machine, page
from comparison.figures import Figure, figure

from .ends import Ours, Theirs
from .places import RELEASES, REPO, Places
from .servers import Directory
from .shapes import KIB, MIB, Shape, size_label

MARKER = "<!-- tests/interop/speed writes from here: {} -->"
PAGE = REPO / "docs" / "mooncake.md"
SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
# Key: client and target.
PAIRS = {"tt": "theirs to theirs", "to": "theirs to ours", "ot": "ours to theirs", "oo": "ours to ours"}


class Dense(Shape):
    """Pieces that touch, as blocks of a cache do."""

    @property
    def stride(self) -> int:
        return self.size


def shapes(batches: List[int]) -> List[Dense]:
    """Every size alone; together those of which a batch is not gigabytes."""
    return [Dense(size, batch) for batch in batches for size in SIZES if size * batch <= 1 << 30]


class Field:
    """Two clients, two targets."""

    def __init__(self, places: Places, release: str, folder: Path):
        direct = Directory(places, release, folder)
        self.ends = {}
        for role in ("client", "target"):
            self.ends["o", role] = Ours(places, direct, folder / f"speed-ours-{role}.log")
            self.ends["t", role] = Theirs(places, release, direct, folder / f"speed-theirs-{role}.log")

    def run(self, pair: str, op: str, shape: Dense, run_ms: int) -> dict:
        """One run of a pair."""
        client, target = self.ends[pair[0], "client"], self.ends[pair[1], "target"]
        before = [machine.cpu_s(client.pid), machine.cpu_s(target.pid)]
        told = client.run(op, target.target(), shape, run_ms)
        after = [machine.cpu_s(client.pid), machine.cpu_s(target.pid)]
        return {**told, "cpu_s": [round(b - a, 4) for a, b in zip(before, after)]}

    def stop(self) -> None:
        for end in self.ends.values():
            end.stop()


def main(arguments: List[str]) -> int:
    options = parse(arguments)
    places = Places(options.node, options.end)
    places.wheel(options.release)
    folder = Path(tempfile.mkdtemp(prefix="interop-speed-"))
    runs = options.runs or folder / "runs.jsonl"
    if options.rounds:
        measure(options, places, folder, runs)
    lines = [json.loads(line) for line in runs.read_text(encoding="utf-8").splitlines()]
    told = table(lines)
    print("\n".join(told))
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page.replaced(text, "speed", told, MARKER), encoding="utf-8")
    return 0


def measure(options: argparse.Namespace, places: Places, folder: Path, runs: Path) -> None:
    """Runs the rounds; each run is a line of the file."""
    field = Field(places, options.release, folder)
    session = f"{time.time_ns():x}"
    facts = {**machine.facts(), "release": options.release, "commit": commit(places), "run_ms": options.run_ms}
    batches = [int(batch) for batch in options.batches.split(",")]
    try:
        with open(runs, "a" if options.add else "w", encoding="utf-8") as out:
            out.write(json.dumps({"session": facts}) + "\n")
            for number in range(options.rounds):
                begin = time.monotonic()
                for shape in shapes(batches):
                    for op in ("write", "read"):
                        keys = list(PAIRS)
                        for pair in keys[number % 4 :] + keys[: number % 4]:
                            others = machine.Others(end.pid for end in field.ends.values())
                            told = field.run(pair, op, shape, options.run_ms)
                            case = {"round": f"{session}-{number}", "pair": pair, "op": op, "size": shape.size, "batch": shape.count}
                            out.write(json.dumps({**case, **told, "others_pct": round(others.pct(), 1)}) + "\n")
                            out.flush()
                print(f"round {number + 1}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    finally:
        field.stop()


def table(lines: List[dict]) -> List[str]:
    """Markdown."""
    facts = next(line["session"] for line in lines if "session" in line)
    runs: Dict[tuple, Dict[str, Dict[str, float]]] = {}
    for run in (line for line in lines if "pair" in line):
        by_pair = runs.setdefault((run["batch"], run["size"], run["op"]), {})
        by_pair.setdefault(run["pair"], {})[run["round"]] = run["gb_per_s"]
    rounds = max((len(of) for by_pair in runs.values() for of in by_pair.values()), default=0)
    told = [
        f"`tests/interop/speed --write`: {facts['machine']} ({facts['cpu']}), Linux {facts['kernel']}, {facts['date']}, Mooncake "
        f"{facts['release']}, {facts['commit']}; {rounds} rounds, medians (least to most). GB/s are 10\u2079 bytes a second.",
        "",
        "| | " + " | ".join(f"{title}, GB/s" for title in PAIRS.values()) + " | their client, our target over theirs "
        "| to their target, our client over theirs |",
        "|---|" + "--:|" * 6,
    ]
    for (batch, size, op), by_pair in sorted(runs.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] == "read")):
        cells = [rate(figure(by_pair.get(pair, {}).values())) for pair in PAIRS]
        ratios = [times(ratio(by_pair, over, "tt")) for over in ("to", "ot")]
        told.append(f"| {op} {batch} \u00d7 {size_label(size)} | " + " | ".join([*cells, *ratios]) + " |")
    return told


def ratio(by_pair: dict, over: str, under: str):
    """Round by round."""
    a, b = by_pair.get(over, {}), by_pair.get(under, {})
    return figure(a[name] / b[name] for name in a if name in b)


def rate(of: Figure) -> str:
    return "" if of is None else f"{digits(of.median)} ({digits(of.least)}\u2013{digits(of.most)})"


def times(of: Figure) -> str:
    return "" if of is None else f"{of.median:.2f} ({of.least:.2f}\u2013{of.most:.2f})"


def digits(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def commit(places: Places) -> str:
    told = subprocess.run([str(places.node), "--version"], capture_output=True, text=True).stdout
    return told.strip().rpartition("(")[2].rstrip(")") or "unknown commit"


def parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/interop/speed", description=__doc__)
    option = parser.add_argument
    option("--rounds", type=int, default=5, help="rounds; 0 only prints the table of --runs")
    option("--run-ms", type=int, default=250, help="how long each run lasts")
    option("--batches", default="1,64", help="how many pieces go together")
    option("--release", default=RELEASES[0], help="of the wheel")
    option("--runs", type=Path, help="file of the runs")
    option("--add", action="store_true", help="add to that file")
    option("--write", action="store_true", help=f"put the table into {PAGE.relative_to(REPO)}")
    option("--node", type=Path, help="this pipeline-node instead of building one")
    option("--end", type=Path, help="this end of ours instead of building one")
    return parser.parse_args(arguments)
