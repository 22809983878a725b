"""Each attack under each layer alone: which layer stops what, as the table of docs/audit.md says."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confinement import AVAILABLE, MIB, QUOTA, confined, needs, refused
from processes import wait_for

from mucc.process.sandbox import landlock, seccomp
from mucc.process.sandbox.layers import DESCRIPTORS
from mucc.process.sandbox.modes import Layer
from mucc.process.sandbox.namespaces import FILES
from mucc.process.sandbox.places import places
from mucc.torch.importer.limits import limit_process

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"

KEY = b"secret-of-a-model-4711"

OTHER = """
import ctypes, os, sys, time
held = ctypes.create_string_buffer(os.environb[b"MUCC_TEST_API_KEY"])
print(ctypes.addressof(held), flush=True)
time.sleep(600)
"""


class Scene:
    """What is attacked: the user's home, another process with a key, and a server."""

    def __init__(self, folder: Path):
        self.folder = folder / "folder"
        self.folder.mkdir()
        self.key = folder / "home" / ".config" / "key"
        self.key.parent.mkdir(parents=True)
        self.key.write_bytes(KEY)
        self.outside = folder / "home" / "outside"
        self.other = subprocess.Popen(
            [sys.executable, "-c", OTHER],
            stdout=subprocess.PIPE,
            env={**os.environ, "MUCC_TEST_API_KEY": KEY.decode()},
        )
        assert self.other.stdout
        self.place = int(self.other.stdout.readline())
        self.servers: list[socket.socket] = []
        self.terminals: list[int] = []

    def server(self, family: int, kind: int, address: Any) -> Any:
        made = socket.socket(family, kind)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen()
        self.servers.append(made)
        return made.getsockname()

    def terminal(self) -> str:
        self.terminals += os.openpty()
        return os.ttyname(self.terminals[-1])

    def close(self) -> None:
        for server in self.servers:
            name = server.getsockname()
            server.close()
            if isinstance(name, str) and name.startswith("/"):
                shutil.rmtree(os.path.dirname(name))
        for terminal in self.terminals:
            os.close(terminal)
        self.other.kill()
        self.other.wait()
        assert self.other.stdout
        self.other.stdout.close()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield made
    made.close()


def reads_home(scene: Scene) -> Callable[[], Any]:
    return lambda: scene.key.read_bytes().decode()


def writes_home(scene: Scene) -> Callable[[], Any]:
    return lambda: scene.outside.write_bytes(bytes(100 * MIB))


def fills_its_folder(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        for n in range(100):
            (scene.folder / str(n)).write_bytes(bytes(MIB))
        return 100

    return attack


def fills_one_file(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        limit_process(1 << 34, addresses=False, files=QUOTA)  # as processes of candidates do
        return (scene.folder / "large").write_bytes(bytes(100 * MIB))

    return attack


def allocates(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        limit_process(64 * MIB)
        try:
            return len(bytearray(1 << 30))
        except MemoryError as error:
            raise OSError("no memory") from error

    return attack


def connects(family: int, kind: int, address: Any) -> Callable[[Scene], Callable[[], Any]]:
    def prepared(scene: Scene) -> Callable[[], Any]:
        there = scene.server(family, kind, address)

        def attack() -> str:
            with socket.socket(family, kind) as made:
                made.settimeout(5)
                made.connect(there)
                made.send(b"secret")
            return "sent"

        return attack

    return prepared


def signals(scene: Scene) -> Callable[[], Any]:
    def attack() -> str:
        os.kill(scene.other.pid, signal.SIGCONT)
        return "sent"

    return attack


def reads_environment(scene: Scene) -> Callable[[], Any]:
    return lambda: str(KEY in Path(f"/proc/{scene.other.pid}/environ").read_bytes())


def reads_memory(scene: Scene) -> Callable[[], Any]:
    def attack() -> str:
        with open(f"/proc/{scene.other.pid}/mem", "rb", buffering=0) as file:
            file.seek(scene.place)
            return file.read(len(KEY)).decode()

    return attack


def copies_memory(scene: Scene) -> Callable[[], Any]:
    def attack() -> str:
        held = ctypes.create_string_buffer(len(KEY))

        class Piece(ctypes.Structure):
            _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))

        here, there = Piece(ctypes.addressof(held), len(KEY)), Piece(scene.place, len(KEY))
        called("process_vm_readv", scene.other.pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        return held.raw.decode()

    return attack


def writes_to_a_terminal(scene: Scene) -> Callable[[], Any]:
    name = scene.terminal()

    def attack() -> int:
        terminal = os.open(name, os.O_RDWR | os.O_NOCTTY)
        return os.write(terminal, b"typed")

    return attack


def called(name: str, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(seccomp.NAMES[platform.machine()][name], *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def faults_in_user_space(scene: Scene) -> Callable[[], Any]:
    return lambda: called("userfaultfd", 1)  # for faults of programs alone, which anybody may ask for


def takes_memory_of_system_v(scene: Scene) -> Callable[[], Any]:
    return lambda: called("shmget", 0, ctypes.c_size_t(MIB), 0o1600)  # private, made now


def takes_semaphores(scene: Scene) -> Callable[[], Any]:
    return lambda: called("semget", 0, 1, 0o1600)


def makes_a_queue(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        name = f"mucc-test-{os.getpid()}".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        found = called("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, None)
        libc.mq_unlink(b"/" + name)
        return found

    return attack


def has_a_socket_hold_much(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        one, _ = socket.socketpair()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB)
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    return attack


def sets_a_variable(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        place = Path("/proc/sys/vm/stat_interval")
        return place.write_text(place.read_text())  # what it is

    return attack


DEVICES_OF_ROOT = ("loop0", "tty1", "console", "kvm", "fuse", "sda", "nvme0n1")


def opens_a_device(scene: Scene) -> Callable[[], Any]:
    def attack() -> str:
        for name in DEVICES_OF_ROOT:
            with contextlib.suppress(OSError):
                os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
                return name
        raise OSError("there is none")

    return attack


def makes_empty_files(scene: Scene) -> Callable[[], Any]:
    def attack() -> int:
        for n in range(FILES + 1):
            os.close(os.open(scene.folder / str(n), os.O_CREAT | os.O_WRONLY))
        return FILES + 1

    return attack


def opens_files(scene: Scene) -> Callable[[], Any]:
    return lambda: len([os.open("/dev/null", os.O_RDONLY) for _ in range(DESCRIPTORS + 1)])


def speaks_to_a_service(scene: Scene) -> Callable[[], Any]:
    folder = tempfile.mkdtemp(prefix="mucc-", dir="/tmp")  # names of sockets are short
    return connects(socket.AF_UNIX, socket.SOCK_STREAM, f"{folder}/service")(scene)


def has_requests_completed(scene: Scene) -> Callable[[], Any]:
    return lambda: called("io_setup", 8, ctypes.byref(ctypes.c_ulong()))


def sets_limits_of_another(scene: Scene) -> Callable[[], Any]:
    return lambda: resource.prlimit(scene.other.pid, resource.RLIMIT_CORE)


def makes_namespaces(scene: Scene) -> Callable[[], Any]:
    return lambda: called("unshare", 0x10000000)


TCP = connects(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
UDP = connects(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
ABSTRACT = connects(socket.AF_UNIX, socket.SOCK_STREAM, f"\0mucc-test-{os.getpid()}")

N, L, S, R = Layer.NAMESPACES, Layer.LANDLOCK, Layer.SECCOMP, Layer.LIMITS

ATTACKS: dict[str, tuple[Callable[[Scene], Callable[[], Any]], frozenset[Layer]]] = {
    "reads a file of the user's home, such as a key": (reads_home, frozenset((N, L))),
    "writes 100 MB beneath the user's home": (writes_home, frozenset((N, L))),
    "writes 100 MB in files of its own folder": (fills_its_folder, frozenset((N,))),
    "writes 100 MB to one file": (fills_one_file, frozenset((N, R))),
    "allocates without end": (allocates, frozenset((R,))),
    "sends over TCP": (TCP, frozenset((N, L, S))),
    "sends over UDP": (UDP, frozenset((N, S))),
    "speaks to a service by an abstract socket": (ABSTRACT, frozenset((N, L, S))),
    "speaks to a service by a socket in a folder": (speaks_to_a_service, frozenset((N, S))),
    "signals another process": (signals, frozenset((N, L))),
    "reads the environment of another process": (reads_environment, frozenset((N, L))),
    "reads the memory of another process in /proc": (reads_memory, frozenset((N, L))),
    "copies memory of another process": (copies_memory, frozenset((N, L, S))),
    "writes to a terminal of the user": (writes_to_a_terminal, frozenset((N, L))),
    "has its page faults told to it": (faults_in_user_space, frozenset((S,))),
    "takes shared memory that stays when no process has it": (takes_memory_of_system_v, frozenset((S,))),
    "takes semaphores that stay when no process has them": (takes_semaphores, frozenset((S,))),
    "makes a queue of messages that stays": (makes_a_queue, frozenset((S,))),
    "has a socket hold megabytes": (has_a_socket_hold_much, frozenset((S,))),
    "has the kernel write to its memory by requests": (has_requests_completed, frozenset((S,))),
    "sets limits of another process": (sets_limits_of_another, frozenset((N, S))),
    "sets a variable of the kernel": (sets_a_variable, frozenset((N, L))),
    "opens a device of the machine": (opens_a_device, frozenset((N, L))),
    "makes empty files without end": (makes_empty_files, frozenset((N,))),
    "opens files without end": (opens_files, frozenset((R,))),
    "makes namespaces of its own": (makes_namespaces, frozenset((S,))),
}
"""Each with the layers that stop it alone."""

NEEDED = {"speaks to a service by an abstract socket": 6, "signals another process": 6, "sends over TCP": 4}
"""The version of Landlock that an attack is refused from."""

OUTLIVES = "outlives its audit"


def test_namespaces_have_terminals_of_their_own(scene: Scene) -> None:
    needs((Layer.NAMESPACES,))

    def opens() -> int:
        _, terminal = os.openpty()
        return os.write(terminal, b"typed")

    assert confined(places(str(scene.folder), QUOTA), (Layer.NAMESPACES,), opens) == 5


PROMISES = [
    pytest.param(name, layer, id=f"{name}-{layer.value}")
    for name, (_, stopping) in ATTACKS.items()
    for layer in Layer
    if layer in stopping
]


@pytest.mark.parametrize(("name", "layer"), PROMISES)
def test_a_layer_stops_alone_what_it_promises(scene: Scene, name: str, layer: Layer) -> None:
    attack, _ = ATTACKS[name]
    if layer is Layer.LANDLOCK and landlock.version() < NEEDED.get(name, 1):
        pytest.skip("this kernel's Landlock is older")
    needs((layer,))
    said = confined(places(str(scene.folder), QUOTA), (layer,), attack(scene))
    assert refused(said), said
    assert scene.other.poll() is None and not scene.outside.exists()


BOUNDED = ("allocates without end", "writes 100 MB to one file", "opens files without end")

SUCCEED = [name for name in ATTACKS if name not in BOUNDED]
"""Attacks that nothing but a layer stops: without one they work, so that the tests above can fail."""


REFUSED_BY_SOME = (
    "copies memory of another process",
    "has its page faults told to it",
    "makes namespaces of its own",
    "sets a variable of the kernel",  # who is not root
    "opens a device of the machine",
    "makes a queue of messages that stays",
    "has the kernel write to its memory by requests",
)
"""Those that a machine may refuse by itself."""


@pytest.mark.parametrize("name", SUCCEED)
def test_without_a_layer_it_works(scene: Scene, name: str) -> None:
    attack, _ = ATTACKS[name]
    said = confined(places(str(scene.folder), QUOTA), None, attack(scene))
    if refused(said) and name in REFUSED_BY_SOME:
        pytest.skip(f"this machine refuses it: {said}")
    assert not refused(said), said
    scene.outside.unlink(missing_ok=True)


def leaves_a_daemon(mark: Path) -> Callable[[], Any]:
    """Leave a process behind that writes a byte every 20 ms, until there is a file `.full` beside."""

    def attack() -> int:
        reading, writing = os.pipe()
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.environ.clear()
                for n in range(10_000):
                    if mark.with_suffix(".full").exists():
                        break
                    with mark.open("ab") as file:
                        file.write(b".")
                    if not n:
                        os.write(writing, b".")
                        os.closerange(3, 1 << 10)  # who started it waits for its descriptors
                    time.sleep(0.02)
            os._exit(0)
        os.read(reading, 1)
        return 1

    return attack


def test_nothing_outlives_namespaces(scene: Scene, tmp_path: Path) -> None:
    needs((Layer.NAMESPACES,))
    mark = tmp_path / "marks" / "alive"
    mark.parent.mkdir()
    place = places(str(scene.folder), QUOTA, writable=[str(mark.parent)])
    assert confined(place, (Layer.NAMESPACES,), leaves_a_daemon(mark)) == 1
    before = mark.stat().st_size
    time.sleep(0.15)
    assert before and mark.stat().st_size == before


def test_without_namespaces_a_daemon_lives(scene: Scene, tmp_path: Path) -> None:
    needs((Layer.SECCOMP,))
    mark = tmp_path / "alive"
    assert confined(places(str(scene.folder), QUOTA), (Layer.SECCOMP,), leaves_a_daemon(mark)) == 1
    before = mark.stat().st_size
    wait_for(lambda: mark.stat().st_size > before)
    mark.with_suffix(".full").touch()


def test_the_page_says_which_layer_stops_what() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    head = next(line for line in rows if line.startswith("| attack |"))
    assert re.findall(r"`(\w+)`", head) == [layer.value for layer in Layer]
    told = {
        cells[0]: {layer for layer, cell in zip(Layer, cells[1:], strict=True) if cell == "stops it"}
        for line in rows
        if (cells := [cell.strip() for cell in line.strip("|").split("|")])
        and cells[0] in (*ATTACKS, OUTLIVES)
    }
    expected = {name: set(stopping) for name, (_, stopping) in ATTACKS.items()}
    assert told == {**expected, OUTLIVES: {Layer.NAMESPACES}}


def test_each_layer_is_tried_where_this_machine_allows_it() -> None:
    assert {layer for _, stopping in ATTACKS.values() for layer in stopping} == set(Layer)
    assert Layer.LIMITS in AVAILABLE
