"""Chains of operators may have any number of terms; only brackets within brackets have a limit."""

from __future__ import annotations

import numpy as np
import pytest

from mucc.compiler.driver import Options, compile_text, front_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.frontend import parse
from mucc.frontend.exprtext import expr_text
from mucc.frontend.formatter import format_source
from mucc.passes.form_stages import FormStages


def program(value: str, body: str = "") -> str:
    return f"kernel f[M, K](x: f32[M, K], y: f32[M, K]) -> f32[M, K] {{\n{body}    return {value}\n}}\n"


def compiled(text: str):
    return compile_text(Source("f.mcu", text), Options(verify=False))


@pytest.mark.parametrize("terms", [200, 5000])
def test_a_flat_sum_of_many_terms_compiles(terms: int):
    compilation = compiled(program(" + ".join(["x", "y"] * (terms // 2))))
    assert compilation.emit("cu").count("+") >= terms - 1
    inputs = [np.full((2, 3), 1.0), np.full((2, 3), 3.0)]
    for found in (compilation.interpret("f", inputs), compilation.interpret_lowered("f", inputs)):
        assert np.all(found[0] == 2 * terms)


@pytest.mark.parametrize(
    "text",
    [
        program(" * ".join(["x"] * 300)),
        program(f"where({' and '.join(['x > 0', 'y < 1'] * 200)}, x, y)"),
        program("x @ y.T @ x + " + " - ".join(["y"] * 300)).replace("M, K](", "M=64, K=64]("),
        program("v399", "".join(f"    v{i} = {f'v{i - 1}' if i else 'x'} * y\n" for i in range(400))),
        program(f"softmax({' + '.join(['x', 'y'] * 200)})"),
    ],
    ids=["product", "conditions", "matmul", "statements", "softmax"],
)
def test_chains_of_every_kind_compile(text: str):
    assert compiled(text).emit("cu")


def test_layout_and_dump_of_long_chains():
    text = program(" + ".join(["x * y", "2", "(x - y)"] * 400))
    formatted = format_source(Source("f.mcu", text))
    assert format_source(Source("f.mcu", formatted)) == formatted
    tree, again = (parse(Source("f.mcu", t))[0] for t in (text, formatted))
    assert tree == again
    assert hash(tree) == hash(again)
    assert front_text(Source("f.mcu", text), "ast").count("binary") == 400 * 3 - 1 + 800


@pytest.mark.parametrize(
    "expression",
    [
        "(a + b) * c + d",
        "a * (b + c) - (d - e)",
        "(a or b) and c and d or a",
        "(a < b) == (c < d)",
        "a / b / (c / d)",
    ],
)
def test_brackets_of_mixed_chains(expression: str):
    tree, sink = parse(Source("f.mcu", program(expression)))
    assert not sink.has_errors
    assert expr_text(tree.kernels[0].returns[0]) == expression


def test_only_nesting_has_a_limit():
    for deep in (
        "(" * 70 + "x" + ")" * 70,
        "-" * 70 + "x",
        "relu(" * 70 + "x" + ")" * 70,
        "x + (" * 70 + "x" + ")" * 70,
    ):
        _, sink = parse(Source("f.mcu", program(deep)))
        assert [d.code for d in sink.diagnostics] == ["MU0010"]


def test_what_is_too_deep_has_a_place(monkeypatch: pytest.MonkeyPatch):
    def apply(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(FormStages, "apply", apply)
    text = program("relu(h) * y", "    h = x + y + x\n")
    with pytest.raises(DiagnosticError) as caught:
        compiled(text)
    (found,) = caught.value.diagnostics
    assert found.code == "MU2011"
    assert found.span is not None
    assert text[found.span.start :].startswith("relu(h) * y")
