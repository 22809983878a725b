"""The operations of the `mu` dialect, one file per kind of operation.

Every file has its `OPERATIONS`, and its `ATTRIBUTES` where it has some; the dialect consists of those of the
files that are listed here. `FUNCTIONS` says how the language calls them.
"""

from xdsl.ir import Attribute, Operation

from mucc.dialects.mu.ops import (
    attention,
    contraction,
    conv,
    elementwise,
    indexed,
    kernel,
    normalisation,
    pooling,
    quantization,
    reduction,
    scan,
    shape,
    stage,
    views,
)

OPERATIONS: tuple[type[Operation], ...] = (
    *elementwise.OPERATIONS,
    *contraction.OPERATIONS,
    *indexed.OPERATIONS,
    *views.OPERATIONS,
    *shape.OPERATIONS,
    *conv.OPERATIONS,
    *pooling.OPERATIONS,
    *quantization.OPERATIONS,
    *reduction.OPERATIONS,
    *scan.OPERATIONS,
    *normalisation.OPERATIONS,
    *attention.OPERATIONS,
    *kernel.OPERATIONS,
    *stage.OPERATIONS,
)

ATTRIBUTES: tuple[type[Attribute], ...] = (
    *elementwise.ATTRIBUTES,
    *contraction.ATTRIBUTES,
    *shape.ATTRIBUTES,
    *pooling.ATTRIBUTES,
    *reduction.ATTRIBUTES,
    *scan.ATTRIBUTES,
    *normalisation.ATTRIBUTES,
    *stage.ATTRIBUTES,
)

FUNCTIONS = (
    *indexed.FUNCTIONS,
    *shape.FUNCTIONS,
    *conv.FUNCTIONS,
    *pooling.FUNCTIONS,
    *reduction.FUNCTIONS,
    *scan.FUNCTIONS,
    *normalisation.FUNCTIONS,
    *attention.FUNCTIONS,
)
"""The functions of the language that files of operations name themselves, in the order of its lists."""
