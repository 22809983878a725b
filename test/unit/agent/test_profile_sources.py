"""What the sources of the profile read: ncu's CSV and its complaints, cubins, machine code, our own child."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import threading
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.profile import child
from mucc.agent.profile.child import Call, Unusable, numbers, strides
from mucc.agent.profile.sources import Request, ncu, ncu_report
from mucc.agent.profile.sources.ncu import LAUNCHES, Ncu, command, find_ncu
from mucc.agent.profile.sources.ncu_csv import messages, parse
from mucc.agent.profile.sources.ptxas import Ptxas
from mucc.agent.profile.sources.sass import Sass
from mucc.agent.profile.sources.schedule import Schedule
from mucc.library.signature import Arg, KernelInfo

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
)
TABLE = (
    "==PROF== Connected to process 41 (/usr/bin/python3.12)\n"
    '==PROF== Profiling "mu_k_out" - 0: 0%....50%....100% - 3 passes\n'
    f'{HEAD}"Device","CC","gpu__time_duration.sum","launch__waves_per_multiprocessor","lts__t_sector_hit_rate.pct"\n'
    '"","","","","","","","","","","","ns","","%"\n'
    '"0","41","python3.12","127.0.0.1","mu_k_h(Params)","1","7","(384, 1, 1)","(132, 1, 1)","0","9.0",'
    '"12,345","1","n/a"\n'
    '"1","41","python3.12","127.0.0.1","void mu_k_out<int>(int, ""x"")","1","7","(256, 1, 1)",'
    '"(64, 2, 1)","0","9.0","2,000","0.50","87.25"\n'
    "==PROF== Disconnected from process 41\n"
)


def test_the_raw_page_of_ncu_is_read():
    first, second = parse(TABLE)
    assert (first.kernel, first.grid, first.block) == ("mu_k_h", "(132, 1, 1)", "(384, 1, 1)")
    assert first.counters == {"gpu__time_duration.sum": 12345.0, "launch__waves_per_multiprocessor": 1.0}
    assert second.kernel == "mu_k_out" and second.counters["lts__t_sector_hit_rate.pct"] == 87.25


@pytest.mark.parametrize(
    "text", ["", "==WARNING== No kernels were profiled.\n", '"ID","Other"\n"",""\n', TABLE[:300]]
)
def test_what_is_no_table_has_no_launches(text: str):
    assert parse(text) == []


def test_a_table_that_was_cut_off_keeps_its_whole_lines():
    assert len(parse(TABLE[: TABLE.index('"1","41"') + 20])) == 1


@given(st.text(st.sampled_from('",\n\0 a1.(_=I D\U0001f600'), max_size=200), st.integers(0, len(TABLE)))
def test_any_text_can_be_read(text: str, at: int):
    for launch in parse(TABLE[:at] + text + TABLE[at:]):
        assert all(isinstance(value, float) for value in launch.counters.values())


def test_complaints_are_found():
    assert messages("==ERROR== one\nplain\n==WARNING== two \n==PROF== three\n") == ["one", "two"]


def asked(**more: Any) -> Request:
    known: dict[str, Any] = {
        "program": "",
        "library": "k.so",
        "target": "sm_90a",
        "card": "h200",
        "sizes": {"k": {"M": 8}},
        "given": {},
        "metrics": ["launch__waves_per_multiprocessor", "lts__t_sector_hit_rate.pct"],
        "time_limit": 20.0,
    }
    return Request(**{**known, **more})


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program in the place of ncu, which runs the given Python with the arguments."""

    def make(code: str) -> None:
        tool = tmp_path / "ncu"
        tool.write_text(f"#!{sys.executable}\nimport sys\n{code}\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CUDA_HOME", raising=False)

    return make


def test_counters_come_from_a_run_around_the_child(fake_ncu: Any, tmp_path: Path):
    fake_ncu(f"open({str(tmp_path / 'argv')!r}, 'w').write(chr(10).join(sys.argv))\nprint({TABLE!r})")
    found = Ncu().read(asked())
    assert [launch.kernel for launch in found.launches] == ["mu_k_h", "mu_k_out"] and not found.missing
    argv = (tmp_path / "argv").read_text().splitlines()
    assert (
        "--metrics=gpu__time_duration.sum,launch__waves_per_multiprocessor,lts__t_sector_hit_rate.pct" in argv
        and "--clock-control=none" in argv
    )
    module, library, sizes, _ = argv[-4:]
    assert module == "mucc.agent.profile.child" and json.loads(sizes) == {"k": {"M": 8}}
    assert library == str(Path("k.so").resolve())


def test_the_gpu_is_taken_only_while_kernels_run(fake_ncu: Any, monkeypatch: pytest.MonkeyPatch):
    fake_ncu(
        "import pathlib, time\nfolder = pathlib.Path(sys.argv[-1])\n(folder / 'ready').touch()\n"
        "while not (folder / 'go').exists():\n    time.sleep(0.001)\n"
        f"(folder / 'done').touch()\nprint({TABLE!r})"
    )
    turns: list[str] = []

    @contextlib.contextmanager
    def turn():
        turns.append("taken")
        time.sleep(0.3)
        yield
        turns.append("given back")

    monkeypatch.setattr(ncu, "exclusive_gpu", turn)
    found = Ncu().read(asked())
    assert len(found.launches) == 2 and turns == ["taken", "given back"] and found.waited >= 0.3


def test_no_process_outlives_an_interrupt(fake_ncu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pid = tmp_path / "pid"
    fake_ncu(
        f"import os, pathlib, time\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "(pathlib.Path(sys.argv[-1]) / 'ready').touch()\ntime.sleep(600)"
    )

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(ncu, "exclusive_gpu", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Ncu().read(asked())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_counter_that_ncu_does_not_know_is_left_out(fake_ncu: Any):
    fake_ncu(
        "if 'c__d' in ' '.join(sys.argv):\n"
        "    print('==ERROR== Failed to find metric c__d.pct')\n    sys.exit(1)\n"
        f"print({TABLE!r})"
    )
    found = Ncu().read(asked(metrics=["c__d.pct"]))
    assert len(found.launches) == 2 and found.missing == ["ncu: there is no counter c__d.pct here"]
    found = Ncu().read(asked(metrics=["e__f.pct"]))
    assert len(found.launches) == 2 and found.missing == ["ncu: there is no counter e__f.pct here"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'); sys.exit(1)",
            "may not read",
        ),
        ("print('==ERROR== Cuda driver is not compatible with Nsight Compute.')", "older than ncu wants"),
        ("print('==WARNING== No kernels were profiled.'); print('cuInit failed: 100')", "cuInit failed"),
        ("sys.exit(9)", "status 9"),
        ("import os; os.kill(os.getpid(), 11)", "status -11"),
        ("import time; time.sleep(600)", "took too long"),
    ],
)
def test_where_counters_cannot_be_had_it_says_why(fake_ncu: Any, code: str, said: str):
    fake_ncu(code)
    found = Ncu().read(asked(time_limit=1.5 if "sleep" in code else 300))
    assert not found.launches and len(found.missing) == 1
    assert found.missing[0].startswith("ncu: ") and said in found.missing[0]


def test_no_ncu_and_no_gpu_are_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(ncu, "PLACES", ())
    assert find_ncu() is None
    assert "not found" in Ncu().read(asked()).missing[0]
    assert "device cpu" in Ncu().read(asked(device="cpu")).missing[0]
    assert not Ncu().read(asked(library=None)).missing


def test_the_command_line_bounds_the_launches():
    line = command("ncu", ["a__b.sum"], "/k.so", "{}", "/tmp")
    assert f"--launch-count={LAUNCHES}" in line and "--profile-from-start=off" in line


def test_libraries_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "k.so").write_text("no library")
    request = asked(library=str(tmp_path / "k.so"))
    assert "is no ELF file" in Ptxas().read(request).missing[0]
    assert Ptxas().read(asked(library="/none.so")).missing
    tool = tmp_path / "cuobjdump"
    tool.write_text("#!/bin/sh\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "is no ELF file" in Sass().read(request).missing[0]


def test_a_program_that_mucc_rejects_has_no_schedule():
    found = Schedule().read(asked(program="kernel k("))
    assert not found.explained and len(found.missing) == 2 and "MU0" in found.missing[0]


# ---- the child ------------------------------------------------------------------------------------------


class Memory:
    """The driver with memory of this machine."""

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}
        self.seen: list[bool] = []

    def allocate(self, size: int) -> int:
        block = ctypes.create_string_buffer(max(size, 1))
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def fill(self, address: int, size: int, pattern: bytes) -> None:
        block = self.blocks[address]
        assert size <= len(block)
        block.raw = (pattern * (size // len(pattern) + 1))[: len(block)]

    def wait(self) -> None:
        pass

    def profile(self, on: bool) -> None:
        self.seen.append(on)


class Library:
    """A kernel library: keeps what it was called with."""

    def __init__(self, status: int = 0, size: int = 512):
        self.calls: list[Any] = []

        def launch(tensors: Any, count: int, workspace: Any, size: Any, stream: Any) -> int:
            self.calls.append([tensors[i] for i in range(count)])
            return status

        self.mucc_k = launch
        self.mucc_k_workspace = _Function(lambda tensors, count: size)
        self.mucc_last_error = _Function(lambda: b"MU6006: no")


class _Function:
    def __init__(self, call: Any):
        self.call = call
        self.restype: Any = None

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


def info(*args: Arg) -> KernelInfo:
    return KernelInfo("k", "mucc_k", "k", {"M": None, "N": None}, args, (), True, {}, ())


X = Arg("x", "input", "bf16", ("M", "N"), "row_major", 16)
OUT = Arg("out", "output", "f32", ("N", "M"), "col_major", 16)
ROWS = Arg("rows", "input", "s32", ("M",), "row_major", 4)


def test_a_call_gets_tensors_as_the_manifest_describes_them():
    library, driver = Library(), Memory()
    scale = Arg("scale", "scalar", "f32", (), "row_major", 4)
    call = Call(library, info(X, scale, OUT), {"M": 4, "N": 6}, driver)  # pyright: ignore[reportArgumentType]
    call()
    x, number, out = library.calls[0]
    assert (x.device_type, x.ndim, x.code, x.bits, x.lanes) == (2, 2, 4, 16, 1)
    assert x.shape[:2] == [4, 6] and not x.strides
    assert (number.device_type, number.ndim, number.bits) == (1, 0, 32)
    assert out.shape[:2] == [6, 4] and out.strides[:2] == [1, 6]
    assert any(driver.blocks[x.data].raw)


def test_a_call_that_is_refused_says_why():
    with pytest.raises(Unusable, match="MU6006"):
        Call(Library(size=-1), info(X), {"M": 4, "N": 6}, Memory())  # pyright: ignore[reportArgumentType]
    call = Call(Library(status=1), info(X), {"M": 4, "N": 6}, Memory())  # pyright: ignore[reportArgumentType]
    with pytest.raises(Unusable, match="MU6006"):
        call()


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("row_major", None),
        ("col_major", [12, 1, 4]),
        ((None, None, 1), [12, 3, 1]),
        ((None, 8, 1), [32, 8, 1]),
    ],
)
def test_strides_follow_layouts(layout: Any, expected: list[int] | None):
    arg = Arg("x", "input", "f32", (2, 4, 3), layout, 16)
    assert strides(arg, (2, 4, 3)) == expected


def test_sparse_operands_cannot_be_made_up():
    with pytest.raises(Unusable, match="sparse"):
        strides(Arg("w", "input", "bf16", (16, 16), "sparse", 16), (16, 16))


@pytest.mark.parametrize("dtype", list(child.CODES))
def test_numbers_of_every_dtype_are_finite(dtype: str):
    import random

    data = numbers(dtype, random.Random(1))
    assert data == numbers(dtype, random.Random(1)) and len(set(data)) > 16
    if dtype == "bf16":
        assert all(high & 0x7F < 0x7F for high in data[1::2])
    if dtype in ("e4m3", "e5m2"):
        assert not any(b & 0x40 for b in data)


def test_the_child_ends_well_where_there_is_no_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "k.so").write_text("no library")
    assert child.main([str(tmp_path / "k.so"), "{}", str(tmp_path)]) == child.UNUSABLE
    assert capsys.readouterr().err.strip()


def test_the_child_takes_turns_with_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library, driver = Library(), Memory()
    there = SimpleNamespace(kernels=[info(X, OUT)])
    monkeypatch.setattr(child, "read_manifest", lambda path: there)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(ctypes, "CDLL", lambda path: library)  # pyright: ignore[reportUnknownLambdaType]
    arguments: Any = (str(tmp_path / "k.so"), {"k": {"M": 4, "N": 6}}, driver, tmp_path)
    thread = threading.Thread(target=child.run, args=arguments)
    thread.start()
    while not (tmp_path / child.READY).exists():
        assert thread.is_alive()
        time.sleep(0.001)
    assert not library.calls and not driver.blocks
    (tmp_path / child.GO).touch()
    thread.join(300)
    assert (tmp_path / child.DONE).exists()
    assert len(library.calls) == 2 and driver.seen == [True, False]


# Reports, by the package ncu-report


class Metric:
    """A counter as the package has it."""

    ValueKind_DOUBLE, ValueKind_FLOAT, ValueKind_UINT32, ValueKind_UINT64, ValueKind_STRING = range(5)

    def __init__(self, value: object):
        self.value = value

    def has_value(self) -> bool:
        return self.value is not None

    def kind(self) -> int:
        return self.ValueKind_STRING if isinstance(self.value, str) else self.ValueKind_DOUBLE

    def as_double(self) -> float:
        assert isinstance(self.value, int | float)
        return float(self.value)


class Action:
    """A launch as the package has it."""

    def __init__(self, name: str, metrics: dict[str, object]):
        self._name, self._metrics = name, metrics

    def name(self) -> str:
        return self._name

    def metric_names(self) -> list[str]:
        return list(self._metrics)

    def metric_by_name(self, name: str) -> Metric:
        return Metric(self._metrics[name])


class Report:
    """A report with one range."""

    def __init__(self, *actions: Action):
        self.actions = actions

    def num_ranges(self) -> int:
        return 1

    def range_by_idx(self, number: int) -> Report:
        return self

    def num_actions(self) -> int:
        return len(self.actions)

    def action_by_idx(self, index: int) -> Action:
        return self.actions[index]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package in the place of ncu-report, which reads what `report` is."""
    made: Any = ModuleType("ncu_report")
    made.__spec__ = ModuleSpec("ncu_report", None)
    counted = {f"launch__{what}_dim_{axis}": 1 for what in ("grid", "block") for axis in "xyz"}
    counted |= {
        "launch__grid_dim_x": 132,
        "launch__block_dim_x": 384,
        "a__b.sum": 12345.678,
        "a__c.sum": None,
    }
    made.report = Report(Action("void mu_k_out(Op, int)", {**counted, "device__name": "H200", "plain": 3}))
    made.load_report = lambda path: made.report
    monkeypatch.setitem(sys.modules, "ncu_report", made)
    return made


def test_reports_are_read_by_the_package(package: Any, tmp_path: Path):
    assert ncu_report.read(tmp_path) == []
    (tmp_path / "report.ncu-rep").touch()
    (launch,) = ncu_report.read(tmp_path)
    assert (launch.kernel, launch.grid, launch.block) == ("mu_k_out", "(132, 1, 1)", "(384, 1, 1)")
    assert launch.counters["a__b.sum"] == 12345.678
    assert not launch.counters.keys() & {"a__c.sum", "device__name", "plain"}


def test_a_report_comes_before_the_table_and_the_table_where_there_is_none(
    package: Any, fake_ncu: Any, monkeypatch: pytest.MonkeyPatch
):
    code = (
        "for a in sys.argv:\n"
        "    if a.startswith('--export='): open(a.partition('=')[2] + '.ncu-rep', 'w').close()\n"
        f"print({TABLE!r})"
    )
    fake_ncu(code)
    found = Ncu().read(asked())
    assert [launch.counters["a__b.sum"] for launch in found.launches] == [12345.678]

    def broken(path: str) -> None:
        raise RuntimeError("of a newer ncu")

    package.load_report = broken
    assert len(Ncu().read(asked()).launches) == 2
    monkeypatch.setattr(ncu_report, "is_installed", lambda: False)
    assert len(Ncu().read(asked()).launches) == 2
