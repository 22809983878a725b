"""The `cutlass` dialect: resolved device kernels and the host program that launches them."""

from xdsl.ir import Dialect

from mucc.dialects.cutlass.ops import (
    GEMM_NODES,
    GemmOp,
    GemmShapeAttr,
    LoadOp,
    MapOp,
    ProgramOp,
    ReduceOp,
    ReduceStoreOp,
    RequirementAttr,
    ScatterStoreOp,
    StoreOp,
    WorkspaceOp,
    YieldOp,
)

Cutlass = Dialect(
    "cutlass",
    [
        ProgramOp,
        WorkspaceOp,
        GemmOp,
        MapOp,
        ReduceOp,
        *GEMM_NODES,
        LoadOp,
        StoreOp,
        ScatterStoreOp,
        ReduceStoreOp,
        YieldOp,
    ],
    [GemmShapeAttr, RequirementAttr],
)
