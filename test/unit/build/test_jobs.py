"""Jobs as values, and running one: results, errors, and that nothing is left behind."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import HANG, gone, lives, wait_for

from mucc.build import jobs
from mucc.build.jobs import Cancelled, Job, Kind, Result, run
from mucc.diagnostics import DiagnosticError
from mucc.diagnostics.core import Diagnostic

ROOT = Path(__file__).parents[3]
TOOLS = {"sh": "/bin/sh", "python": sys.executable}


def shell(script: str, **options: object) -> Job:
    """A job that is a shell script."""
    options = {"kind": Kind.LINK, **options}
    return Job("gelu.mcu", "link", command=("{sh}", "-c", script), **options)  # pyright: ignore


def failure(job: Job, **tools: str) -> Diagnostic:
    """The diagnostic of a job that fails."""
    with pytest.raises(DiagnosticError) as error:
        jobs.check(job, run(job, {**TOOLS, **tools}), {**TOOLS, **tools})
    (diagnostic,) = error.value.diagnostics
    return diagnostic


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    monkeypatch.setattr(jobs.tempfile, "tempdir", str(folder))
    return folder


# Values

names = st.text("abcdefghij._", min_size=1, max_size=8).filter(lambda n: n != "..")
contents = st.dictionaries(names, st.binary(max_size=40), max_size=3)
some_jobs = st.builds(
    Job,
    program=st.text(max_size=8),
    stage=st.text(max_size=8),
    kind=st.sampled_from(Kind),
    command=st.lists(st.text(max_size=8), min_size=1, max_size=4).map(tuple),
    inputs=contents,
    outputs=st.lists(names, max_size=3).map(tuple),
    timeout=st.none() | st.floats(0.1, 1e6),
)


@given(some_jobs)
def test_jobs_travel(job: Job):
    assert Job.from_json(job.to_json()) == job
    assert pickle.loads(pickle.dumps(job)) == job


@given(contents, st.text(), st.integers(-64, 255), st.floats(0, 1e6), st.integers(0, 1 << 40))
def test_results_travel(files: dict[str, bytes], log: str, status: int, seconds: float, peak: int):
    result = Result(files, log, status, seconds, peak)
    assert Result.from_json(result.to_json()) == result
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", ""])
def test_files_lie_in_the_folder(name: str):
    with pytest.raises(ValueError, match="folder"):
        shell("true", inputs={name: b""})
    with pytest.raises(ValueError, match="folder"):
        shell("true", outputs=(name,))


def test_a_job_needs_a_command():
    with pytest.raises(ValueError, match="command"):
        Job("p", "s", Kind.LINK, ())


def test_every_kind_has_a_measured_peak():
    assert set(jobs.PEAK_BYTES) == set(Kind)


def test_placeholders():
    job = Job("p", "s", Kind.LINK, ("{cxx}", "-I{cutlass}/include", "-DX={}", "-DY={ a }", "{1}", "a{cuda}b"))
    # What comes in from a path is not looked at again.
    tools = {"cxx": "/usr/bin/g++", "cutlass": "/opt/{cuda}", "cuda": "C"}
    assert jobs.resolve(job, tools) == [
        "/usr/bin/g++",
        "-I/opt/{cuda}/include",
        "-DX={}",
        "-DY={ a }",
        "{1}",
        "aCb",
    ]


@pytest.mark.parametrize("tools", [{}, {"ptxas": ""}])
def test_a_tool_that_this_machine_lacks(tools: dict[str, str]):
    with pytest.raises(DiagnosticError) as error:
        run(Job("gelu.mcu", "machine code", Kind.PTXAS, ("{ptxas}",)), tools)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "MU5104" and "needs ptxas" in diagnostic.message
    assert diagnostic.notes[-1] == "while building gelu.mcu: machine code"


# Running

COPY = "cat a sub/b > out; pwd > where; echo said; echo complained >&2; echo $TMPDIR $LC_ALL"


def test_files_go_in_and_come_out(temporary: Path):
    result = run(
        shell(COPY, inputs={"a": b"\x00one ", "sub/b": b"two"}, outputs=("out", "where")),
        TOOLS,
    )
    assert result.status == 0 and result.files["out"] == b"\x00one two"
    folder = result.files["where"].decode().strip()
    assert Path(folder).parent == temporary and not Path(folder).exists()
    assert result.log == f"said\ncomplained\n{folder} C\n"
    assert result.seconds > 0


def test_no_input_from_the_terminal():
    assert run(shell("cat; echo end"), TOOLS).log == "end\n"


def test_a_kept_folder(tmp_path: Path):
    keep = tmp_path / "kept" / "here"
    result = run(shell("cp a out", inputs={"a": b"1"}, outputs=("out",)), TOOLS, keep=str(keep))
    assert result.files == {"out": b"1"} and sorted(os.listdir(keep)) == ["a", "out"]


def test_a_failed_job_is_a_result(temporary: Path):
    result = run(shell("echo half > out; echo why; exit 3", outputs=("out", "never")), TOOLS)
    assert (result.status, result.log, result.files) == (3, "why\n", {"out": b"half\n"})
    assert os.listdir(temporary) == []


def test_success_without_an_output():
    diagnostic = failure(shell("true", outputs=("kernel.so",)))
    assert diagnostic.code == "MU5104" and "sh reported success but made no kernel.so" in diagnostic.message


def test_a_log_is_as_long_as_it_is_and_any_bytes():
    result = run(shell(r"printf '\377'; yes | head -c 3000000"), TOOLS)
    assert len(result.log) == 3_000_001 and result.log[0] == "�"


def test_the_peak_of_a_grandchild():
    # It stays at its peak for a while, and runs again should that fall between two looks on a busy machine.
    script = "{python} -c 'import time; b = b\"x\" * 400_000_000; time.sleep(0.5)'; true"
    peaks = (run(shell(script), TOOLS).peak_bytes for _ in range(20))
    assert 400_000_000 < next((peak for peak in peaks if peak > 300_000_000), 0) < 600_000_000


def test_our_own_size_is_not_taken_for_a_childs():
    """Linux gives a new process the peak of its parent for a start."""
    program = """
    from mucc.build.jobs import Job, Kind, run
    ours = b"x" * 300_000_000
    assert run(Job("p", "s", Kind.LINK, ("true",)), {}).peak_bytes < 100_000_000
    slow = 0
    for _ in range(20):  # it may end between two looks on a busy machine
        slow = slow or run(Job("p", "s", Kind.LINK, ("sh", "-c", "sleep 0.3; sleep 0.3")), {}).peak_bytes
    assert 0 < slow < 100_000_000, slow
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, check=True, timeout=HANG)


def test_the_log_does_not_wait_for_a_child_left_behind(tmp_path: Path):
    script = "(sleep 600; touch {0}/ended) & echo $! > {0}/pid; echo done"
    result = run(shell(script.format(tmp_path)), TOOLS)
    assert result.log == "done\n" and not (tmp_path / "ended").exists()
    assert gone(int((tmp_path / "pid").read_text()))


# Failures

SAID = {
    "k.cpp:1:1: error: expected ';'": ("MU5110", "g++ rejected the C++ that mucc generated"),
    "": ("MU5104", "cannot build the kernel"),
    "/usr/bin/ld: cannot find crt1.o: No such file": ("MU5104", "cannot build the kernel"),
    "g++: error: unrecognized command-line option '-std=c++17'": ("MU5104", "cannot build the kernel"),
    "as: x.o: No space left on device": ("MU5107", "g++ could not write"),
    "g++: fatal error: Killed signal terminated program cc1plus": ("MU5106", "g++ ran out of memory"),
    "g++: internal compiler error: Segmentation fault signal terminated program cc1plus": (
        "MU5111",
        "cc1plus crashed (Segmentation fault)",
    ),
    "k.cpp:9:2: internal compiler error: in foo, at bar.cc:1": (
        "MU5111",
        "g++ crashed (in foo, at bar.cc:1)",
    ),
    "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)": (
        "MU5111",
        "cicc crashed (SIGSEGV)",
    ),
}


@pytest.mark.parametrize("said", SAID)
def test_what_failed_is_named(said: str, tmp_path: Path):
    tool = tmp_path / "g++"
    tool.write_text(f"#!/bin/sh\ncat <<'EOF' >&2\n{said}\nEOF\nexit 1\n")
    tool.chmod(0o755)
    job = Job("gelu.mcu", "host code of stage out", Kind.HOST, ("{cxx}",))
    diagnostic = failure(job, cxx=str(tool))
    code, message = SAID[said]
    assert diagnostic.code == code and message in diagnostic.message
    assert diagnostic.notes[-1] == "while building gelu.mcu: host code of stage out"


def test_what_ptxas_and_the_linker_reject():
    assert "sh rejected the PTX that mucc made" in failure(shell("echo no; exit 1", kind=Kind.PTXAS)).message
    assert "sh rejected the objects that mucc made" in failure(shell("echo no; exit 1")).message
    silent = failure(shell("exit 3"))
    assert silent.notes[0] == "sh ended with status 3 and no message" and "`sh --version`" in silent.helps[0]
    old = failure(shell("echo \"ptxas fatal : Unsupported .version 9.0; current version is '8.8'\"; exit 1"))
    assert old.code == "MU5104" and "9.0" in old.notes[0]


@pytest.mark.parametrize("script", ["kill -SEGV $$", "sh -c 'kill -SEGV $$'; exit $?"])
def test_a_tool_that_crashes(script: str):
    diagnostic = failure(shell(script, kind=Kind.PTXAS))
    assert diagnostic.code == "MU5111" and diagnostic.message == "sh crashed (SIGSEGV)"


def test_a_tool_that_the_system_kills():
    diagnostic = failure(shell("kill -KILL $$", kind=Kind.HOST))
    assert diagnostic.code == "MU5106" and "about 0.5 GB" in diagnostic.notes[0]


def test_a_program_that_is_not_there(tmp_path: Path):
    for text, mode in (None, 0), ("#!/bin/sh\n", 0o644), ("\x7fELF nonsense", 0o755), ("#!/nope\n", 0o755):
        if text is not None:
            (tmp_path / "tool").write_text(text)
            (tmp_path / "tool").chmod(mode)
        diagnostic = failure(
            Job("p.mcu", "s", Kind.PTXAS, ("{ptxas}",), {"a": b""}), ptxas=str(tmp_path / "tool")
        )
        assert diagnostic.code == "MU5104" and f"cannot run {tmp_path}/tool: " in diagnostic.message
        assert diagnostic.notes[-1] == "while building p.mcu: s"


def test_no_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs.tempfile, "tempdir", "/proc/nowhere")
    diagnostic = failure(shell("true"))
    assert diagnostic.code == "MU5107" and "TMPDIR" in diagnostic.helps[0]


def test_a_file_that_cannot_be_written(temporary: Path):
    diagnostic = failure(shell("true", inputs={"x" * 300: b""}))
    assert diagnostic.code == "MU5107" and os.listdir(temporary) == []


def test_a_kept_log(tmp_path: Path):
    job = shell("echo said")
    jobs.save_log(str(tmp_path / "link.log"), job, run(job, TOOLS), TOOLS)
    assert (tmp_path / "link.log").read_text() == "/bin/sh -c echo said\nsaid\n"
    with pytest.raises(DiagnosticError, match="MU5107"):
        jobs.save_log("/proc/nowhere/x", job, run(job, TOOLS), TOOLS)


# Ends

FAMILY = "sleep 600 & echo $! > {0}/new; mv {0}/new {0}/child; wait $! && touch {0}/ended"
"""A script whose child sleeps; it leaves `ended` where nobody stops the two."""


def child(tmp_path: Path) -> int:
    """The number of the sleeping grandchild, once it is there."""
    wait_for((tmp_path / "child").exists)
    return int((tmp_path / "child").read_text())


@pytest.fixture(params=["pidfd", "polling"])
def waiting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to wait for a process."""

    def forbidden(pid: int) -> int:
        raise PermissionError

    if request.param == "polling":
        monkeypatch.setattr(os, "pidfd_open", forbidden)


@pytest.mark.usefixtures("waiting")
def test_both_ways_to_wait(temporary: Path):
    result = run(shell("echo a; exit 7"), TOOLS)
    assert (result.status, result.log) == (7, "a\n")


@pytest.mark.usefixtures("waiting")
def test_a_timeout(temporary: Path, tmp_path: Path):
    diagnostic = failure(shell(FAMILY.format(tmp_path), timeout=0.3))
    assert diagnostic.code == "MU5108" and diagnostic.message == "sh did not end within 0.3 s and was stopped"
    assert diagnostic.notes == ("while building gelu.mcu: link",)
    assert not (tmp_path / "ended").exists()
    assert not (tmp_path / "child").exists() or gone(child(tmp_path))
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("thread", [False, True], ids=["main", "thread"])
@pytest.mark.usefixtures("waiting")
def test_cancellation(temporary: Path, tmp_path: Path, thread: bool):
    event = threading.Event()
    caught: list[BaseException] = []

    def work() -> None:
        try:
            run(shell(FAMILY.format(tmp_path)), TOOLS, cancelled=event)
        except BaseException as error:
            caught.append(error)

    def call_off() -> None:
        child(tmp_path)
        event.set()

    first, second = (work, call_off) if thread else (call_off, work)
    other = threading.Thread(target=first)
    other.start()
    second()
    other.join()
    assert isinstance(caught[0], Cancelled) and "gelu.mcu: link" in str(caught[0])
    assert not (tmp_path / "ended").exists()
    assert gone(child(tmp_path)) and os.listdir(temporary) == []


def test_what_is_called_off_before_it_begins(tmp_path: Path):
    event = threading.Event()
    event.set()
    with pytest.raises(Cancelled):
        run(shell(f"touch {tmp_path}/ran"), TOOLS, cancelled=event)
    assert not (tmp_path / "ran").exists()


PROGRAM = """
import pathlib, sys
from mucc.build.jobs import Job, Kind, run
from mucc.process import reaper

def watch(group, tell=reaper.watch):
    tell(group)
    pathlib.Path(sys.argv[2]).touch()

reaper.watch = watch
try:
    run(Job("p", "s", Kind.LINK, ("sh", "-c", sys.argv[1])), {})
except KeyboardInterrupt:
    sys.exit(9)
"""


def interrupted(tmp_path: Path, temporary: Path, number: signal.Signals) -> int:
    """Send a signal to a process that runs a family, outside its folder; its status.

    The guard has been told of the family by then: before, it knows processes by their folder only.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, f"cd /; {FAMILY.format(tmp_path)}", str(tmp_path / "told")],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    child(tmp_path)
    wait_for((tmp_path / "told").exists)
    assert len(os.listdir(temporary)) == 1
    process.send_signal(number)
    return process.wait(HANG)


def test_ctrl_c(tmp_path: Path, temporary: Path):
    assert interrupted(tmp_path, temporary, signal.SIGINT) == 9
    assert gone(child(tmp_path)) and os.listdir(temporary) == []


def test_kill_9(tmp_path: Path, temporary: Path):
    """Nothing in the process can act, so the guard does."""
    assert interrupted(tmp_path, temporary, signal.SIGKILL) == -signal.SIGKILL
    assert gone(child(tmp_path))
    wait_for(lambda: os.listdir(temporary) == [])


def test_the_reaper_is_told_while_the_number_is_still_ours(monkeypatch: pytest.MonkeyPatch):
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(jobs.reaper, "watch", lambda group: told.append(("watch", group)))

    def forget(group: int) -> None:
        os.kill(group, 0)  # not yet waited for
        told.append(("forget", group))

    monkeypatch.setattr(jobs.reaper, "forget", forget)
    pid = int(run(shell("echo $$"), TOOLS).log)
    assert told == [("watch", pid), ("forget", pid)]


def guarded(program: str, *arguments: str) -> list[int]:
    """Run a program that leaves processes to the guard; the numbers that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=HANG,
    )
    return [int(word) for word in done.stdout.split()]


def test_the_reaper_forgets_what_has_ended():
    """A number may belong to somebody else by then."""
    program = """
    import os, subprocess
    from mucc.process import reaper
    mine, other = (
        subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True) for _ in range(2)
    )
    reaper.watch(mine.pid)
    reaper.watch(other.pid)
    reaper.forget(mine.pid)
    print(mine.pid, other.pid, flush=True)
    os._exit(0)
    """
    kept, killed = guarded(program)
    try:
        assert gone(killed) and lives(kept)
    finally:
        os.kill(kept, signal.SIGKILL)


def test_the_reaper_knows_processes_by_their_folder(tmp_path: Path):
    """A process that was started a moment ago has not been announced."""
    program = """
    import os, subprocess, sys
    from mucc.process import reaper
    with reaper.temporary_folder(sys.argv[1]) as left:
        pass
    with reaper.temporary_folder(sys.argv[1]) as folder:
        os.mkdir(folder + "/sub")
        os.mkdir(left)
        sleeps = [
            subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, cwd=cwd) for cwd in (folder, left)
        ]
        print(*(s.pid for s in sleeps), flush=True)
        os._exit(0)
    """
    parent = tmp_path / "a b"
    parent.mkdir()
    killed, kept = guarded(program, str(parent))
    try:
        assert gone(killed) and lives(kept)
        wait_for(lambda: len(os.listdir(parent)) == 1)  # that which the reaper knows nothing of any more
    finally:
        os.kill(kept, signal.SIGKILL)


def test_a_reaper_that_is_gone_is_replaced():
    program = """
    import os, signal, subprocess
    from mucc.process import reaper
    reaper.watch(999999999)
    (first,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, start_new_session=True)
    reaper.watch(child.pid)
    print(child.pid, flush=True)
    os._exit(0)
    """
    (child,) = guarded(program)
    assert gone(child)
