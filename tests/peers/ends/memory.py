"""One buffer of an end: page-aligned bytes with an address, a pattern to fill it with, and a checksum of them.

Deliberately plain `mmap` and `ctypes`: an end needs nothing but its own wheel.
"""

import ctypes
import mmap
import random
import zlib

# Longer than a MiB and no multiple of a page, so that no two requests hold the same bytes.
BLOCK_BYTES = (1 << 20) + 13
STEP_BYTES = 16 << 20


class Buffer:
    """Bytes for the other end's requests; every page is touched, so that no run maps it."""

    def __init__(self, length: int):
        self.length = length
        self._map = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._view = (ctypes.c_char * length).from_buffer(self._map)
        self.address = ctypes.addressof(self._view)
        ctypes.memset(self.address, 1, length)

    def fill(self, seed: int, length: int) -> None:
        """The bytes of `seed`, from the start on."""
        block = random.Random(seed).randbytes(BLOCK_BYTES)
        for at in range(0, length, BLOCK_BYTES):
            ctypes.memmove(self.address + at, block, min(BLOCK_BYTES, length - at))

    def checksum(self, length: int) -> int:
        """CRC-32 of the first `length` bytes."""
        crc = 0
        for at in range(0, length, STEP_BYTES):
            crc = zlib.crc32(memoryview(self._map)[at : at + min(STEP_BYTES, length - at)], crc)
        return crc
