"""Memory that the judge owns and lends to the candidate's process: files in memory without a name.

The judge makes them, seals their sizes, and sends them over a socket that it shares with the candidate's
process. Imports torch.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import json
import mmap
import os
import socket
import time
from contextlib import suppress
from typing import Any, NamedTuple

from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

F_ADD_SEALS, SEALS = 1033, 0x1 | 0x2 | 0x4
"""Of fcntl: nobody may seal, shrink or grow the file any more. A file that shrinks would end who maps it."""

PACKET = 1 << 16
"""Bytes of the longest message."""


class Room(NamedTuple):
    """Shared memory as a flat tensor of bytes."""

    size: int
    memory: mmap.mmap
    data: Any

    @property
    def start(self) -> int:
        return int(self.data.data_ptr())


def _mapped(fd: int, size: int) -> Room:
    memory = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    data = torch.frombuffer(memory, dtype=torch.uint8)
    assert data.data_ptr() == address
    return Room(size, memory, data)


def make(size: int) -> tuple[Room, int]:
    """Make memory of this many bytes; return it, and a descriptor to send, for the caller to close."""
    size = max(size, mmap.PAGESIZE)
    fd = os.memfd_create("room", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
        return _mapped(fd, size), fd
    except BaseException:
        os.close(fd)
        raise


class Closed(OSError):
    """The other process has closed its connection."""


class Wire:
    """The socket between the judge and the candidate's process: short messages, and memory."""

    def __init__(self, fd: int):
        self.socket = socket.socket(fileno=fd)

    def lend(self, name: str, room: Room, fd: int) -> None:
        """Send memory under a name, and close its descriptor. Raises Closed."""
        told = json.dumps({"name": name, "size": room.size}).encode()
        try:
            socket.send_fds(self.socket, [told], [fd])
        except OSError as error:
            raise Closed(str(error)) from None
        finally:
            os.close(fd)

    def borrow(self) -> tuple[str, Room]:
        """Receive memory and its name."""
        _, lent = self.next()
        assert lent
        return lent

    def next(self) -> tuple[bytes, tuple[str, Room] | None]:
        """Receive a message, or memory and its name."""
        data, given, _, _ = socket.recv_fds(self.socket, PACKET, 1)
        if not given:
            return data, None
        try:
            told = json.loads(data)
            return data, (str(told["name"]), _mapped(given[0], int(told["size"])))
        finally:
            for fd in given:
                os.close(fd)

    def send(self, data: bytes) -> None:
        """Send bytes to the other process as one message."""
        self.socket.send(data)

    def peek(self) -> bytes:
        """Return what has come without taking it; raise BlockingIOError at once where there is nothing."""
        self.socket.settimeout(None)  # with a limit of time Python waits for that, whatever the flags say
        return self.socket.recv(PACKET, socket.MSG_PEEK | socket.MSG_DONTWAIT)

    def drain(self) -> None:
        """Take what has come and nobody waits for."""
        with suppress(BlockingIOError):
            while self.socket.recv(PACKET, socket.MSG_DONTWAIT):
                pass

    def awaited(self, seconds: float) -> bytes:
        """Return the next message, looking for it all the time at first: who sleeps takes long to wake up."""
        until, look = time.monotonic() + seconds, socket.MSG_DONTWAIT
        while time.monotonic() < until:
            try:
                return self.socket.recv(PACKET, look)
            except BlockingIOError:
                continue
        return self.receive()

    def receive(self, seconds: float | None = None) -> bytes:
        """Return the next message, empty when the other side has ended. Raises TimeoutError."""
        self.socket.settimeout(seconds)
        return self.socket.recv(PACKET)


def place(data: Any, said: Json) -> Any:
    """Return a tensor that lies in flat bytes, from what the judge says of it."""
    dtype = getattr(torch, said["dtype"])
    size = int(said["bytes"])
    inner = data[int(said["at"]) : int(said["at"]) + size].view(dtype)
    return torch.as_strided(inner, said["shape"], said["strides"], inner.storage_offset())
