"""Capture a module as a functional graph of ATen operations by torch.export.

In-place updates have become values of their own and copies at the end; what `mu` has as one operation
(products, normalisations, softmax, pooling, attention, activations) stays one.
"""

from __future__ import annotations

import importlib
import os
import re
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.runtime.arguments import register_dataclasses
from mucc.torch.importer.arguments import Arguments, storage_of
from mucc.torch.importer.attributes import attributes_as_buffers, attributes_of, state_of
from mucc.torch.importer.cumulative_averages import cumulative_averages
from mucc.torch.importer.decompositions import decomposed
from mucc.torch.importer.recurrent import recurrent_shapes

# Untyped, since mucc is also type-checked where there is no torch.
torch: Any = importlib.import_module("torch")
FakeTensor: Any = importlib.import_module("torch._subclasses.fake_tensor").FakeTensor


class Source(StrEnum):
    """The origin of a graph's input."""

    USER = "user"
    NUMBER = "number"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    ATTRIBUTE = "attribute"
    CONSTANT = "constant"


@dataclass(frozen=True)
class Input:
    """One input of the graph: an argument of the call by its position, or state of the module by its path."""

    source: Source
    path: str
    position: int = -1

    @property
    def is_argument(self) -> bool:
        return self.source in (Source.USER, Source.NUMBER)


@dataclass(frozen=True)
class Mutation:
    """A value of the graph that is written to an argument or a buffer at the end."""

    node: str
    target: Input


@dataclass
class Captured:
    """A functional graph with the origins of its inputs and the destinations of its results.

    `structure` is what the module returns, nested as there: names of nodes in a `Ref`, or constants.
    """

    graph: Any
    inputs: dict[str, Input]
    structure: Any
    mutations: tuple[Mutation, ...]
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    fixed: dict[int, object] = field(default_factory=dict[int, object])
    """Arguments that the graph holds for one value of theirs, by position among the leaves."""
    paths: tuple[str, ...] = ()
    """Where the leaves lie among the arguments, unless these are leaves themselves, and given by position."""
    training: bool = True
    guards: tuple[str, ...] = ()
    """Guards on open extents, as Python expressions over inputs' names."""

    def number(self, name: str) -> float | None:
        """Return the value of an input that is a constant 0-d float tensor; None for others."""
        value = self.constant(name)
        return float(value) if value is not None and not value.dim() and value.is_floating_point() else None

    def is_small(self, name: str) -> bool:
        """Whether an input is a constant tensor of integers within 32 bits."""
        value = self.constant(name)
        if value is None or not value.numel() or value.is_floating_point():
            return False
        return bool((value == value.to(torch.int32)).all())

    def constant(self, name: str) -> Any:
        """Return the constant tensor of an input; None for other inputs."""
        given = self.inputs.get(name)
        if given is None or given.source not in (Source.CONSTANT, Source.ATTRIBUTE):
            return None
        if any(m.target == given for m in self.mutations):
            return None
        value: Any = self.constants.get(given.path)
        return value.constant if isinstance(value, FakeTensor) else value


@dataclass(frozen=True)
class Ref:
    """The value of a node, within `Captured.structure`."""

    node: str


def failure(code: str, message: str, *helps: str, notes: Sequence[str] = ()) -> DiagnosticError:
    """Build an error of the importer."""
    return DiagnosticError(Diagnostic(code, message, notes=tuple(notes), helps=helps))


def capture(
    module: Any, args: Sequence[Any], keywords: Mapping[str, Any] | None = None, dynamic: Any = None
) -> Captured:
    """Capture the graph of `module(*args, **keywords)` in the module's current mode.

    Each tensor among the arguments is an input of its own, also where the call gives one twice. Numbers among
    the arguments stay arguments. `dynamic` is torch.export's `dynamic_shapes`. Raises DiagnosticError MU7020
    where the module cannot be captured as one graph, MU7021 for what this importer does not do.
    """
    with alone():
        return _capture(module, args, keywords, dynamic)


def _capture(module: Any, args: Sequence[Any], keywords: Mapping[str, Any] | None, dynamic: Any) -> Captured:
    given = arguments_of(module, args, keywords)
    apart = given.apart(module)
    leaves = apart.leaves
    numbers = {i for i, leaf in enumerate(leaves) if isinstance(leaf, float)}
    if numbers:
        tensors = [torch.tensor(v, dtype=torch.float64) if i in numbers else v for i, v in enumerate(leaves)]
        with suppress(DiagnosticError):  # the module wants numbers: they become constants
            return _captured(module, given, apart.with_leaves(tensors), numbers, dynamic)
    return _captured(module, given, apart, set(), dynamic)


def arguments_of(module: Any, args: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Arguments:
    """Bind the arguments of a call. Raises DiagnosticError MU7012 if the module does not take them."""
    try:
        return Arguments.of(module, args, keywords)
    except TypeError as error:
        raise failure("MU7012", f"the module does not take these arguments: {error}") from None


def _captured(module: Any, given: Arguments, taken: Arguments, numbers: set[int], dynamic: Any) -> Captured:
    attributes = attributes_of(module)
    with attributes_as_buffers(module), recurrent_shapes(), cumulative_averages():
        program = _exported(module, taken, dynamic)
        captured = _read(program, module, taken, numbers, attributes)
    _check_changes(captured, module, given)
    return captured


def _exported(module: Any, given: Arguments, dynamic: Any) -> Any:
    args, keywords = given.bound.args, given.bound.kwargs
    hook = module.register_forward_hook(_look_into)
    try:
        with quiet():
            program = torch.export.export(module, args, keywords, strict=False, dynamic_shapes=dynamic)
            return decomposed(program)
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        raise _explained(error) from error
    finally:
        hook.remove()


def _look_into(module: Any, args: Any, result: Any) -> None:
    register_dataclasses(result)


def _check_changes(captured: Captured, module: Any, given: Arguments) -> None:
    """Raise MU7021 if a changed tensor shares memory with another input."""
    leaves, state = given.leaves, state_of(module)
    values = {i: leaves[i.position] if i.is_argument else state.get(i.path) for i in captured.inputs.values()}
    for mutation in captured.mutations:
        changed = values[mutation.target]
        storage = storage_of(changed) if isinstance(changed, torch.Tensor) else None
        for other, value in values.items():
            if (
                other != mutation.target
                and isinstance(value, torch.Tensor)
                and storage == storage_of(value) is not None
            ):
                raise failure(
                    "MU7021",
                    f"the module changes '{mutation.target.path}', which shares memory with '{other.path}'",
                    "give the module tensors that lie apart: `x.clone()`",
                )


@contextmanager
def alone() -> Generator[None]:
    """Keep other threads from tracing, by torch.export or torch.compile: it changes torch for all of them."""
    with importlib.import_module("torch._dynamo.convert_frame").compile_lock:
        yield


@contextmanager
def quiet() -> Generator[None]:
    """Suppress torch's warnings about its own internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_DATA_DEPENDENT = (
    "data-dependent",
    "DataDependent",
    "DynamicOutputShape",
    "GuardOnDataDependent",
    "Could not guard on",
    "unbacked",
)
_LEAVES_TORCH = ("not supported for tensor subclasses", "torch.export", "fake tensor", "FakeTensor")


_ALIASED = "expected compiled_fn to be GraphModule"
"""The error text of torch.export for changed inputs that are views of one tensor."""

_EXPORTERS = ("/torch/export/", "/torch/_export/", "/torch/_functorch/", "/torch/fx/")


def _explained(error: Exception) -> DiagnosticError:
    text = f"{type(error).__name__}: {error}"
    first = next((line for line in text.splitlines() if line.strip()), text)[:300]
    if any(word in text for word in _DATA_DEPENDENT):
        return failure(
            "MU7020",
            "the module's control flow, or a shape, depends on values of tensors",
            "take the decision outside of the module, or express it by torch.where",
            notes=(first,),
        )
    if _ALIASED in text:
        return failure(
            "MU7021",
            "the module changes a tensor that shares memory with another of its tensors",
            "register one of them, and make the other of it in forward()",
        )
    if (
        isinstance(error, torch._dynamo.exc.TorchDynamoException)
        or any(word in text for word in _LEAVES_TORCH)
        or not _raised_by_module(error)
    ):
        return failure("MU7020", "torch.export cannot capture the module as one graph", notes=(first,))
    return failure(
        "MU7012", f"the module raised {first}", "run the module on its inputs in PyTorch to see where"
    )


def _raised_by_module(error: BaseException) -> bool:
    """Whether an error was raised by code of the module or torch.nn, not by the tracing code."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if not frames or any(part in frames[-1] for part in _EXPORTERS):
        return False
    layers = os.path.join(_TORCH, "nn", "")
    return any(not name.startswith((_TORCH, _HERE)) or name.startswith(layers) for name in frames)


_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_HERE = os.path.join(os.path.dirname(__file__), "")


def _read(
    program: Any, module: Any, taken: Arguments, numbers: set[int], attributes: Mapping[str, Any]
) -> Captured:
    """Extract a `Captured` from an exported program."""
    drop_notes(program.graph)
    signature = program.graph_signature
    kinds = torch.export.graph_signature.InputKind
    sources = {
        kinds.PARAMETER: Source.PARAMETER,
        kinds.BUFFER: Source.BUFFER,
        kinds.CONSTANT_TENSOR: Source.CONSTANT,
        kinds.USER_INPUT: Source.USER,
    }
    inputs: dict[str, Input] = {}
    fixed: dict[int, object] = {}
    position = 0
    for spec in signature.input_specs:
        if spec.kind not in sources:
            raise failure(
                "MU7021", f"the graph has an input of a kind that is not imported: {spec.kind.name}"
            )
        source = sources[spec.kind]
        if source is not Source.USER:
            source = Source.ATTRIBUTE if spec.target in attributes else source
            inputs[spec.arg.name] = Input(source, spec.target)
            continue
        if hasattr(spec.arg, "value"):
            fixed[position] = spec.arg.value
        else:
            number = position in numbers
            inputs[spec.arg.name] = Input(Source.NUMBER if number else Source.USER, spec.arg.name, position)
        position += 1
    outputs, mutations = _outputs(signature, inputs)
    structure = torch.utils._pytree.tree_unflatten(outputs, program.call_spec.out_spec)
    constants = {k: v for k, v in program.constants.items() if isinstance(v, torch.Tensor)}
    return Captured(
        program.graph,
        inputs,
        structure,
        tuple(mutations),
        constants | dict(attributes),
        fixed,
        () if taken.is_plain else tuple(taken.by_path),
        bool(module.training),
        _guards(program, taken, inputs),
    )


def drop_notes(graph: Any) -> None:
    """Erase torch's assertions on dtypes, which compute nothing but read values of kernels."""
    for node in list(graph.nodes):
        if "_assert_tensor_metadata" in str(node.target):
            graph.erase_node(node)


def _guards(program: Any, taken: Arguments, inputs: Mapping[str, Input]) -> tuple[str, ...]:
    """Collect torch.export's assumptions on open extents as comparisons of input shapes."""
    guards = getattr(program, "_guards_code", None)
    if guards is None and any(hasattr(range, "lower") for range in program.range_constraints.values()):
        raise failure("MU7021", "this torch does not tell what it assumes of open extents")
    bound = dict(taken.bound.arguments)
    names = {i.position: name for name, i in inputs.items() if i.is_argument}
    paths = [path for path, _ in torch.utils._pytree.tree_flatten_with_path(bound)[0]]
    written = {f"L{torch.utils._pytree.keystr(path)}": names.get(n) for n, path in enumerate(paths)}
    found: dict[str, None] = {}
    for guard in guards or ():
        if ".size()" not in guard or _FIXED.fullmatch(guard):
            continue
        for source in sorted(written, key=len, reverse=True):
            guard = guard.replace(source, written[source] or source)
        if "L[" not in guard:
            found[guard] = None
    return tuple(found)


_FIXED = re.compile(r"L\S+\.size\(\)\[\d+\] == \d+")
"""The pattern of guards on fixed extents, which drivers check themselves."""


def _outputs(signature: Any, inputs: dict[str, Input]) -> tuple[list[Any], list[Mutation]]:
    kinds = torch.export.graph_signature.OutputKind
    by_path = {i.path: i for i in inputs.values()}
    outputs: list[Any] = []
    mutations: list[Mutation] = []
    for spec in signature.output_specs:
        match spec.kind:
            case kinds.USER_OUTPUT:
                outputs.append(spec.arg.value if hasattr(spec.arg, "value") else Ref(spec.arg.name))
            case kinds.BUFFER_MUTATION | kinds.PARAMETER_MUTATION | kinds.USER_INPUT_MUTATION:
                target = by_path.get(spec.target) or inputs.get(spec.target)
                if target is None:
                    raise failure(
                        "MU7021", f"the module changes '{spec.target}', which is none of its inputs"
                    )
                mutations.append(Mutation(spec.arg.name, target))
            case _:
                raise failure(
                    "MU7021", f"the graph has an output of a kind that is not imported: {spec.kind.name}"
                )
    return outputs, mutations
