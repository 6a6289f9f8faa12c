"""The table of targets: each kind can be met and missed."""

import unittest

from comparison.case import KIB, MIB, Case
from comparison.figures import Rounds
from comparison.record import Run
from comparison.targets import all_targets


def verdicts(runs: list) -> dict:
    found = all_targets(Rounds(runs), ["bbr"])
    return {(t.case.op, t.case.size, t.what): t.met for t in found if t.score}


def three(system: str, case: Case, gb_per_s: float = 1.0, **more: float) -> list:
    return [Run(str(i), system, case, gb_per_s, **more) for i in range(3)]


class Targets(unittest.TestCase):
    def test_large_batches(self):
        """0.92 of the ceiling is enough, whatever the peer does; less is not, unless it is twice the peer."""
        for ours, peer, of_ceiling, beside in ((9.3, 9.0, True, True), (8.0, 5.0, False, False),
                                               (8.0, 4.0, False, True)):
            case = Case("write", MIB, 64, "bbr")
            runs = three("bare-tcp", case, 10.0) + three("ours-tcp", case, ours) + three("mooncake", case, peer)
            found = verdicts(runs)
            self.assertEqual(found["write", MIB, "share of the bare loop"], of_ceiling)
            self.assertEqual(found["write", MIB, "times Mooncake"], beside)

    def test_small_batches(self):
        """8 times Mooncake and 5 times NIXL."""
        case = Case("read", 4 * KIB, 64, "bbr")
        runs = three("ours-tcp", case, 7.0) + three("mooncake", case, 1.0) + three("nixl", case, 1.0)
        found = verdicts(runs)
        self.assertEqual(found["read", 4 * KIB, "times Mooncake"], False)
        self.assertEqual(found["read", 4 * KIB, "times NIXL, progress thread"], True)

    def test_small_batches_of_a_caller_that_spins(self):
        """5 times NIXL without progress thread is asked of the same wait as well: 4.9 times are missed."""
        case = Case("write", 4 * KIB, 64, "bbr")
        peer = three("nixl-polling", case, 1.0) + three("bare-spinning", case, 9.0)
        for ours, verdict in ((4.9, False), (5.1, True)):
            found = verdicts(three("ours-spinning", case, ours) + peer)
            what = "run to completion, spinning, times NIXL, no progress thread"
            self.assertEqual(found["write", 4 * KIB, what], verdict)

    def test_latency(self):
        """Shorter is better: the bare loop bounds from above, peers from below."""
        case = Case("write", 4 * KIB, 1, "bbr")
        runs = three("bare-parked", case, p50_us=50.0) + three("ours-parked", case, p50_us=57.0)
        runs += three("ours-spinning", case, p50_us=20.0) + three("nixl-polling", case, p50_us=24.0)
        found = verdicts(runs)
        self.assertEqual(found["write", 4 * KIB, "p50 parked, times the parked bare loop"], True)
        what = "times faster spinning than NIXL, no progress thread (p50)"
        self.assertEqual(found["write", 4 * KIB, what], False)

    def test_cpu_seconds(self):
        """Both ends together, at most 1.15 times the bare loop."""
        case = Case("read", MIB, 64, "bbr")
        for ours, verdict in ((0.57, True), (0.58, False)):
            runs = three("bare-tcp", case, cpu_s_per_gb_initiator=0.3, cpu_s_per_gb_target=0.2)
            runs += three("ours-tcp", case, cpu_s_per_gb_initiator=ours / 2, cpu_s_per_gb_target=ours / 2)
            self.assertEqual(verdicts(runs)["read", MIB, "CPU s/GB, times the bare loop"], verdict)
