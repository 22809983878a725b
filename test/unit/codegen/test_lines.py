"""`--lineinfo`: directives that lead from C++ and machine code to lines of the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mucc.cli.main import main
from mucc.cli.registry import MUCC
from mucc.codegen.lines import directed
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source

ROOT = Path(__file__).parents[3]

PROGRAM = """\
fn squared(v) {
    return v * v
}

kernel k[M, K](x: f32[M, K], y: f32[M, K]) -> f32[M, K] {
    a = exp(x)
    b = tanh(y)
    return squared(a + b)
}
"""


def texts(program: str, name: str = "k.mcu") -> tuple[str, str]:
    compilation = compile_text(Source(name, program))
    return compilation.cu(), compilation.cu(lines=True)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.mcu")), ids=lambda p: p.stem)
def test_nothing_changes_but_directives(path: Path):
    plain, with_lines = texts(path.read_text(), str(path))
    kept = [line for line in with_lines.split("\n") if not line.startswith("#line")]
    assert kept == plain.split("\n")
    named = re.findall(r'^#line (\d+) "(.*)"$', with_lines, re.MULTILINE)
    last = path.read_text().count("\n")
    assert {name for _, name in named} == {str(path), "kernel.cu"}
    assert all(1 <= int(line) <= last for line, name in named if name == str(path))


def test_operations_have_the_lines_that_they_are_written_on(tmp_path: Path):
    _, text = texts(PROGRAM, str(tmp_path / "k.mcu"))
    found = {
        function: int(line)
        for line, function in re.findall(
            r'#line (\d+) "[^"]*k\.mcu"\n *float const \w+ = (?:mucc::)?(\w+)', text
        )
    }
    assert found["exp"] == 6 and found["tanh"] == 7
    body = text.partition("struct Body0")[2].partition("};")[0]
    assert re.findall(r"#line (\d+)", body)[-4:-2] != [] and '#line 2 "' in body and '#line 8 "' in body


def test_behind_a_kernel_the_file_counts_its_own_lines():
    _, text = texts(PROGRAM)
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if match := re.fullmatch(r'#line (\d+) "kernel\.cu"', line):
            assert int(match[1]) == number + 1


def test_names_are_escaped():
    marked = "//@begin 3\nint a; //@7\n\nint b;\n//@end\nint c;"
    assert directed(marked, 'a"b\\c.mcu', "kernel.cu").split("\n") == [
        '#line 7 "a\\"b\\\\c.mcu"',
        "int a;",
        "",
        '#line 3 "a\\"b\\\\c.mcu"',
        "int b;",
        '#line 7 "kernel.cu"',
        "int c;",
    ]


@pytest.mark.nvcc
def test_machine_code_names_the_program(tmp_path: Path):
    pytest.importorskip("cuda.pathfinder", reason="needs nvcc")
    program, ptx = tmp_path / "k.mcu", tmp_path / "k.ptx"
    program.write_text(PROGRAM)
    if main(["build", str(program), "--lineinfo", "-o", str(ptx)], MUCC) == 3:
        pytest.skip("no nvcc here")
    text = ptx.read_text()
    number = re.search(rf'\.file\s+(\d+) "{re.escape(str(program))}"', text)
    assert number
    found = {int(line) for line in re.findall(rf"\.loc\s+{number[1]} (\d+) ", text)}
    assert {2, 6, 7, 8} <= found
