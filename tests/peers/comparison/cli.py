"""The command: its options, and what is done in which order."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List, Optional

from . import install, iperf, machine, ours, page, peers, tables
from .case import CONGESTIONS, Case, all_cases
from .figures import OTHERS_PCT, Rounds
from .record import Log, Results, load
from .rounds import Comparison
from .system import Places, System

REPO = Path(__file__).resolve().parents[3]
PAGE = REPO / "docs" / "performance.md"

EXAMPLES = """Examples:
  tests/peers/run                              # everything, seven rounds; prints the tables
  tests/peers/run --write                      # and puts them into docs/performance.md
  tests/peers/run --install-only               # only what downloads and compiles
  tests/peers/run --rounds 1 --add             # one more round on top of what the file of results holds
  tests/peers/run --only '64x1MiB bbr' --systems bare-tcp,ours-tcp,mooncake
  tests/peers/run --report                     # the tables again, without running anything
  PEERS_DIR=/var/tmp/peers tests/peers/run     # installs elsewhere than in target/peers

A whole run takes about a quarter of an hour once built, in pieces as long as you like: --add puts them together.
"""


def say(line: str) -> None:
    """Progress and complaints; tables go to stdout."""
    print(f"peers: {line}", file=sys.stderr, flush=True)


def arguments(words: Optional[List[str]] = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        prog="tests/peers/run",
        description="Compares pipeline-node with other transfer engines and with a bare loop, on loopback, in rounds.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("--rounds", type=int, default=7, help="how many [7]")
    option("--seconds", type=float, default=0.3, help="how long each run is timed [0.3]")
    option("--only", metavar="REGEX", default="", help="only cases like these: 'write 64x1MiB bbr'")
    option("--systems", metavar="LIST", help="only these, by key; see --list")
    option("--list", action="store_true", help="names all systems and cases")
    option("--others", type=float, default=OTHERS_PCT, metavar="PCT",
           help=f"runs count up to this share of the CPUs for other processes [{OTHERS_PCT:g}]")
    option("--runs", type=Path, help="the file of raw results [target/peers/runs.jsonl]")
    option("--add", action="store_true", help="adds to that file instead of starting it anew")
    option("--report", action="store_true", help="only the tables, from that file")
    option("--write", action="store_true", help="puts the tables into the page")
    option("--page", type=Path, default=PAGE, help="another page than docs/performance.md")
    option("--install-only", action="store_true", help="installs and builds, and runs nothing")
    option("--node", type=Path, help="this pipeline-node instead of building one")
    return parser.parse_args(words)


def main(words: Optional[List[str]] = None) -> int:
    """Runs it: 0, or 1 where bytes were wrong or nothing was measured."""
    args = arguments(words)
    folder = Path(os.environ.get("PEERS_DIR") or install.target_folder(REPO) / "peers")
    runs = args.runs or folder / "runs.jsonl"
    places = Places(REPO, folder, args.node)
    systems = chosen(places, args.systems)
    cases = [c for c in all_cases(machine.congestions(CONGESTIONS)) if re.search(args.only, c.label)]
    if args.list:
        print("\n".join([f"{s.key:16} {s.title}" for s in systems] + [c.label for c in cases]))
        return 0
    all_same = True
    if not args.report:
        install.everything(places, [s.key for s in systems], say)
        if places.node is None and any(s.key.startswith(("ours", "bare")) for s in systems):
            places.node = install.build_node(REPO)
        if args.install_only:
            return 0
        all_same = measure(args, places, systems, cases, runs)
    results = load(runs)
    if not results.runs:
        say("nothing was measured")
        return 1
    report(args, results, titles(places))
    return 0 if all_same else 1


def chosen(places: Places, keys: Optional[str]) -> List[System]:
    """The systems that were asked for, in the order of a round."""
    known = ours.systems(places) + peers.systems(places) + iperf.systems()
    if keys is None:
        return known
    wanted = keys.split(",")
    unknown = set(wanted) - {s.key for s in known}
    if unknown:
        raise SystemExit(f"peers: no such system: {', '.join(sorted(unknown))}; see --list")
    return [s for s in known if s.key in wanted]


def titles(places: Places) -> dict:
    """Of all systems: tables keep this order."""
    return {s.key: s.title for s in chosen(places, None)}


def measure(args: argparse.Namespace, places: Places, systems: List[System], cases: List[Case], runs: Path) -> bool:
    """Runs the rounds; whether all bytes were the same."""
    for missing in set(CONGESTIONS) - set(machine.congestions(CONGESTIONS)):
        say(f"left out: congestion control {missing}: this machine does not have it, or this user may not choose it")
    with Log(runs, args.add) as log:
        log.session({**machine.facts(), "commit": commit(places.node), "seconds": args.seconds})
        comparison = Comparison(systems, cases, args.seconds, log, say)
        try:
            comparison.start()
            comparison.rounds(args.rounds)
            return comparison.check()
        finally:
            comparison.stop()


def commit(node: Optional[Path]) -> str:
    """Of our binary, as it says itself; else of the repository."""
    if node is not None:
        version = subprocess.run([str(node), "--version"], capture_output=True, text=True).stdout
        found = re.search(r"\((.*)\)", version)
        if found:
            return found[1]
    return subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=REPO, capture_output=True, text=True
    ).stdout.strip()


def report(args: argparse.Namespace, results: Results, names: dict) -> None:
    """Prints the tables, and writes them into the page where that was asked for."""
    rounds = Rounds(results.runs, args.others)
    congestions = [c for c in CONGESTIONS if any(run.case.congestion == c for run in results.runs)]
    parts = {
        "targets": [*tables.provenance(results, rounds), "", *tables.targets(rounds, congestions)],
        "side by side": list(tables.side_by_side(rounds, names, congestions)),
    }
    for lines in parts.values():
        print("\n".join(lines), end="\n\n")
    if args.write:
        page.write(args.page, parts)
        say(f"wrote {args.page}")
