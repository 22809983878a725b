"""The `cutlass` dialect: resolved device kernels and the host program that launches them.

`ops` (the program and its device kernels), `nodes` (what a kernel does for each element), `attributes`,
`views` and `indices` (how operands are read), `interpreter` (the meaning, in float64).
"""

from xdsl.ir import Dialect

from mucc.dialects.cutlass.attributes import GemmShapeAttr, RequirementAttr
from mucc.dialects.cutlass.nodes import NODES
from mucc.dialects.cutlass.ops import OPERATIONS

Cutlass = Dialect("cutlass", [*OPERATIONS, *NODES], [GemmShapeAttr, RequirementAttr])
