"""Markdown: the table of targets and the systems side by side."""

from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from .case import BATCHES, OPS, SINGLE_SIZES, Case, shape
from .figures import SLOW, Figure, Rounds
from .ours import CEILING, PIPELINE, ceiling_of
from .record import Results
from .targets import Target, all_targets, cpu, p50, p99, rate


def number(value: float) -> str:
    """Three digits, more only before the point."""
    if value >= 100:
        return f"{value:.0f}"
    for least, digits in ((10, 1), (1, 2), (0.1, 3)):
        if value >= least:
            return f"{value:.{digits}f}"
    return f"{value:.2g}" if value else "0"


def spread(figure: Optional[Figure]) -> str:
    """`1.02 (0.97–1.10)`; a dash where nothing was measured."""
    return f"{number(figure.median)} ({number(figure.least)}–{number(figure.most)})" if figure else "–"


def row(cells: Iterable[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"


def table(head: List[str], rows: Iterable[List[str]]) -> List[str]:
    """Head, rule and rows."""
    return [row(head), "|" + "---|" * len(head), *map(row, rows)]


def targets(rounds: Rounds, congestions: List[str]) -> List[str]:
    """The table of targets, after how many are met: a line a target, a column an operation and congestion control."""
    found = list(all_targets(rounds, congestions))
    measured = [t for t in found if t.score]
    met = sum(t.met for t in measured)
    summary = f"**{met} of {len(measured)} met.**"
    if len(measured) < len(found):
        summary += f" {len(found) - len(measured)} more were not measured."
    columns = [(op, congestion) for congestion in congestions for op in OPS]
    lines: Dict[Tuple[str, str, str], Dict[Tuple[str, str], Target]] = {}
    for t in found:
        lines.setdefault((shape_text(t.case), t.what, t.wanted), {})[t.case.op, t.case.congestion] = t
    head = ["", "figure", "target", *(f"{op}, {congestion}" for op, congestion in columns)]
    rows = ([*line, *(verdict(cells.get(column), rounds) for column in columns)] for line, cells in lines.items())
    return [summary, "", *table(head, rows)]


def verdict(target: Optional[Target], rounds: Rounds) -> str:
    """`1.02 (0.97–1.10) met`; rounds are told where some do not count, and the score where the bound is one of two."""
    if target is None or target.score is None:
        return "not measured"
    shown = spread(target.shown)
    if target.score.rounds < rounds.count:
        shown = f"{shown[:-1]}; {target.score.rounds} round{'s' if target.score.rounds > 1 else ''})"
    if target.either:
        shown += f", {number(target.score.median)} of its bound:"
    return f"{shown} met" if target.met else f"{shown} **missed**"


def side_by_side(rounds: Rounds, titles: dict, congestions: List[str]) -> Iterator[str]:
    """All systems, all cases."""
    batches = [(batch, size) for batch, size in BATCHES]
    singles = [(1, size) for size in SINGLE_SIZES]
    for congestion in congestions:
        for op in OPS:
            name = f"{op}, batches, {congestion}: GB/s; how many times as fast the pipeline is, by round"
            yield from section(name, rounds, titles, [Case(op, s, b, congestion) for b, s in batches], fast)
        for op in OPS:
            name = f"{op}, one at a time, {congestion}: p50 µs / p99 µs"
            yield from section(name, rounds, titles, [Case(op, s, b, congestion) for b, s in singles], quick)
        for shapes, name in ((batches, "batches"), (singles, "one at a time")):
            cases = [Case(op, s, b, congestion) for op in OPS for b, s in shapes]
            yield from section(f"CPU s/GB of both ends, {name}, {congestion}: medians", rounds, titles, cases, frugal)
    yield from streams(rounds, titles, congestions)


Cell = Callable[[Rounds, Case, str], str]


def fast(rounds: Rounds, case: Case, system: str) -> str:
    """A rate, and the pipeline over it."""
    told = spread(rounds.figure(case, system, ceiling_of(system), rate))
    times = rounds.ratio(case, PIPELINE, system, CEILING, rate)
    return f"{told}; {number(times.median)}×" if times and system != PIPELINE else told


def quick(rounds: Rounds, case: Case, system: str) -> str:
    """Latencies; the spread is that of the rounds' medians."""
    middle = rounds.figure(case, system, ceiling_of(system), p50)
    tail = rounds.figure(case, system, ceiling_of(system), p99)
    return f"{spread(middle)} / {number(tail.median)}" if middle and tail else "–"


def frugal(rounds: Rounds, case: Case, system: str) -> str:
    """CPU time, without its spread, to keep a wide table readable."""
    found = rounds.figure(case, system, ceiling_of(system), cpu)
    return number(found.median) if found else "–"


def section(name: str, rounds: Rounds, titles: dict, cases: List[Case], cell: Cell) -> Iterator[str]:
    """A line a system, a column a case. Nothing where no system has any."""
    lines = [[title, *(cell(rounds, case, system) for case in cases)] for system, title in titles.items()]
    lines = [line for line in lines if any(text != "–" for text in line[1:])]
    ops = {case.op for case in cases}
    heads = [shape_text(case) if len(ops) == 1 else f"{case.op} {shape_text(case)}" for case in cases]
    if lines:
        yield from ["", f"**{name}**", "", *table(["", *heads], lines)]


def streams(rounds: Rounds, titles: dict, congestions: List[str]) -> Iterator[str]:
    """What has no requests."""
    lines = []
    for congestion in congestions:
        case = Case("write", 0, 1, congestion)
        for system in rounds.systems(case):
            figures = [rounds.figure(case, system, CEILING, metric) for metric in (rate, cpu)]
            lines.append([titles.get(system, system), congestion, *map(spread, figures)])
    if lines:
        head = ["stream without requests", "congestion", "GB/s", "CPU s/GB, both ends"]
        yield from ["", *table(head, lines)]


def shape_text(case: Case) -> str:
    """`64 × 1 MiB`."""
    return shape(case.batch, case.size).replace("x", " × ").replace("KiB", " KiB").replace("MiB", " MiB")


def provenance(results: Results, rounds: Rounds) -> List[str]:
    """What machine, which builds, what was left out."""
    facts = results.sessions[-1]
    commits = sorted({s["commit"] for s in results.sessions})
    seconds = sorted({s["seconds"] for s in results.sessions})
    slow, all_rounds = rounds.slow_count()
    checks = len(results.checks)
    wrong = sum(not c["same"] for c in results.checks)
    return [
        f'"{facts["machine"]}" ({facts["cpu"]}, Linux {facts["kernel"]}; default congestion control '
        f'{facts["default_congestion"]}), loopback, {facts["date"]}, commit {", ".join(commits)}. '
        f'{rounds.count} rounds, {", ".join(f"{s:g}" for s in seconds)} s a run after 0.1 s that does not count. '
        f"Of {rounds.made} runs {rounds.disturbed} were left out because others had more than {rounds.others_pct:g} % of the "
        f"CPUs meanwhile; of {all_rounds} rounds of a case and a bare loop {slow} because the loop was under {SLOW:g} of its "
        f"median. Bytes of both ends compared after the runs: {checks} checks, {wrong} wrong."
    ]
