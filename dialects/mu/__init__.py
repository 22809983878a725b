"""The `mu` dialect: tensor programs over named dims.

`types` (tensors and layouts), `rules` and `index_rules` (the type rules), `ops` (the operations, a file for
each kind), `schedule` (what a user may pin), `interpreter` (the meaning, in float64).
"""

from xdsl.ir import Dialect

from mucc.dialects.mu.ops import ATTRIBUTES, OPERATIONS
from mucc.dialects.mu.schedule import (
    ClusterAttr,
    EpilogueTileAttr,
    MainloopAttr,
    ScheduleOp,
    SchedulerAttr,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.types import LayoutAttr, TensorType

Mu = Dialect(
    "mu",
    [*OPERATIONS, ScheduleOp],
    [
        TensorType,
        LayoutAttr,
        *ATTRIBUTES,
        TileAttr,
        ClusterAttr,
        MainloopAttr,
        EpilogueTileAttr,
        SchedulerAttr,
        SwitchAttr,
    ],
)
