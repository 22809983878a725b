"""The whole `mu` dialect, for xDSL's tools. Importing this module loads all operations."""

from xdsl.ir import Dialect

from mucc.dialects.mu.canonicalization import PATTERNS
from mucc.dialects.mu.ops import attributes, operations
from mucc.dialects.mu.ops.pointwise import CanonicalizationTrait
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.schedule_attributes import (
    ClusterAttr,
    EpilogueTileAttr,
    MainloopAttr,
    SchedulerAttr,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.types import LayoutAttr, TensorType

Mu = Dialect(
    "mu",
    [*operations(), ScheduleOp],
    [
        TensorType,
        LayoutAttr,
        *attributes(),
        TileAttr,
        ClusterAttr,
        MainloopAttr,
        EpilogueTileAttr,
        SchedulerAttr,
        SwitchAttr,
    ],
)

CanonicalizationTrait.patterns = PATTERNS
