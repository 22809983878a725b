"""The `mu` dialect: tensor programs over named dims.

`types` (tensors and layouts), `rules` (the type rules), `elementwise`, `ops` (contraction, views,
reduction, kernels, stages), `schedule` (what a user may pin), `interpreter` (the meaning, in float64).
"""

from xdsl.ir import Dialect

from mucc.dialects.mu.elementwise import ELEMENTWISE, ApproximationAttr, ConstantOp, RelationAttr
from mucc.dialects.mu.indexed import GatherOp, ScatterOp
from mucc.dialects.mu.ops import (
    AccumulationAttr,
    BroadcastOp,
    ComputeAttr,
    DequantizeOp,
    ExpandOp,
    GroupedMatmulOp,
    KernelOp,
    MatmulOp,
    PinOp,
    ReduceOp,
    ReductionAttr,
    RegroupOp,
    ReturnOp,
    StageKindAttr,
    StageOp,
    TransposeOp,
    YieldOp,
)
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
    [
        *ELEMENTWISE,
        ConstantOp,
        MatmulOp,
        GroupedMatmulOp,
        GatherOp,
        ScatterOp,
        TransposeOp,
        ExpandOp,
        BroadcastOp,
        RegroupOp,
        DequantizeOp,
        ReduceOp,
        PinOp,
        KernelOp,
        ReturnOp,
        StageOp,
        YieldOp,
        ScheduleOp,
    ],
    [
        TensorType,
        LayoutAttr,
        ApproximationAttr,
        RelationAttr,
        ComputeAttr,
        AccumulationAttr,
        ReductionAttr,
        StageKindAttr,
        TileAttr,
        ClusterAttr,
        MainloopAttr,
        EpilogueTileAttr,
        SchedulerAttr,
        SwitchAttr,
    ],
)
