"""Conditions that are read with other extents or in another order: interpreters, and C++ on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import Source

HEAD = "kernel f[M, N, K](x: f32[M, K], w: f32[K, N])"

PROGRAMS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "beside itself": (
        " -> (a: f32[M, N], b: f32[M, N]) {\n"
        "    c = x @ w > 0\n    return where(c[:, ::-1], 1.0, 2.0), cast(c, f32)\n}\n",
        lambda x, w: (np.where((x @ w > 0)[:, ::-1], 1, 2), x @ w > 0),
    ),
    "transposed": (
        " -> (a: f32[M*N], b: f32[]) {\n"
        "    c = x @ w > 0\n    return where(reshape(c.T, (M*N,)), 1.0, 2.0), max(cast(c, f32))\n}\n",
        lambda x, w: (np.where((x @ w > 0).T.reshape(-1), 1, 2), (x @ w > 0).max()),
    ),
    "generated": (
        " -> f32[M, N*K] {\n    c = x[:, None] > iota((N, K), axis=0) - 1\n"
        "    return where(reshape(c, (M, N*K)), 1.0, 2.0) + 0 * w[0, 0]\n}\n",
        lambda x, w: np.where(x[:, None] > np.arange(len(w[0]))[:, None] - 1, 1, 2).reshape(len(x), -1),
    ),
    "rolled": (
        " -> (a: f32[3, K], b: s8[M, K]) {\n    c = softmax(x) > 0.3\n"
        "    return cast(roll(c[:3], 1, axis=0), f32), cast(tril(c), s8) + 0 * w[0, 0]\n}\n",
        lambda x, w: (
            np.roll(softmax(x)[:3] > 0.3, 1, 0),
            np.tril(softmax(x) > 0.3),
        ),
    ),
    "views of views": (
        " -> f32[N*M] {\n    c = reshape(x[:, None] > w.T, (M*N, K))\n"
        "    return cast(any(reshape(c[::-1], (N, M, K)) and x > -2, axis=-1)[0, 0] or w[0, 0] > 9, f32)\n"
        "        + cast(reshape(reshape(c[::-1], (N, M, K))[:, :, 0], (N*M,)), f32)\n}\n",
        lambda x, w: (
            ((x[:, None] > w.T).reshape(-1, x.shape[1])[::-1].reshape(w.shape[1], len(x), -1) & (x > -2)).any(
                -1
            )[0, 0]
            + (x[:, None] > w.T).reshape(-1, x.shape[1])[::-1][:, 0] * 1.0
        ),
    ),
    "chosen": (
        " -> (a: f32[M, N], b: f32[M, N], d: s32[M]) {\n"
        "    c = where(x @ w > 0, w[0] < 0.5, x[:, :1] > w[0, 0])\n"
        "    same = where(c[:, ::-1], c, not c)\n"
        "    return where(c, 1.0, 2.0), where(same, 3.0, 4.0), sum(cast(c, s32), axis=1)\n}\n",
        lambda x, w: (
            np.where(chosen(x, w), 1, 2),
            np.where(chosen(x, w)[:, ::-1] == chosen(x, w), 3, 4),
            chosen(x, w).sum(1),
        ),
    ),
    "a mask": (
        " -> f32[M, K] {\n    c = reshape(x[:, None] > w.T, (M, N*K))[:, :N]\n"
        "    return attention(x, w.T, w.T, mask=c or iota((M, N), axis=1) == 0)\n}\n",
        lambda x, w: attention(x, w.T, (x[:, None] > w.T).reshape(len(x), -1)[:, : w.shape[1]]),
    ),
}


def chosen(x: Any, w: Any) -> Any:
    return np.where(x @ w > 0, w[0] < 0.5, x[:, :1] > w[0, 0])


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Any, k: Any, keep: Any) -> Any:
    keep = keep | (np.arange(len(k)) == 0)
    return softmax(np.where(keep, q @ k.T / np.sqrt(q.shape[1]), -np.inf)) @ k


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_read_where_they_were_moved_to(name: str, target: str) -> None:
    text, reference = PROGRAMS[name]
    compilation = compile_text(Source("f.mcu", HEAD + text), Options(target, tuned=False))
    compilation.emit("cu")
    numbers = np.random.default_rng(3)
    for m, n, k in ((5, 4, 3), (3, 7, 1)):
        x, w = (numbers.integers(-2, 3, shape) / 2 for shape in ((m, k), (k, n)))
        want = reference(x, w)
        for interpret in (compilation.interpret, compilation.interpret_lowered):
            got = interpret("f", [x, w])
            for a, b in zip(got, want if isinstance(want, tuple) else [want], strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b, float), 1e-3, 1e-3)


@pytest.mark.parametrize("name", ["generated", "views of views"])
def test_kernels_read_them(name: str, tmp_path: Any) -> None:
    program = Program.of_text(HEAD + PROGRAMS[name][0], tmp_path)
    (info,) = program.kernels
    for seed, dims in enumerate(({"M": 5, "N": 16, "K": 4}, {"M": 1, "N": 16, "K": 8})):
        run(program, info, dims, seed)
