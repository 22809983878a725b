"""Kinds of pooling, apart from `mu.pool` so that the op of pooling kernels loads without it."""

from __future__ import annotations

from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu.syntax import WordAttr


class Pooling(StrEnum):
    """How pooling reduces the elements of a window."""

    MAX = "max"
    AVG = "avg"


@irdl_attr_definition
class PoolingAttr(WordAttr[Pooling]):
    """How `mu.pool` reduces the elements of a window."""

    name = "mu.pooling"
