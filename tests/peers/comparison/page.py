"""The generated parts of docs/performance.md, between markers: all else in the page is written by hand and stays."""

from pathlib import Path
from typing import Dict, List

BEGIN = "<!-- tests/peers/run writes from here: {} -->"
END = "<!-- to here -->"


def replaced(text: str, part: str, lines: List[str], marker: str = BEGIN) -> str:
    """`text` with the part of this name anew; its markers must be there, once and in order."""
    begin = marker.format(part)
    if text.count(begin) != 1:
        raise ValueError(f"the page needs this line once: {begin}")
    head, _, rest = text.partition(begin)
    _, end, tail = rest.partition(END)
    if not end or marker.split("{}")[0] in rest[: rest.find(END)]:
        raise ValueError(f"the page needs this line after it: {END}")
    return head + begin + "\n" + "\n".join(lines).strip("\n") + "\n" + END + tail


def write(path: Path, parts: Dict[str, List[str]]) -> None:
    """All parts; the page is left alone unless all can be replaced."""
    text = path.read_text(encoding="utf-8")
    for part, lines in parts.items():
        text = replaced(text, part, lines)
    path.write_text(text, encoding="utf-8")
