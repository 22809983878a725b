"""`mucc.from_torch`: import a module of this process as a program."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.target import DEFAULT_TARGET
from mucc.torch.importer.capture import alone, arguments_of, capture
from mucc.torch.importer.driver import Origin
from mucc.torch.importer.dynamic import dynamic_of, import_dynamic
from mucc.torch.importer.judge import compiles
from mucc.torch.importer.program import Program, Row, formats, import_graph
from mucc.torch.importer.verify import Difference, Interpreted, compare, driver_class


@dataclass
class ImportedModule:
    """A module as a program: its `.mcu` text, its driver, what stays with PyTorch."""

    module: Any
    program: Program
    target: str
    notes: tuple[str, ...] = ()
    """Open extents that were fixed, and why."""

    @property
    def text(self) -> str:
        """The `.mcu` program; empty where nothing becomes a kernel."""
        return self.program.text(f"{type(self.module).__name__}, imported from PyTorch by mucc.from_torch.")

    @property
    def driver(self) -> str:
        """The source of the Python module that runs it."""
        return self.program.driver(Origin(None, f"{self.program.name}.mcu", "mucc.from_torch"))

    @property
    def rows(self) -> list[Row]:
        """The result for each operation: its kernel, or the reason for having none."""
        return self.program.rows()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a `.mcu` file, and the driver beside it as `<name>_driver.py`."""
        stem = str(path).removesuffix(".mcu")
        origin = Origin(None, f"{os.path.basename(stem)}.mcu", "mucc.from_torch")
        for name, text in ((f"{stem}.mcu", self.text), (f"{stem}_driver.py", self.program.driver(origin))):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)

    def compile(self) -> Any:
        """Compile the kernels, and return a torch.nn.Module with this module's weights."""
        from mucc.runtime.build import compile
        from mucc.runtime.imported import contiguous

        kernels = contiguous(compile(self.text, self.target)) if self.text else None
        return self._of(kernels)

    def interpreted(self) -> Any:
        """Return the same module with kernels run by the float64 interpreter, which is slow."""
        return self._of(Interpreted(self.program.kernels))

    def verify(self, *inputs: Any, seed: int = 42, **keywords: Any) -> list[Difference]:
        """Compare with PyTorch on inputs: results, state and changed arguments.

        Inputs that share memory are compared as they are, and also apart, with values of their own.
        """
        with alone():
            return compare(self.program, self.driver, self.module, inputs, seed, keywords=keywords)

    def _of(self, kernels: Any) -> Any:
        constants = self.program.graph.captured.constants
        return driver_class(self.driver).of(self.module, kernels, constants)


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] = (),
    *,
    example_keywords: Mapping[str, Any] | None = None,
    name: str | None = None,
    target: str = DEFAULT_TARGET,
    compute: str | None = None,
    round: str = "fused",
    whole: bool = False,
    dynamic_shapes: Any = None,
) -> ImportedModule:
    """Import a module in the mode that it is in, for inputs of the shapes and dtypes of `example_inputs`.

    Returns the program, as source too, and what calls it with the module's weights; nothing is compiled yet.
    `name` is that of the kernel, `target` the GPU that decides what kernels there are.
    `example_keywords` are arguments that calls give by name. Arguments that are neither tensors nor floats,
    such as None and True, become part of the program.

    `dynamic_shapes` says which extents stay open: `{"x": {0: "M"}}` by argument, axis and name of the dim,
    torch.export's form, or "auto" for all but those that something needs a number of (`notes` says which).
    `compute` is the format of f32 products; left out it is what torch is set up to. `whole` keeps all that
    the language says in kernels, compiled or not. With `round="eager"` the result of each operation on 16-bit
    floats is rounded, as PyTorch does it; "fused" rounds what is stored and what the module converts.
    Raises DiagnosticError MU7012, MU7020, MU7021, and MU7023 for `dynamic_shapes`.
    """
    called = name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(module).__name__).lower()
    how = formats(compute, round)
    judge = None if whole else compiles(target)
    with alone():
        if dynamic_shapes is None:
            captured = capture(module, example_inputs, example_keywords)
            program = import_graph(captured, called, how, judge, target=None if whole else target)
            return ImportedModule(module, program, target)
        given = arguments_of(module, example_inputs, example_keywords)
        dynamic = dynamic_of(dynamic_shapes, given)
        program = import_dynamic(module, given, called, how, judge, dynamic)
        return ImportedModule(module, program, target, tuple(dynamic.notes))
