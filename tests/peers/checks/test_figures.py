"""The arithmetic: what is discarded, medians, ratios by round. Numbers small enough to be followed by hand."""

import unittest

from comparison.case import KIB, Case
from comparison.figures import OTHERS_PCT, Rounds, figure, slow_rounds
from comparison.record import Run
from comparison.targets import cpu, of_the_smaller, rate

CASE = Case("write", 64 * KIB, 64, "cubic")


def runs(system: str, rates: list, case: Case = CASE, others: float = 0.0) -> list:
    return [Run(str(i), system, case, r, others_pct=others) for i, r in enumerate(rates) if r is not None]


class Figures(unittest.TestCase):
    def test_median_and_spread(self):
        """The median of an even count lies between the two in the middle; nothing gives nothing."""
        f = figure([4.0, 1.0, 3.0, 2.0])
        self.assertEqual((f.median, f.least, f.most, f.rounds), (2.5, 1.0, 4.0, 4))
        self.assertIsNone(figure([]))

    def test_slow_rounds_are_those_under_seven_tenths_of_the_median(self):
        """0.7 itself still counts."""
        self.assertEqual(slow_rounds({"a": 10.0, "b": 10.0, "c": 7.0, "d": 6.99, "e": 20.0}), {"d"})
        self.assertEqual(slow_rounds({}), set())

    def test_a_slow_round_is_left_out_of_every_system(self):
        """Its ceiling decides, not how a system did in it; it is counted."""
        rounds = Rounds(runs("bare-tcp", [10, 10, 5]) + runs("ours-tcp", [9, 8, 100]))
        self.assertEqual(rounds.figure(CASE, "ours-tcp", "bare-tcp", rate).most, 9)
        self.assertEqual(rounds.slow_count(), (1, 3))

    def test_ratios_are_taken_by_round(self):
        """The median of the ratios, which is not the ratio of the medians."""
        rounds = Rounds(runs("bare-tcp", [10, 10, 10]) + runs("ours-tcp", [1, 20, 30]) + runs("mooncake", [1, 2, 10]))
        ratio = rounds.ratio(CASE, "ours-tcp", "mooncake", "bare-tcp", rate)
        self.assertEqual((ratio.median, ratio.least, ratio.most, ratio.rounds), (3.0, 1.0, 10.0, 3))

    def test_a_round_counts_only_where_both_ran(self):
        """A system that missed a round gives no ratio for it."""
        rounds = Rounds(runs("bare-tcp", [10, 10, 10]) + runs("ours-tcp", [4, 6, None]) + runs("nixl", [2, None, 1]))
        self.assertEqual(rounds.ratio(CASE, "ours-tcp", "nixl", "bare-tcp", rate).rounds, 1)

    def test_disturbed_runs_are_left_out_and_counted(self):
        """Others may have as much of the CPUs as the limit says, and no more."""
        quiet = runs("ours-tcp", [4], others=OTHERS_PCT)
        disturbed = [Run("1", "ours-tcp", CASE, 40.0, others_pct=OTHERS_PCT + 0.1)]
        rounds = Rounds(quiet + disturbed)
        self.assertEqual((rounds.made, rounds.disturbed), (2, 1))
        self.assertEqual(rounds.figure(CASE, "ours-tcp", "bare-tcp", rate).most, 4)

    def test_cases_do_not_mix(self):
        """The same system and round under another congestion control is something else."""
        other = Case("write", 64 * KIB, 64, "bbr")
        rounds = Rounds(runs("ours-tcp", [4]) + runs("ours-tcp", [40], other))
        self.assertEqual(rounds.figure(CASE, "ours-tcp", "bare-tcp", rate).most, 4)

    def test_cpu_seconds_need_both_ends(self):
        """One end alone would flatter."""
        one = Run("0", "nixl", CASE, 1.0, cpu_s_per_gb_initiator=0.5)
        both = Run("0", "nixl", CASE, 1.0, cpu_s_per_gb_initiator=0.5, cpu_s_per_gb_target=0.25)
        self.assertEqual((cpu(one), cpu(both)), (None, 0.75))

    def test_the_smaller_of_two_bounds(self):
        """Twice a slow peer, or 0.92 of the ceiling where twice a fast one is more."""
        run = lambda r: Run("0", "x", CASE, r)  # noqa: E731
        score = of_the_smaller(2.0, 0.92)
        self.assertEqual(score(run(3.0), run(1.0), run(10.0)), 1.5)
        self.assertAlmostEqual(score(run(9.2), run(9.0), run(10.0)), 1.0)
        self.assertLess(score(run(9.0), run(9.0), run(10.0)), 1.0)
