"""The operations of the `mu` dialect, one file per kind of operation.

Every file ends with its `OPERATIONS`, and with its `ATTRIBUTES` where it has some; the dialect consists of
those of the files that are listed here.
"""

from xdsl.ir import Attribute, Operation

from mucc.dialects.mu.ops import (
    contraction,
    elementwise,
    indexed,
    kernel,
    quantization,
    reduction,
    stage,
    views,
)

OPERATIONS: tuple[type[Operation], ...] = (
    *elementwise.OPERATIONS,
    *contraction.OPERATIONS,
    *indexed.OPERATIONS,
    *views.OPERATIONS,
    *quantization.OPERATIONS,
    *reduction.OPERATIONS,
    *kernel.OPERATIONS,
    *stage.OPERATIONS,
)

ATTRIBUTES: tuple[type[Attribute], ...] = (
    *elementwise.ATTRIBUTES,
    *contraction.ATTRIBUTES,
    *reduction.ATTRIBUTES,
    *stage.ATTRIBUTES,
)
