"""Run problem files in KernelBench's format; only used in a child process."""

from __future__ import annotations

import ast
import importlib
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.capture import failure, quiet, torch
from mucc.torch.importer.request import Request

SEED = 42


@dataclass
class Problem:
    """A problem file that has been run: its module on fake or real tensors, and its inputs."""

    module: Any
    inputs: tuple[Any, ...]


def fake_tensors() -> Any:
    """Make a context in which tensors have shapes and take no memory."""
    return importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)


def load_problem(request: Request, tree: ast.Module, *, fake: bool = True, seed: int = SEED) -> Problem:
    """Run a problem file and make its module and inputs. Fake ones have shapes and take no memory.

    A file that looks at values as it makes them has a module that is real all the same, and inputs made fake.
    Raises DiagnosticError: MU7011 for what is missing, MU7012 for what the file raises, MU7014 where memory
    runs out.
    """
    if not fake:
        return _load(request, tree, seed)
    mode = fake_tensors()
    try:
        with mode:
            return _load(request, tree, seed)
    except DiagnosticError as error:
        if not any("DataDependentOutput" in d.message for d in error.diagnostics):
            raise
    real = _load(request, tree, seed)

    def made_fake(value: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    return Problem(real.module, torch.utils._pytree.tree_map(made_fake, real.inputs))


def load_shapes(request: Request, tree: ast.Module) -> Problem:
    """Run a problem file on the device "meta", where modules can be converted; on fake tensors if it cannot.

    Raises what `load_problem` raises.
    """
    try:
        with torch.device("meta"):
            return _load(request, tree, SEED)
    except DiagnosticError:
        return load_problem(request, tree)


def _load(request: Request, tree: ast.Module, seed: int) -> Problem:
    opened = OpenedProblem(request, tree)
    torch.manual_seed(seed)
    return Problem(opened.model(), opened.inputs())


class OpenedProblem:
    """A problem file that has been run, with nothing made of it yet.

    Raises DiagnosticError: MU7011 for what is missing, MU7012 for what the file raises, MU7014 where memory
    runs out.
    """

    def __init__(self, request: Request, tree: ast.Module):
        self.path = path = request.shown
        linecache.cache[path] = (len(request.text), None, request.text.splitlines(keepends=True), path)
        module = types.ModuleType("mucc_problem")
        module.__file__ = request.path
        self.names = module.__dict__

        def run() -> None:
            sys.modules["mucc_problem"] = module
            exec(compile(tree, path, "exec"), self.names)

        guarded(path, "the problem file", run)
        for name in ("Model", "get_inputs"):
            if not callable(self.names.get(name)):
                raise failure(
                    "MU7011",
                    f"{path} defines no '{name}'",
                    "a problem file defines Model and get_inputs(), and get_init_inputs() if Model takes any",
                )

    def init_inputs(self) -> list[Any]:
        """Return the arguments of the constructor."""
        get_init = self.names.get("get_init_inputs", list)
        return guarded(self.path, "get_init_inputs()", lambda: list(get_init()))

    def model(self) -> Any:
        """Make the module, with weights from torch's generator in its current state."""
        init = self.init_inputs()
        model = guarded(self.path, "Model(...)", lambda: self.names["Model"](*init))
        if not isinstance(model, torch.nn.Module):
            raise failure("MU7011", f"'Model' of {self.path} is no torch.nn.Module")
        return model

    def inputs(self) -> tuple[Any, ...]:
        """Make the arguments of a call, from torch's generator in its current state."""
        return guarded(self.path, "get_inputs()", lambda: tuple(self.names["get_inputs"]()))


def guarded(path: str, what: str, function: Callable[[], Any]) -> Any:
    """Run a part of a problem file. Raises MU7012 or MU7014 if it raises."""
    try:
        with quiet():
            return function()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise raised(path, what, error) from None


def raised(path: str, what: str, error: BaseException) -> Exception:
    """Return the error for an exception of a problem file, with the line in the file."""
    text = str(error).strip() or "no message"
    if isinstance(error, MemoryError) or any(
        word in text for word in ("can't allocate memory", "not enough memory")
    ):
        return failure(
            "MU7014", f"{what} needs more memory than it may take", "--memory-limit sets the limit"
        )
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    notes = (
        [f"{path}:{frames[-1].lineno}: {linecache.getline(path, frames[-1].lineno or 0).strip()}"]
        if frames
        else []
    )
    first = text.splitlines()[0][:300]
    return failure("MU7012", f"{what} raised {type(error).__name__}: {first}", notes=notes)


def shapes_of(inputs: Sequence[Any]) -> list[str]:
    """Return the inputs' dtypes and shapes as text."""
    leaves = torch.utils._pytree.tree_leaves(list(inputs))
    return [
        f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)
        for v in leaves
    ]
