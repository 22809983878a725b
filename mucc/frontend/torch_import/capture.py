"""A module as a functional graph of ATen operations, by torch.export.

In-place updates have become values of their own and copies at the end; what `mu` has as one operation
(products, normalisations, softmax, pooling, attention, activations) stays one.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError

# Untyped, since mucc is also type-checked where there is no torch.
torch: Any = importlib.import_module("torch")
FakeTensor: Any = importlib.import_module("torch._subclasses.fake_tensor").FakeTensor

KEPT = (
    "linear.default",
    "matmul.default",
    "scaled_dot_product_attention.default",
    "dropout.default",
    "softmax.int",
    "log_softmax.int",
    "logsumexp.default",
    "layer_norm.default",
    "group_norm.default",
    "instance_norm.default",
    "rms_norm.default",
    "max_pool1d.default",
    "max_pool2d.default",
    "max_pool3d.default",
    "avg_pool1d.default",
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
    "cross_entropy_loss.default",
    "silu.default",
    "mish.default",
    "softplus.default",
    "elu.default",
    "selu.default",
    "hardswish.default",
    "hardsigmoid.default",
    "hardtanh.default",
    "leaky_relu.default",
    "std.correction",
    "flip.default",
    "roll.default",
    "tril.default",
    "triu.default",
    "lstm.input",
    "gru.input",
    "rnn_tanh.input",
    "rnn_relu.input",
)
"""Operations that are not taken apart: `mu` has them, or PyTorch runs them whole."""


class Source(StrEnum):
    """Where an input of the graph comes from."""

    USER = "user"
    NUMBER = "number"
    PARAMETER = "parameter"
    BUFFER = "buffer"
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
    """A value of the graph that is copied into an argument or a buffer at the end."""

    node: str
    target: Input


@dataclass
class Captured:
    """A functional graph, what its inputs stand for, and what becomes of its values.

    `structure` is what the module returns, nested as there: names of nodes in a `Ref`, or constants.
    """

    graph: Any
    inputs: dict[str, Input]
    structure: Any
    mutations: tuple[Mutation, ...]
    constants: dict[str, Any] = field(default_factory=dict[str, Any])
    fixed: dict[int, object] = field(default_factory=dict[int, object])
    """Arguments that the graph holds for one value of theirs, by position among the leaves."""
    training: bool = True
    guards: tuple[str, ...] = ()
    """What has to hold of open extents, as Python on the inputs' names."""

    def number(self, name: str) -> float | None:
        """The value of an input that is a constant tensor of one float without axes; None of others."""
        given = self.inputs.get(name)
        if given is None or given.source is not Source.CONSTANT:
            return None
        value: Any = self.constants.get(given.path)
        if isinstance(value, FakeTensor):
            value = value.constant
        return float(value) if value is not None and not value.dim() and value.is_floating_point() else None


@dataclass(frozen=True)
class Ref:
    """The value of a node, within `Captured.structure`."""

    node: str


def failure(code: str, message: str, *helps: str, notes: Sequence[str] = ()) -> DiagnosticError:
    """An error of this area."""
    return DiagnosticError(Diagnostic(code, message, notes=tuple(notes), helps=helps))


def capture(module: Any, args: Sequence[Any], dynamic: Any = None) -> Captured:
    """The graph of `module(*args)` in the mode that the module is in.

    Numbers among the arguments stay arguments. `dynamic` is torch.export's `dynamic_shapes`. Raises
    DiagnosticError MU7020 where the module cannot be captured as one graph, MU7021 for what this importer
    does not do.
    """
    leaves, spec = torch.utils._pytree.tree_flatten(tuple(args))
    numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, float)]
    if numbers:
        as_tensors = [
            torch.tensor(leaf, dtype=torch.float64) if i in numbers else leaf for i, leaf in enumerate(leaves)
        ]
        try:
            program = _exported(module, spec.unflatten(as_tensors), dynamic)
            return _captured(program, module, set(numbers), args)
        except DiagnosticError:
            pass  # the module wants numbers: they become constants
    return _captured(_exported(module, tuple(args), dynamic), module, set(), args)


def _exported(module: Any, args: Any, dynamic: Any) -> Any:
    try:
        with quiet():
            program = torch.export.export(module, args, strict=False, dynamic_shapes=dynamic)
            return program.run_decompositions(decomposition_table())
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        raise _explained(error) from error


@contextmanager
def quiet() -> Generator[None]:
    """Warnings of torch about torch stay unsaid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def decomposition_table() -> Any:
    """torch's decompositions, but for what `KEPT` names."""
    table = torch.export.default_decompositions()
    for name in KEPT:
        packet, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, packet), overload), None)
    return table


_DATA_DEPENDENT = (
    "data-dependent",
    "DataDependent",
    "DynamicOutputShape",
    "GuardOnDataDependent",
    "Could not guard on",
    "unbacked",
)
_LEAVES_TORCH = ("not supported for tensor subclasses", "torch.export", "fake tensor", "FakeTensor")


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
    if (
        isinstance(error, torch._dynamo.exc.TorchDynamoException)
        or any(word in text for word in _LEAVES_TORCH)
        or not _is_the_modules(error)
    ):
        return failure("MU7020", "torch.export cannot capture the module as one graph", notes=(first,))
    return failure(
        "MU7012", f"the module raised {first}", "run the module on its inputs in PyTorch to see where"
    )


def _is_the_modules(error: BaseException) -> bool:
    """Whether an exception comes out of a module's code, or a layer's, and not out of what captures it."""
    layers = os.path.join(_TORCH, "nn", "")
    return any(
        not f.filename.startswith((_TORCH, _HERE)) or f.filename.startswith(layers)
        for f in traceback.extract_tb(error.__traceback__)
    )


_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_HERE = os.path.join(os.path.dirname(__file__), "")


def _captured(program: Any, module: Any, numbers: set[int], args: Sequence[Any]) -> Captured:
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
    guards = _guards(program, module, args, inputs)
    return Captured(
        program.graph, inputs, structure, tuple(mutations), constants, fixed, bool(module.training), guards
    )


def _guards(program: Any, module: Any, args: Sequence[Any], inputs: Mapping[str, Input]) -> tuple[str, ...]:
    """What torch.export assumed of open extents: comparisons of shapes, in terms of the graph's inputs."""
    guards = getattr(program, "_guards_code", None)
    if guards is None and any(hasattr(range, "lower") for range in program.range_constraints.values()):
        raise failure("MU7021", "this torch does not tell what it assumes of open extents")
    bound = dict(inspect.signature(module.forward).bind(*args).arguments)
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
"""A guard for an extent that is no open one: drivers check these by themselves."""


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
