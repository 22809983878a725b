"""The `cutlass` dialect: resolved device kernels and the host program that launches them."""

from __future__ import annotations

from xdsl.ir import Dialect

from mucc.dialects.cutlass.attributes import GuardAttr, RequirementAttr
from mucc.dialects.cutlass.nodes import NODES
from mucc.dialects.cutlass.ops import OPERATIONS
from mucc.kernels.registry import kinds

Cutlass = Dialect(
    "cutlass",
    [*OPERATIONS, *(kind.op for kind in kinds()), *NODES, *(node for kind in kinds() for node in kind.nodes)],
    [*(attribute for kind in kinds() for attribute in kind.attributes), RequirementAttr, GuardAttr],
)
