"""The torch.compile backend: compile a dynamo graph to a function that runs kernels of mucc."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.frontend.names import Names
from mucc.frontend.source import kernel_text
from mucc.library.errors import MuccError
from mucc.runtime.build import CompileError, MuccWarning, compile_programs
from mucc.target import TARGETS
from mucc.torch.backend.graphs import graph_of
from mucc.torch.backend.options import Options
from mucc.torch.backend.stitch import Caller, Stitched, boxed, with_linear
from mucc.torch.importer.capture import KEPT, decomposition_table, torch
from mucc.torch.importer.emit import Kernel, emit_piece
from mucc.torch.importer.judge import compiles
from mucc.torch.importer.partition import Opaque, Piece, is_part, returned
from mucc.torch.importer.program import Program, cut, formats
from mucc.torch.importer.verify import interpreted

_dynamo: Any = importlib.import_module("torch._dynamo")
_aot: Any = importlib.import_module("torch._dynamo.backends.common")

log = logging.getLogger("mucc.torch")

LONGEST_NAME = 40
"""The most characters of a kernel's name, which is made of names of its operations."""


class NothingToDoError(Exception):
    """No operation of a graph becomes a kernel, so dynamo's graph runs without decompositions."""


def torch_backend(**options: Any) -> Backend:
    """Make a backend for `torch.compile(model, backend=...)` with options; see `Options`.

    The name "mucc" is this with none. Raises DiagnosticError MU7062 for options that there are not, MU4001
    for an unknown target.
    """
    return Backend(Options.of(options))


def dynamo_backend(module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """Run the backend that torch finds by the name "mucc"; `options` are those of `torch.compile`."""
    return torch_backend(**(options or {}))(module, inputs)


class Backend:
    """Compiler of dynamo graphs. `programs` has the program of each graph with kernels, in order."""

    def __init__(self, options: Options | None = None):
        self.options = options or Options()
        self.programs: list[Program] = []

    @property
    def anywhere(self) -> bool:
        """Whether kernels accept tensors on the CPU."""
        return self.options.interpret

    def __call__(self, module: Any, inputs: Sequence[Any], **_: Any) -> Any:
        target = self.target(inputs)
        if target is None:
            return module.forward
        inference = not _needs_gradient(module, inputs)
        compiler = self._compiler(target, "inference" if inference else "forward")
        try:
            with _composite(KEPT if inference else ()):
                backend = _aot.aot_autograd(
                    fw_compiler=compiler,
                    bw_compiler=self._compiler(target, "backward"),
                    inference_compiler=compiler,
                    decompositions=_decompositions(),
                    partition_fn=_partition_function(),
                )
                return backend(module, inputs)
        except _dynamo.exc.RestartAnalysis:
            raise
        except NothingToDoError:
            log.info("nothing of a graph of %d nodes becomes a kernel", len(module.graph.nodes))
        except Exception as error:
            self._failed(error)
        return module.forward

    def target(self, inputs: Sequence[Any]) -> str | None:
        """Choose the target; None, reported once, if PyTorch has to run the graph."""
        if self.options.interpret:
            return self.options.target or "sm_90a"
        devices = {t.device for t in inputs if isinstance(t, torch.Tensor) and t.device.type == "cuda"}
        if not devices:
            _say_once("MU7061", "no tensor of the graph is on a GPU: PyTorch runs it")
            return None
        if self.options.target is not None:
            return self.options.target
        found = {target_of(*torch.cuda.get_device_capability(device)) for device in devices}
        if len(found) > 1 or None in found:
            names = ", ".join(sorted({torch.cuda.get_device_name(d) for d in devices}))
            _say_once("MU7061", f"mucc has no target for {names}: PyTorch runs the graph")
            return None
        return found.pop()

    def _compiler(self, target: str, name: str) -> Callable[..., Any]:
        """Make the compiler that AOTAutograd calls with a functional graph."""

        def compiler(module: Any, inputs: Sequence[Any]) -> Any:
            try:
                return self.compiled(module if name == "inference" else with_linear(module), target, name)
            except NothingToDoError:
                if name != "backward":
                    raise
            except Exception as error:
                self._failed(error)
            return boxed(module)

        return compiler

    def compiled(self, module: Any, target: str, name: str) -> Any:
        """Compile a functional graph to a function of one list of arguments.

        Raises NothingToDoError, and whatever the compiler, the toolchain or the loader raise.
        """
        refused: dict[str, str] = {}
        while True:
            program, typical = self.cut(module, target, refused)
            if not program.kernels:
                raise NothingToDoError
            if not (problems := self._load(program.kernels, target, typical)):
                break
            if self.options.fallback == "error":
                raise next(iter(problems.values()))
            for text, error in problems.items():
                refused[text] = f"{error.code}: {error.message}"
                _say_once("MU7060", f"PyTorch runs what mucc could not build a kernel of: {refused[text]}")
        self.programs.append(program)
        log.info("%s: %d kernels, %d calls of PyTorch", name, len(program.kernels), len(program.opaque))
        strict = self.options.fallback == "error"
        caller = interpreted if self.options.interpret else self._kernel_of(target)
        return Stitched(module, program.graph, program.steps, caller, strict).build()

    def cut(self, module: Any, target: str, refused: Mapping[str, str]) -> tuple[Program, dict[str, int]]:
        """Import a graph without the kernels in `refused`; returns the program and its typical extents."""
        graph, typical = graph_of(module, formats(self.options.compute, self.options.round), self.anywhere)
        judge = compiles(target)
        leaving = returned(graph.captured)
        made: list[Kernel | Opaque] = []
        for step in cut(graph, judge):
            if isinstance(step, Opaque):
                made.append(step)
                continue
            kernel = emit_piece(graph, step, name_of(step), leaving, plain=True)
            if (reason := refused.get(self._text(kernel, target))) is None:
                made.append(kernel)
            else:
                made += [Opaque(node, reason) for node in step.nodes]
        return Program("graph", graph, made), typical

    def _load(
        self, kernels: Sequence[Kernel], target: str, typical: Mapping[str, int]
    ) -> dict[str, CompileError]:
        """Build and load missing kernels; returns those that could not be built, by text."""
        if self.options.interpret:
            return {}
        wanted: dict[str, dict[str, int]] = {}
        for kernel in kernels:
            text = self._text(kernel, target)
            if (text, target) not in _loaded:
                wanted[text] = {d: _rounded(typical[d]) for d in kernel.op.dim_names if d in typical}
        problems: dict[str, CompileError] = {}
        for text, made in zip(wanted, compile_programs(list(wanted.items()), target), strict=True):
            if isinstance(made, CompileError):
                problems[text] = made
            else:
                (_loaded[text, target],) = made.kernels
        return problems

    def _kernel_of(self, target: str) -> Caller:
        return lambda kernel: _loaded[self._text(kernel, target), target]

    def _text(self, kernel: Kernel, target: str) -> str:
        """Generate the source of one kernel, with given schedules."""
        text = kernel_text(kernel.op)
        for name, settings in self.options.schedules.items():
            if name.partition(".")[0] == kernel.name:
                text += f"\nschedule {name} for {target} {{\n{settings}\n}}\n"
        return text

    def _failed(self, error: Exception) -> None:
        """Report that PyTorch runs a graph; with `fallback="error"`, raise the error instead."""
        if self.options.fallback == "error":
            raise error
        coded = error.diagnostics[0] if isinstance(error, DiagnosticError) else error
        is_coded = isinstance(coded, Diagnostic | MuccError)
        what = f"{coded.code}: {coded.message}" if is_coded else repr(error)
        warnings.warn(
            f"MU7060: PyTorch runs a graph that mucc did not compile: {what}", MuccWarning, stacklevel=2
        )
        log.info("a graph falls back to PyTorch", exc_info=error)


def target_of(major: int, minor: int) -> str | None:
    """Return the target for a compute capability; None if unsupported."""
    exact = [t for t in (f"sm_{major}{minor}a", f"sm_{major}{minor}") if t in TARGETS]
    return exact[0] if exact else "sm_80" if major == 8 else None


def name_of(piece: Piece) -> str:
    """Name the kernel of a piece by its first operations."""
    names = [
        node.target._schema.name.partition("::")[2].strip("_") for node in piece.nodes if not is_part(node)
    ]
    name = "_".join(dict.fromkeys(names))
    short = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME].rstrip('_')}_and_more"
    return Names().new(short)


def _rounded(extent: int) -> int:
    """Round a typical size to a power of two, so that similar sizes share cached kernels."""
    return 1 << max(extent - 1, 7).bit_length()


def _needs_gradient(module: Any, inputs: Sequence[Any]) -> bool:
    tensors = [*(t for t in inputs if isinstance(t, torch.Tensor)), *module.parameters()]
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _composite(names: Sequence[str]) -> AbstractContextManager[Any]:
    """Keep operations without gradient from being decomposed by AOTAutograd."""
    override = getattr(
        importlib.import_module("torch.export.exported_program"), "_override_composite_implicit_decomp", None
    )
    if override is None or not names:
        return nullcontext()
    found = (
        getattr(getattr(torch.ops.aten, packet), overload)
        for packet, _, overload in (name.partition(".") for name in names)
    )
    return override({op: _as_it_is for op in found if op._can_decompose()})


def _as_it_is(*args: Any, **options: Any) -> Any:
    return NotImplemented


def _decompositions() -> dict[Any, Any]:
    """Return torch's decompositions without attention, whose decomposition returns wrong strides."""
    return {op: how for op, how in decomposition_table().items() if "_attention" not in str(op)}


def _partition_function() -> Any:
    return importlib.import_module("functorch.compile").min_cut_rematerialization_partition


_loaded: dict[tuple[str, str], Any] = {}
"""Loaded kernels of this process, by text and target."""

_said: set[str] = set()


def _say_once(code: str, message: str) -> None:
    if message not in _said:
        _said.add(message)
        warnings.warn(f"{code}: {message}", MuccWarning, stacklevel=3)
