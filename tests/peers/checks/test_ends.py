"""What runs inside the peers' environments and needs no peer: the timed loop, the buffer, the process."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

ENDS = Path(__file__).resolve().parent.parent / "ends"
sys.path.insert(0, str(ENDS))

import timed  # noqa: E402
from memory import Buffer  # noqa: E402


class Ends(unittest.TestCase):
    def test_percentiles(self):
        """The least value that so many do not exceed."""
        values = list(range(1, 101))
        self.assertEqual([timed.percentile(values, p) for p in (0.5, 0.99, 1.0)], [50, 99, 100])
        self.assertEqual(timed.percentile([7], 0.99), 7)

    def test_a_timed_loop_counts_what_it_moved(self):
        """Bytes a second follow from calls and time; a loop that only computes costs about its time in CPU."""
        calls = []

        def work() -> None:
            calls.append(sum(range(2000)))

        told = timed.run(work, requests=4, size=1000, seconds=0.05, pid=os.getpid(), target_pid=os.getpid())
        self.assertGreater(told["p50_us"], 0)
        self.assertLessEqual(told["p50_us"], told["p99_us"])
        # 4000 bytes in the mean time of a call, which is near the median.
        self.assertLess(told["gb_per_s"], 4000 / 1e9 / (told["p50_us"] / 1e6) * 3)
        self.assertEqual(told["cpu_s_per_gb_initiator"] > 0, told["cpu_s_per_gb_target"] > 0)

    def test_a_buffer_holds_its_seed(self):
        """Another seed, and another length, is another checksum."""
        buffer = Buffer(1 << 21)
        buffer.fill(1, 1 << 21)
        first = buffer.checksum(1 << 21)
        self.assertNotEqual(first, buffer.checksum((1 << 21) - 1))
        buffer.fill(2, 1 << 21)
        self.assertNotEqual(first, buffer.checksum(1 << 21))
        buffer.fill(1, 1 << 21)
        self.assertEqual(first, buffer.checksum(1 << 21))

    def test_an_end_answers_errors_and_ends_with_its_input(self):
        """A command that fails is told as such and the next one still works."""
        program = "import process; process.end_with_parent(); process.serve({'add': lambda a, b: a + b})"
        lines = [{"do": "add", "a": 1, "b": 2}, {"do": "add", "a": 1, "b": "x"}, {"do": "congestion"}]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        ended = subprocess.run(
            [sys.executable, "-c", program], cwd=ENDS, input=text, capture_output=True, text=True, timeout=30
        )
        answers = [json.loads(line) for line in ended.stdout.splitlines()]
        self.assertEqual(answers[0], {"ok": 3})
        self.assertIn("TypeError", answers[1]["error"])
        self.assertEqual(answers[2], {"ok": []})
