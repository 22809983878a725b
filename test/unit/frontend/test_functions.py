"""Functions that a program defines: what their calls mean, and what is said of wrong ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tensorlib import random, run
from xdsl.dialects.builtin import CallSiteLoc

from mucc import frontend
from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import Diagnostic, DiagnosticError, Source
from mucc.dialects.locations import place_of, places_of
from mucc.frontend.inlining import MOST

HEAD = "kernel f[M, K](x: f32[M, K], w: f32[K, K], s: f32) -> f32[M, K] "


def diagnose(text: str) -> list[Diagnostic]:
    source = Source("f.mcu", text)
    program, sink = frontend.parse(source)
    if not sink.has_errors:
        frontend.lower(program, sink)
    return list(sink.diagnostics)


def codes(text: str) -> list[str]:
    return [d.code for d in diagnose(text)]


def printed(text: str) -> str:
    source = Source("f.mcu", text)
    program, sink = frontend.parse(source)
    module = frontend.lower(program, sink)
    assert not sink.diagnostics, sink.diagnostics
    module.verify()
    return str(module)


# Meaning


@pytest.mark.parametrize(
    ("functions", "call", "expanded"),
    [
        ("fn g(a, b) { return a - b }", "g(x, 2)", "x - 2"),
        ("fn g(a, b) { return a - b }", "g(b=x, a=2)", "2 - x"),
        ("fn g(a, b,) { c = a * b return c + c }", "g(x, s)", "x * s + x * s"),
        ("fn g(a) { return h(a) + 1 } fn h(a) { return a * a }", "g(h(x))", "h * h + 1"),
        ("fn g(x) { s = relu(x) return s }", "g(x) * s", "relu(x) * s"),
        ("fn g(x, w) { return softmax(x @ w, axis=1) }", "g(x, w)", "softmax(x @ w, axis=1)"),
        ("fn g(x, w) { return softmax(x @ w, axis=1) }", "g(x @ w, w)", "softmax((x @ w) @ w, axis=1)"),
        ("fn one() { return 1 }", "x + one()", "x + 1"),
        ("fn g(x, lo) { return clamp(x, lo=-lo, hi=lo) }", "g(x, 0.5)", "clamp(x, lo=-0.5, hi=0.5)"),
        ("fn g(x, eps) { e = eps return rms_norm(x, eps=e) }", "g(x, 0.1)", "rms_norm(x, eps=0.1)"),
        (
            "fn g(x, n) { return max(x, axis=-n, keepdims=on) + x }",
            "g(x, 1)",
            "max(x, axis=-1, keepdims=on) + x",
        ),
        ("fn g(x, n) { return sum(x, axis=(0, n)) + x }", "g(x, 1)", "sum(x, axis=(0, 1)) + x"),
    ],
)
def test_a_call_is_its_body(functions: str, call: str, expanded: str) -> None:
    x, w = random(4, 3), random(3, 3)
    (got,) = run(f"{functions} {HEAD} {{ return {call} + 0 * (x @ w) * s }}", x, w, np.array(0.75))
    defined = "h = x * x\n" if expanded.startswith("h ") else ""
    (wanted,) = run(f"{HEAD} {{ {defined} return {expanded} + 0 * (x @ w) * s }}", x, w, np.array(0.75))
    np.testing.assert_array_equal(got, wanted)


def test_types_are_those_of_each_call() -> None:
    text = printed(
        """fn half(x, n) { return x[..., :n] * 2 }
        kernel f[M](x: bf16[M, 4], y: f32[8]) -> (a: bf16[M, 2], b: f32[4], c: f32[M, 1, 2]) {
            return half(x, 2), half(y, 4), reshapes(half(y, 8), x)
        }
        fn reshapes(y, x) { n = 2 return reshape(y, (2, 2, n))[0, :1] + x[:, None, :2] }"""
    )
    assert (
        text.count("mu.slice") == 5
        and "bounds [#builtin.int<0>, #builtin.int<4>] step 1" in text
        and "bounds [#builtin.int<0>, #builtin.int<2>] step 1" in text
    )


def test_numbers_with_names_are_options_in_kernels_too() -> None:
    text = printed(
        "kernel f[M](x: f32[M, 8]) -> f32[M, 4] { n = 4 eps = 1e-3 return rms_norm(x[:, n:], eps=eps) }"
    )
    assert "bounds [#builtin.int<4>, #builtin.int<8>] step 1" in text and "eps 1.000000e-03" in text


def test_a_number_too_large_for_an_extent_is_none() -> None:
    text = "kernel f[M](x: f32[M, 8]) -> f32[M] { n = 1e300 return sum(x, axis=n) }"
    assert codes(text) == ["MU1010"]
    assert codes(text.replace("sum(x, axis=n)", "x[:, n]")) == ["MU1097"]
    assert codes(text.replace("1e300", "inf")) == ["MU1010"]


# Places


def test_operations_know_their_body_and_their_calls() -> None:
    functions = "fn g(x) {\n return relu(x) }\nfn h(x) {\n return g(x) }\n"
    text = f"{functions}kernel f(x: f32[8]) -> f32[8] {{\n return h(x) }}"
    program, sink = frontend.parse(Source("f.mcu", text))
    (relu,) = [op for op in frontend.lower(program, sink).walk() if op.name == "mu.relu"]
    assert isinstance(relu.location, CallSiteLoc)
    assert [(p.line.data, p.column.data) for p in places_of(relu.location)] == [(2, 9), (4, 9), (6, 9)]
    assert place_of(relu.location) == next(places_of(relu.location))


def test_an_error_with_the_arguments_of_a_call_shows_both() -> None:
    functions = "fn g(a, b) { return a @ b }\nfn h(a, b) { return g(a, b) }\n"
    text = f"{functions}{HEAD} {{ return h(x, s) + h(x, s) }}"
    (found,) = diagnose(text)
    assert found.code == "MU1023" and found.span is not None
    assert text[found.span.start : found.span.end] == "@"
    labels = [(text[span.start : span.end], label) for span, label in found.labels]
    assert labels[-2:] == [("g", "in this call of 'g'"), ("h", "in this call of 'h'")]


def test_a_pass_shows_both_too() -> None:
    kernel = "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K]) -> bf16[M, N] { return relu(g(x, w)) }"
    text = f"fn g(a, b) {{ return matmul(a, b.T) }}\n{kernel}"
    with pytest.raises(DiagnosticError) as raised:
        compile_text(Source("f.mcu", text), Options(target="sm_80"))
    (found,) = raised.value.diagnostics
    assert found.code == "MU3020" and found.span is not None
    assert text[found.span.start : found.span.end] == "matmul"
    assert [text[span.start : span.end] for span, _ in found.labels] == ["g"]


def test_emitted_code_quotes_body_and_call() -> None:
    text = "fn g(x) {\n    return relu(x)\n}\n\nkernel f(x: f32[8]) -> f32[8] {\n    return g(x)\n}\n"
    emitted = compile_text(Source("f.mcu", text)).emit("cu")
    assert "//   f.mcu:2: return relu(x)" in emitted and "//   f.mcu:6: return g(x)" in emitted


# What is refused


@pytest.mark.parametrize(
    ("functions", "call", "found"),
    [
        ("fn g(a) { return zz }", "x", ["MU1001"]),
        ("fn g(a) { return a + K }", "g(x)", ["MU1001"]),
        ("fn g(a) { return swish(a) }", "g(x)", ["MU1002"]),
        ("fn g(a) { return relu(a, a) }", "g(x) + g(x)", ["MU1007"]),
        ("fn g(a) { return h(a) } fn h(a, b) { return a + b }", "x", ["MU1007"]),
        ("fn g(a) { return a }", "g()", ["MU1007"]),
        ("fn g(a) { return a }", "g(x, x)", ["MU1007"]),
        ("fn g(a) { return a }", "g(b=x)", ["MU1008"]),
        ("fn g(a) { return a }", "g(x, a=x)", ["MU1009"]),
        ("fn g(a) { return a }", "g((M, 2))", ["MU1010"]),
        ("fn g(a, b) { return clamp(a, lo=0, hi=1, axis=b) }", "g(x, x)", ["MU1008"]),
        ("fn g(a, b) { return sum(a, axis=b) }", "g(x, x)", ["MU1010"]),
        ("fn g(a, b) { return a[b] }", "g(x, x)", ["MU1097"]),
        ("fn g(a, a) { return a }", "g(x, x)", ["MU1003"]),
        ("fn g(a) { a = relu(a) return a }", "g(x)", ["MU1003"]),
        ("fn g(a) { return a } fn g(a) { return a }", "g(x)", ["MU1003"]),
        ("fn f(a) { return a }", "f(x)", ["MU1003"]),
        ("fn relu(a) { return a }", "relu(x)", ["MU1019"]),
        ("fn bf16(a) { return a }", "bf16(x)", ["MU1019"]),
        ("fn g(f16) { return f16 }", "g(x)", ["MU1019"]),
        ("fn g(a, b) { c = a return a }", "g(x, x)", ["MU1013", "MU1014"]),
        ("fn g(_a, b) { _c = b return b }", "g(x, x)", []),
        ("fn g(a) { return a }", "x", ["MU1052"]),
        ("fn _g(a) { return a }", "x", []),
        ("fn g(a) { return h(a) } fn h(a) { return a }", "x", ["MU1052"]),
        ("fn g(a) { return g(a) }", "x", ["MU1051"]),
        (
            "fn g(a) { return h(a) } fn h(a) { return k(a) } fn k(a) { return g(a) + h(a) }",
            "g(x)",
            ["MU1051"] * 2,
        ),
        ("fn g(a) { stage b = a return b }", "g(x)", ["MU0016"]),
        ("fn g(a) { b: f32[2] = a return b }", "g(x)", ["MU0016"]),
        ("fn g(a: f32) { return a }", "g(x)", ["MU0016"]),
        ("fn g(a) { return a, a }", "g(x)", ["MU0016"]),
        ("fn g(a) { b = a }", "g(x)", ["MU0008"]),
        ("fn g(a) { return a b = a }", "g(x)", ["MU0011"]),
        ("fn g[M](a) { return a }", "g(x)", ["MU0001"]),
        ("def g(a) { return a }", "g(x)", ["MU0001"]),
    ],
)
def test_what_is_refused(functions: str, call: str, found: list[str]) -> None:
    used = "0 * (x @ w) * s"
    assert codes(f"{functions} {HEAD} {{ return {call} + {used} }}") == found


def test_a_cycle_is_shown() -> None:
    functions = "fn g(a) { return h(a) }\nfn h(a) { return k(a) }\nfn k(a) { return g(a) }\n"
    text = f"{functions}{HEAD} {{ return x }}"
    found = next(d for d in diagnose(text) if d.code == "MU1051")
    assert found.message == "the function 'g' leads to a call of itself: g -> h -> k -> g"
    assert [label for _, label in found.labels] == ["'g' calls 'h'", "'h' calls 'k'"]


def test_a_call_of_a_broken_function_says_no_more() -> None:
    text = f"fn g(a) {{ return zz + a }}\n{HEAD} {{ y = g(x) return y @ g(w) * g(s) }}"
    assert codes(text) == ["MU1001"]
    assert codes(f"{text} kernel h(x: f32[2]) -> f32[2] {{ return g(x) }}") == ["MU1001"]


def test_what_calls_expand_to_is_bounded() -> None:
    def doubled(levels: int) -> str:
        names = [f"g{n}" for n in range(levels + 1)]
        steps = "".join(f"fn {b}(x) {{ return {a}(x) + {a}(x) }}\n" for a, b in pairwise(names))
        return f"fn g0(x) {{ return x * x }}\n{steps}{HEAD} {{ return {names[-1]}(x) + 0 * (x @ w) * s }}"

    assert codes(doubled(8)) == []
    (found,) = diagnose(doubled(60))
    assert found.code == "MU1053" and str(MOST) in found.message


@pytest.mark.parametrize("count", [20, 200, 3000])
def test_how_deep_calls_nest_is_bounded(count: int) -> None:
    chain = "".join(f"fn g{n + 1}(x) {{ return g{n}(x) }}\n" for n in range(count))
    text = f"fn g0(x) {{ return x }}\n{chain}{HEAD} {{ return g{count}(x) + 0 * (x @ w) * s }}"
    assert codes(text) == ([] if count < 100 else ["MU0010"])
    deep = "relu(" * 60 + "g(" * 1 + "x" + ")" * 61
    nested = f"fn g(x) {{ return {'-(' * 30}x{')' * 30} }} fn h(x) {{ return {deep} }}"
    assert set(codes(f"{nested} {HEAD} {{ return {'h(' * 60}x{')' * 60} + 0 * (x @ w) * s }}")) <= {"MU0010"}


def test_a_cycle_of_many_functions_is_one_error() -> None:
    ring = "".join(f"fn g{n}(x) {{ return g{(n + 1) % 2000}(x) }}\n" for n in range(2000))
    (found,) = [d for d in diagnose(f"{ring}{HEAD} {{ return x @ w * s }}") if d.severity == "error"]
    assert found.code == "MU1051" and len(found.message) < 200 and len(found.labels) < 20
