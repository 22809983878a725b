"""The interface of the C++ of one device kernel: in one piece, or as a skeleton and bodies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mucc.codegen.body import Body
from mucc.codegen.texts import Texts

ENTRY = "mucc_entry"
"""The name of the kernel in a skeleton's code, replaced by the program's name for the kernel."""


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of a CUTLASS kernel.

    `device` comes first, then `more` and `kernel`; in the host's half, `host` stands for `device` and
    includes it. `defines` are macros that all of them see.
    `driver` is the class template that runs kernels: `driver<Kernel, arguments>::skeleton`.
    """

    kernel: str
    device: str
    host: str
    driver: str
    more: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()

    def lines(self, first: str) -> str:
        """Emit the first lines of a file: macros, then headers, `first` before the others."""
        macros = "".join(f"#define {macro}\n" for macro in self.defines)
        return macros + "".join(f"#include <{header}>\n" for header in (first, *self.more, self.kernel))


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A kernel without its pointwise bodies, as C++ independent of the program's names.

    `device` compiles to PTX with a place for each body of pointwise work (`// mucc.body`), `host` to an
    object that defines `symbol`, which has the C++ type `type`.
    """

    symbol: str
    type: str
    device: str
    host: str


class KernelCode(ABC):
    """The C++ of a device kernel: in one piece, or in separately compiled parts."""

    @property
    def headers(self) -> Headers | None:
        """The headers of a CUTLASS kernel; None for a kernel without CUTLASS."""
        return None

    @property
    def light_headers(self) -> tuple[str, ...]:
        """The headers of a kernel without CUTLASS."""
        return ()

    @property
    def launch_headers(self) -> tuple[str, ...]:
        """Headers for launching the kernel, besides <mucc/program.h>."""
        return ()

    @property
    @abstractmethod
    def device_header(self) -> str:
        """The header that the device code of `texts` includes."""

    @abstractmethod
    def summary(self) -> str:
        """Describe the kernel on one line."""

    @abstractmethod
    def kernel(self, entry: str) -> list[str]:
        """Emit all definitions of the kernel's namespace; names of entry functions begin with `entry`."""

    def texts(self, entry: str) -> Texts | None:
        """Emit the parts of a kernel that is compiled together with its bodies.

        `entry` is how the names of its kernels begin. None where the kernel is built from a skeleton.
        """
        return None


class SkeletonCode(KernelCode):
    """A kernel built from a skeleton into which pointwise bodies are spliced."""

    @property
    @abstractmethod
    def bodies(self) -> Sequence[Body]:
        """The pointwise bodies to splice into the skeleton."""

    @abstractmethod
    def skeleton(self) -> Skeleton:
        """Emit the kernel without its pointwise bodies, for all programs that share it."""

    @abstractmethod
    def launch(self, skeleton: str) -> list[str]:
        """Return the C++ lines that describe a call to the kernel and launch it.

        `skeleton` is the C++ name of the kernel's skeleton.
        """


class LightCode(KernelCode):
    """A kernel without CUTLASS, compiled together with its bodies."""

    HEADER: ClassVar[str]
    """The header that the device code includes."""
    LAUNCH_HEADER: ClassVar[str]
    """The header with the function that `run` calls."""

    @property
    def light_headers(self) -> tuple[str, ...]:
        return (self.HEADER,)

    @property
    def launch_headers(self) -> tuple[str, ...]:
        return (self.LAUNCH_HEADER,)

    @property
    def device_header(self) -> str:
        return self.HEADER

    @abstractmethod
    def texts(self, entry: str) -> Texts: ...

    def kernel(self, entry: str) -> list[str]:
        texts = self.texts(entry)
        return [texts.device, "", texts.codes(None), "", texts.launch]
