"""Insert copies of operands that a contraction's kernel cannot access in place, once schedules are chosen.

Matrices with rows that TMA cannot copy get copies with padded rows, and so do rows that are picked by number,
if the kernel does not pick them itself. f32 operands that tensor cores multiply in parts of tf32 become those
parts. All are map kernels around the contraction, which says what it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import LoadOp, StoreNode, StoreOp
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.types import Dims, LayoutAttr, Shaped, TensorType, dtype_bytes
from mucc.dialects.rewriting import locate
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.granules import held, program_of, unit_axis
from mucc.kernels.gemm.nodes import AuxLoadOp, AuxStoreOp, SrcFetchOp, StoreDOp
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.map.nodes import PARTS, Part, StorePartsOp
from mucc.kernels.map.op import MapOp
from mucc.target.facts import WIDEST_ACCESS


class _Preparation:
    """Inserts around one contraction what it needs."""

    def __init__(self, gemm: GemmOp):
        self.gemm = gemm
        self.program = program_of(gemm)
        self.names: Counter[str] = Counter()

    def add(self, op: Operation) -> None:
        """Something that comes before the contraction."""
        self.program.body.block.insert_op_before(op, self.gemm)
        locate(op, self.gemm)

    def replace(self, new: GemmOp) -> None:
        """Replace the contraction by another op."""
        self.add(new)
        self.gemm.detach()
        self.gemm.erase()
        self.gemm = new

    def workspace(self, dims: Dims, like: TensorType, columns: bool = False) -> SSAValue:
        """Memory with rows, or columns, that are padded to whole granules of a copy."""
        layout = LayoutAttr.padded(WIDEST_ACCESS // dtype_bytes(like.element_type))
        if columns:
            layout = layout.transposed(len(dims))
        self.add(workspace := c.WorkspaceOp(TensorType.of(dims, like.element_type, layout)))
        return workspace.result

    def map(self, what: str, dims: Dims, source: SSAValue, store: Callable[[SSAValue], StoreNode]) -> MapOp:
        """Return a map kernel that stores what it loads."""
        body = Block()
        body.add_op(load := LoadOp(source))
        body.add_op(store(load.result))
        name = f"{self.gemm.stage.data}.{what}{self.names[what] or ''}"
        self.names[what] += 1
        return MapOp(name, dims, Region(body))

    # Parts

    def split(self, value: SSAValue, parts: tuple[Part, ...], what: str) -> SSAValue:
        """Return the parts of the numbers of `value`, [.., rows, K], as [.., rows, parts, K]."""
        type = value.type
        assert isinstance(type, TensorType)
        place = self.workspace((*type.dims[:-1], len(parts), type.dims[-1]), type)
        self.add(self.map(what, type.dims, value, lambda x: StorePartsOp(x, place, parts)))
        return place

    def split_operands(self) -> None:
        """Rewrite `A @ B` -> `[low, high, high] of A @ [high, low, high] of B`, along a K three times as
        long.
        """
        self.add(turned := TransposeOp(self.gemm.b))
        operands = ((self.gemm.a, "split_a"), (turned.result, "split_b"))
        a, b = (self.split(v, parts, what) for (v, what), parts in zip(operands, PARTS, strict=True))
        self.replace(self.gemm.reading((a, b)))

    # Rows by number

    def picked(self) -> SSAValue:
        """Copy the rows of A that an index names, with padding."""
        place = self.place(self.gemm.a)
        dims = Shaped.of(self.gemm.a.type).dims
        self.add(self.map("pick", dims, self.gemm.a, lambda x: StoreOp(x, place)))
        return place

    # Padding

    def is_narrow(self, value: SSAValue) -> bool:
        """Whether rows of a matrix may be other than whole granules of a copy."""
        return held(self.gemm, value) < WIDEST_ACCESS

    def place(self, value: SSAValue) -> SSAValue:
        """Memory for a matrix with padded rows."""
        type = value.type
        assert isinstance(type, TensorType)
        return self.workspace(type.dims, type, columns=unit_axis(self.gemm, value) != type.rank - 1)

    def copied(self, value: SSAValue, what: str) -> SSAValue:
        """Return a matrix, or a copy of it if its rows are narrow."""
        if not self.is_narrow(value):
            return value
        place = self.place(value)
        self.add(self.map(what, Shaped.of(value.type).dims, value, lambda x: StoreOp(x, place)))
        return place

    def copy_operands(self, pads: bool, own: Collection[str]) -> None:
        """Rewrite `A @ B` -> `A' @ B` where A' is a copy: of rows that are picked, and with `pads` of narrow
        rows.

        The kernel's `own` operands are those that it copies itself.
        """
        given = self.gemm.operands_given
        read = list(given)
        for i, name in enumerate(("a", "b", "b")[: len(given)]):
            if name in own:
                continue
            if name == "a" and self.gemm.picked is not None:
                read[i] = self.picked()
            elif pads:
                read[i] = self.copied(given[i], f"pad_{name}")
        if tuple(read) != given:
            self.replace(self.gemm.reading(read))

    def pad_outer(self) -> None:
        """Replace matrices of the epilogue: copies of what it loads, and copies of what it stores."""
        last: Operation = self.gemm
        for node in self.gemm.nodes:
            if isinstance(node, SrcFetchOp | AuxLoadOp):
                node.operands[0] = self.copied(node.source, "pad_c")
            elif isinstance(node, StoreDOp | AuxStoreOp) and self.is_narrow(node.destination):
                target = node.destination
                place = node.operands[1] = self.place(target)
                move = self.map(
                    "unpad", Shaped.of(target.type).dims, place, partial(StoreOp, destination=target)
                )
                locate(move, self.gemm)
                self.program.body.block.insert_op_after(move, last)
                last = move


def prepare(program: c.ProgramOp, gemm: GemmOp) -> None:
    """Insert around a contraction what prepares its operands."""
    target, config = gemm_target(program.target.data), config_of(gemm)
    preparation = _Preparation(gemm)
    if target.splits(config):
        preparation.split_operands()
    else:
        preparation.copy_operands(target.pads(config), target.copies(config))
    if target.pads(config):
        preparation.pad_outer()
