"""`reproducible = on`: what it forbids, and plans of launches that do not depend on the number of rows."""

from __future__ import annotations

import pytest

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import DiagnosticError, Source

PRODUCT = """\
kernel k[M, N, K=16384](x: bf16[M, K], w: bf16[N, K]) -> {type} {{
    return {value}
}}
"""
GRADIENTS = """\
kernel k[B, M, D=64](
    q: f16[B, M, D], k: f16[B, M, D], v: f16[B, M, D], y: f16[B, M, D], l: f32[B, M], g: f16[B, M, D],
) -> f16[B, M, D] where M % 8 == 0 {
    return attention_dq(q, k, v, y, l, g)
}
"""
ON = "\nschedule k for {target} {{\n    reproducible = on\n{more}}}\n"


def compiled(text: str, target: str = "sm_90a", dims: dict[str, int] | None = None, more: str = ""):
    source = Source("k.mcu", text + ON.format(target=target, more=more))
    return compile_text(source, Options(target, dims=dims or {}))


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("rows", [1, 16, 100, 5000])
def test_the_compiler_chooses_no_schedule_that_depends_on_rows(target: str, rows: int):
    text = PRODUCT.format(type="bf16[M, N]", value="x @ w.T")
    (program,) = compiled(text, target, {"M": rows, "N": 512}).programs
    (kernel,) = (k for k in program.kernels if k.name == "cutlass.gemm")
    assert kernel.properties["scheduler"].kind.data != "stream_k"  # type: ignore[attr-defined]


def test_every_candidate_of_a_reproducible_contraction_is_reproducible():
    from mucc.kernels.gemm.kind import GemmKind

    text = PRODUCT.format(type="bf16[M, N]", value="x @ w.T")
    (program,) = compiled(text).programs
    kernel = next(iter(program.kernels))
    workload = GemmKind().workload("sm_90a", kernel, {"M": 64, "N": 64})  # type: ignore[arg-type]
    open_choice = {c.schedule.scheduler for c in workload.candidates()}
    fixed = {
        c.schedule.scheduler for c in workload.candidates({"reproducible": kernel.properties["reproducible"]})
    }
    assert "stream_k" in open_choice and "stream_k" not in fixed and fixed


@pytest.mark.parametrize(
    ("text", "more", "blamed"),
    [
        (
            PRODUCT.format(type="bf16[M, N]", value="x @ w.T"),
            "    scheduler = stream_k(splits=2)\n",
            "scheduler",
        ),
        (PRODUCT.format(type="f32[M]", value="sum(relu(x @ w.T), axis=1)"), "", "atomics"),
        (GRADIENTS, "", "atomics"),
    ],
)
def test_what_has_no_order_is_an_error(text: str, more: str, blamed: str):
    with pytest.raises(DiagnosticError) as caught:
        compiled(text, more=more)
    (found,) = caught.value.diagnostics
    assert found.code == "MU3075" and blamed in found.message


def test_maxima_may_be_taken_in_any_order():
    compiled(PRODUCT.format(type="f32[M]", value="max(x @ w.T, axis=1)"))


@pytest.mark.parametrize(
    "body",
    [
        "sum(x, axis=1)",
        "sum(softmax(x), axis=1)",
        "sum(cumsum(x, axis=1), axis=1)",
    ],
)
def test_other_kernels_get_it_and_the_manifest_says_so(body: str):
    text = f"kernel k[M, K](x: bf16[M, K]) -> f32[M] {{\n    return {body}\n}}\n"
    compilation = compiled(text)
    stages = [s for k in compilation.manifest["kernels"] for s in k["stages"]]
    assert stages and all(s.get("reproducible") is True for s in stages)
    assert compilation.emit("cu").count("kReproducible = true") == len(stages)
    plain = compile_text(Source("k.mcu", text), Options())
    assert "eproducible" not in plain.emit("cu") + plain.emit("manifest")


def test_a_schedule_of_a_stage_without_contraction_may_promise_it():
    text = "kernel k[M, K](x: bf16[M, K]) -> f32[M] {\n    return sum(x, axis=1)\n}\n"
    good = "schedule k.out for sm_90a {\n    reproducible = on\n}\n"
    compile_text(Source("k.mcu", text + good), Options())
    with pytest.raises(DiagnosticError, match="MU2001"):
        compile_text(Source("k.mcu", text + good.replace("reproducible = on", "stages = 3")), Options())


def test_schedules_are_printed_as_they_are_read():
    text = PRODUCT.format(type="bf16[M, N]", value="x @ w.T")
    printed = compiled(text).emit("schedule")
    assert "    reproducible = on\n" in printed
    assert compile_text(Source("k.mcu", text + printed), Options()).emit("schedule") == printed
