"""The layers of bench.layers: their programs mean what their functions of PyTorch compute, and runs go on."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from bench.layers import __main__ as layers
from bench.layers import measuring, summary
from bench.layers.forms import Form
from mucc import frontend
from mucc.diagnostics import Source
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp

torch: Any = pytest.importorskip("torch")

PIXELS = {512: 16, 511: 15, 65536: 64, 65523: 51, 65537: 65, 256: 16, 128: 20, 62: 8, 2048: 23, 186: 2}
SIZES = {
    "level1": {
        **PIXELS,
        393216: 24,
        65535: 15,
        112: 2,
        192: 3,
        4095: 5,
        4096: 6,
        8192: 7,
        16384: 8,
        32768: 4,
    },
    "level1/avg_pool3d": {128: 8, 64: 4, 256: 16},
    "level2": {1024: 4, 2048: 8, 4096: 128, 8192: 1024, 16384: 32, 32768: 6},
    "blocks": {4096: 16, 14336: 24, 7168: 12, 16384: 32, 131072: 50, 8192: 10, 65536: 20, 512: 2},
    "blocks/rotary": {4096: 6},
    "pools": {256: 2, 112: 14, 56: 7, 128: 3, 224: 14, 288: 4, 35: 5, 28: 4, 512: 2, 2048: 3},
    "pools/vgg": {128: 2, 224: 14, 112: 7},
    "pools/densenet": {256: 2, 128: 3, 56: 8, 28: 4},
    "moves": {
        64: 2,
        512: 7,
        256: 12,
        56: 5,
        1024: 9,
        8192: 10,
        4194304: 40,
        4096: 6,
        32: 2,
        128: 4,
        48: 3,
        96: 5,
    },
    "rows": {1024: 8, 2048: 3, 4096: 12, 16384: 20},
}
"""Extents that stand for the published ones; where a key is a layer's, for it alone."""

FORMS = [form for form in layers.FORMS if form.group != "rows" or form.name.endswith("2048x4096_bf16")]


def small(form: Form) -> Form:
    """Return a layer with small extents, in its program and in its function."""
    own = next((sizes for key, sizes in SIZES.items() if "/" in key and form.key.startswith(key)), None)
    sizes = own or SIZES[form.group]
    shrink = {str(large): str(few) for large, few in sizes.items()}

    def shrunk(text: str) -> str:
        return re.sub(r"\b\d+\b", lambda found: shrink.get(found[0], found[0]), text)

    inputs = tuple(
        i._replace(shape=tuple(sizes.get(n, n) for n in i.shape), below=sizes.get(i.below, i.below))
        for i in form.inputs
    )
    results, body, reference = map(shrunk, (form.results, form.body, form.reference))
    return dataclasses.replace(form, inputs=inputs, results=results, body=body, reference=reference)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.key)
def test_a_program_means_what_pytorch_computes(form: Form) -> None:
    form = small(form)
    program, sink = frontend.parse(Source(form.name, form.text))
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    torch.manual_seed(1)
    given = [measuring.draw(torch, i, "cpu") for i in form.inputs]
    wide = [measuring.as_pytorch(torch, x) for x in given]
    wide = [x.double() if x.is_floating_point() else x for x in wide]
    expected = form.in_pytorch(torch)(*wide)
    (got,) = interpret_kernel(
        kernel, [x if x.dtype == torch.uint8 else w for x, w in zip(given, wide, strict=True)]
    )
    # Operands of products are rounded to their dtype on the way.
    rounds = form.has_product and form.inputs[0].dtype == "bf16"
    assert measuring.error_of(torch, got, expected) < (1e-2 if rounds else 1e-6)


def test_names_are_unique_and_every_kernel_has_one() -> None:
    keys = [form.key for form in layers.FORMS]
    assert len(set(keys)) == len(keys)
    assert all(form.kernel.isidentifier() for form in layers.FORMS)


def test_a_wrong_element_is_seen() -> None:
    exact = torch.ones(10, dtype=torch.float64)
    wrong = exact.clone()
    wrong[3] = float("nan")
    assert measuring.error_of(torch, exact, exact) == 0
    assert measuring.error_of(torch, wrong, exact) == float("inf")
    assert measuring.error_of(torch, wrong, wrong) == 0
    assert measuring.error_of(torch, exact[:9], exact) == float("inf")
    assert measuring.error_of(torch, exact * 1.5, exact) == pytest.approx(0.5)


def row(group: str, over: float, **more: Any) -> dict[str, Any]:
    known = {
        "group": group,
        "name": "x",
        "has_product": False,
        "bytes": 1 << 30,
        "mucc_ms": 1.0,
        "good": True,
    }
    return {**known, "of_copy": 0.9, "over_eager": over, "over_compile": over, "failed": {}, **more}


def test_figures_leave_out_what_is_wrong_or_small() -> None:
    found = summary.figures(
        [
            row("level1", 2.0),
            row("level1", 0.5, of_copy=0.4, bytes=1 << 20),
            row("level1", 0.1, good=False, error=1.0, torch_error=0.0),
            {"group": "level1", "name": "y", "error": "no kernel"},
        ]
    )
    assert found["layers.level1_memory_layers"] == 3
    assert found["layers.level1_memory_wrong"] == 1
    assert found["layers.level1_memory_of_copy_geomean"] == 0.9
    assert found["layers.level1_memory_over_compile_geomean"] == 1.0
    assert found["layers.level1_memory_over_compile_least"] == 0.5
    assert "layers.level2_gemm_over_compile_geomean" not in found


@pytest.mark.parametrize("wrong", [False, True])
def test_a_row_has_times_errors_and_shares(monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    form = small(next(form for form in layers.FORMS if form.key == "level2/relu_divide"))
    draw = measuring.draw
    monkeypatch.setattr(measuring, "draw", lambda torch, wanted: draw(torch, wanted, "cpu"))
    monkeypatch.setattr(measuring, "captured", lambda torch, call: call)
    times = {"mucc": 1.0, "eager": 4.0, "tf32": 2.0, "compile": 1.5}
    monkeypatch.setattr(
        measuring, "timed", lambda torch, calls, rounds: {name: times[name] for name in calls}
    )

    def kernel(*given: Any, out: Any = None) -> Any:
        y = form.in_pytorch(torch)(*given) * (1.1 if wrong else 1)
        return y if out is None else out.copy_(y)

    found = measuring.measure(torch, kernel, form, ("compile",), 5, copy=1e6)
    assert found["bytes"] == 4 * (4 * 1024 + 1024 * 1024 + 1024 + 4 * 1024)
    assert found["of_copy"] == pytest.approx(found["bytes"] / 1e-3 / 1e6)
    assert (found["over_eager"], found["over_tf32"], found["over_compile"]) == (4, 2, 1.5)
    assert found["good"] is not wrong and found["exact"] == "float64" and found["failed"] == {}
    assert "WRONG" in summary.line(row("level2", 1.0) | found) or not wrong


def test_what_cannot_be_captured_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    form = small(next(form for form in layers.FORMS if form.key == "rows/softmax_2048x1024_f32"))
    draw = measuring.draw
    monkeypatch.setattr(measuring, "draw", lambda torch, wanted: draw(torch, wanted, "cpu"))
    monkeypatch.setattr(measuring, "timed", lambda torch, calls, rounds: dict.fromkeys(calls, 1.0))
    calls: list[Any] = []

    def captured(torch: Any, call: Any) -> Any:
        calls.append(call)
        if len(calls) > 1:
            raise RuntimeError("no graph of it\nat all")
        return call

    monkeypatch.setattr(measuring, "captured", captured)
    layer = form.in_pytorch(torch)
    found = measuring.measure(torch, lambda x, out=None: layer(x), form, (), 5, copy=1e12)
    assert found["failed"] == {"eager": "RuntimeError: no graph of it"}
    assert "over_eager" not in found and found["mucc_ms"] == 1.0
    assert "eager: RuntimeError" in summary.line(row("rows", 1.0) | found)
