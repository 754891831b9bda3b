"""Freed blocks of memory go back to the system."""

import platform
import sys

import pytest

from helpers.running import run

# a first block is freed, and then more than one between two that stay
SCRIPT = """
import ctypes, resource, sys
from tupe_fairseq.prediction.freed_memory import return_freed_blocks
if sys.argv[1] == "returned":
    assert return_freed_blocks()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def block(mib):
    place = libc.malloc(mib << 20)
    ctypes.memset(place, 1, mib << 20)
    return place
libc.free(block(24))
for _ in range(8):
    blocks = [block(16) for _ in range(4)]
    stays = libc.malloc(64 << 10)
    for one in blocks:
        libc.free(one)
pages = int(open("/proc/self/statm").read().split()[1])
print(pages * resource.getpagesize() >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_it_is_the_systems_again():
    kept, returned = (
        int(run(sys.executable, "-c", SCRIPT, how).stdout) for how in ("", "returned")
    )
    assert returned < kept - 40
