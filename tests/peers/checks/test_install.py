"""Getting things: what cannot be had is told and does not end the comparison."""

import tempfile
import unittest
from pathlib import Path

from comparison import install
from comparison.peers import Mooncake
from comparison.system import Places, Unavailable


class Install(unittest.TestCase):
    def test_what_cannot_be_had_is_said_in_one_line(self):
        """With the reason that the command gave last."""
        said = []
        install.attempt("a peer", lambda: install.run(["sh", "-c", "echo one >&2; echo two >&2; exit 1"]), said.append)
        self.assertEqual(said, ["could not be had: a peer: sh: two"])
        install.attempt("a peer", lambda: install.run(["/no/such/program"]), said.append)
        self.assertEqual(len(said), 2)

    def test_a_wheel_that_does_not_import_does_not_count_as_installed(self):
        """The proof is an import in the peer's own interpreter."""
        with tempfile.TemporaryDirectory() as folder:
            python = Path(folder) / "python"
            self.assertEqual(install.works(python, "import x"), "no virtual environment")
            python.write_text("#!/bin/sh\necho 'ImportError: libibverbs.so.1' >&2\nexit 1\n", encoding="utf-8")
            python.chmod(0o755)
            self.assertEqual(install.works(python, "import x"), "ImportError: libibverbs.so.1")

    def test_a_peer_that_is_not_there_is_left_out(self):
        """It raises what the rounds take as a reason, and starts nothing."""
        with tempfile.TemporaryDirectory() as folder:
            peer = Mooncake(Places(Path(folder), Path(folder), None))
            with self.assertRaisesRegex(Unavailable, "not installed"):
                peer.start("bbr")
            self.assertEqual(peer.pids(), [])
