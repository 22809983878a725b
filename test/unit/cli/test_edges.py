"""The command line where something is odd: closed or full streams, odd files and numbers, huge programs."""

from __future__ import annotations

import json
import subprocess
import sys
from math import inf, nan
from pathlib import Path

import pytest
from processes import HANG

from mucc.cli.main import main
from mucc.diagnostics.core import MOST
from mucc.files.json_text import json_text

MUCC = f"{sys.executable} -m mucc"
KERNEL = "kernel f[M](x: f32[M]) -> f32[M] {\n    return relu(x)\n}\n"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("k.mcu").write_text(KERNEL)
    return tmp_path


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A command line with redirections; `mucc` stands for this one."""
    line = line.replace("mucc", MUCC, 1)
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=HANG)


def failure(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The status and the report of a command that fails."""
    status = main(argv)
    return status, capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("command", ["--help", "explain", "k.mcu --emit=mu", "docs --card"])
def test_a_full_disk_behind_stdout(command: str):
    run = shell(f"mucc {command} > /dev/full")
    assert run.returncode == 2
    assert run.stderr.startswith("error[MU5014]: cannot write the output: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_behind_mucc_opt():
    script = "from mucc.cli.start import mucc_opt; mucc_opt()"
    line = f"{sys.executable} -c '{script}' k.mcu > /dev/full"
    run = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=HANG)
    assert run.returncode == 2
    assert run.stderr.startswith("error[MU5014]: cannot write the output: No space left on device\n")


def test_closed_streams():
    for command in ("targets", "k.mcu --emit=cu"):
        run = shell(f"mucc {command} >&-")
        assert run.returncode == 2 and "MU5014" in run.stderr
    assert shell("mucc check gone.mcu 2>&- >&-").returncode == 2
    assert "MU5021" in shell("mucc check - <&-").stderr


def test_a_closed_stdout_is_no_place_for_other_files():
    assert shell("mucc k.mcu --emit=mu -o k.mlir >&-").returncode == 0
    assert Path("k.mlir").read_text().startswith("builtin.module {")


def test_errors_are_reported_up_to_a_limit(capsys: pytest.CaptureFixture[str]):
    kernels = (KERNEL.replace("f[", f"f{i}[").replace("relu", f"relux{i}") for i in range(MOST + 20))
    Path("k.mcu").write_text("".join(kernels))
    status, text = failure(["check", "k.mcu"], capsys)
    assert status == 1
    assert text.count("error[MU1002]") == MOST
    assert f"note[MU0015]: more than {MOST} problems: the rest is left out" in text


@pytest.mark.parametrize("command", [["check"], ["sol", "--dims", "M=4"]])
def test_chains_may_be_long(command: list[str]):
    lines = "".join(f"    y{i + 1} = exp(y{i})\n" for i in range(2000))
    Path("k.mcu").write_text(KERNEL.replace("    return relu(x)\n", f"    y0 = x\n{lines}    return y2000\n"))
    assert main([*command, "k.mcu"]) == 0


def test_stages_end_a_chain():
    pinned = "".join(f"    {'stage ' * (i % 100 == 99)}y{i + 1} = exp(y{i})\n" for i in range(500))
    Path("k.mcu").write_text(KERNEL.replace("    return relu(x)\n", f"    y0 = x\n{pinned}    return y500\n"))
    assert main(["check", "k.mcu"]) == 0


@pytest.mark.parametrize(
    ("argv", "status", "parts"),
    [
        (["k"], 2, ["MU5002", "did you mean 'mucc k.mcu'?"]),
        (["check", "k.txt"], 2, ["MU5010", "did you mean 'k.mcu'?"]),
        (["run", "k.mcu", "--dims", "M=4", "--seed", "-3"], 2, ["--seed needs a number of at least 0"]),
        (["check", "k.mcu", "--target", "sm_90"], 2, ["MU4001", "did you mean 'sm_90a'?"]),
        (["run", "k.mcu", "--seed", "x"], 2, ["--seed takes a whole number, not 'x'"]),
        (["sol", "k.mcu", "--measured", "fast"], 2, ["--measured takes a number, not 'fast'"]),
        (["sol", "k.mcu"], 2, ["MU5403", "add --dims M=4096"]),
        (["sol", "k.mcu", "--dims", "M=4", "--device", "h20"], 2, ["MU5401", "did you mean 'h200'?"]),
        (["device", "lst"], 2, ["did you mean 'list'?", "choose from list, show, calibrate"]),
    ],
)
def test_help_where_something_is_wrong(
    argv: list[str], status: int, parts: list[str], capsys: pytest.CaptureFixture[str]
):
    found, text = failure(argv, capsys)
    assert found == status
    for part in parts:
        assert part in text


def test_sizes_that_no_memory_holds(capsys: pytest.CaptureFixture[str]):
    argv = ["run", "k.mcu", "--dims", "M=2147483647", "--device", "cpu"]
    Path("k.mcu").write_text(KERNEL.replace("[M]", "[M, 65536]").replace("f[M, 65536]", "f[M]"))
    status, text = failure(argv, capsys)
    assert status == 3
    assert "error[MU5109]: interpreting takes" in text and "--dims M=134217727" in text


def test_more_rows_than_a_scatter_has(capsys: pytest.CaptureFixture[str]):
    text = "kernel f[T=4, M](x: f32[M], rows: s32[M]) -> f32[T] {\n    return scatter(x, rows, T)\n}\n"
    Path("k.mcu").write_text(text)
    assert main(["run", "k.mcu", "--device", "cpu", "--dims", "M=4"]) == 0
    status, said = failure(["run", "k.mcu", "--device", "cpu", "--dims", "M=5"], capsys)
    assert status == 2
    assert "error[MU6052]: 'rows' of f names 5 rows, each once, but there are 4" in said


def test_only_names_that_are_alike_are_proposed(capsys: pytest.CaptureFixture[str]):
    Path("row_sum.mcu").touch()
    assert "did you mean" not in failure(["check", "nosuch.mcu"], capsys)[1]
    assert "did you mean 'row_sum.mcu'?" in failure(["check", "rowsum.mcu"], capsys)[1]


def test_an_empty_problem_is_no_empty_program(capsys: pytest.CaptureFixture[str]):
    Path("empty.py").touch()
    status, text = failure(["import", "empty.py"], capsys)
    assert status == 1 and "error[MU5021]: 'empty.py' is empty\n" in text and "docs --card" not in text


def test_a_file_whose_name_is_no_option(capsys: pytest.CaptureFixture[str]):
    Path("-k.mcu").write_text(KERNEL)
    assert "the file of that name is './-k.mcu'" in failure(["check", "-k.mcu"], capsys)[1]
    assert main(["check", "./-k.mcu"]) == 0


def test_examples_are_in_the_canonical_layout():
    assert main(["fmt", "--check", *map(str, (Path(__file__).parents[3] / "examples").rglob("*.mcu"))]) == 0


def test_encodings_that_lack_characters():
    run = shell("PYTHONIOENCODING=ascii mucc tune --help")
    assert run.returncode == 0 and run.stderr == "" and "--dims ? --build-only" in run.stdout


def test_short_times_stand_apart_from_rates(capsys: pytest.CaptureFixture[str]):
    assert main(["sol", "k.mcu", "--dims", "M=4"]) == 0
    assert "4.8 TB/s 6.667e-06 us" in capsys.readouterr().out


def test_json_has_no_infinities():
    assert json_text({"a": [inf, -inf, nan, 1.5], "b": (nan,), "c": "NaN"}, None) == (
        '{"a": [null, null, null, 1.5], "b": [null], "c": "NaN"}\n'
    )
    assert json_text([1.5], None) == "[1.5]\n"


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]):
    assert main(["help", "check"]) == 0
    assert capsys.readouterr().out.startswith("usage: mucc check FILE...")


def test_targets_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["targets", "--json"]) == 0
    targets = {target["name"]: target for target in json.loads(capsys.readouterr().out)}
    assert list(targets) == ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
    assert {"key": "h200", "name": "NVIDIA H200"} in targets["sm_90a"]["cards"]
    assert any("cooperative" in f["mainloops"] and f["sparse"] for f in targets["sm_90a"]["families"])


@pytest.mark.parametrize("command", ["check k.mcu", "docs --card", "k.mcu --emit=cu"])
def test_python_without_docstrings(command: str):
    run = shell(f"PYTHONOPTIMIZE=2 mucc {command}")
    assert run.returncode == 0 and run.stderr == ""


def test_the_grammar_needs_docstrings():
    run = shell("PYTHONOPTIMIZE=2 mucc docs --grammar")
    assert run.returncode == 2 and "error[MU5001]" in run.stderr and "-OO" in run.stderr


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_program_in_utf_16(encoding: str, capsys: pytest.CaptureFixture[str]):
    Path("wide.mcu").write_bytes(KERNEL.encode(encoding))
    assert main(["check", "wide.mcu"]) == 1
    error = capsys.readouterr().err
    assert error.count("error[") == 1 and "'wide.mcu' is UTF-16 text" in error and "iconv" in error


def test_a_line_end_in_a_name_ends_no_comment(capsys: pytest.CaptureFixture[str]):
    Path("a\nb.mcu").write_text(KERNEL)
    assert main(["a\nb.mcu", "--emit=cu"]) == 0
    text = capsys.readouterr().out
    assert "\nb.mcu" not in text and text.startswith("// Made by `mucc a\ufffdb.mcu --emit=cu`")
