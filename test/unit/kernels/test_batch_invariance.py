"""The bits of a row for several numbers of rows: kernels with `reproducible = on`, run on the host."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hostlib import Tensor
from on_host import Place, Program, decode, encode

BODIES = {
    "rows": "kernel {name}[M, K](x: f32[M, K]) -> f32[M] {{\n    return sum(x, axis=1)\n}}",
    "odd": "kernel {name}[M, K=2999](x: f32[M, K]) -> f32[M] {{\n    return sum(x, axis=1)\n}}",
    "odd_norms": "kernel {name}[M, K=2999](x: f32[M, K]) -> f32[M, K] {{\n    return softmax(x)\n}}",
    "columns": "kernel {name}[K, M](x: f32[K, M]) -> f32[M] {{\n    return sum(x, axis=0)\n}}",
    "scans": "kernel {name}[M, K](x: f32[M, K]) -> f32[M, K] {{\n    return cumsum(x, axis=1)\n}}",
    "strips": "kernel {name}[K, M](x: f32[K, M]) -> f32[K, M] {{\n    return cumsum(x, axis=0)\n}}",
    "layers": "kernel {name}[K, M](x: f32[K, M]) -> f32[K, M] {{\n    return softmax(x, axis=0)\n}}",
    "norms": "kernel {name}[M, K](x: f32[M, K]) -> f32[M, K] {{\n    return softmax(x)\n}}",
    "decodes": (
        "kernel {name}[M, K](q: f16[M, 1, 32], x: f16[M, K, 32]) -> f16[M, 1, 32] {{\n"
        "    return attention(q, x, x)\n}}"
    ),
}
ON = "schedule {name} for sm_90a {{\n    reproducible = on\n}}"
ROWS = (1, 2, 7, 40)
LENGTHS = {
    "rows": 200_000,
    "odd": 2999,
    "odd_norms": 2999,
    "columns": 3000,
    "scans": 9000,
    "strips": 3000,
    "norms": 3000,
    "layers": 700,
    "decodes": 900,
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    fixed = [part.format(name=name) for name in BODIES for part in (BODIES[name], ON)]
    free = [body.format(name=f"{name}_free") for name, body in BODIES.items()]
    return Program.of_text("\n\n".join([*fixed, *free]) + "\n", tmp_path_factory.mktemp("alike"))


def first_row(program: Program, name: str, kind: str, rows: int) -> Any:
    """Run a kernel on so many rows, the first of which is always the same, and return what it has of that."""
    program.library.on_host_sm_count(13 if kind == "decodes" else 2)
    info = next(k for k in program.kernels if k.name == name)
    dims = {"M": rows, "K": LENGTHS[kind]}
    by_columns = kind in ("columns", "strips", "layers")
    given: list[Tensor] = []
    places: list[Place] = []
    for number, arg in enumerate((*info.inputs, *info.outputs)):
        shape = arg.extents(dims)
        place = Place.of(arg, shape, np.random.default_rng(0), align=16)
        if arg in info.inputs:
            of_one = shape[:1] if by_columns else shape[1:]
            values = np.random.default_rng(number).standard_normal((max(ROWS), *of_one))[:rows]
            place.bits[...] = encode(values.T if by_columns else values, arg.dtype)
        places.append(place)
        given.append(place.tensor(arg.dtype))
    call = getattr(program.library, f"mucc_{name}")
    call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
    assert not call((Tensor * len(given))(*given), len(given), None, 0, None), (
        program.library.mucc_last_error()
    )
    result = decode(places[-1].bits, info.outputs[0].dtype)
    return (result[..., 0] if by_columns else result[0]).copy()


@pytest.mark.parametrize("kind", BODIES)
def test_a_row_has_the_same_bits_whatever_number_of_rows_there_are(program: Program, kind: str):
    alone = first_row(program, kind, kind, 1)
    for rows in ROWS[1:]:
        np.testing.assert_array_equal(first_row(program, kind, kind, rows), alone, f"{rows} rows")


@pytest.mark.parametrize("kind", ["rows", "odd", "odd_norms", "columns", "strips", "decodes"])
def test_without_the_promise_the_number_of_rows_decides(program: Program, kind: str):
    """What the other test compares would differ; where it does not any more, the promise costs nothing."""
    alone = first_row(program, f"{kind}_free", kind, 1)
    others = (first_row(program, f"{kind}_free", kind, rows) for rows in ROWS[1:])
    assert any((other != alone).any() for other in others)
