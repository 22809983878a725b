"""What a program is told that is written as in CUDA, CUTLASS, Triton or Python: one error, and the remedy."""

from __future__ import annotations

import pytest

from mucc.diagnostics import Diagnostic, Source
from mucc.frontend import lower, parse

BODY = "kernel k[M, N](x: f32[M, N], y: f32[M, N]) -> f32[M, N] {{\n    {}\n}}\n"
KERNEL = "kernel k[M](x: f32[M]) -> f32[M] { return x }\n"
PRODUCT = "kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {{ return {} }}\n"
SCHEDULED = (
    "kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {{ return x @ w.T }}\nschedule {}\n"
)


def errors(text: str) -> list[Diagnostic]:
    source = Source("k.mcu", text)
    program, sink = parse(source)
    if not sink.has_errors:
        lower(program, sink)
    return [d for d in sink.diagnostics if d.severity == "error"]


def body(line: str) -> str:
    return BODY.format(line)


def product(value: str) -> str:
    return PRODUCT.format(value)


def scheduled(text: str) -> str:
    return SCHEDULED.format(text)


MISTAKES = [
    (
        "__global__ void k(float* x) {\n    int i = threadIdx.x;\n    x[i] *= 2;\n}\n",
        "MU0001",
        "a kernel reads",
    ),
    ("template <int M>\n" + KERNEL, "MU0001", "a kernel reads"),
    ("@triton.jit\n" + KERNEL, "MU0001", "a kernel reads"),
    ("#include <cuda.h>\n" + KERNEL, "MU0002", "no preprocessor"),
    ("#define N 4\n" + KERNEL, "MU0002", "no preprocessor"),
    ("# a comment\n" + KERNEL, "MU0002", "comments begin with '//'"),
    ("kernel k<M>(x: f32[M]) -> f32[M] { return x }", "MU0001", "square brackets"),
    ("func k[M](x: f32[M]) -> f32[M] { return x }", "MU0001", "a kernel reads"),
    ("fn k[M](x: f32[M]) -> f32[M] { return x }", "MU0001", "a kernel does"),
    ("kernel k[M](float *x) -> f32[M] { return x }", "MU0001", "the name comes before the type"),
    ("kernel k[M](f32[M] x) -> f32[M] { return x }", "MU0001", "the name comes before the type"),
    ("kernel k[M](x: float*[M]) -> f32[M] { return x }", "MU0006", "did you mean 'f32'?"),
    ("kernel k[M](x: torch.Tensor) -> f32[M] { return x }", "MU0006", "a dtype with extents"),
    (
        "kernel k[M](x: f32[M]) -> tuple[f32[M], f32[M]] { return x, x }",
        "MU0006",
        "several results have names",
    ),
    ("kernel k[M](x: f32[M], e=1e-5) -> f32[M] { return x }", "MU0001", "no default"),
    ("kernel k[M](x: f32[M], e: f32 = 1e-5) -> f32[M] { return x }", "MU0001", "no defaults"),
    ("kernel k[M, N](x: f32[M][N]) -> f32[M] { return x }", "MU0001", "one list"),
    ("kernel k[M, N](x: f32(M, N)) -> f32[M] { return x }", "MU0001", "square brackets"),
    ("kernel k[M](x: f32[M]) where M > 1 -> f32[M] { return x }", "MU0001", "promises follow the result"),
    ("kernel k[M](x: f32[M]) -> f32[M] where M % 8 = 0 { return x }", "MU0001", "equality is `==`"),
    ("kernel k[M](x: f32[M]) -> f32[M] where x > 3 { return x }", "MU1005", "a promise is made of dims"),
    ("kernel k(x: f32[M]) -> f32[M] { return x }", "MU1005", "declare it"),
    ("kernel k[M](x: f32[M]) -> f32[1] { return sum(x) }", "MU1012", "axes of extent 1"),
    (body("return x > 0 ? x : y"), "MU0002", "write where(condition, a, b)"),
    (body("return x ^ 2"), "MU0002", "pow(x, y)"),
    (body("return fmaxf(x, y)"), "MU1002", "write `max(x, 0)`"),
    (body("return std::max(x, y)"), "MU0001", "called by their names alone"),
    (body("for (int i = 0; i < N; ++i) { x; }\n    return x"), "MU0001", "there are no loops"),
    (body("if (x > 0) { return x }\n    return y"), "MU0001", "where(condition, a, b)"),
    (body("return x++"), "MU0001", "values do not change"),
    (body("return x << 2"), "MU0001", "left_shift(a, b)"),
    (body("return x >> 2"), "MU0001", "right_shift(a, b)"),
    (body("return (float)x"), "MU0001", "cast(x, f32)"),
    (body("return 1.0f * x"), "MU0003", "write 1.0"),
    (body("return 0xff * x"), "MU0003", "write 255"),
    (body("return 0x10 * x"), "MU0001", "numbers are decimal: 16"),
    (body("return 1_000 * x"), "MU0003", "write 1000"),
    (body("return 2x"), "MU0003", "`2 * x`"),
    (body("return 1e * x"), "MU0003", "write a number as"),
    (body("__syncthreads()\n    return x"), "MU0001", "threads and shared memory"),
    (body('"""A comment,\n    of two lines."""\n    return x'), "MU0002", "a comment begins with '//'"),
    (body("return x is y"), "MU0001", "equality is `==`"),
    (body("return lambda z: z"), "MU0001", "fn name(x, y)"),
    (body("return exp x"), "MU0001", "`exp(x)`"),
    (body("return"), "MU0001", "the result of the kernel"),
    (body("return None"), "MU0001", "the result of the kernel"),
    (body("print(x)\n    return x"), "MU0001", "a kernel prints nothing"),
    (body("return clamp(x, 0)"), "MU1007", "max(x, lo)"),
    (body("return relu(x, inplace=True)"), "MU1008", "values do not change"),
    (body("stage = x + y\n    return stage"), "MU0005", "choose another name"),
    (product("matmul(x, w.T, bias=b)"), "MU1008", "add it: `matmul(...) + b`"),
    (product("x * w.T"), "MU1020", "a matrix product is written `@`"),
    (product("x @ w.T + b[:, None]"), "MU1020", "no new axis"),
    (product("x @ w'"), "MU0002", "'.T' for a transpose"),
    (product("(x @ w.T).T"), "MU1012", "`.T` exchanges them"),
    (scheduled("k for h100 { stages = 2 }"), "MU1042", "did you mean 'sm_90a'?"),
    (scheduled("j for sm_90a { stages = 2 }"), "MU1040", "kernels are k"),
    (scheduled("k for sm_90a, sm_80 { stages = 2 }"), "MU0001", "one for each"),
    (scheduled("k for sm_90a { tile = (128, 128, 64) }"), "MU0001", "no brackets"),
    (scheduled("k for sm_90a { tile = 128, 128, 64 }"), "MU0001", "no commas"),
    (scheduled("k for sm_90a { tile: 128x128x64 }"), "MU0001", "tile = 128x256x64"),
    (scheduled("k for sm_90a { tile = 128X128X64 }"), "MU0003", "write 128x128x64"),
    (scheduled("k for sm_90a { num_stages = 4 }"), "MU1043", "'stages'"),
    (scheduled("k for sm_90a { BLOCK_M = 128 }"), "MU1043", "`tile = 128x256x64`"),
    (scheduled("k for sm_90a { exchange = True }"), "MU1044", "did you mean 'on'?"),
    (scheduled("k for sm_90a { mainloop = KernelTmaWarpSpecializedPingpong }"), "MU1044", "'pingpong'"),
]


@pytest.mark.parametrize(("text", "code", "advice"), MISTAKES)
def test_a_habit_of_another_language_is_one_error_with_its_remedy(text: str, code: str, advice: str):
    (error,) = errors(text)
    assert error.code == code and error.span is not None
    assert any(advice in help_ for help_ in error.helps), error.helps


def test_a_preprocessors_line_is_not_made_a_comment():
    (error,) = errors("#define N 4\n" + KERNEL)
    assert not error.fixes and error.span is not None and error.span.end == len("#define")


def test_statements_on_one_line_remain_legal():
    assert not errors("kernel k[M](x: f32[M]) -> f32[M] { a = x * 2 b: f32[M] = a + 1 return b }")


def test_an_error_behind_a_garbled_statement_is_reported():
    found = errors("kernel k[M](x: f32[M]) -> f32[M] {\n    a = x ? 1 : 2\n    b = a +\n    return b\n}")
    assert [d.code for d in found] == ["MU0002", "MU0001"]
