"""silu(x wgᵀ) * (x wuᵀ) in CuTe DSL: two of quack's products, and the pointwise kernel of gated.cutedsl.py.

quack 0.2.4 has no kernel of two products. It tunes each.
"""

import runpy
from pathlib import Path

from quack.gemm_interface import gemm, gemm_tuned
from quack_search import within_budget

within_budget(gemm_tuned)

gated = runpy.run_path(str(Path(__file__).with_name("gated.cutedsl.py")))["gated"]


def swiglu(x, wg, wu):
    return gated(gemm(x, wg.T), gemm(x, wu.T))
