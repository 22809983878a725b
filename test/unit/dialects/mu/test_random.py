"""Random numbers by counter: Philox's known answers, and the same numbers everywhere."""

from __future__ import annotations

import ctypes as ct
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kernel
from hostlib import INCLUDE

from mucc.diagnostics import DiagnosticError
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.philox import philox, uniform

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counters, keys and words of Random123's known answers."""

SOURCE = """
#include <mucc/random.cuh>
extern "C" void words(uint32_t const* c, uint32_t const* k, uint32_t* to) {
  mucc::Words const w = mucc::philox(mucc::Words{{c[0], c[1], c[2], c[3]}}, k[0], k[1]);
  for (int i = 0; i < 4; ++i) to[i] = w.of[i];
}
extern "C" void draw(int n, uint64_t first, uint32_t seed, uint32_t stream, float* to) {
  for (int i = 0; i < n; ++i) to[i] = mucc::uniform(first + i, seed, stream);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    """The header's functions, compiled for the host."""
    if (gxx := shutil.which("g++")) is None:
        pytest.skip("needs g++")
    folder: Path = tmp_path_factory.mktemp("random")
    (folder / "f.cpp").write_text(SOURCE)
    flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{INCLUDE}"]
    subprocess.run([gxx, *flags, str(folder / "f.cpp"), "-o", str(folder / "f.so")], check=True)
    return ct.CDLL(str(folder / "f.so"))


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(library: ct.CDLL, counter: Any, key: Any, words: Any) -> None:
    wide = [np.array([w]) for w in (*counter, *key)]
    assert tuple(int(w[0]) for w in philox(wide[:4], (wide[4], wide[5]))) == words
    out = (ct.c_uint32 * 4)()
    library.words((ct.c_uint32 * 4)(*counter), (ct.c_uint32 * 2)(*key), out)
    assert tuple(out) == words


@pytest.mark.parametrize(("seed", "stream"), [(0, 0), (-1, 0), (7, 3), (-(2**31), 2**31 - 1)])
def test_the_kernels_function_draws_what_the_interpreters_do(
    library: ct.CDLL, seed: int, stream: int
) -> None:
    drawn = uniform(NumpyArrays(), (3, 67), np.array(float(seed)), stream)
    out = np.empty(201, np.float32)
    library.draw(
        201,
        ct.c_uint64(0),
        ct.c_uint32(seed & 0xFFFFFFFF),
        ct.c_uint32(stream),
        out.ctypes.data_as(ct.c_void_p),
    )
    np.testing.assert_array_equal(out.astype(np.float64), drawn.reshape(-1))
    assert drawn.min() >= 0 and drawn.max() < 1


def compiled(body: str) -> Any:
    return kernel(f"kernel f[M, N](x: f32[M, N], s: s32[]) -> f32[M, N] {{ return {body} }}")


def test_seeds_and_streams_tell_numbers_apart() -> None:
    x = np.ones((50, 40))
    (a,) = interpret_kernel(compiled("random((M, N), s)"), [x, np.array(5)])
    (b,) = interpret_kernel(compiled("random((M, N), 5)"), [x, np.array(9)])
    (c,) = interpret_kernel(compiled("random((M, N), s, stream=1)"), [x, np.array(5)])
    np.testing.assert_array_equal(a, b)
    assert np.mean(a == c) < 0.01
    assert abs(a.mean() - 0.5) < 0.03 and abs(a.var() - 1 / 12) < 0.01
    assert abs(np.corrcoef(a.reshape(-1), c.reshape(-1))[0, 1]) < 0.1


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_dropout_keeps_the_rest_and_its_mean(share: float) -> None:
    x = np.full((100, 100), 3.0)
    (y,) = interpret_kernel(compiled(f"dropout(x, {share}, s)"), [x, np.array(1)])
    (drawn,) = interpret_kernel(compiled("random((M, N), s)"), [x, np.array(1)])
    np.testing.assert_allclose(y, np.where(drawn >= share, 3 / (1 - share), 0))
    assert abs((y == 0).mean() - share) < 0.02


def test_torch_draws_the_same() -> None:
    torch = pytest.importorskip("torch")
    drawing = compiled("dropout(x, 0.3, s, stream=4) + random((M, N), s)")
    x = torch.arange(35.0).reshape(5, 7)
    (a,) = interpret_kernel(drawing, [x, torch.tensor(123)])
    (b,) = interpret_kernel(drawing, [x.numpy(), np.array(123)])
    np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("dropout(x, 1, s)", "MU1106"),
        ("dropout(x, -0.1, s)", "MU1106"),
        ("dropout(x, 0.5, x)", "MU1107"),
        ("random((M, N), 0.5)", "MU1107"),
        ("random((M, N), 3000000000)", "MU1107"),
        ("random((M, N), cast(s, f32))", "MU1107"),
        ("x * dropout(max(x, axis=0), 0.5, 2)", None),
        ("x * dropout(2, 0.5, s)", "MU1092"),
    ],
)
def test_what_cannot_be_drawn(body: str, code: str | None) -> None:
    if code is None:
        compiled(body)
        return
    with pytest.raises(DiagnosticError) as caught:
        compiled(body)
    assert [d.code for d in caught.value.diagnostics] == [code]
