"""What confined code cannot do, for the layers together and for each alone."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from confinement import MIB, QUOTA, confined, needs, refused

from mucc.process.sandbox import layers as layers_module
from mucc.process.sandbox import seccomp
from mucc.process.sandbox.modes import GUARDS, Layer
from mucc.process.sandbox.places import places

SETS = {
    "all": GUARDS,
    "namespaces": (Layer.NAMESPACES,),
    "without namespaces": (Layer.LANDLOCK, Layer.SECCOMP),
}
"""Layers that are to refuse all attacks, also where those above are missing."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a confined process; `home` beside it is the user's, with a key in it."""
    home = tmp_path / "home"
    (home / ".config").mkdir(parents=True)
    (home / ".config" / "key").write_text("secret")
    monkeypatch.setenv("HOME", str(home))
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture(params=SETS)
def layers(request: pytest.FixtureRequest) -> Sequence[Layer]:
    needs(SETS[request.param])
    return SETS[request.param]


def test_no_file_of_home_is_read(folder: Path, layers: Sequence[Layer]) -> None:
    key = folder.parent / "home" / ".config" / "key"
    assert refused(confined(places(str(folder), QUOTA), layers, key.read_text))
    through = folder / "link"
    through.symlink_to(key)
    assert refused(confined(places(str(folder), QUOTA), layers, through.read_text))


def test_what_is_named_is_read(folder: Path, layers: Sequence[Layer]) -> None:
    solution = folder.parent / "home" / "solution.py"
    solution.write_text("print()")
    place = places(str(folder), QUOTA, [str(solution)])
    assert confined(place, layers, solution.read_text) == "print()"
    assert refused(confined(place, layers, (folder.parent / "home" / ".config" / "key").read_text))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_no_network_is_reached(folder: Path, layers: Sequence[Layer], kind: socket.SocketKind) -> None:
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            server.listen()
        address = server.getsockname()

        def attack() -> str:
            with socket.socket(socket.AF_INET, kind) as made:
                made.connect(address)
                made.send(b"secret")
            return "sent"

        assert refused(confined(places(str(folder), QUOTA), layers, attack))


def test_no_other_process_gets_a_signal(folder: Path, layers: Sequence[Layer]) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        said = confined(places(str(folder), QUOTA), layers, lambda: os.kill(other.pid, signal.SIGTERM))
        assert refused(said) and other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_no_environment_or_memory_of_another_process_is_read(folder: Path, layers: Sequence[Layer]) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env={**os.environ, "MUCC_TEST_API_KEY": "secret"},
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout
        other.stdout.readline()
        for name in ("environ", "mem", "root/etc/passwd"):
            path = Path(f"/proc/{other.pid}/{name}")
            said = confined(places(str(folder), QUOTA), layers, lambda p=path: p.open("rb").read(9).hex())
            assert refused(said), (name, said)
    finally:
        other.kill()
        other.wait()


def test_nothing_is_written_outside_of_the_folder(folder: Path, layers: Sequence[Layer]) -> None:
    for path in (folder.parent / "outside", folder.parent / "home" / ".profile", Path("/etc/mucc-test")):
        said = confined(places(str(folder), QUOTA), layers, lambda p=path: p.write_bytes(bytes(100 * MIB)))
        # In namespaces /tmp is in memory that goes with the process.
        assert refused(said) or (Layer.NAMESPACES in layers and path.is_relative_to("/tmp")), (path, said)
        assert not path.exists()


def test_the_folder_has_a_quota(folder: Path) -> None:
    needs((Layer.NAMESPACES,))

    def attack() -> int:
        for n in range(100):
            (folder / str(n)).write_bytes(bytes(MIB))
        return 100

    said = confined(places(str(folder), QUOTA), (Layer.NAMESPACES,), attack)
    assert "No space left" in said and os.listdir(folder) == []


def test_folders_of_scratch_files_are_private(folder: Path) -> None:
    needs((Layer.NAMESPACES,))
    found = Path("/tmp/mucc-test-scratch")
    place = places(str(folder), QUOTA)
    assert confined(place, (Layer.NAMESPACES,), lambda: found.write_text("scratch")) == 7
    assert not found.exists()


def test_the_process_may_work(folder: Path, layers: Sequence[Layer]) -> None:
    """Programs, pipes, threads, local sockets, devices and files of its own: what honest code needs."""

    def work() -> list[object]:
        import threading

        done: list[object] = []
        thread = threading.Thread(target=lambda: done.append("thread"))
        thread.start()
        thread.join()
        (folder / "file").write_text("file")
        done.append((folder / "file").read_text())
        done.append(
            subprocess.run(["sh", "-c", "echo program"], capture_output=True, check=True).stdout.decode()
        )
        one, two = socket.socketpair()
        one.send(b"local")
        done.append(two.recv(9).decode())
        Path("/dev/null").write_text("nothing")
        done.append(os.path.exists("/proc/self/status"))
        return done

    said = confined(places(str(folder), QUOTA), layers, work)
    assert said == ["thread", "file", "program\n", "local", True]


CALLS = {
    "userfaultfd": (0,),
    "unshare": (0x10000000,),
    "perf_event_open": (0, 0, -1, -1, 0),
    "bpf": (0, 0, 0),
    "prlimit64": (1, 7, 0, 0),
    "setpriority": (2, 0, 19),
    "clock_adjtime": (0, 0),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_change_the_system_are_refused(folder: Path, name: str) -> None:
    needs((Layer.SECCOMP,))
    import errno
    import platform

    number = seccomp.NAMES[platform.machine()][name]

    def attack() -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall(number, *CALLS[name])
        return ctypes.get_errno()

    assert confined(places(str(folder), QUOTA), (Layer.SECCOMP,), attack) == errno.EPERM


def test_no_namespaces_are_made_by_clone(folder: Path) -> None:
    needs((Layer.SECCOMP,))
    import errno
    import platform

    number = seccomp.NAMES[platform.machine()]["clone"]

    def attack() -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(number, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)
        return ctypes.get_errno()

    assert confined(places(str(folder), QUOTA), (Layer.SECCOMP,), attack) == errno.EPERM


def test_a_layer_in_which_the_driver_fails_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs((Layer.NAMESPACES, Layer.SECCOMP))
    found = [Layer.NAMESPACES, Layer.SECCOMP]

    def use_gpu() -> None:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()

    with_gpu = layers_module._with_gpu  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(layers_module, "use_gpu", use_gpu)
    assert with_gpu(found, str(folder)) == [Layer.NAMESPACES]
    monkeypatch.setattr(layers_module, "use_gpu", lambda: None)
    assert with_gpu(found, str(folder)) == found
    monkeypatch.setattr(layers_module, "use_gpu", lambda: 1 / 0)
    assert with_gpu(found, str(folder)) == []


@pytest.mark.parametrize("machine", seccomp.NAMES)
def test_a_filter_skips_forwards_and_ends(machine: str) -> None:
    found = seccomp.program(machine)
    assert found is not None and len(found) < 256
    for at, (code, yes, no, _) in enumerate(found):
        assert code in (seccomp.LOAD, seccomp.RETURN, seccomp.EQUAL, seccomp.ABOVE, seccomp.ANY)
        assert at + 1 + max(yes, no) < len(found) or code == seccomp.RETURN
    assert found[-1][0] == seccomp.RETURN


def test_unknown_machines_have_no_filter() -> None:
    assert seccomp.program("vax") is None


def test_programs_in_home_are_kept_but_not_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    tools = home / "venv" / "bin"
    tools.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tools}:{home}:/usr/bin")
    place = places(str(tmp_path / "folder"), QUOTA)
    assert str(tools) in place.kept and str(home) not in place.kept
    assert not any(str(home).startswith(f"{kept}/") for kept in place.kept)
