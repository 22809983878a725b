"""The process that others fork from, and what holds for those."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from processes import HANG, descendants, gone, lives, wait_for

from mucc.agent.isolation import process, server
from mucc.agent.isolation.call import Call
from mucc.agent.isolation.process import Child, ChildFailed
from mucc.agent.isolation.server import SHARED, SPARES
from mucc.agent.isolation.zygote import Zygote, ZygoteFailed
from mucc.diagnostics.core import DiagnosticError
from mucc.process.charge import Charge
from mucc.process.pausing import parent
from mucc.process.sandbox.modes import Isolation, Layer

SERVANT = """
import ctypes, gc, os, random, time

def serve(line):
    for request in line.requests():
        word = request["do"]
        if word == "random":
            line.say({"value": random.random()})
        elif word == "environment":
            found = {"names": sorted(os.environ), "folder": os.getcwd(), "temporary": os.environ["TMPDIR"]}
            line.say({**found, "collects": gc.isenabled()})
        elif word == "files":
            line.say({"open": sorted(map(int, os.listdir("/proc/self/fd")))})
        elif word == "write":
            libc = ctypes.CDLL(None)
            made = [libc.creat(name.encode(), 0o600) for name in ("inside", request["outside"])]
            line.say({"made": [fd >= 0 for fd in made]})
        elif word == "read":
            try:
                line.say({"text": open(request["path"]).read()})
            except OSError as error:
                line.say({"error": error.errno})
        elif word == "leave":
            if not os.fork():
                os.setsid()
                if not os.fork():
                    os.environ.clear()
                    time.sleep(600)
                os._exit(0)
            time.sleep(0.2)
            line.say({})
        elif word == "die":
            os.kill(os.getpid(), request["signal"])
        elif word == "abort":
            os.abort()
        elif word == "grow":
            kept = bytearray(1 << 30)
            time.sleep(600)
        elif word == "orphan":
            if not os.fork():
                if not os.fork():
                    kept = bytearray(b"." * (1 << 30))
                    time.sleep(600)
                os._exit(0)
            time.sleep(600)
        elif word == "hide":
            if not (child := os.fork()):
                os.setsid()
                if not (last := os.fork()):
                    time.sleep(600)
                with open("daemon", "w") as file:
                    file.write(str(last))
                os._exit(0)
            os.waitpid(child, 0)
            line.say({"pid": int(open("daemon").read())})
        elif word == "digits":
            line.say({"number": 10 ** 4000})
        elif word == "trickle":
            for _ in range(100_000):
                os.write(4, b" " * 100)
            line.say({})
        elif word == "fill":
            kept = [os.memfd_create("file") for _ in range(80)]
            for fd in kept:
                os.write(fd, bytes(10 << 20))
            time.sleep(600)
        elif word == "steer":
            line.say({"\\x1b[2K": ["\\x1b[2J", {"\\udcff": "one\\ntwo"}]})

def doubled(number):
    return 2 * number

def refuses():
    from mucc.diagnostics.core import Diagnostic, DiagnosticError
    raise DiagnosticError(Diagnostic("MU7010", "mlp.py has no Model"))

def breaks():
    return 1 / 0

def leaves():
    os._exit(3)

def hangs():
    time.sleep(600)

def spins():
    while True:
        pass
"""

MEMORY = 512 << 20

SECRETS = {
    "MUCC_TEST_API_KEY": "secret",
    "MUCC_TEST_PASSWD": "secret",
    "MUCC_TEST_URL": "https://user:secret@localhost/data",
}


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """One that has loaded nothing but `servant`."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "servant.py").write_text(SERVANT)
    sys.path.append(str(folder))
    for name, value in SECRETS.items():
        os.environ[name] = value
    with Zygote(("servant",)) as made:
        made.start()
        yield made
    sys.path.remove(str(folder))
    for name in SECRETS:
        del os.environ[name]


def test_children_share_nothing_that_matters(zygote: Zygote, tmp_path: Path):
    values: set[float] = set()
    for _ in range(2):
        with Child(zygote, "servant", str(tmp_path), HANG, MEMORY, {"MUCC_TEST_MORE": "1"}) as child:
            assert child.pid in child.kin() and os.getpid() not in child.kin()
            values.add(child.ask(do="random")["value"])
            found = child.ask(do="environment")
            assert "MUCC_TEST_MORE" in found["names"] and SECRETS.keys().isdisjoint(found["names"])
            assert found["folder"] == found["temporary"] == str(tmp_path)
            assert found["collects"]  # garbage, although the modules were loaded without
            assert len(child.ask(do="files")["open"]) == 6  # what it speaks on, and the folder it reads
    assert len(values) == 2


def confined(zygote: Zygote) -> tuple[Layer, ...]:
    """The layers of a zygote's children; the test is skipped where neither can guard files."""
    layers = zygote.layers()
    if not {Layer.NAMESPACES, Layer.LANDLOCK} & {*layers}:
        pytest.skip("this kernel has neither namespaces nor Landlock for us")
    return layers


def test_machine_code_writes_in_the_folder_only(zygote: Zygote, tmp_path: Path):
    confined(zygote)
    (tmp_path / "own").mkdir()
    with Child(zygote, "servant", str(tmp_path / "own"), HANG, MEMORY) as child:
        assert child.ask(do="write", outside=str(tmp_path / "outside"))["made"][0]
    assert sorted(os.listdir(tmp_path)) == ["own"]


def test_private_files_are_read_only_where_they_are_named(zygote: Zygote, tmp_path: Path):
    confined(zygote)
    (tmp_path / "own").mkdir()
    key, named = tmp_path / "key", tmp_path / "named.py"
    key.write_text("secret")
    named.write_text("print()")
    with Child(zygote, "servant", str(tmp_path / "own"), HANG, MEMORY, readable=[str(named)]) as child:
        assert child.ask(do="read", path=str(named)) == {"text": "print()"}
        assert child.ask(do="read", path=str(key)).keys() == {"error"}


def test_files_that_were_there_are_there_and_results_outlive_the_process(zygote: Zygote, tmp_path: Path):
    (tmp_path / "given").write_text("as given")
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child:
        folder = child.detach_folder()
        assert child.ask(do="read", path="given") == {"text": "as given"}
        child.ask(do="write", outside="")
    if folder is None:
        assert (tmp_path / "inside").exists()
        return
    assert not (tmp_path / "inside").exists()
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY, shared=folder) as child:
        assert child.ask(do="read", path=f"/proc/self/fd/{SHARED}/inside") == {"text": ""}
    os.close(folder)


def test_folders_that_may_be_written_are_the_machines(zygote: Zygote, tmp_path: Path):
    confined(zygote)
    for name in ("own", "cache"):
        (tmp_path / name).mkdir()
    cache = [str(tmp_path / "cache")]
    with Child(zygote, "servant", str(tmp_path / "own"), HANG, MEMORY, writable=cache) as child:
        assert child.ask(do="write", outside=str(tmp_path / "cache" / "made"))["made"] == [True, True]
    assert (tmp_path / "cache" / "made").exists()


def test_nobody_outlives_a_child(zygote: Zygote, tmp_path: Path):
    if Layer.NAMESPACES not in zygote.layers():
        pytest.skip("this machine does not allow namespaces")
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child:
        first = parent(child._pid)  # pyright: ignore[reportPrivateUsage]
        assert first is not None
        before = len(descendants(first))
        child.ask(do="leave")
        family = [first, *descendants(first)]
        assert len(family) == before + 2
    wait_for(lambda: not any(map(lives, family)))


def test_processes_that_wait_end_with_the_one_that_made_them(tmp_path: Path):
    with Zygote(("servant",)) as made:
        if Layer.NAMESPACES not in made.layers():
            pytest.skip("this machine does not allow namespaces")
        pid = made.start()._process.pid  # pyright: ignore[reportPrivateUsage]
        wait_for(lambda: len(descendants(pid)) == 2 * SPARES)  # each with the first of its namespaces
        waiting = descendants(pid)
        with Child(made, "servant", str(tmp_path), HANG, MEMORY) as child:
            assert child._pid in waiting  # pyright: ignore[reportPrivateUsage]
            used = {child._pid, parent(child._pid)}  # pyright: ignore[reportPrivateUsage]
            for pid in {*waiting} - used:
                with suppress(ProcessLookupError):  # it has ended with the first of its namespaces
                    os.kill(pid, signal.SIGKILL)
            with Child(made, "servant", str(tmp_path), HANG, MEMORY) as other:
                assert other._pid not in waiting  # pyright: ignore[reportPrivateUsage]
    wait_for(lambda: not any(map(lives, waiting)))


def test_who_asks_for_a_process_waits_for_nothing_that_is_made_ahead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "QUIET", 0.0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    done: list[int] = []

    def collapse(count: int) -> int:
        done.append(count)
        if len(done) == 2:
            ours.send(b"{}")
        return count

    with ours, theirs:
        made = server.Server(theirs, ())
        monkeypatch.setattr(made.pages, "collapse", collapse)
        made._pieces = 5  # pyright: ignore[reportPrivateUsage]
        made._wait()  # pyright: ignore[reportPrivateUsage]
        made._wait()  # pyright: ignore[reportPrivateUsage]
        assert done == [1, 1] and made._pieces == 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_signals_to_itself_end_a_child(zygote: Zygote, tmp_path: Path, number: int):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child, pytest.raises(ChildFailed) as caught:
        child.ask(do="die", signal=number)
    assert caught.value.status == -number


def test_an_abort_is_told_as_one(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child, pytest.raises(ChildFailed) as caught:
        child.ask(do="abort")
    assert caught.value.status == -signal.SIGABRT


def test_without_isolation_the_folder_is_the_machines(zygote: Zygote, tmp_path: Path):
    with (
        Zygote(("servant",), isolation=Isolation.NONE) as free,
        Child(free, "servant", str(tmp_path), HANG, MEMORY) as child,
    ):
        assert free.layers() == () and child.detach_folder() is None
        assert child.ask(do="write", outside=str(tmp_path / "outside"))["made"] == [True, True]
    assert sorted(os.listdir(tmp_path)) == ["inside", "outside"]


def test_required_isolation_names_what_is_missing(zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    with Zygote(("servant",), isolation=Isolation.REQUIRED) as strict:
        server = strict.start()
        missing = {Layer.LANDLOCK, Layer.SECCOMP, Layer.NAMESPACES} - {*server.layers()}
        if not missing:
            assert strict.layers() == server.layers()
        monkeypatch.setattr(server, "_layers", (Layer.LANDLOCK, Layer.LIMITS))
        with pytest.raises(DiagnosticError) as caught:
            strict.layers()
    found = caught.value.diagnostics[0]
    assert found.code == "MU7213" and "by namespaces, seccomp" in found.message


def test_memory_is_looked_at_while_an_answer_is_awaited(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child, pytest.raises(ChildFailed) as caught:
        child.ask(do="grow")
    assert caught.value.cause == "memory"


def test_memory_of_processes_whose_parents_have_ended_counts(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child, pytest.raises(ChildFailed) as caught:
        child.ask(do="orphan")
    assert caught.value.cause == "memory"


def test_without_isolation_a_daemon_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mucc.agent.isolation.process.end_strays", lambda *_: None)  # which it can hide from
    with (
        Zygote(("servant",), isolation=Isolation.NONE) as free,
        Child(free, "servant", str(tmp_path), HANG, MEMORY) as child,
    ):
        daemon = child.ask(do="hide")["pid"]
        assert lives(daemon) and daemon in child.helpers()
        child.close()
        assert gone(daemon)


def test_numbers_of_any_length_are_no_answer(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child, pytest.raises(ChildFailed) as caught:
        child.ask(do="digits")
    assert caught.value.cause == "answer"


def test_a_long_answer_in_small_pieces_takes_no_long_time(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child:
        started = time.process_time()
        assert child.ask(do="trickle") == {}
        assert time.process_time() - started < 20


def test_files_in_memory_are_memory(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child, pytest.raises(ChildFailed) as caught:
        child.ask(do="fill")
    assert caught.value.cause == "memory"


def test_answers_have_no_texts_that_steer_a_terminal(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), HANG, MEMORY) as child:
        assert child.ask(do="steer") == {"?[2K": ["?[2J", {"?": "one\ntwo"}]}


def called(zygote: Zygote, function: str, seconds: float = HANG, **arguments: Any) -> Call:
    return Call(zygote, function, "mlp.py", seconds=seconds, memory=MEMORY, **arguments)


def test_a_function_is_called_elsewhere(zygote: Zygote):
    calls = [called(zygote, "servant:doubled", number=n) for n in range(3)]
    assert [call.result() for call in calls] == [0, 2, 4]


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("servant:refuses", "MU7010", "mlp.py has no Model"),
        ("servant:breaks", "MU9001", "ZeroDivisionError"),
        ("servant:leaves", "MU7015", "the process that ran mlp.py ended with status 3"),
        ("servant:hangs", "MU7013", "mlp.py did not end within 0.3 s, 0"),
        ("servant:spins", "MU7013", "mlp.py did not end within 0.3 s"),
    ],
)
def test_what_a_called_function_does_is_an_error_of_its_problem(
    zygote: Zygote, function: str, code: str, words: str
):
    with pytest.raises(DiagnosticError) as caught:
        called(zygote, function, 0.3 if code == "MU7013" else HANG).result()
    found = caught.value.diagnostics[0]
    assert found.code == code and words in found.message


class Slow(Charge):
    """Of a machine on which others take nearly everything."""

    def add(self, pids: Sequence[int], beside: Sequence[int] = (), *, counts: bool = True) -> None:
        super().add(pids, beside, counts=False)
        self.seconds += 1e-3


def test_a_busy_machine_is_no_fault_of_the_problem(zygote: Zygote, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "Charge", Slow)
    with pytest.raises(DiagnosticError) as caught:
        called(zygote, "servant:hangs", 0.1).result()
    found = caught.value.diagnostics[0]
    assert found.code == "MU7214" and "1 s of which other work took" in found.message


def test_only_the_wait_for_an_answer_is_charged(zygote: Zygote, tmp_path: Path):
    with Child(zygote, "servant", str(tmp_path), 0.5, MEMORY) as child:
        child.tell({"do": "random"})
        time.sleep(1.0)
        child.answer()
        assert child.charged == 0.0


def test_what_cannot_be_loaded_is_told(tmp_path: Path):
    with Zygote(("no_such_module_of_anybody",)) as broken, pytest.raises(DiagnosticError) as caught:
        Child(broken, "servant", str(tmp_path), HANG, MEMORY)
    found = caught.value.diagnostics[0]
    assert found.code == "MU7212" and "No module named 'no_such_module_of_anybody'" in found.notes[0]
    with pytest.raises(ZygoteFailed):
        broken.start()


ALONE = """
import sys
from mucc.agent.isolation.call import Call
from mucc.agent.isolation.process import Child
from mucc.agent.isolation.zygote import Zygote
zygote = Zygote(("servant",))
child = Child(zygote, "servant", sys.argv[1], 100, 1 << 30)
print(child._pid, zygote.start()._process.pid, flush=True)
child.ask(do="nothing")
"""


def test_who_is_killed_leaves_no_process(zygote: Zygote, tmp_path: Path):
    path = os.pathsep.join(p for p in sys.path if p)
    owner = subprocess.Popen(
        [sys.executable, "-c", ALONE, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert owner.stdout
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 2 and all(Path(f"/proc/{pid}").exists() for pid in pids)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert all(gone(pid) for pid in pids)
