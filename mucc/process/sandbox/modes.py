"""The layers that confine processes, and which of them are asked for."""

from __future__ import annotations

from enum import Enum


class Layer(Enum):
    """A way to confine a process, in the order of how much it does."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    LIMITS = "limits"

    @property
    def meaning(self) -> str:
        """What the layer promises, as the end of a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Layer.NAMESPACES: "that neither a network, nor other processes, nor private files are in sight",
    Layer.LANDLOCK: "that nothing is written outside of one folder, and no other process gets signals",
    Layer.SECCOMP: "that no sockets of a network are made, and nothing of the system is changed",
    Layer.LIMITS: "that memory, files and core dumps are bounded",
}


GUARDS = (Layer.NAMESPACES, Layer.LANDLOCK, Layer.SECCOMP)
"""Layers that guard files, processes and the network."""


class Isolation(Enum):
    """Which layers are asked of a machine: all that guard something, those that it allows, or none."""

    REQUIRED = "required"
    BEST = "best"
    NONE = "none"
