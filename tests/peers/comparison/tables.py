"""Markdown: the table of targets and the systems side by side."""

from typing import Callable, Iterable, Iterator, List, Optional

from .case import BATCHES, OPS, SINGLE_SIZES, Case, bytes_text
from .figures import OTHERS_PCT, SLOW, Figure, Rounds
from .record import Results
from .targets import CEILING, PIPELINE, Target, all_targets, case_text, cpu, p50, rate


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


def ceiling_of(system: str) -> str:
    """The bare loop that says which rounds of a system count: its own, or that of the preset."""
    variant = system.partition("-")[2]
    return f"bare-{variant}" if system.startswith(("ours-", "bare-")) else CEILING


def row(cells: Iterable[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"


def table(head: List[str], rows: Iterable[List[str]]) -> List[str]:
    """Head, rule and rows."""
    return [row(head), "|" + "---|" * len(head), *map(row, rows)]


def targets(rounds: Rounds, congestions: List[str]) -> List[str]:
    """The table of targets, after how many are met."""

    def line(t: Target) -> List[str]:
        op, what, congestion = case_text(t.case)
        rounds_kept = str(t.score.rounds) if t.score else "0"
        return [f"{op} {what}", congestion, t.what, t.wanted, spread(t.shown), rounds_kept, t.verdict]

    found = list(all_targets(rounds, congestions))
    measured = [t for t in found if t.score]
    met = sum(t.verdict == "met" for t in measured)
    summary = f"{met} of {len(measured)} met."
    if len(measured) < len(found):
        summary += f" {len(found) - len(measured)} more were not measured."
    head = ["case", "congestion", "figure", "target", "shown: median of the rounds' ratios (least–most)", "rounds", ""]
    return [summary, "", *table(head, map(line, found))]


def side_by_side(rounds: Rounds, titles: dict, congestions: List[str]) -> Iterator[str]:
    """All systems, all cases: GB/s, shares, CPU seconds, latencies."""
    for congestion in congestions:
        for op in OPS:
            cases = [Case(op, size, batch, congestion) for batch, size in BATCHES]
            heads = [f"{batch} × {bytes_text(size)}" for batch, size in BATCHES]
            yield from section(f"{op}, batches, {congestion}: GB/s", rounds, titles, cases, heads, rate)
            yield from section(f"{op}, batches, {congestion}: CPU s/GB, both ends", rounds, titles, cases, heads, cpu)
            yield from multiples(f"{op}, batches, {congestion}: the pipeline over each, by round", rounds, titles, cases, heads)
        for op in OPS:
            cases = [Case(op, size, 1, congestion) for size in SINGLE_SIZES]
            heads = [bytes_text(size) for size in SINGLE_SIZES]
            yield from section(f"{op}, one at a time, {congestion}: p50 µs", rounds, titles, cases, heads, p50)
            p99 = lambda run: run.p99_us  # noqa: E731
            yield from section(f"{op}, one at a time, {congestion}: p99 µs", rounds, titles, cases, heads, p99)
            yield from section(f"{op}, one at a time, {congestion}: CPU s/GB, both ends", rounds, titles, cases, heads, cpu)
    yield from streams(rounds, titles, congestions)


def section(name: str, rounds: Rounds, titles: dict, cases: List[Case], heads: List[str], metric: Callable) -> Iterator[str]:
    """One metric: a line a system, a column a case. Nothing where no system has it."""
    lines = []
    for system, title in titles.items():
        cells = [spread(rounds.figure(case, system, ceiling_of(system), metric)) for case in cases]
        if any(cell != "–" for cell in cells):
            lines.append([title, *cells])
    if lines:
        yield from ["", f"**{name}**", "", *table(["", *heads], lines)]


def multiples(name: str, rounds: Rounds, titles: dict, cases: List[Case], heads: List[str]) -> Iterator[str]:
    """How many times as fast the pipeline is as each other system."""
    lines = []
    for system, title in titles.items():
        cells = [spread(rounds.ratio(case, PIPELINE, system, CEILING, rate)) for case in cases]
        if system != PIPELINE and any(cell != "–" for cell in cells):
            lines.append([title, *cells])
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


def provenance(results: Results, rounds: Rounds) -> List[str]:
    """What machine, which builds, what was left out."""
    facts = results.sessions[-1]
    commits = sorted({s["commit"] for s in results.sessions})
    seconds = sorted({s["seconds"] for s in results.sessions})
    slow, all_rounds = rounds.slow_count(lambda case: CEILING)
    checks = len(results.checks)
    wrong = sum(not c["same"] for c in results.checks)
    names = len({run.round for run in results.runs})
    return [
        f'"{facts["machine"]}" ({facts["cpu"]}, Linux {facts["kernel"]}; default congestion control '
        f'{facts["default_congestion"]}), loopback, {facts["date"]}, commit {", ".join(commits)}. '
        f'{names} rounds, {", ".join(f"{s:g}" for s in seconds)} s a run after 0.1 s that does not count. '
        f"Of {rounds.made} runs {rounds.disturbed} were left out because others had more than {OTHERS_PCT:g} % of the "
        f"CPUs meanwhile; of {all_rounds} rounds of a case {slow} because their bare loop was under {SLOW:g} of its "
        f"median. Bytes of both ends compared after the runs: {checks} checks, {wrong} wrong."
    ]
