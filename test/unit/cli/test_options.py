"""Every option of every command, found from the registries, with odd values: a coded error, or it works.

No command gets far: there is no nvcc, and no GPU.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from processes import HANG

from mucc.agent.cli.main import TOOL as AGENT
from mucc.build.cache import Cache, Entry
from mucc.cli.main import main
from mucc.cli.parameters import Option
from mucc.cli.registry import MUCC, Tool
from mucc.process.sandbox import layers

ROOT = Path(__file__).parents[3]

KERNEL = "kernel f[M](x: f32[M]) -> f32[M] {\n    return relu(x)\n}\n"

ODD = {
    "empty": "",
    "word": "xyz",
    "negative": "-1",
    "zero": "0",
    "not a number": "nan",
    "infinite": "inf",
    "beyond floats": "1e999",
    "digits": "9" * 5000,
    "long": "a" * 1_000_000,
    "not UTF-8": "k\udcff.mcu",
    "a null byte": "a\0b",
    "lines": "a\nb",
    "a folder": "folder",
    "a file": "text.txt",
    "not there": "no/such",
    "read only": "/proc/self/x",
    "without end": "/dev/zero",
    "pairs": "M=1,M=2,=,M=",
}

GIVEN = {
    "mucc build": ["k.mcu"],
    "mucc check": ["k.mcu"],
    "mucc fmt": ["k.mcu"],
    "mucc run": ["k.mcu", "--dims", "M=4", "--device", "cpu"],
    "mucc import": ["bad.py"],
    "mucc tune": ["k.mcu", "--dims", "M=4"],
    "mucc sol": ["k.mcu", "--dims", "M=4"],
    "mucc explain": ["MU1001"],
    "mucc cache": ["stats"],
    "mucc device": ["list"],
    "mucc-agent audit": ["bad.py", "bad.py"],
    "mucc-agent optimize": ["bad.py"],
    "mucc-agent report": ["run"],
    "mucc-agent profile": ["k.mcu"],
    "mucc-agent replay": ["run"],
}
"""What a command needs besides the option; problem files are no Python, so that torch is never loaded."""

OUTPUTS = ("-o", "--driver", "--plot")
"""Options that name what is written."""

LONGEST = 20_000
"""Characters of a report, however long what it quotes is."""


def commands() -> Iterator[tuple[Tool, str]]:
    """Every command that has options, but for servers, which have tests of their own."""
    for tool in (MUCC, AGENT):
        yield from ((tool, name) for name in tool.commands if name not in ("lsp", "mcp", "guide"))


def options(tool: Tool, name: str) -> Iterator[tuple[str, ...]]:
    """The words before an odd value: each option that takes one, and none for what is given by position."""
    for parameter in import_module(tool.commands[name].module).main.params:
        if isinstance(parameter, Option) and not parameter.is_flag:
            yield (max(parameter.opts, key=len),)
    yield ()


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a program, where no compiler is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUCC_NVCC", str(tmp_path / "no-nvcc"))
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(KERNEL.encode())))
    Path("k.mcu").write_text(KERNEL)
    Path("text.txt").write_text("no program\n")
    Path("bad.py").write_text("def\n")
    Path("folder").mkdir()
    return tmp_path


def half_files() -> list[str]:
    """Files that somebody began to write."""
    return [str(p) for p in Path().rglob("*.tmp")]


@pytest.mark.parametrize(("tool", "name"), [pytest.param(t, n, id=f"{t.name} {n}") for t, n in commands()])
def test_odd_values(
    tool: Tool, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(layers, "available", cache(layers.available))  # forks thrice, whatever the option
    given = GIVEN.get(f"{tool.name} {name}", [])
    wrong: list[str] = []
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(errors="backslashreplace")  # a process has it so that names of files go through
    for option in options(tool, name):
        for kind, value in ODD.items():
            for times in (1, 2) if kind == "word" else (1,):
                argv = [name, *given, *[*option, value] * times]
                status = main(argv, tool)
                said = capsys.readouterr()
                if (
                    status not in (0, 1, 2, 3, 5)
                    or "Traceback" in said.err
                    or "MU9001" in said.err
                    or len(said.err) > LONGEST
                    or (status in (2, 3) and "error[MU" not in said.err and name != "doctor")
                    or (not value and set(option) & set(OUTPUTS) and status not in (2, 3))
                    or half_files()
                ):
                    wrong.append(f"{option} {kind}: status {status}: {said.err[:300]}")
                    break
    assert not wrong, "\n".join(wrong)


PRINTING = {
    "mucc build": ["k.mcu", "--emit=cu"],
    "mucc fmt": ["-"],
    "mucc run": ["k.mcu", "--dims", "M=4", "--device", "cpu"],
    "mucc sol": ["k.mcu", "--dims", "M=4"],
    "mucc device": ["list"],
    "mucc explain": ["MU1001"],
    "mucc docs": ["--card"],
    "mucc doctor": [],
    "mucc cache": ["stats"],
    "mucc targets": ["--json"],
    "mucc-agent guide": [],
}
"""Command lines that print their result."""


def opened(path: str, flags: int) -> io.TextIOWrapper:
    """A text stream as Python has it for a redirected stdout or stderr."""
    return io.TextIOWrapper(os.fdopen(os.open(path, flags), "wb"), encoding="utf-8")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("full", [True, False], ids=["full", "closed"])
@pytest.mark.parametrize("line", [*PRINTING, "mucc --help", "mucc-agent --help"])
def test_a_result_that_nobody_gets(
    line: str, full: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    tool, word = (AGENT if line.startswith("mucc-agent") else MUCC), line.split()[1]
    with opened("/dev/full", os.O_WRONLY) if full else opened(os.devnull, os.O_RDONLY) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        status = main([word, *PRINTING.get(line, [])], tool)
        monkeypatch.undo()
    why = "No space left on device" if full else "Bad file descriptor"
    assert status in (2, 3)
    said = capsys.readouterr().err  # text, or JSON where it is asked for
    assert "MU5014" in said and f"cannot write the output: {why}" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("form", ["text", "json"])
def test_messages_that_nobody_gets(form: str, monkeypatch: pytest.MonkeyPatch):
    with opened("/dev/full", os.O_WRONLY) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["check", "gone.mcu", "--diagnostics", form]) == 2
        assert main(["check", "k.mcu", "--target", "h100"]) == 2


@pytest.mark.parametrize(
    ("argv", "code", "part"),
    [
        (["k.mcu", "-o", "x.txt"], "MU5001", "let its name end in .cu, .ptx, .cubin, .h, .so, .dot, .svg"),
        (["k.mcu", "-o", ""], "MU5001", "empty name"),
        (["k.mcu", "-o", "", "--emit=cu"], "MU5001", "empty name"),
        (["fmt", "/dev/zero"], "MU5011", "the most that is read"),
        (["check", "k.mcu", "--target", "sm_70"], "MU4001", "targets are sm_90a"),
    ],
)
def test_what_is_said(argv: list[str], code: str, part: str, capsys: pytest.CaptureFixture[str]):
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert f"error[{code}]" in said and part in said and len(said) < LONGEST
    assert sorted(os.listdir()) == ["bad.py", "folder", "k.mcu", "text.txt"]


def test_a_long_name_in_a_program(capsys: pytest.CaptureFixture[str]):
    Path("k.mcu").write_text(KERNEL.replace("relu", "relu" * 250_000))
    for form in ("text", "json"):
        assert main(["check", "k.mcu", "--diagnostics", form]) == 1
        said = capsys.readouterr().err
        assert "MU10" in said and "characters ..." in said and len(said) < LONGEST


MEANT = {
    "sm_90a": ["h100", "h200", "H200", "NVIDIA H200", "hopper", "sm90", "90", "sm_90", "9.0", "h100-sxm5"],
    "sm_80": ["a100", "A100-PCIE-80GB", "ampere", "sm_86", "86", "3090"],
    "sm_89": ["4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "l40s", "ada", "89"],
    "sm_100a": ["b200", "GB200", "blackwell", "sm_100", "100"],
    "sm_120a": ["5090", "RTX PRO 6000", "sm120"],
    "": ["v100", "sm_70", "sm_75", "cuda", "gfx942", "", "9" * 5000],
}


@pytest.mark.parametrize("target", MEANT)
def test_names_of_gpus_as_targets(target: str, capsys: pytest.CaptureFixture[str]):
    for name in MEANT[target]:
        assert main(["check", "k.mcu", "--target", name]) == 2
        said = capsys.readouterr().err
        assert (f"did you mean '{target}'?" in said) if target else "did you mean" not in said, name


@pytest.mark.parametrize("action", ["stats", "clear", "verify"])
def test_a_cache_that_is_a_file(
    action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for path in ("text.txt", "text.txt/below"):
        monkeypatch.setenv("MUCC_CACHE_DIR", path)
        assert main(["cache", action]) == 3
        said = capsys.readouterr().err
        assert "error[MU5203]" in said and "= help: set MUCC_CACHE_DIR to a directory" in said


@pytest.mark.parametrize(
    "words", [["explain", "MU9999"], ["docs"], ["doctor", "more"], ["cache", "clear", "--for", "torch"]]
)
def test_errors_as_json_of_commands_without_a_program(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([*words, "--diagnostics=json"]) == 2
    (error,) = json.loads(capsys.readouterr().err)
    assert error["severity"] == "error"


def test_a_cache_that_cannot_be_filled_is_not_warmed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for path in ("text.txt", "text.txt/below", "/proc/cache"):
        monkeypatch.setenv("MUCC_CACHE_DIR", path)
        assert main(["cache", "warm"]) == 3
        assert "error[MU5203]: the cache cannot be filled" in capsys.readouterr().err


def test_building_beside_a_cache_that_is_a_file(monkeypatch: pytest.MonkeyPatch):
    for path in ("text.txt", "text.txt/below"):
        cache = Cache(path)
        assert cache.build("objects", "0" * 64, lambda: Entry(b"x")).data == b"x"
        (problem,) = cache.problems
        assert problem.helps == ("set MUCC_CACHE_DIR to a directory, or remove that file",)


BENCHES = sorted(
    p.stem if p.stem != "__main__" else p.parent.name
    for p in [*(ROOT / "bench").glob("*.py"), *(ROOT / "bench").glob("*/__main__.py")]
    if "run_main(main)" in p.read_text()
)


def forked_run(module: str, *words: str) -> tuple[int, str]:
    """The exit status and stderr of `python -m MODULE` in a fork of this process, which has imported much."""
    with tempfile.TemporaryFile() as file:
        if not (pid := os.fork()):
            try:
                os.dup2(file.fileno(), 2)
                sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
                sys.argv = [module, *words]
                signal.alarm(round(HANG))
                runpy.run_module(module, run_name="__main__")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(99)  # a benchmark exits by itself
        _, status = os.waitpid(pid, 0)
        file.seek(0)
        return os.waitstatus_to_exitcode(status), file.read().decode()


@pytest.fixture(scope="module")
def torch_is_loaded() -> None:
    """Import torch, which many benchmarks import, before forks are made."""
    with contextlib.suppress(ImportError):
        import_module("torch")


@pytest.mark.usefixtures("torch_is_loaded")
@pytest.mark.parametrize("bench", BENCHES)
def test_benchmarks_end_in_a_line_too(bench: str):
    """A benchmark says what is wrong with its arguments, where it has any, before it does anything."""
    path = ROOT / "bench" / bench
    text = (path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__main__.py").read_text()
    if "ArgumentParser(" not in text:
        return
    status, said = forked_run(f"bench.{bench}", "--no-such-option\udcff")
    assert status == 2 and said and "Traceback" not in said, said
