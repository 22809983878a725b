"""The attributes that are values of schedule settings, with the arithmetic of tiles and clusters.

Which values a target allows is part of the target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu.syntax import WordAttr

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


class SizesAttr(ParametrizedAttribute, ABC):
    """Base of sizes along M, N and possibly K: `<128, 256, 64>` in IR, `128x256x64` in programs."""

    @classmethod
    def of(cls, *sizes: int) -> Self:
        """Build the attribute from one size for each axis."""
        return cls(*(IntAttr(size) for size in sizes))

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The sizes in order."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            sizes = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: IntAttr(parser.parse_integer(allow_boolean=False))
            )
        if len(sizes) != (rank := len(cls.get_irdl_definition().parameters)):
            parser.raise_error(f"expected {rank} sizes, got {len(sizes)}")
        return sizes

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.sizes, lambda v: printer.print_string(str(v)))

    def __str__(self) -> str:
        return "x".join(str(v) for v in self.sizes)


@irdl_attr_definition
class TileAttr(SizesAttr):
    """The block of the product that one thread block computes, and its step along K."""

    name = "mu.tile"

    m: IntAttr
    n: IntAttr
    k: IntAttr

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.m.data, self.n.data, self.k.data


class PlaneAttr(SizesAttr, ABC):
    """Base of sizes along M and N."""

    m: IntAttr
    n: IntAttr

    @property
    def sizes(self) -> tuple[int, int]:
        return self.m.data, self.n.data


@irdl_attr_definition
class ClusterAttr(PlaneAttr):
    """How many thread blocks along M and N share loads through distributed shared memory."""

    name = "mu.cluster"

    @property
    def blocks(self) -> int:
        return self.m.data * self.n.data


@irdl_attr_definition
class EpilogueTileAttr(PlaneAttr):
    """The piece of a tile that the epilogue works on at a time."""

    name = "mu.epilogue_tile"


class Mainloop(StrEnum):
    COOPERATIVE = "cooperative"
    PINGPONG = "pingpong"
    WARPSPECIALIZED = "warpspecialized"
    CPASYNC = "cpasync"
    MULTISTAGE = "multistage"
    SKINNY = "skinny"
    ONE_SM = "one_sm"
    TWO_SM = "two_sm"


@irdl_attr_definition
class MainloopAttr(WordAttr[Mainloop]):
    """The mainloop: how the warps of a thread block divide loads and matrix multiplication."""

    name = "mu.mainloop"


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


@irdl_attr_definition
class SwitchAttr(WordAttr[Switch]):
    """The value of a setting that is on or off."""

    name = "mu.switch"


class SchedulerKind(StrEnum):
    PERSISTENT = "persistent"
    STREAM_K = "stream_k"
    SPLIT_K = "split_k"


class Raster(StrEnum):
    ALONG_M = "along_m"
    ALONG_N = "along_n"
    HEURISTIC = "heuristic"


@irdl_attr_definition
class SchedulerAttr(ParametrizedAttribute):
    """The tile scheduler: how output tiles are assigned to thread blocks.

    `persistent` takes whole tiles in raster order with a swizzle; `stream_k` and `split_k` also divide K.
    `splits` is 1 where the scheduler decides.
    """

    name = "mu.scheduler"

    kind: StringAttr
    raster: StringAttr
    swizzle: IntAttr
    splits: IntAttr

    @staticmethod
    def of(
        kind: SchedulerKind | str = SchedulerKind.PERSISTENT,
        raster: Raster | str = Raster.HEURISTIC,
        swizzle: int = 1,
        splits: int = 1,
    ) -> SchedulerAttr:
        return SchedulerAttr(
            StringAttr(SchedulerKind(kind).value),
            StringAttr(Raster(raster).value),
            IntAttr(swizzle),
            IntAttr(splits),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: dict[str, str | int] = {"raster": "heuristic", "swizzle": 1, "splits": 1}
        with parser.in_angle_brackets():
            kind = parser.parse_identifier(" scheduler kind")
            while parser.parse_optional_punctuation(","):
                key = parser.parse_identifier(" scheduler parameter")
                parser.parse_punctuation("=")
                number = parser.parse_optional_integer(allow_boolean=False)
                values[key] = parser.parse_identifier() if number is None else number
        if unknown := set(values) - {"raster", "swizzle", "splits"}:
            parser.raise_error(f"unknown scheduler parameter '{unknown.pop()}'")
        return [
            StringAttr(kind),
            StringAttr(str(values["raster"])),
            IntAttr(int(values["swizzle"])),
            IntAttr(int(values["splits"])),
        ]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            parts = [self.kind.data]
            if self.raster.data != Raster.HEURISTIC:
                parts.append(f"raster = {self.raster.data}")
            if self.swizzle.data != 1:
                parts.append(f"swizzle = {self.swizzle.data}")
            if self.splits.data != 1:
                parts.append(f"splits = {self.splits.data}")
            printer.print_string(", ".join(parts))

    def __str__(self) -> str:
        """Print the scheduler in the syntax of `.mcu`."""
        match self.kind.data:
            case SchedulerKind.SPLIT_K:
                return f"split_k({self.splits.data})"
            case SchedulerKind.STREAM_K:
                return "stream_k()" if self.splits.data == 1 else f"stream_k(splits={self.splits.data})"
            case _:
                return f"persistent(raster={self.raster.data}, swizzle={self.swizzle.data})"

    def verify(self) -> None:
        for value, kinds in ((self.kind, SchedulerKind), (self.raster, Raster)):
            if value.data not in list(kinds):
                raise VerifyException(f"'{value.data}' is not one of {', '.join(kinds)}")
        if self.splits.data < 1:
            raise VerifyException("splits must be at least 1")
