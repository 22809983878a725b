"""The build pool: what runs at once, in which order, and how it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_all
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import HANG, gone, wait_for

from mucc.build import jobs, pool
from mucc.build.jobs import PEAK_BYTES, Cancelled, Job, Kind, Result
from mucc.build.pool import MAX_PASSED, Outcome, Pool
from mucc.build.progress import Quiet
from mucc.diagnostics import DiagnosticError
from mucc.diagnostics.core import Diagnostic

ROOT = Path(__file__).parents[3]
TOOLS = {"sh": "/bin/sh"}
GB = 1_000_000_000


def shell(script: str, program: str = "gelu.mcu", kind: Kind = Kind.LINK) -> Job:
    return Job(program, "link", kind, ("{sh}", "-c", script))


def named(number: int, kind: Kind = Kind.LINK) -> Job:
    """A job for a runner that runs no process."""
    return Job(str(number), "stage", kind, ("x",))


def good(peak: int = 0, status: int = 0) -> Result:
    return Result({}, "", status, 0.0, peak)


class Fake:
    """Runs no process: notes what runs at once, and in which order it begins."""

    def __init__(self, peak: int = 0):
        self.peak = peak
        self.lock = threading.Lock()
        self.running: list[Job] = []
        self.order: list[Job] = []
        self.most = 0
        self.most_memory = 0
        self.alone: list[bool] = []
        self.gates: dict[str, threading.Event] = {}
        self.failing: set[str] = set()

    def hold(self, *programs: int) -> None:
        """Let these jobs run until they are let go."""
        self.gates.update((str(program), threading.Event()) for program in programs)

    def let_go(self, program: int) -> None:
        self.gates[str(program)].set()

    def runs(self, *programs: int) -> bool:
        with self.lock:
            return sorted(job.program for job in self.running) == sorted(map(str, programs))

    def __call__(
        self,
        job: Job,
        tools: Mapping[str, str],
        *,
        keep: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> Result:
        assert cancelled is not None
        with self.lock:
            self.running.append(job)
            self.order.append(job)
            memory = sum(PEAK_BYTES[j.kind] for j in self.running)
            self.most = max(self.most, len(self.running))
            if len(self.running) > 1:
                self.most_memory = max(self.most_memory, memory)
        try:
            gate = self.gates.get(job.program)
            while gate and not gate.wait(0.002):
                if cancelled.is_set():
                    raise Cancelled(job.place)
            if gate is None:
                time.sleep(0.0005)
        finally:
            with self.lock:
                self.running.remove(job)
        return good(self.peak, 1 if job.program in self.failing else 0)


# Bounds


@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(Kind), max_size=30),
    st.integers(1, 5),
    st.integers(50_000_000, 12 * GB),
)
def test_the_bounds_hold(kinds: list[Kind], cores: int, memory: int):
    fake = Fake()
    wanted = [named(i, kind) for i, kind in enumerate(kinds)]
    with Pool(cores, memory, runner=fake) as p:
        futures = [p.submit(job) for job in wanted]
        for future in futures:
            assert future.result(HANG).status == 0
    assert sorted(fake.order, key=lambda j: int(j.program)) == wanted
    assert fake.most <= cores
    # What is larger than the bound ran, but with nothing beside it.
    assert fake.most_memory <= memory


@settings(max_examples=examples(20))
@given(st.integers(1, 4), st.integers(1, 25))
def test_all_cores_are_used(cores: int, count: int):
    fake = Fake()
    fake.hold(*range(count))
    with Pool(cores, 100 * GB, runner=fake) as p:
        for i in range(count):
            p.submit(named(i))
        wait_for(lambda: len(fake.running) == min(cores, count))
        for i in range(count):
            fake.let_go(i)


def test_first_come_first_served():
    fake = Fake()
    with Pool(1, GB, runner=fake) as p:
        for i in range(20):
            p.submit(named(i))
    assert [job.program for job in fake.order] == [str(i) for i in range(20)]


def test_a_large_job_lets_some_pass_but_does_not_starve():
    fake = Fake()
    fake.hold(0)
    with Pool(2, 3 * GB, runner=fake) as p:
        p.submit(named(0))  # keeps the large one, which must be alone, from beginning
        wait_for(lambda: fake.runs(0))
        large = p.submit(named(1, Kind.DEVICE))
        small = [p.submit(named(i)) for i in range(2, 60)]
        wait_all(small[:MAX_PASSED], HANG)
        assert len(fake.order) == 1 + MAX_PASSED and not large.done()
        fake.let_go(0)
        large.result(HANG)
    assert [job.program for job in fake.order].index("1") == 1 + MAX_PASSED


def test_a_measured_peak_raises_the_estimate():
    fake = Fake(peak=2 * GB)
    with Pool(4, 3 * GB, runner=fake) as p:
        p.run(named(0))
        for i in range(1, 9):
            p.submit(named(i))
        assert p.submit(named(9, Kind.PTXAS)).result(HANG)
    assert fake.most <= 2  # a link beside the ptxas, never two links


def test_defaults_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool.machine, "cores", lambda: 7)
    for available, bound in ((4 * GB, 3.5 * GB), (64 * GB, 62 * GB), (None, sys.maxsize)):
        monkeypatch.setattr(pool.machine, "available_memory", lambda available=available: available)
        with Pool() as p:
            assert (p.cores, p.memory_bytes) == (7, bound)
    with pytest.raises(ValueError):
        Pool(0)


# Results


def test_real_jobs(tmp_path: Path):
    with Pool(2, GB, TOOLS) as p:
        job = Job("p", "a stage / two", Kind.LINK, ("{sh}", "{script}"), {"in": b"1"}, ("out",))
        (tmp_path / "script").write_text("cp in out; echo said")
        result = p.run(job, tools={"script": str(tmp_path / "script")}, keep=str(tmp_path / "kept"))
    assert result.files == {"out": b"1"}
    log = (tmp_path / "kept" / "a-stage-two.log").read_text()
    assert log == f"/bin/sh {tmp_path}/script\nsaid\n"


def test_a_failure_names_program_and_stage_and_others_go_on(tmp_path: Path):
    with Pool(1, GB, TOOLS, verbose=True) as p:
        bad = p.submit(shell("seq 100; echo error; exit 1", "bad.mcu"), keep=str(tmp_path))
        fine = p.submit(shell("true"))
        with pytest.raises(DiagnosticError) as error:
            bad.result(HANG)
        assert fine.result(HANG).status == 0
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "MU5110" and diagnostic.notes[-1] == "while building bad.mcu: link"
    assert len(diagnostic.notes) == 102 and f"{tmp_path}/link.log" in diagnostic.helps[0]


def test_map_keeps_the_order_and_the_errors():
    fake = Fake()
    fake.hold(0)
    fake.failing = {"2"}

    def build(i: int) -> int:
        if i == 3:
            raise RuntimeError("three")
        p.run(named(i))
        return i * i

    with Pool(2, GB, runner=fake) as p:
        outcomes = p.map(build, range(6))
        wait_for(lambda: len(fake.order) == 5 and fake.runs(0))  # the later ones do not wait for the first
        fake.let_go(0)
        found = list(outcomes)
    assert [o.value for o in found] == [0, 1, None, None, 16, 25]
    assert isinstance(found[2].error, DiagnosticError) and isinstance(found[3].error, RuntimeError)
    assert found[4].get() == 16
    with pytest.raises(RuntimeError, match="three"):
        found[3].get()
    assert Outcome(None).get() is None


def test_map_gives_what_is_there():
    fake = Fake()
    fake.hold(1)
    with Pool(2, GB, runner=fake) as p:
        outcomes = p.map(lambda i: p.run(named(i)).status, range(2))
        assert next(outcomes).value == 0
        fake.let_go(1)
        assert [o.value for o in outcomes] == [0]
        assert list(p.map(str, [])) == []


def test_builds_that_wait_hold_no_core():
    """Every build of the outer map waits for an inner one, on a single core."""
    fake = Fake()
    with Pool(1, GB, runner=fake) as p:

        def outer(i: int) -> int:
            return sum(o.get() for o in p.map(lambda j: inner(10 * i + j), range(3)))

        def inner(i: int) -> int:
            p.run(named(i))
            return 1

        assert [o.value for o in p.map(outer, range(20))] == [3] * 20
    assert fake.most == 1


def test_a_waiting_job_can_be_called_off_alone():
    fake = Fake()
    fake.hold(0)
    with Pool(1, GB, runner=fake) as p:
        first, second, third = (p.submit(named(i)) for i in range(3))
        assert second.cancel()
        wait_for(lambda: fake.runs(0))
        assert not first.cancel()
        fake.let_go(0)
        assert third.result(HANG).status == 0
        with pytest.raises(CancelledError):
            second.result(1)
    assert [job.program for job in fake.order] == ["0", "2"]


# The end


def test_leaving_waits_for_what_was_given():
    fake = Fake()
    with Pool(1, GB, runner=fake) as p:
        futures = [p.submit(named(i)) for i in range(5)]
    assert all(f.done() for f in futures)
    with pytest.raises(RuntimeError, match="closed"):
        p.submit(named(9))


FAMILY = "sleep 600 & echo $! > {0}/new{1}; mv {0}/new{1} {0}/child{1}; wait $! && touch {0}/ended"
"""A script whose child sleeps; it leaves `ended` where nobody stops the two."""


def test_leaving_by_an_exception_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr(jobs.tempfile, "tempdir", str(temporary))
    futures: list[Future[Result]] = []
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            p.run(shell("true"))
        except BaseException as error:
            caught.append(error)

    waiter = threading.Thread(target=wait)
    with pytest.raises(ZeroDivisionError), Pool(2, GB, TOOLS) as p:
        futures += [p.submit(shell(FAMILY.format(tmp_path, i))) for i in range(4)]
        outcomes = p.map(lambda i: p.run(named(i)), range(9))
        waiter.start()
        for i in range(2):
            wait_for((tmp_path / f"child{i}").exists)
        raise ZeroDivisionError
    assert all(isinstance(f.exception(0), Cancelled) for f in futures)
    waiter.join(HANG)
    assert isinstance(caught[0], Cancelled)
    assert all(isinstance(o.error, Cancelled) for o in outcomes)
    assert all(gone(int((tmp_path / f"child{i}").read_text())) for i in range(2))
    assert sorted(os.listdir(tmp_path)) == ["child0", "child1", "t"] and os.listdir(temporary) == []
    with pytest.raises(Cancelled):
        p.submit(shell("true"))


PROGRAM = """
import os, signal, sys, threading
from mucc.process import interrupts
from mucc.process.interrupts import Terminated
from mucc.build.jobs import Job, Kind
from mucc.build.pool import Pool
interrupts.install()
script, how = sys.argv[1:]
job = lambda i: Job(str(i), "s", Kind.LINK, ("sh", "-c", script.replace("@", str(i))))
try:
    with Pool(2, 10**9) as pool:
        if how == "map":
            list(pool.map(lambda i: pool.run(job(i)), range(5)))
        elif how == "run":
            pool.submit(job(0))
            pool.run(job(1))
        elif how == "leave":
            pool.submit(job(0))
            pool.submit(job(1))
except (KeyboardInterrupt, Terminated):
    assert threading.active_count() < 9
    sys.exit(9)
"""


@pytest.mark.parametrize(
    ("how", "number"),
    [
        ("map", signal.SIGINT),
        ("run", signal.SIGINT),
        ("leave", signal.SIGINT),
        ("map", signal.SIGTERM),
        ("map", signal.SIGKILL),
    ],
)
def test_signals_end_everything(tmp_path: Path, how: str, number: signal.Signals):
    temporary = tmp_path / "t"
    temporary.mkdir()
    script = FAMILY.format(tmp_path, "@")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, script, how], cwd=ROOT, env={**os.environ, "TMPDIR": str(temporary)}
    )
    for i in range(2):
        wait_for((tmp_path / f"child{i}").exists)
    process.send_signal(number)
    killed = number == signal.SIGKILL
    assert process.wait(HANG) == (-signal.SIGKILL if killed else 9)
    assert not (tmp_path / "ended").exists()
    assert all(gone(int((tmp_path / f"child{i}").read_text())) for i in range(2))
    if killed:
        wait_for(lambda: os.listdir(temporary) == [])
    assert os.listdir(temporary) == []


# What the display is told


class Told(Quiet):
    """Notes the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def opened(self, cores: int, memory_bytes: int) -> None:
        self.events.append(("opened", f"{cores} {memory_bytes}"))

    def expected(self, programs: int) -> None:
        self.events.append(("expected", str(programs)))

    def queued(self, job: Job) -> None:
        self.events.append(("queued", job.program))

    def started(self, job: Job, memory_bytes: int) -> None:
        self.events.append(("started", f"{job.program} {memory_bytes}"))

    def finished(self, job: Job, result: Result) -> None:
        self.events.append(("finished", job.program))

    def failed(self, job: Job, reason: str) -> None:
        self.events.append(("failed", f"{job.program} {reason}"))

    def dropped(self, job: Job) -> None:
        self.events.append(("dropped", job.program))

    def cached(self, program: str, stage: str) -> None:
        self.events.append(("cached", f"{program} {stage}"))

    def done(self, program: str) -> None:
        self.events.append(("done", program))

    def closed(self) -> None:
        self.events.append(("closed", ""))


def test_the_display_is_told():
    told, fake = Told(), Fake()
    fake.failing = {"8"}
    with Pool(1, GB, display=told, runner=fake) as p:
        list(p.map(lambda i: p.run(named(i)), [7, 8], name=lambda i: f"p{i}"))
        p.cached("p9", "link")
    assert told.events[:2] == [("opened", "1 1000000000"), ("expected", "2")]
    assert told.events[-2:] == [("cached", "p9 link"), ("closed", "")]
    for program, end in (("7", ("finished", "7")), ("8", ("failed", "8 error[MU5104]: the compilers found"))):
        seen = [e for e in told.events if e[1].startswith((program, f"p{program}"))]
        assert [e[0] for e in seen] == ["queued", "started", end[0], "done"]
        assert seen[1][1] == f"{program} {PEAK_BYTES[Kind.LINK]}" and seen[2][1].startswith(end[1])


def test_the_display_is_told_of_what_does_not_run():
    told, fake = Told(), Fake()
    fake.hold(0)
    with pytest.raises(KeyboardInterrupt), Pool(1, GB, display=told, runner=fake) as p:
        futures = [p.submit(named(i)) for i in range(3)]
        futures[1].cancel()
        wait_for(lambda: fake.runs(0))
        raise KeyboardInterrupt
    assert {e for e in told.events if e[0] == "dropped"} >= {("dropped", "2")}
    assert ("started", f"1 {PEAK_BYTES[Kind.LINK]}") not in told.events
    assert ("closed", "") in told.events


def test_a_display_that_fails_is_dropped():
    class Broken(Quiet):
        def started(self, job: Job, memory_bytes: int) -> None:
            raise ValueError("no")

    with Pool(1, GB, display=Broken(), runner=Fake()) as p:
        assert p.run(named(0)).status == 0


def test_a_runner_elsewhere_needs_no_tools_here():
    """The tool goes by the name of its placeholder then."""

    def elsewhere(job: Job, tools: Mapping[str, str], **options: object) -> Result:
        return good(status=1)

    with Pool(1, GB, runner=elsewhere) as p, pytest.raises(DiagnosticError) as error:
        p.run(Job("a", "s", Kind.PTXAS, ("{ptxas}",)))
    (diagnostic,) = error.value.diagnostics
    assert isinstance(diagnostic, Diagnostic)
    assert diagnostic.notes[0] == "ptxas ended with status 1 and no message"
