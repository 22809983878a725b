"""The command line: dispatch, files, exit statuses. The compiler behind it is a stand-in; see test/cli."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO

import pytest
from processes import HANG

from mucc.agent.cli.main import TOOL as AGENT
from mucc.agent.cli.models import ModelArguments
from mucc.agent.cli.optimize import main as optimize
from mucc.agent.propose.llm.options import Options as ModelOptions
from mucc.build.toolchain import assembly, discover, nvcc
from mucc.cli.main import main
from mucc.cli.parameters import Option
from mucc.cli.registry import COMMANDS, Tool
from mucc.cli.registry import MUCC as MUCC_TOOL
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.diagnostics import Diagnostic, DiagnosticError, DiagnosticSink, Severity, Source, Span
from mucc.diagnostics.codes import CODES

MUCC = [sys.executable, "-m", "mucc"]
PROGRAM = "kernel k\n"


@dataclass
class Options:
    target: str = "sm_90a"
    print_ir_after_all: IO[str] | None = None
    print_ir_after: tuple[str, ...] = ()
    verify: bool = True
    keep_levels: bool = True
    dims: dict[str, int] = field(default_factory=dict[str, int])
    tuned: bool = True
    sizes: tuple[object, ...] = ()
    frontend_warnings: bool = True


@dataclass
class Compilation:
    source: Source
    options: Options
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)

    def emit(self, kind: str) -> str:
        return f"{kind} of {self.source.text.split()[1]} for {self.options.target}"

    def parts(self) -> Parts:
        return Parts(self.source.text.split()[1])

    @property
    def cache_text(self) -> str:
        return self.source.text.split()[1]


class Parts:
    """Of one image."""

    def __init__(self, name: str):
        self.text = f"parts of {name}"
        self.images = (name,)


class Compiler(ModuleType):
    """A stand-in for mucc.compiler.driver: `error`, `warn` and `crash` are words of a program."""

    Options = Options
    runs = 0

    def front_text(self, source: Source, kind: str) -> str:
        return self.compile_text(source, Options()).emit(kind)

    def compile_text(self, source: Source, options: Options) -> Compilation:
        type(self).runs += 1
        compilation = Compilation(source, options)
        if options.print_ir_after_all:
            which = ", ".join(options.print_ir_after) or "every pass"
            options.print_ir_after_all.write(f"IR after {which}\n")
        if "crash" in source.text:
            raise KeyError("no such thing")
        if "interrupt" in source.text:
            raise KeyboardInterrupt
        if "warn" in source.text:
            warning = Diagnostic("MU2001", "beware", Span(0, 6), Severity.WARNING)
            compilation.sink.emit(warning)
        for start in (i for i in range(len(source.text)) if source.text.startswith("error", i)):
            compilation.sink.emit(Diagnostic("MU0001", "unexpected word", Span(start, start + 5)))
        compilation.sink.raise_if_errors()
        return compilation


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a cache of its own, and nvcc replaced by something quick."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    Compiler.runs = 0
    monkeypatch.setitem(sys.modules, "mucc.compiler.driver", Compiler("mucc.compiler.driver"))
    return tmp_path / "work"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What nvcc was asked to compile."""
    seen: list[str] = []

    def built(text: str, kind: str) -> nvcc.Built:
        seen.append(text)
        spilled = Diagnostic("MU5201", "spills", severity=Severity.WARNING)
        return nvcc.Built(f"{kind}: {text}".encode(), (spilled,) if "spill" in text else ())

    def build(text: str, kind: str, toolchain: object, pool: object, **options: object) -> nvcc.Built:
        return built(text, kind)

    class Assembly:
        def __init__(self, *_: object, **options: object):
            pass

        def build(self, parts: Parts) -> nvcc.Built:
            if "fixed" in parts.text:
                raise assembly.Unspliceable("it does not bend")
            return built(parts.text, "so")

        def image(self, image: str, *, ptx: bool) -> nvcc.Built:
            return built(f"image of {image}", "ptx" if ptx else "cubin")

    monkeypatch.setattr(assembly, "Assembly", Assembly)
    tool = discover.Tool(sys.executable, "test")
    toolchain = discover.Toolchain(tool, tool, tool)
    monkeypatch.setattr(nvcc, "build", build)
    monkeypatch.setattr("mucc.build.artefact.find_toolchain", lambda nvcc, host: toolchain)
    return seen


def write(name: str, text: str = PROGRAM) -> str:
    Path(name).write_text(text)
    return name


def left() -> set[str]:
    return set(os.listdir())


# Dispatch and usage


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text and command.help in text for name, command in COMMANDS.items())
    assert main([]) == 2


@pytest.mark.parametrize(
    ("tool", "name"), [pytest.param(t, n, id=f"{t.name} {n}") for t in (MUCC_TOOL, AGENT) for n in t.commands]
)
def test_every_command_has_help(tool: Tool, name: str, capsys: pytest.CaptureFixture[str]):
    assert main([name, "--help"], tool) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: {tool.name} ") and "  -h, --help" in text
    for parameter in import_module(tool.commands[name].module).main.params:
        words = parameter.opts if isinstance(parameter, Option) else [parameter.metavar]
        assert all(f"{word}" in text for word in words) and parameter.help
    assert main([name, "nonsense", "-h"], tool) == 0
    assert capsys.readouterr().out == text


def test_defaults_are_in_the_help(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--iters N timed launches (default: 50)" in text
    assert "compile for; see `mucc targets` (default: sm_90a)" in text


def test_options_have_values_in_all_forms(capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    forms = (
        ["--emit", "cu"],
        ["--emit=cu"],
        ["-o=-", "--emit=cu"],
        ["-o-", "--emit=cu"],
        ["-vo", "-", "--emit=cu"],
    )
    for form in forms:
        assert main(["k.mcu", *form]) == 0
        assert main([*form, "k.mcu"]) == 0
        assert main([*form, "--", "k.mcu"]) == 0
        assert capsys.readouterr().out == 3 * "cu of k for sm_90a\n"
    assert main(["k.mcu", "--emit=ast", "--emit=cu"]) == 0
    assert capsys.readouterr().out == "cu of k for sm_90a\n", "the last one counts"


def test_options_of_models_are_those_of_the_library():
    assert [(f.name, f.default, f.type) for f in fields(ModelArguments)] == [
        (f.name, f.default, f.type) for f in fields(ModelOptions)
    ]
    assert optimize.parse([]) == optimize.arguments()


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mucc {version('mucc')}\n"


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["chek", "k.mcu"], "MU5002", "did you mean 'mucc check'?"),
        (["frobnicate"], "MU5002", "`mucc --help` lists the commands"),
        (["k.mcu", "--taget", "sm_90a"], "MU5001", "did you mean '--target'?"),
        (["k.mcu", "-q"], "MU5001", "there is no option '-q'"),
        (["k.mcu", "--emit", "cutlas"], "MU5001", "did you mean 'cutlass'?"),
        (["k.mcu", "--emit"], "MU5001", "argument --emit: expected one argument"),
        (["k.mcu", "--emit", "--json"], "MU5001", "argument --emit: expected one argument"),
        (["k.mcu", "-o", "--emit=cu"], "MU5001", "argument -o: expected one argument"),
        (["k.mcu", "--emit", "--", "cu"], "MU5001", "argument --emit: expected one argument"),
        (["k.mcu", "--json=yes"], "MU5001", "argument --json: ignored explicit argument 'yes'"),
        (["k.mcu", "-v=1"], "MU5001", "argument -v/--verbose: ignored explicit argument '1'"),
        (["k.mcu", "-vq"], "MU5001", "there is no option '-q'"),
        (["k.mcu", "-jx"], "MU5001", "-j/--jobs takes a whole number, not 'x'"),
        (["k.mcu", "--verb"], "MU5001", "did you mean '--verbose'?"),
        (["k.mcu", "--print-ir"], "MU5001", "it may be --print-ir-after or --print-ir-after-all"),
        (
            ["k.mcu", "--explain=x"],
            "MU5001",
            "there is no option '--explain'\n  = help: options are not abbreviated: it may be"
            " --explain-fusion or --explain-schedule",
        ),
        (["device", "show", "h200", "more"], "MU5001", "unexpected argument 'more'"),
        (["--", "-x.mcu"], "MU5010", "there is no file '-x.mcu'"),
        (["check", "--", "--help"], "MU5010", "there is no file '--help'"),
        (["k.mcu", "--timeout", "soon"], "MU5001", "--timeout takes a number, not 'soon'"),
        (["k.mcu", "--timeout", "-1"], "MU5001", "above 0"),
        (["k.mcu", "--timeout", "nan"], "MU5001", "above 0"),
        (["cache", "warm", "--target", "sm_90"], "MU4001", "unknown target 'sm_90'"),
        (["import", "k.mcu", "--target", "sm_90"], "MU4001", "unknown target 'sm_90'"),
        (["import", "k.mcu", "--name", "kernel"], "MU5001", "'kernel' cannot be the name of a kernel"),
        (["import", "k.mcu", "--name", "2x"], "MU5001", "no reserved words"),
        (["import", "k.mcu", "--memory-limit", "9" * 20], "MU5001", "--memory-limit is from 1 to"),
        (["import", "k.mcu", "--time-limit", "0"], "MU5001", "--time-limit is above 0"),
        (
            ["import", "k.mcu", "-o", "a.py", "--driver", "./a.py"],
            "MU5001",
            "would both be written to './a.py'",
        ),
        (["k.mcu", "k.mcu", "-o", "k.so"], "MU5001", "2 input files"),
        (["--emit=cu"], "MU5001", "no input file"),
        (["k.mcu", "--print-ir-after=form-stage"], "MU5001", "did you mean 'form-stages'?"),
        (["check"], "MU5001", "no input file"),
        (["fmt"], "MU5001", "no input file"),
        (["docs"], "MU5001", "--card"),
        (["docs", "--card", "--grammar"], "MU5001", "not allowed with"),
        (["cache", "cler"], "MU5001", "did you mean 'clear'?"),
        (["run", "k.mcu", "--device", "gpu"], "MU5001", "did you mean 'cuda'?"),
        (["check", "k.mcu", "--json"], "MU5001", "did you mean '--diagnostics=json'?"),
        (["explain", "MU5O10"], "MU5003", "did you mean"),
        (["k.mcu", "--emit=so", "-o", "-"], "MU5001", "cannot go to stdout"),
        (["-", "--emit=so"], "MU5001", "add -o kernel.so"),
        (["missing.mcu"], "MU5010", "there is no file 'missing.mcu'"),
        (["kk.mcu"], "MU5010", "did you mean 'k.mcu'?"),
        (["."], "MU5011", "is a directory"),
        (["check", "."], "MU5011", "is a directory"),
        (["k.mcu", "-o", "no/k.so"], "MU5012", "mkdir -p no"),
        (["k.mcu", "-o", "."], "MU5013", "is a directory"),
        (["k.mcu", "-o", "no/"], "MU5013", "is a directory"),
        (["k.mcu", "--emit=mu", "-o", "k.mcu"], "MU5015", "would be overwritten"),
        (["k.mcu", "--print-ir-after-all", "--diagnostics=json"], "MU5001", "both want stderr"),
    ],
)
def test_wrong_usage(argv: list[str], code: str, said: str, capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    assert main(argv) == 2
    output = capsys.readouterr()
    assert f"{'' if '--diagnostics=json' in argv else 'error['}{code}" in output.err and said in output.err
    assert output.out == "" and left() == {"k.mcu"}
    assert Path("k.mcu").read_text() == PROGRAM


@pytest.mark.parametrize("code", CODES)
def test_the_exit_status_of_an_error_is_that_of_its_entry(code: str):
    reporter = Reporter(json=True)
    reporter.add([Diagnostic(code, "as a warning", severity=Severity.WARNING)])
    assert reporter.status == 0
    reporter.add([Diagnostic(code, "as an error")])
    assert reporter.status == CODES[code].status > 0


def test_the_gravest_exit_status_counts():
    reporter = Reporter(json=True)
    for code, status in (
        ("MU0001", 1),
        ("MU5001", 2),
        ("MU1001", 2),
        ("MU5101", 3),
        ("MU5020", 3),
        ("MU9001", 4),
    ):
        reporter.add([Diagnostic(code, "wrong")])
        assert reporter.status == status


def test_exit_statuses_of_areas():
    """What `mucc --help` and docs/errors.md say about statuses holds for whole areas of codes."""
    statuses = {code: int(info.status) for code, info in CODES.items()}
    assert {s for c, s in statuses.items() if c[:3] in ("MU0", "MU1", "MU2", "MU3")} == {1}
    assert {s for c, s in statuses.items() if c.startswith("MU502")} == {1}
    assert {s for c, s in statuses.items() if c.startswith("MU50") and not c.startswith("MU502")} == {2}
    assert {s for c, s in statuses.items() if c[:4] in ("MU51", "MU52", "MU53")} == {3}
    assert {s for c, s in statuses.items() if c.startswith("MU9")} == {4}
    assert set(statuses.values()) == {1, 2, 3, 4}


# Text levels and diagnostics


@pytest.mark.parametrize("kind", ["ast", "mu", "stages", "cutlass", "schedule", "cu", "header", "manifest"])
def test_text_goes_to_stdout_or_a_file(kind: str, capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    assert main(["k.mcu", f"--emit={kind}"]) == 0
    assert capsys.readouterr().out == f"{kind} of k for sm_90a\n"
    assert main(["k.mcu", "--emit", kind, "-o", "out", "--target", "sm_100a"]) == 0
    target = "sm_90a" if kind in ("ast", "mu") else "sm_100a"  # the first two say nothing about targets
    assert Path("out").read_text() == f"{kind} of k for {target}\n"


@pytest.mark.parametrize(("name", "kind"), [("k.cu", "cu"), ("k.h", "header")])
def test_the_name_of_the_output_says_what_to_make(name: str, kind: str):
    write("k.mcu")
    assert main(["k.mcu", "-o", name]) == 0
    assert Path(name).read_text().startswith(kind)


def test_several_files_without_an_output(capsys: pytest.CaptureFixture[str], builds: list[str]):
    assert main([write("a.mcu", "kernel a\n"), write("b.mcu", "kernel b\n"), "--emit=mu"]) == 0
    assert capsys.readouterr().out == "mu of a for sm_90a\nmu of b for sm_90a\n"
    assert main(["a.mcu", "b.mcu"]) == 0
    assert left() == {"a.mcu", "b.mcu", "a.so", "b.so"}


def test_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    import io

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"kernel error\n")))
    assert main(["check", "-"]) == 1
    assert "--> <stdin>:1:8" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--emit=cu"], ["-o", "k.so"], ["check"]])
def test_all_errors_are_reported_and_nothing_is_written(
    command: list[str], capsys: pytest.CaptureFixture[str], builds: list[str]
):
    write("k.mcu", "kernel k error error\n")
    argv = [*command, "k.mcu"] if command == ["check"] else ["k.mcu", *command]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert error.count("error[MU0001]: unexpected word") == 2 and "--> k.mcu:1:10" in error
    assert error.endswith("\n2 errors\n")
    assert left() == {"k.mcu"} and builds == []


def test_warnings_do_not_fail(capsys: pytest.CaptureFixture[str]):
    assert main(["check", write("k.mcu", "kernel k warn\n")]) == 0
    assert "warning[MU2001]: beware" in (error := capsys.readouterr().err) and error.endswith("\n1 warning\n")


def test_check_goes_through_all_files(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "gone.mcu", write("a.mcu", "kernel error\n"), write("b.mcu")]) == 2
    error = capsys.readouterr().err
    assert "MU5010" in error and "MU0001" in error and error.endswith("\n2 errors\n")


def test_json_is_one_list_on_stderr(capsys: pytest.CaptureFixture[str]):
    write("k.mcu", "kernel k warn error\n")
    assert main(["check", "k.mcu", "--diagnostics=json"]) == 1
    values = json.loads(capsys.readouterr().err)
    assert [(v["severity"], v["span"]["file"], v["span"]["column"]) for v in values] == [
        ("warning", "k.mcu", 1),
        ("error", "k.mcu", 15),
    ]
    for argv, status in ((["check", write("good.mcu")], 0), (["--nonsense"], 2), (["gone.mcu"], 2)):
        assert main([*argv, "--diagnostics", "json"]) == status
        assert len(json.loads(capsys.readouterr().err)) == (status > 0)


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"", "MU5021"), (b" \n\t\n", "MU5021"), (b"kernel \xff", "MU5020"), (b"\x7fELF\x90\x00", "MU5020")],
)
def test_contents_that_are_no_program(
    data: bytes, code: str, capsys: pytest.CaptureFixture[str], builds: list[str]
):
    Path("k.mcu").write_bytes(data)
    for argv in (["k.mcu"], ["check", "k.mcu"], ["k.mcu", "--emit=cu"]):
        assert main(argv) == 1
        assert f"error[{code}]" in capsys.readouterr().err
    assert left() == {"k.mcu"}


def test_a_byte_order_mark_is_no_text():
    Path("k.mcu").write_bytes(b"\xef\xbb\xbfkernel k\n")
    assert main(["k.mcu", "--emit=mu"]) == 0


def test_print_ir(capsys: pytest.CaptureFixture[str]):
    assert main([write("k.mcu"), "--emit=mu", "--print-ir-after-all"]) == 0
    output = capsys.readouterr()
    assert output.err == "IR after every pass\n" and output.out == "mu of k for sm_90a\n"
    assert main(["k.mcu", "--emit=mu", "--print-ir-after=form-stages", "--print-ir-after", "decompose"]) == 0
    assert capsys.readouterr().err == "IR after form-stages, decompose\n"


def test_a_defect_is_an_internal_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    write("k.mcu", "kernel k crash\n")
    assert main(["check", "k.mcu"]) == 4
    error = capsys.readouterr().err
    assert "error[MU9001]: internal error: KeyError: 'no such thing'" in error and "Traceback" not in error
    assert main(["check", "k.mcu", "--verbose"]) == 4
    assert "compile_text" in capsys.readouterr().err
    monkeypatch.setenv("MUCC_DEBUG", "1")
    assert main(["check", "k.mcu"]) == 4
    assert "compile_text" in capsys.readouterr().err


def test_ctrl_c(builds: list[str]):
    assert main([write("k.mcu", "kernel k interrupt\n"), "-o", "k.so"]) == 130
    assert left() == {"k.mcu"}


# Building through the cache


def test_a_build_is_executable_and_sealed(builds: list[str]):
    from mucc.library.checksum import seal_state

    assert main([write("k.mcu"), "-o", "k.so"]) == 0
    data = Path("k.so").read_bytes()
    assert data.startswith(b"so: parts of k") and seal_state(data) == "good"
    assert os.access("k.so", os.X_OK)
    assert main(["k.mcu", "--emit=ptx"]) == 0
    assert builds == ["parts of k", "image of k"]


def test_plain_nvcc(builds: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([write("k.mcu", "kernel k\n"), "-o", "k.so", "--plain-nvcc"]) == 0
    assert main(["k.mcu", "-o", "k.so"]) == 0
    assert builds == ["cu of k for sm_90a", "parts of k"], "neither stands for the other"
    assert capsys.readouterr().err == ""


def test_what_cannot_be_spliced_takes_the_full_build(builds: list[str], capsys: pytest.CaptureFixture[str]):
    for _ in range(2):
        assert main([write("k.mcu", "kernel fixed\n"), "-o", "k.so"]) == 0
        error = capsys.readouterr().err
        assert "warning[MU5209]" in error and "it does not bend" in error
    assert builds == ["cu of fixed for sm_90a"]


def test_several_programs_and_jobs(builds: list[str], capsys: pytest.CaptureFixture[str]):
    names = [write(f"{c}.mcu", f"kernel {c}\n") for c in "abc"]
    assert main([names[0], "-j", *names[1:]]) == 0
    assert main([*names, "-j", "2", "--no-cache"]) == 0
    assert sorted(builds) == sorted(2 * [f"parts of {c}" for c in "abc"])
    assert {f"{c}.so" for c in "abc"} <= left()
    Path("sub").mkdir()
    assert main(["a.mcu", write("sub/a.mcu", "kernel x\n")]) == 2
    assert "two programs would be written to 'a.so'" in capsys.readouterr().err
    assert main(["a.mcu", "-j", "-3"]) == 2


def test_a_bad_program_does_not_keep_the_others(builds: list[str], capsys: pytest.CaptureFixture[str]):
    write("good.mcu", "kernel good\n")
    assert main([write("bad.mcu", "kernel error\n"), "good.mcu", "-j"]) == 1
    assert "good.so" in left() and "bad.so" not in left()
    assert "--> bad.mcu:1:8" in capsys.readouterr().err


def test_a_defect_does_not_keep_the_others(builds: list[str], capsys: pytest.CaptureFixture[str]):
    write("good.mcu", "kernel good\n")
    assert main([write("bad.mcu", "kernel crash\n"), "good.mcu", "-j"]) == 4
    assert "good.so" in left() and "bad.so" not in left()
    assert "error[MU9001]: bad.mcu: internal error: KeyError" in capsys.readouterr().err


def test_an_equal_request_runs_no_compiler(builds: list[str], capsys: pytest.CaptureFixture[str]):
    write("k.mcu", "kernel spill warn\n")
    assert main(["k.mcu", "-o", "k.so"]) == 0
    first, said = Path("k.so").read_bytes(), capsys.readouterr().err
    assert "MU2001" in said and "MU5201" in said and "--> k.mcu:1:1" in said
    assert main(["k.mcu", "-o", "again.so"]) == 0
    assert Path("again.so").read_bytes() == first
    assert capsys.readouterr().err == said, "a cached build gives the same warnings"
    assert (Compiler.runs, len(builds)) == (1, 1)


def test_a_program_that_means_the_same_runs_no_nvcc(builds: list[str]):
    assert main([write("k.mcu", "kernel k\n"), "-o", "k.so"]) == 0
    assert main([write("moved.mcu", "kernel   k // with a comment\n"), "-o", "moved.so"]) == 0
    assert (Compiler.runs, len(builds)) == (2, 1)


def test_no_cache(builds: list[str], tmp_path: Path):
    write("k.mcu")
    for _ in range(2):
        assert main(["k.mcu", "-o", "k.so", "--no-cache"]) == 0
    assert len(builds) == 2 and not (tmp_path / "cache").exists()


def test_save_temps_builds_anew_and_keeps_the_ir(builds: list[str]):
    write("k.mcu")
    for _ in range(2):
        assert main(["--save-temps", "k.mcu", "-o", "k.so"]) == 0
    assert len(builds) == 2
    assert left() == {"k.mcu", "k.so", "k.temps"}
    assert (Path("k.temps") / "k.cutlass.mlir").read_text().startswith("cutlass of k")
    assert main(["k.mcu", "-o", "k.so", "--save-temps=kept"]) == 0
    assert "k.mu.mlir" in os.listdir("kept")


def test_a_damaged_entry_is_repaired_with_a_warning(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write("k.mcu")
    assert main(["k.mcu", "-o", "k.so"]) == 0
    good = Path("k.so").read_bytes()
    for path in (tmp_path / "cache" / "artefacts").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-3])
    assert main(["k.mcu", "-o", "k.so"]) == 0
    assert Path("k.so").read_bytes() == good and "warning[MU5204]" in capsys.readouterr().err
    assert main(["k.mcu", "-o", "k.so"]) == 0
    assert capsys.readouterr().err == "" and len(builds) == 2


def test_an_unusable_cache_is_a_warning(
    builds: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MUCC_CACHE_DIR", "/dev/null/cache")
    assert main([write("k.mcu"), "-o", "k.so"]) == 0
    assert Path("k.so").exists() and capsys.readouterr().err.count("MU5203") == 1


def test_a_missing_toolchain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def missing(nvcc: str | None, host: str) -> discover.Toolchain:
        raise DiagnosticError(Diagnostic("MU5101", "nvcc was not found"))

    monkeypatch.setattr("mucc.build.artefact.find_toolchain", missing)
    assert main([write("k.mcu"), "-o", "k.so"]) == 3
    assert "error[MU5101]" in capsys.readouterr().err
    assert main([write("bad.mcu", "kernel error\n"), "-o", "k.so"]) == 1, "errors in the program come first"
    assert main(["k.mcu", "--emit=cu"]) == 0, "what needs no nvcc works without"
    assert left() == {"k.mcu", "bad.mcu"}


def test_cache_command(builds: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path):
    write("k.mcu")
    for _ in range(3):
        assert main(["k.mcu", "-o", "k.so"]) == 0
    assert main(["cache"]) == 0
    text = capsys.readouterr().out
    assert str(tmp_path / "cache") in text and "of 4.0 GiB\n" in text
    assert main(["cache", "stats", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    for level in ("requests", "artefacts"):
        row = stats["levels"][level]
        assert (row["entries"], row["hits"], row["misses"]) == (1, 2, 1) and row["size"] > 0
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 3 entries")
    assert main(["k.mcu", "-o", "k.so"]) == 0 and len(builds) == 2


# Files


def test_outputs_are_replaced_whole(here: Path, monkeypatch: pytest.MonkeyPatch):
    target = here / "out"
    target.write_text("old")

    def full(source: str, destination: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DiagnosticError, match="No space left on device"):
        files.write_output(str(target), b"new")
    assert target.read_text() == "old" and left() == {"out"}


def test_an_output_may_be_a_link_or_a_device(here: Path):
    (here / "real").write_text("old")
    (here / "link").symlink_to("real")
    files.write_output("link", b"new")
    assert (here / "link").is_symlink() and (here / "real").read_text() == "new"
    files.write_output("/dev/null", b"gone")
    assert not os.path.isfile("/dev/null")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_rights(here: Path, capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    (here / "locked").mkdir(mode=0o555)
    write("mine", "x")
    os.chmod("mine", 0o444)
    os.chmod("k.mcu", 0o000)
    assert main(["k.mcu", "--emit=mu"]) == 2 and "MU5011" in capsys.readouterr().err
    os.chmod("k.mcu", 0o644)
    for output in ("locked/out", "mine"):
        assert main(["k.mcu", "--emit=mu", "-o", output]) == 2
        assert "MU5014" in capsys.readouterr().err


# Whole processes


def process(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUCC, *argv], capture_output=True, text=True, timeout=HANG, **options)  # type: ignore[call-overload]


def test_the_process_exits_with_the_status():
    assert process("--version").returncode == 0
    assert process("gone.mcu").returncode == 2
    assert process("explain", "MU5010").stdout.startswith("MU5010: ")


def test_a_reader_that_leaves_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([*MUCC, "docs", "--errors"], stdout=writer, stderr=subprocess.PIPE, timeout=HANG)
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, b"")


@pytest.mark.parametrize("argv", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(argv: list[str]):
    assert heavy(f"assert main({argv!r}) == 0") == set()


def test_a_cached_build_imports_nothing_heavy(builds: list[str]):
    """The compiler proper stays out of the way when the answer is known."""
    if not (discover.find_nvcc() and discover.find_cutlass() and discover.find_host()):
        pytest.skip("a request names its toolchain, and there is none here")
    write("k.mcu")
    # In a process of its own, which finds the same toolchain as the one that is watched.
    subprocess.run([sys.executable, "-c", STORED], check=True, timeout=300)
    assert heavy("assert main(['k.mcu', '-o', 'k.so']) == 0") == {"click"}
    assert Path("k.so").read_bytes() == b"data"


STORED = """
from pathlib import Path
from mucc.build.artefact import Request, decisive_flags
from mucc.build.cache import Cache, Entry, request_key
from mucc.build.toolchain import discover

decisive, cache = decisive_flags(Request(b"", "k.mcu")), Cache()
cache.build("artefacts", "ab" * 32, lambda: Entry(b"data", ()))
key = request_key(Path("k.mcu").read_bytes(), decisive, discover.find_toolchain().fingerprint())
cache.store_request(key, "ab" * 32, ())
"""
"""A program that stores the answer to `mucc k.mcu -o k.so` in the cache."""


def heavy(statement: str) -> set[str]:
    """Which of the modules that cost much were imported by a statement, in a fresh process."""
    watched = {
        "xdsl",
        "numpy",
        "torch",
        "rich",
        "click",
        "click.shell_completion",
        "filelock",
        "subprocess",
        "mucc.compiler.driver",
        "mucc.frontend",
    }
    program = (
        f"import sys; from mucc.cli.main import main; {statement}; print(*({watched!r} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG, check=True
    )
    return set(run.stdout.splitlines()[-1].split())
