"""The page: what is generated is replaced, what is written by hand stays."""

import tempfile
import unittest
from pathlib import Path

from comparison import page
from comparison.cli import PAGE

TEXT = f"by hand\n{page.BEGIN.format('a')}\nold\n{page.END}\nbetween\n{page.BEGIN.format('b')}\n{page.END}\nend\n"


class Page(unittest.TestCase):
    def test_only_the_parts_change(self):
        """Writing twice gives the same page."""
        once = page.replaced(page.replaced(TEXT, "a", ["new"]), "b", ["x", "y"])
        b = page.BEGIN.format("b")
        self.assertEqual(once, TEXT.replace("old", "new").replace(f"{b}\n", f"{b}\nx\ny\n"))
        self.assertEqual(page.replaced(once, "a", ["new"]), once)

    def test_missing_markers_leave_the_page_alone(self):
        """One part that has no place, and nothing is written at all."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            for text in (TEXT.replace(page.END, ""), TEXT.replace(page.END, "", 1)):
                path.write_text(text, encoding="utf-8")
                with self.assertRaises(ValueError):
                    page.write(path, {"b": ["y"], "a": ["x"]})
                self.assertEqual(path.read_text(encoding="utf-8"), text)

    def test_the_real_page_has_its_places(self):
        """docs/performance.md can be written."""
        text = PAGE.read_text(encoding="utf-8")
        for part in ("targets", "side by side"):
            page.replaced(text, part, [])
