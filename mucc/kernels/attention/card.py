"""The lines of the reference card about schedules of attention."""

from __future__ import annotations

CARD = """\
* attention: tile = queries x keys x width; mainloop = pingpong, cooperative; stages = n;
  scheduler = split_k(n)
"""
