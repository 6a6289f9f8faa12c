"""What either end sees when the other one is killed, frozen, restarted or silent: real processes, real signals.

Each check answers an empty text when all is well, else what went wrong. Times are bounds of promises with room for a busy
machine, not measurements.
"""

import signal
import socket
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, Set

from .ends import Ours, Theirs
from .matrix import Cell, moved, timed
from .places import Places
from .servers import Directory
from .servers import Ours as OurServer
from .shapes import KIB, MIB, Shape

SMALL, LARGE = Shape(64 * KIB, 16), Shape(8 * MIB, 38)
# A deadline of our requests, and how much later their end may be told on a busy machine.
DEADLINE_MS, LATE_S = 3_000, 5.0
# What our node says of a transfer whose peer went away, and of one whose peer does not answer.
TYPED = {signal.SIGKILL: {"PeerGone"}, signal.SIGSTOP: {"Deadline"}}


class Scene:
    """A pair of ends, made anew for each check."""

    def __init__(self, places: Places, release: str, folder: Path):
        self.places, self.release, self.folder = places, release, folder
        self.directory = Directory(places, release, folder)
        self.ends: list = []

    def ours(self, transport: str = "") -> Ours:
        log = self.folder / f"failures-ours-{len(self.ends)}.log"
        self.ends.append(Ours(self.places, self.directory, log, transport))
        return self.ends[-1]

    def theirs(self, name: str = "", **environment: str) -> Theirs:
        log = self.folder / f"failures-theirs-{len(self.ends)}.log"
        self.ends.append(Theirs(self.places, self.release, self.directory, log, name, **environment))
        return self.ends[-1]

    def stop(self) -> None:
        for end in self.ends:
            end.stop()


def again_and_again(ours: Ours, op: str, target: dict, act: Callable[[], None]) -> tuple:
    """Moves large batches until one fails, with `act` in the middle of one of them; what the last came to, and its time."""
    timer = threading.Timer(0.3, act)
    timer.start()
    until = time.monotonic() + 60
    try:
        while time.monotonic() < until:
            begin = time.monotonic()
            try:
                told = ours.told(op, target, LARGE, deadline_ms=DEADLINE_MS)
            except RuntimeError as error:
                told = {"failed": -1, "reasons": {str(error): 1}}
            if told["failed"]:
                return told, time.monotonic() - begin
        raise RuntimeError("no transfer failed within a minute")
    finally:
        timer.join()


def target_dies(scene: Scene, how: int, op: str) -> str:
    """Their target is killed or frozen in mid-transfer: a typed error in time; to a new one the next transfer is fine."""
    ours, theirs = scene.ours(), scene.theirs()
    told, took = again_and_again(ours, op, theirs.target(), lambda: theirs.end.signal(how))
    # Of a WRITE that had begun nobody knows how far it came; a READ is never in doubt.
    wrong = untyped(told, took, TYPED[how] | ({"Undetermined"} if op == "write" else set()))
    if wrong:
        return wrong
    if how == signal.SIGSTOP:
        theirs.end.signal(signal.SIGCONT)
        same = moved("read", ours, theirs, SMALL)
        if same:
            return f"after it went on: {same}"
    return moved("write", ours, scene.theirs(), SMALL)


def untyped(told: dict, took: float, expected: Set[str]) -> str:
    if took > DEADLINE_MS / 1000 + LATE_S:
        return f"it took {took:.1f} s with a deadline of {DEADLINE_MS / 1000} s"
    if told["failed"] < 0:
        # It could not even be opened, which names it.
        return "" if all("mooncake://" in reason for reason in told["reasons"]) else f"{told['reasons']}"
    strange = [reason for reason in told["reasons"] if reason.partition(":")[0] not in expected]
    return f"not {' or '.join(sorted(expected))}: {strange}" if strange else ""


def target_restarts(scene: Scene) -> str:
    """Their target is killed and started again under its name in a directory: the next transfer reaches the new process."""
    server = OurServer(scene.places, scene.release, scene.folder)
    server.start()
    try:
        scene.directory = server
        ours, theirs = scene.ours(), scene.theirs()
        wrong = moved("write", ours, theirs, SMALL)
        if wrong:
            return wrong
        theirs.stop()
        # A killed engine leaves its records, and servers refuse the name of a live one: whoever restarts it removes them.
        for key in ("ram", "rpc_meta"):
            server.remove(f"mooncake/{key}/{theirs.name}")
        again = scene.theirs(name=theirs.name)
        return moved("write", ours, again, SMALL) or moved("read", ours, again, SMALL)
    finally:
        server.stop()


def our_target_dies(scene: Scene, how: int) -> str:
    """Our target is killed or frozen under their client: it has an error in its time, and a new node of ours takes its next."""
    # The least they take: otherwise a frozen target costs their client half a minute.
    ours, theirs = scene.ours(), scene.theirs(MC_TRANSFER_TIMEOUT="5", MC_TCP_STATUS_TIMEOUT_SEC="5", MC_TCP_PROGRESS_TIMEOUT_SEC="5")
    timer = threading.Timer(0.3, lambda: ours.end.signal(how))
    timer.start()
    begin = time.monotonic()
    wrong = ""
    while not wrong and time.monotonic() < begin + 60:
        wrong = theirs.move("write", ours.target(), LARGE)
    timer.join()
    if not wrong:
        return "their client noticed nothing"
    return moved("write", theirs, scene.ours(), SMALL)


def silent_client(scene: Scene) -> str:
    """A client that connects to our handshake port and says nothing delays nobody: others open at once."""
    ours, theirs = scene.ours(), scene.theirs()
    host, _, port = ours.session.rpartition(":")
    silent = [socket.create_connection((host.strip("[]"), int(port))) for _ in range(8)]
    try:
        begin = time.monotonic()
        first = theirs.ask("first_address", session=ours.session)
        took = time.monotonic() - begin
        if first != ours.address:
            return f"it was told {first:#x} instead of {ours.address:#x}"
        # Theirs is silent for five seconds to all others then.
        return f"it took {took:.2f} s" if took > 2.0 else moved("write", theirs, ours, SMALL)
    finally:
        for connection in silent:
            connection.close()


def both_kinds(scene: Scene) -> str:
    """One node serves a native peer and a peer of Mooncake at the same time, and reads from both."""
    node, native, theirs = scene.ours(), scene.ours(), scene.theirs()
    wrongs: Dict[str, str] = {}

    def native_work() -> None:
        try:
            for _ in range(4):
                told = native.told("read", node.native_target(), LARGE)
                wrongs["native"] = f"{told['reasons']}" if told["failed"] else ""
        except RuntimeError as error:
            wrongs["native"] = str(error)

    thread = threading.Thread(target=native_work)
    thread.start()
    for _ in range(4):
        wrong = theirs.move("read", node.target(), LARGE)
        if wrong:
            wrongs["theirs"] = wrong
    thread.join()
    wrong = "; ".join(f"{who}: {what}" for who, what in wrongs.items() if what)
    own = native.target()
    return wrong or moved("write", theirs, node, SMALL) or ("" if own["session"] != node.session else "one name for two nodes")


def many(scene: Scene) -> str:
    """16 000 pieces of 4 KiB in one batch to their target, of which their own client can send 2 048 by default."""
    ours, theirs = scene.ours(), scene.theirs()
    shape = Shape(4 * KIB, 16_000)
    return moved("write", ours, theirs, shape, deadline_ms=120_000) or moved("read", ours, theirs, shape, deadline_ms=120_000)


CHECKS = {
    "16 000 x 4 KiB to their target": many,
    "their target is killed under WRITEs": lambda s: target_dies(s, signal.SIGKILL, "write"),
    "their target is killed under READs": lambda s: target_dies(s, signal.SIGKILL, "read"),
    "their target is frozen under WRITEs": lambda s: target_dies(s, signal.SIGSTOP, "write"),
    "their target is frozen under READs": lambda s: target_dies(s, signal.SIGSTOP, "read"),
    "their target is restarted under its name": target_restarts,
    "our target is killed under their client": lambda s: our_target_dies(s, signal.SIGKILL),
    "our target is frozen under their client": lambda s: our_target_dies(s, signal.SIGSTOP),
    "silent clients at our handshake port": silent_client,
    "native peers and Mooncake's at once": both_kinds,
}
QUICK = ("16 000 x 4 KiB to their target", "their target is killed under WRITEs", "silent clients at our handshake port", "native peers and Mooncake's at once")


def run(places: Places, release: str, names, folder: Path) -> Iterator[Cell]:
    """The checks of these names."""
    for name in names:
        scene = Scene(places, release, folder)
        try:
            yield timed(release, scene.directory, "failures", name, "", lambda: CHECKS[name](scene))
        finally:
            scene.stop()
