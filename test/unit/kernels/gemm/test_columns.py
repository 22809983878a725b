"""Products by a column, and columns of epilogues, that are parts of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source
from mucc.library.signature import Manifest

BY_COLUMNS = """
kernel last[M](x: bf16[M, 64], c: bf16[3, 64, 1]) -> f32[M, 1] { return cast(x @ c[2], f32) }
kernel rows[M](x: f16[M, 32], c: f16[40, 1]) -> f16[M, 1] { return x @ c[8:] }
kernel open[M, K](x: f32[M, K], c: f32[2, K, 1]) -> f32[M, 1] { return x @ c[1] }
"""
ADDED = """
kernel added[M](x: f16[M, 64], w: f16[64, 16], c: f32[2, M, 1]) -> f32[M, 16] {
    return cast(x @ w, f32) + c[1]
}
kernel padded[M](x: f16[M, 8], w: f16[8, 16], c: f16[M, 1]) -> f16[M, 16] {
    return x @ w + pad(c, (0, 3), (0, 12))
}
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_120a"])
def test_products_by_columns_of_other_tensors_are_emitted(target: str) -> None:
    compilation = compile_text(Source("k.mcu", BY_COLUMNS), Options(target=target))
    assert compilation.emit("cu") and "cutlass.map" not in compilation.emit("cutlass")


def test_products_and_sums_of_columns_agree_with_the_interpreter() -> None:
    compilation = compile_text(Source("k.mcu", BY_COLUMNS + ADDED))
    rng = np.random.default_rng(1)
    for kernel in Manifest.parse(compilation.manifest).kernels:
        given = [rng.integers(-2, 3, a.extents(dict.fromkeys(kernel.dims, 24))) * 1.0 for a in kernel.inputs]
        found = compilation.interpret_lowered(kernel.name, given)[0]
        np.testing.assert_array_equal(found, compilation.interpret(kernel.name, given)[0], kernel.name)
