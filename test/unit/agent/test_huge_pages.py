"""Memory of the process that forks others lies in huge pages, which forks copy faster."""

from __future__ import annotations

from mucc.agent.isolation.huge_pages import HUGE, HugePages, pieces

MAPS = [
    "00400000-00a00000 r-xp 00000000 08:01 77 /usr/bin/python\n",
    "00e00000-01500000 rw-p 00000000 00:00 0 [heap]\n",
    "7f0000100000-7f0000700000 rw-p 00000000 00:00 0 \n",
    "7f0000800000-7f0000a00000 rw-p 00001000 08:01 78 /usr/lib/libc.so.6\n",
    "7f0000c00000-7f0000e00000 rw-s 00000000 00:01 9 /memfd:room (deleted)\n",
    "7ffd00000000-7ffd00400000 rw-p 00000000 00:00 0 [stack]\n",
]


def test_pieces_are_whole_pages_of_private_memory():
    assert pieces(MAPS) == [0xE00000, 0x1000000, 0x1200000, 0x7F0000200000, 0x7F0000400000]


def test_memory_keeps_its_contents_in_huge_pages():
    held = bytearray(3 * HUGE)
    held[::4096] = b"x" * len(held[::4096])
    pages = HugePages()
    done = 0
    while more := pages.collapse(64):
        done += more
    assert done >= 2 and pages.collapse(1) == 0
    assert held[::4096] == b"x" * len(held[::4096]) and held.count(0) == len(held) - len(held[::4096])
