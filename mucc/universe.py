"""Our dialects and passes for xDSL's tools, registered as the entry point `xdsl.universe`.

Everything is a thunk: `xdsl-opt --help` loads none of it.
"""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.universe import Universe
from xdsl.utils.target import Target

from mucc.passes import get_all_passes


def _mu() -> Dialect:
    from mucc.dialects.mu.dialect import Mu

    return Mu


def _cutlass() -> Dialect:
    from mucc.kernels.dialect import Cutlass

    return Cutlass


def _cuda() -> type[Target]:
    from mucc.compiler.cuda_target import CudaTarget

    return CudaTarget


MUCC_UNIVERSE = Universe(
    all_dialects={"mu": _mu, "cutlass": _cutlass},
    all_passes=get_all_passes(),
    all_targets={"cuda": _cuda},
)
