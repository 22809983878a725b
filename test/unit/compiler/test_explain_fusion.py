"""What `--explain-fusion` tells of a program."""

from __future__ import annotations

import json

import pytest

from mucc.compiler.driver import Options, compile_text
from mucc.compiler.explain_fusion import Computed, Fusion, explain
from mucc.diagnostics import Source
from mucc.kernels.traffic import Traffic
from mucc.passes.forming import Place


def explained(text: str, target: str = "sm_90a", **dims: int) -> Fusion:
    (found,) = explain(compile_text(Source("k.mcu", text), Options(target, dims=dims)))
    return found


def computed(found: Fusion) -> list[Computed]:
    return [c for launch in found.launches for c in launch.computed]


PROGRAMS = [
    "kernel k[M, N](x: f32[M, N], b: f32[N]) -> f32[M, N] { return exp(x + b) * 2 }",
    "kernel k[M, N, K](x: bf16[M, K], w: bf16[K, N]) -> (y: f32[M, N], s: f32[M])"
    " { y = x @ w return y, min(y, axis=1) }",
    "kernel k[M, N, K](x: bf16[M, K], w: bf16[K, N]) -> bf16[M, N] { stage h = exp(x @ w) return tanh(h) }",
    "kernel k[M, N](x: f32[M, N]) -> f32[M, N] { return softmax(x, axis=1) }",
    "kernel k[M, N, K](x: bf16[M, K], g: bf16[N, K], u: bf16[N, K]) -> bf16[M, N]"
    " { return silu(x @ g.T) * (x @ u.T) }",
    "kernel k[M, N](x: f32[M, N], t: f32[N]) -> (y: f32[M, N], z: f32[N, M])"
    " { e = exp(t) y = cumsum(x * e, axis=1) return y * e, y.T }",
    "kernel k[M](x: f32[M]) -> (y: f32[M], z: f32[M]) { return x + 1, x * 2 }",
    "kernel k[M, N, T](x: f32[M, N], i: s32[T]) -> f32[T, N] { return gather(x, i) * 2 }",
]


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_what_operations_save_adds_up_to_what_the_program_saves(text: str, target: str) -> None:
    found = explained(text, target)
    assert (found.apart.moved - found.moved).terms == Traffic.sum(c.saved for c in computed(found)).terms
    assert found.apart.launches - len(found.launches) == sum(c.launches for c in computed(found))


def test_two_products_in_one_kernel() -> None:
    found = explained(PROGRAMS[4])
    (launch,) = found.launches
    assert len(launch.stages) == 2
    assert [c.place for c in launch.computed if c.spot.op == "matmul"] == [Place.PAIRED, Place.OPENED]
    (lost,) = launch.rejected or (None,)
    assert lost is None


def test_what_several_kernels_compute_saves_a_launch_once() -> None:
    found = explained(
        "kernel k[M](b: f32[M], x: bf16[M, M]) -> (y: f32[M], z: f32[M, M])"
        " { e = exp(b) return e, x @ x + e }"
    )
    assert found.apart.launches == 3 and len(found.launches) == 2
    assert sum(c.launches for c in computed(found)) == 1


def test_places_are_those_of_the_source() -> None:
    text = "kernel k[M](x: f32[M]) -> f32[M] {\n    y = relu(x)\n    return y * 2\n}\n"
    first, second = (c.spot for c in computed(explained(text)))
    assert (first.name, first.where) == ("max (relu)", "2:9")
    assert (second.name, second.where) == ("mul", "3:12")


def test_json_has_numbers_where_dims_are_known() -> None:
    text = "kernel k[M, N](x: f32[M, N]) -> f32[M, N] { return exp(x) }"
    open_dims, known = (
        json.loads(json.dumps(explained(text, **d).as_json())) for d in ({}, {"M": 2, "N": 3})
    )
    assert open_dims["moved"] == {"bytes": None, "terms": [[8, "M", "N"]]}
    assert known["moved"] == {"bytes": 48, "terms": [[8, "M", "N"]]}
    assert known["kernels"][0]["computed"][0]["place"] == "stored"


def test_kernels_that_prepare_operands_are_listed() -> None:
    text = "kernel k[M, N=64, K=1002](x: bf16[M, K], w: bf16[K, N]) -> bf16[M, N] { return x @ w }"
    schedule = "\nschedule k for sm_90a { mainloop = pingpong }\n"
    found = explained(text + schedule)
    helpers = [launch for launch in found.launches if not launch.stages]
    assert helpers and not any(launch.computed for launch in helpers)
    assert "moves an operand of another kernel" in found.as_text()
