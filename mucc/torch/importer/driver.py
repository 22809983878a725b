"""Generate the Python driver of an imported program: calls of kernels and PyTorch in order."""

from __future__ import annotations

import json
import operator
import re
from collections import OrderedDict
from collections.abc import Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, cast

from mucc.library.packing import pack_s4, pack_u4
from mucc.runtime.prepared import folded_norm, unpacked
from mucc.torch.importer.capture import FakeTensor, Input, Ref, Source, failure, torch
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.lowering import INTEGERS, Meta
from mucc.torch.importer.partition import Graph, Node, Opaque

HEAD = '''\
"""{title}

Made by `{command}`: kernels from {kernels}, {parts}
"""

{imports}import torch

from mucc.runtime.imported import Imported
{own}

class ModelNew(Imported):
    PROBLEM = {problem}
    KERNELS = {named}
    TRAINING = {training!r}
    INPUTS = {inputs}
{paths}
{prepare}    def run(self, kernels, module{arguments}):
'''


@dataclass(frozen=True)
class Origin:
    """The origin named in a driver: the problem file, the `.mcu` file, and the command."""

    problem: str | None
    kernels: str
    command: str


def driver_text(graph: Graph, steps: Sequence[Kernel | Opaque], origin: Origin, title: str) -> str:
    """Generate the driver's source. Raises MU7021 for values without a literal."""
    return _Driver(graph, steps, origin).text(title)


OWN = (pack_s4, pack_u4, folded_norm, unpacked)
"""Functions of mucc that the Python drivers of imported modules call, by their own names."""

RESERVED = (
    *("self", "kernels", "module", "torch", "operator", "float", "getattr"),
    *(function.__name__ for function in OWN),
)
"""Names used by drivers, which arguments must not have."""

WRITTEN_OUT = 64
"""The most elements of a constant tensor that is a literal in the driver."""


class _Driver:
    def __init__(self, graph: Graph, steps: Sequence[Kernel | Opaque], origin: Origin):
        self.graph = graph
        self.origin = origin
        self.captured = graph.captured
        self.steps = steps
        self.inputs = sorted(
            (i for i in self.captured.inputs.items() if i[1].is_argument), key=lambda i: i[1].position
        )
        self.nodes = {node.name: node for node in graph.captured.graph.nodes}
        self.lines: list[str] = []
        self.called = _called([name for name, _ in self.inputs], self.nodes.keys())
        """What arguments are called that share a name with what the driver needs."""

    def text(self, title: str) -> str:
        origin = self.origin
        self.lines += [f"self.demand({self._guard(g)}, {quoted(g)})" for g in self.captured.guards]
        self.lines += self._apart()
        prepare = self._prepare()
        for step in self.steps:
            if isinstance(step, Opaque):
                self._opaque(step)
            else:
                self._kernel(step)
        for mutation in self.captured.mutations:
            self.lines.append(f"{self._place(mutation.target)}.copy_({self._value(mutation.node)})")
        self.lines.append(f"return {self._structure(self.captured.structure)}")
        opaque = sum(isinstance(s, Opaque) and s.node.target is not operator.getitem for s in self.steps)
        parts = (
            f"and {opaque} call{'s' if opaque != 1 else ''} of PyTorch between them."
            if opaque
            else "nothing else."
        )
        head = HEAD.format(
            title=title,
            command=origin.command,
            kernels=origin.kernels,
            named=quoted(origin.kernels),
            problem=quoted(origin.problem),
            imports="import operator\n\n" if any("operator." in line for line in self.lines) else "",
            parts=parts,
            training=self.captured.training,
            inputs=self._expected(),
            paths=f"    PATHS = {self._paths()}\n" if self.captured.paths else "",
            prepare=prepare,
            own="".join(
                f"from {function.__module__} import {function.__name__}\n"
                for function in OWN
                if any(f"= {function.__name__}(" in line for line in (prepare, *self.lines))
            ),
            arguments="".join(f", {self.called.get(name, name)}" for name, _ in self.inputs),
        )
        return head + "".join(f"        {line}\n" for line in self.lines)

    def _expected(self) -> str:
        """Return what the driver requires of the leaves of its arguments, by position."""
        rows: dict[int, str] = {}
        for name, given in self.inputs:
            meta = self.graph.meta(self.nodes[name])
            if given.source is Source.NUMBER:
                rows[given.position] = f"({quoted(name)}, float)"
            else:
                shape = f"({', '.join(map(quoted, meta.dims))}{',' * (len(meta.dims) == 1)})"
                rows[given.position] = f"({quoted(name)}, torch.{meta.dtype}, {shape})"
        for position, value in self.captured.fixed.items():
            rows[position] = f"(None, {value!r})"
        if not rows:
            return "()"
        return "(\n" + "".join(f"        {rows[p]},\n" for p in sorted(rows)) + "    )"

    def _paths(self) -> str:
        paths = self.captured.paths
        return f"({', '.join(map(quoted, paths))}{',' * (len(paths) == 1)})"

    def _apart(self) -> list[str]:
        """Demands that arguments that change share no memory, and what changes none with an argument."""
        lines: list[str] = []
        given = list(self.captured.inputs.items())
        for target in dict.fromkeys(m.target for m in self.captured.mutations):
            others = [i for _, i in given if i != target and (i.is_argument or target.is_argument)]
            others = [i for i in others if i.source not in (Source.NUMBER, Source.CONSTANT)]
            if others:
                listed = ", ".join(f"{quoted(i.path)}: {self._place(i)}" for i in others)
                lines.append(f"self.apart({quoted(target.path)}, {self._place(target)}, {{{listed}}})")
        return lines

    def _guard(self, text: str) -> str:
        """Return a guard in terms of the driver's names of arguments."""
        for name, called in self.called.items():
            text = re.sub(rf"\b{name}\b", called, text)
        return text

    # Steps

    def _prepare(self) -> str:
        """Append the line that takes what follows from the state; return the method that computes it."""
        prepared, turned = self.graph.prepared, self._turned
        if not prepared and not turned:
            return ""
        read = [*(i for n in prepared for i in n.all_input_nodes), *(node for node, _ in turned)]
        state = [n for n in dict.fromkeys(read) if n not in prepared]
        state = [n for n in state if not self._is_constant(n)] or state
        given = {n for step in self.steps for n in self._taken(step)}
        used = [n.name for n in prepared if n in given]
        results = ", ".join([*used, *turned.values()])
        self.lines.append(f"{results} = self.prepared([{', '.join(map(self._value, state))}])")
        body = [*map(self._call, prepared)]
        for (node, order), name in turned.items():
            body.append(f"{name} = {self._value(node)}.permute({', '.join(map(str, order))}).contiguous()")
        body.append(f"return {results}")
        return "    def prepare(self, module):\n" + "".join(f"        {line}\n" for line in body) + "\n"

    def _is_constant(self, node: Node) -> bool:
        given = self.captured.inputs.get(node.name)
        return given is not None and given.source in (Source.CONSTANT, Source.ATTRIBUTE)

    def _taken(self, step: Kernel | Opaque) -> list[Node]:
        """Return the values that a step takes as they are."""
        if isinstance(step, Opaque):
            return list(map(self.graph.resolved, step.node.all_input_nodes))
        return [n for n in step.parameters if n not in step.orders]

    @cached_property
    def _turned(self) -> dict[tuple[Node, tuple[int, ...]], str]:
        """Return the names of parameters that kernels take with their axes in another order."""
        found: dict[tuple[Node, tuple[int, ...]], str] = {}
        taken = {*self.nodes}
        for step in self.steps:
            if isinstance(step, Kernel):
                for node in filter(step.orders.__contains__, step.parameters):
                    key = node, tuple(step.orders[node])
                    name = f"{node.name}_{''.join(map(str, key[1]))}"
                    while key not in found and name in taken:
                        name += "_"
                    taken.add(found.setdefault(key, name))
        return found

    def _kernel(self, kernel: Kernel) -> None:
        arguments = ", ".join(
            self._turned[node, tuple(kernel.orders[node])] if node in kernel.orders else self._argument(node)
            for node in kernel.parameters
        )
        call = f"kernels.{kernel.name}({arguments})"
        results = [node.name for node in kernel.results]
        self.lines.append(f"{', '.join(results)} = {call}")
        for node in kernel.results:
            if dtype := restored_dtype(self.graph.meta(node)):
                self.lines.append(f"{node.name} = {node.name}.to({dtype})")

    def _argument(self, node: Node) -> str:
        text = self._value(node)
        if self.graph.is_number(node):
            return text
        if dtype := stored_dtype(self.graph.meta(node)):
            text = f"{text}.to({dtype})"
        return text

    def _opaque(self, step: Opaque) -> None:
        node = step.node
        reason = "" if node.target is operator.getitem else f"  # {step.reason}"
        self.lines.append(f"{self._call(node)}{reason}")

    def _call(self, node: Node) -> str:
        if node.target is operator.getitem:
            return f"{node.name} = {self._literal(node.args[0])}[{node.args[1]}]"
        arguments = [self._literal(a) for a in node.args]
        arguments += [f"{k}={self._literal(v)}" for k, v in node.kwargs.items()]
        return f"{node.name} = {_target(node.target)}({', '.join(arguments)})"

    # Expressions

    def _value(self, name: str | Node) -> str:
        node = self.graph.resolved(self.nodes[name] if isinstance(name, str) else name)
        given = self.captured.inputs.get(node.name)
        return node.name if given is None else self._input(given)

    def _input(self, given: Input) -> str:
        if given.source is Source.CONSTANT:
            return self._constant(given.path)
        place = self._place(given)
        return f"{place}.to(self.device)" if given.source is Source.ATTRIBUTE else place

    def _place(self, given: Input) -> str:
        """Return the tensor that an input is."""
        if given.is_argument:
            name = next(name for name, i in self.inputs if i is given or i == given)
            return self.called.get(name, name)
        text = "module"
        for part in given.path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f"getattr({text}, {quoted(part)})"
        return text

    def _constant(self, path: str) -> str:
        """Return a tensor that the module creates: written out if it is small, else kept by the driver."""
        value = self.captured.constants[path]
        value = getattr(value, "constant", None) if isinstance(value, FakeTensor) else value
        if value is not None and value.numel() <= WRITTEN_OUT:
            return f"torch.tensor({value.tolist()!r}, dtype={value.dtype}, device=self.device)"
        if self.origin.problem is not None:
            shape = list(self.captured.constants[path].shape)
            raise failure(
                "MU7021", f"the module makes a tensor {shape} as it runs", "register it as a buffer"
            )
        return f"self.constant({quoted(path)})"

    def _literal(self, value: Any) -> str:
        match value:
            case torch.fx.Node():
                return self._value(value)
            case tuple():
                return (
                    f"({''.join(self._literal(v) + ', ' for v in cast('tuple[Any, ...]', value)).rstrip()})"
                )
            case list():
                return f"[{', '.join(map(self._literal, cast('list[Any]', value)))}]"
            case torch.device():
                return "self.device"
            case torch.dtype() | torch.layout() | torch.memory_format():
                return str(value)
            case float() if value != value or abs(value) == float("inf"):
                return f"float({quoted(str(value))})"
            case str():
                return quoted(value)
            case None | bool() | int() | float():
                return repr(value)
            case _:
                raise failure("MU7021", f"an argument of the type {type(value).__name__} has no text")

    def _structure(self, value: Any) -> str:
        match value:
            case Ref():
                return self._value(value.node)
            case tuple():
                return self._tuple(cast("tuple[Any, ...]", value))
            case _ if is_dataclass(value) and not isinstance(value, type):
                given = [(f, getattr(value, f.name)) for f in fields(value)]
                given = [(f.name, v) for f, v in given if v is not None or f.default is not None]
                listed = ", ".join(f"{name}={self._structure(v)}" for name, v in given)
                return f"{_class_text(type(value))}({listed})"
            case dict() if type(cast(object, value)) in (dict, OrderedDict):
                items = cast("dict[Any, Any]", value).items()
                text = f"{{{', '.join(f'{quoted(k)}: {self._structure(v)}' for k, v in items)}}}"
                cls = type(cast(object, value))
                return text if cls is dict else f"{_class_text(cls)}({text})"
            case list():
                return f"[{', '.join(map(self._structure, cast('list[Any]', value)))}]"
            case None | bool() | int() | str():
                return repr(value)
            case float():
                return self._literal(value)
            case _:
                raise _returned(value)

    def _tuple(self, value: tuple[Any, ...]) -> str:
        parts = [self._structure(v) for v in value]
        text = f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        cls = type(value)
        if cls is tuple:
            return text
        if cls.__module__ == "torch.return_types":
            return f"torch.return_types.{cls.__name__}({text})"
        if hasattr(cls, "_fields"):
            return f"{_class_text(cls)}({', '.join(parts)})"
        raise _returned(value)


def _class_text(cls: type) -> str:
    """Return the class of a result as text, by which the driver looks it up."""
    if "<locals>" in cls.__qualname__:
        raise failure(
            "MU7021",
            f"the module returns a {cls.__name__}, a class within a function",
            "define it in a module",
        )
    return f"self.named({quoted(cls.__module__)}, {quoted(cls.__qualname__)})"


def _returned(value: object) -> Exception:
    return failure(
        "MU7021",
        f"the module returns a {type(value).__name__}",
        "return tensors, tuples, lists, dicts, named tuples or dataclasses",
    )


def _called(arguments: Sequence[str], taken: Set[str]) -> dict[str, str]:
    """Other names for arguments whose names a driver uses itself."""
    found: dict[str, str] = {}
    for name in arguments:
        if name in RESERVED:
            found[name] = f"{name}_"
            while found[name] in taken or found[name] in RESERVED:
                found[name] += "_"
    return found


def quoted(text: object) -> str:
    """Python text of a string, in double quotes, or of None."""
    return json.dumps(text, ensure_ascii=False) if isinstance(text, str) else repr(text)


def stored_dtype(meta: Meta) -> Any | None:
    """Return the dtype that a value is converted to before a kernel reads it; None for no conversion."""
    if meta.dtype == "bool":
        return torch.uint8
    return torch.int32 if INTEGERS.get(meta.dtype) == "s32" and meta.dtype != "int32" else None


def restored_dtype(meta: Meta) -> Any | None:
    """Return the dtype that a kernel's result is converted to; None for no conversion."""
    return getattr(torch, meta.dtype) if stored_dtype(meta) else None


def _target(target: Any) -> str:
    """Return the function of a call as text. A view is a reshape, without the copy before it."""
    if isinstance(target, torch._ops.OpOverload):
        if target is torch.ops.aten.view.default:
            target = torch.ops.aten.reshape.default
        namespace, _, name = target._schema.name.partition("::")
        return f"torch.ops.{namespace}.{name}.{target._overloadname}"
    if getattr(target, "__module__", "") in ("_operator", "operator"):
        return f"operator.{target.__name__}"
    if target in OWN:
        return target.__name__
    if getattr(target, "__module__", "") == "torch":
        return f"torch.{target.__name__}"
    raise failure("MU7021", f"a call of {target} has no text")
