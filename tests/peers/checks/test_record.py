"""The file of results: what is written is read, and pieces add up."""

import tempfile
import unittest
from pathlib import Path

from comparison.case import Case
from comparison.record import Log, Run, load

RUN = Run("r-0", "mooncake", Case("read", 4096, 64, "bbr"), 1.5, 10.0, 20.0, 0.5, 0.25, 3.0)


class Record(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "deep" / "runs.jsonl"

    def tearDown(self):
        self.folder.cleanup()

    def append(self, run: Run, add: bool) -> None:
        with Log(self.path, add) as log:
            log.run(run)

    def test_what_is_written_is_read(self):
        """Sessions, runs and checks."""
        with Log(self.path, add=False) as log:
            log.session({"commit": "abc"})
            log.run(RUN)
            log.check({"same": True})
        results = load(self.path)
        self.assertEqual((results.runs, results.sessions, results.checks), ([RUN], [{"commit": "abc"}], [{"same": True}]))

    def test_pieces_add_up_and_a_new_start_forgets(self):
        """`--add` appends; without it the file begins anew."""
        self.append(RUN, add=False)
        self.append(Run("s-0", "mooncake", RUN.case, 2.0), add=True)
        self.assertEqual([r.gb_per_s for r in load(self.path).runs], [1.5, 2.0])
        self.append(RUN, add=False)
        self.assertEqual(load(self.path).runs, [RUN])

    def test_the_same_round_twice_is_refused(self):
        """A file that was concatenated with itself would count everything twice."""
        self.append(RUN, add=False)
        self.append(RUN, add=True)
        with self.assertRaisesRegex(ValueError, "the same round twice"):
            load(self.path)
