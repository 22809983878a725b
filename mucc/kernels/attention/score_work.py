"""C++ of what kernels of attention and of its gradients have in common: scores, and what rows see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.ir import Operation, SSAValue

from mucc.codegen.across import AcrossWork
from mucc.codegen.body import Body
from mucc.codegen.memory import VIEW_TYPES
from mucc.codegen.names import float_literal, words
from mucc.dialects.cutlass.nodes import ComputeOp
from mucc.dialects.mu.ops.elementwise import TanhOp
from mucc.dialects.mu.types import Dim, Dims, Shaped, dtype_name
from mucc.kernels.attention.gains import feels_absolute_error
from mucc.kernels.attention.op import ScoreOp
from mucc.kernels.attention.ranges import axes_of

SCORE_MEMBERS = words(
    """
    query key value packs keys score first_column last_column row_label column_label sum a b keeps to Element
    kBatch kWidth kResultWidth kTileRows kScale kCausal kPlain kHasFirst kHasLast kHasLabels kLabelAxes
    spans kShared Score product
    """
)


class Seeing(Protocol):
    """A node with the score, and the columns that a row sees."""

    @property
    def score(self) -> SSAValue: ...
    @property
    def causal(self) -> object: ...
    @property
    def first(self) -> SSAValue | None: ...
    @property
    def last(self) -> SSAValue | None: ...


class ScoreWork(AcrossWork):
    """Builder of a kernel that computes scores of queries and keys."""

    labels: tuple[SSAValue, SSAValue] | None = None
    """The labels of a row and of a column, where rows see columns with their own only."""
    function: Body | None = None
    """The function of a product, before it is scaled, that is its score; None where `score` computes it."""

    def function_of(self, product: ScoreOp, score: SSAValue) -> Body | None:
        """Make a body, `Score`, of what computes scores of products alone; None where it reads anything else.

        The scale is part of it, so that kernels do not depend on it.
        """
        node, *others = [node for node in self.nodes_for([score]) if node is not product] or [product]
        if others or not isinstance(node, ComputeOp) or list(node.inputs) != [product.result]:
            return None
        place = [n for n in self.op.nodes if isinstance(n, ComputeOp)].index(node)
        inner = self.bodies[place]
        lines = [
            inner.text,
            "struct Score {",
            "  template <bool kPlaced = false> static MUCC_DEVICE float apply(float product) {",
            f"    return {inner.name}::apply(product * {float_literal(product.scale.value.data)});",
            "  }",
            "};",
        ]
        self.bodies[place] = body = Body("Score", "\n".join(lines), 1, placed=True)
        return body

    def expression(self, op: Operation, operands: Sequence[str]) -> str:
        """Emit an operation; before softmax a faster one where it feels an absolute error only."""
        if isinstance(op, TanhOp) and feels_absolute_error(op):
            return f"mucc::fast_tanh({operands[0]})"
        return super().expression(op, operands)

    def merged(self) -> list[list[list[int]]]:
        """Keep all axes apart: rows and columns are those of tiles."""
        return [[[axis] for axis in range(len(self.space))]]

    def in_space(self, value: SSAValue, own: int) -> Dims:
        """Return the extents of the leading axes of scores, and of the last axes of an operand."""
        return (*self.space[:-2], *Shaped.of(value.type).dims[-own:])

    def operand(self, value: SSAValue, *, in_pages: bool = False) -> str:
        """Return the initializer of a `mucc::attention::Operand`: strides, and how far leading axes reach.

        Rows of pages count from the first row of the first page to the last one of the last.
        """
        own = 3 if in_pages else 2
        memory, axes = self.places.view(value, self.in_space(value, own))
        strides = self._strides(axes)
        extents = [self.places.extent(a.extent) for a in axes]
        lead = zip(extents[:-own], strides[:-own], strict=True)
        leading = ", ".join(f"{{{e}, {s}}}" for e, s in lead)
        data = memory.data(VIEW_TYPES[memory.type.dtype])
        apart = f"({extents[-3]} - 1) * ({strides[-3]}) / ({strides[-2]}) + " if in_pages else ""
        return f"{{{data}, {strides[-2]}, {strides[-1]}, {apart}{extents[-2]}, {{{leading}}}}}"

    def label_constants(self) -> list[str]:
        """Emit the leading axes along which labels differ, a bit for each."""
        if self.labels is None:
            return []
        rank = len(self.space)
        axes = [axes_of(label, rank) for label in self.labels]
        differ = [a for a in range(rank - 2) if any(known is None or a in known for known in axes)]
        return [f"static constexpr int kLabelAxes = {sum(1 << a for a in differ)};"]

    def span_member(self) -> tuple[list[str], list[str]]:
        """Emit the member, and its value, of the spans where rows and columns have the same labels."""
        if self.labels is None:
            return [], []
        spans = f"mucc::attention::Spans<{len(self.space) - 2}> spans;  // which the launch finds"
        return [spans], ["{}"]

    def score_constants(self, product: ScoreOp, node: Seeing, plain: bool) -> list[str]:
        """Emit what headers know of scores."""
        scale = float_literal(product.scale.value.data if self.function is None else 1.0)
        return [
            f"static constexpr float kScale = {scale};",
            f"static constexpr bool kCausal = {boolean(node.causal is not None)};",
            f"static constexpr bool kPlain = {boolean(plain)};",
            f"static constexpr bool kHasFirst = {boolean(node.first is not None)};",
            f"static constexpr bool kHasLast = {boolean(node.last is not None)};",
            f"static constexpr bool kHasLabels = {boolean(self.labels is not None)};",
            *self.label_constants(),
        ]

    def score_work(self, product: ScoreOp, node: Seeing) -> list[str]:
        """Emit the functions that compute a score, and the first and last column that a row sees."""
        return [
            "  // The score of a query and a key, from their product.",
            "  template <bool kPlaced = false, class P>",
            *self._score(product, node.score),
            *self._limit("first_column", node.first),
            *self._limit("last_column", node.last),
            *self._limit("row_label", self.labels and self.labels[0]),
            *self._limit("column_label", self.labels and self.labels[1]),
        ]

    def _score(self, product: ScoreOp, value: SSAValue) -> list[str]:
        """Emit the function that computes a score."""
        if self.function is not None:
            call = f"{self.function.name}::apply<kPlaced>(product)"
            return [f"  MUCC_DEVICE float score(P const&, float product) const {{ return {call}; }}"]
        score = self.lanes[product.result]
        return [
            f"  MUCC_DEVICE float score(P const& p, float {score}_s) const {{",
            "    constexpr int V = 1;",
            f"    mucc::Lanes<V> const {score}({score}_s * kScale);",
            *self.statements_for([value]),
            f"    return {self.lanes[value]}.of[0];",
            "  }",
        ]

    def _limit(self, name: str, limit: SSAValue | None) -> list[str]:
        """Emit the function that computes an integer of a position, such as the first column of its row."""
        if limit is None:
            return []
        return [
            "  template <class P>",
            f"  MUCC_DEVICE int {name}(P const& p) const {{",
            "    constexpr int V = 1;",
            *self.statements_for([limit]),
            f"    return mucc::to_bits({self.lanes[limit]}.of[0]);",
            "  }",
        ]


def is_plain(product: ScoreOp, score: SSAValue) -> bool:
    """Whether scores are positive multiples of products: their order is that of the products."""
    return isinstance(score.owner, ScoreOp) and product.scale.value.data > 0


def shared_axes(batch: int, *values: SSAValue, own: int = 2) -> int:
    """Return a bit for each leading axis along which all values, of `own` further axes, are the same."""
    dims = [Shaped.of(v.type).dims[:-own] for v in values]
    return sum(1 << a for a in range(batch) if all(_reaches(d, batch - a) == 1 for d in dims))


def _reaches(dims: Dims, axis: int) -> Dim:
    """Return the extent of the axis that is so far from the end; 1 where there is none."""
    return dims[-axis] if axis <= len(dims) else 1


def boolean(value: bool) -> str:
    """Emit a bool."""
    return "true" if value else "false"


def dtype_of(value: SSAValue) -> str:
    """Return the name of a tensor's dtype."""
    return dtype_name(Shaped.of(value.type).element_type)


def width_of(value: SSAValue) -> int:
    """Return the elements of a row."""
    width = Shaped.of(value.type).dims[-1]
    assert isinstance(width, int)
    return width
