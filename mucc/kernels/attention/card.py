"""What the reference card says of the schedules of attention."""

from __future__ import annotations

CARD = """\
* attention: tile = queries x keys x width; mainloop = pingpong, cooperative; stages = n;
  scheduler = split_k(n)
"""
