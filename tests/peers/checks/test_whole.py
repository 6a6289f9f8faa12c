"""The whole command against the real wheel of Mooncake and the real binary: two rounds, two sizes, in a scratch folder.

What is asserted is that it works and that its arithmetic is right; speed is not tested. Where the wheel cannot be had
(no network, no root for a library), it is skipped with the reason.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from comparison import machine, page
from comparison.case import CONGESTIONS
from comparison.cli import PAGE, REPO

RUN = REPO / "tests" / "peers" / "run"
SYSTEMS = "bare-tcp,ours-tcp,mooncake"


def command(*words: str) -> subprocess.CompletedProcess:
    node = ["--node", os.environ["PEERS_NODE"]] if "PEERS_NODE" in os.environ else []
    return subprocess.run([sys.executable, str(RUN), *node, *words], capture_output=True, text=True, timeout=600)


class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        installed = command("--install-only", "--systems", SYSTEMS)
        reasons = [line for line in installed.stderr.splitlines() if "could not be had" in line]
        if reasons:
            print(f"skipped: {reasons[0]}", file=sys.stderr)
            raise unittest.SkipTest(reasons[0])
        if installed.returncode != 0:
            raise AssertionError(installed.stderr)
        cls.folder = tempfile.TemporaryDirectory()
        folder = Path(cls.folder.name)
        cls.page, runs = folder / "page.md", folder / "runs.jsonl"
        cls.page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
        congestion = (machine.congestions(CONGESTIONS) or [None])[0]
        only = f"^(write|read) 64x(4KiB|1MiB) {congestion}$"
        words = ["--systems", SYSTEMS, "--only", only, "--seconds", "0.1", "--others", "100", "--runs", str(runs)]
        # In two pieces: the second adds to what the first found.
        cls.pieces = [
            command(*words, "--rounds", "1"),
            command(*words, "--rounds", "1", "--add", "--write", "--page", str(cls.page)),
        ]
        cls.lines = [json.loads(line) for line in runs.read_text(encoding="utf-8").splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_system_ran_every_case_in_every_round(self):
        """Three systems, four cases, two rounds, and nothing failed."""
        for piece in self.pieces:
            self.assertEqual(piece.returncode, 0, piece.stderr)
            self.assertNotIn("left out", piece.stderr)
        runs = [line["run"] for line in self.lines if "run" in line]
        self.assertEqual(len(runs), 3 * 4 * 2)
        self.assertEqual({run["system"] for run in runs}, set(SYSTEMS.split(",")))
        self.assertEqual(len({run["round"] for run in runs}), 2)
        for run in runs:
            for metric in ("gb_per_s", "p50_us", "p99_us", "cpu_s_per_gb_initiator", "cpu_s_per_gb_target"):
                self.assertGreater(run[metric], 0, (metric, run))
            self.assertLessEqual(run["p50_us"], run["p99_us"])

    def test_bytes_are_the_same_at_both_ends(self):
        """Mooncake's two ends have equal checksums both ways, of different bytes; ours compares every byte."""
        checks = [line["check"] for line in self.lines if "check" in line]
        self.assertEqual([c["system"] for c in checks], ["ours-tcp", "mooncake"] * 2)
        self.assertTrue(all(c["same"] for c in checks), checks)
        for check in checks[1::2]:
            (a, b), (c, d) = check["crc32"]["write"], check["crc32"]["read"]
            self.assertTrue(a == b and c == d and a != c, check)
            self.assertEqual(check["congestion_used"], [check["congestion"]])

    def test_the_page_says_what_the_file_says(self):
        """A ratio in the table of targets is the median of the rounds' ratios, computed here from the raw lines."""
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("Bytes of both ends compared after the runs: 4 checks, 0 wrong.", text)
        rates = {}
        for run in (line["run"] for line in self.lines if "run" in line):
            if run["case"]["op"] == "write" and run["case"]["size"] == 1 << 20:
                rates.setdefault(run["round"], {})[run["system"]] = run["gb_per_s"]
        floor = 0.7 * statistics.median(r["bare-tcp"] for r in rates.values())
        ratios = [r["ours-tcp"] / r["bare-tcp"] for r in rates.values() if r["bare-tcp"] >= floor]
        row = next(line for line in text.splitlines() if line.startswith("| 64 × 1 MiB | share of the bare loop"))
        told = re.search(r"\| ≥ 0.92 \| ([0-9.]+) \(", row)
        self.assertIsNotNone(told, row)
        self.assertAlmostEqual(float(told[1]) / statistics.median(ratios), 1.0, delta=0.02)
        self.assertEqual("; 1 round)" in row.split("|")[4], len(ratios) == 1, row)

    def test_the_rest_of_the_page_stays(self):
        """Without its generated parts the page is as it was."""
        strip = re.compile(re.escape(page.BEGIN.split("{}")[0]) + ".*?" + re.escape(page.END), re.S)
        before, after = (strip.sub("", p.read_text(encoding="utf-8")) for p in (PAGE, self.page))
        self.assertEqual(before, after)
