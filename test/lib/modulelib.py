"""Runs an odd module through the importer and through the backend, against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch_modules import Odd

import mucc
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.program import import_graph
from mucc.torch.importer.verify import difference, observed_exactly

TARGET = "sm_90a"
EXAMPLE, FRESH = 1, 2
"""Seeds of the arguments that a module is imported with, and of others that it is called with."""


def made(odd: Odd) -> Any:
    """The module, with the same weights each time."""
    torch.manual_seed(0)
    return odd.make()


def imported(odd: Odd) -> list[str]:
    """What is wrong with the import of a module: with what the compiler takes, and whole."""
    try:
        wrong = _imported(odd)
    except DiagnosticError as error:
        found = error.diagnostics[0]
        return [] if found.code == odd.refused else [f"refused: {found.code}: {found.message} {found.notes}"]
    return [f"not refused with {odd.refused}"] if odd.refused else wrong


def _imported(odd: Odd) -> list[str]:
    args, keywords = odd.arguments(EXAMPLE)
    options = {"example_keywords": keywords} if keywords else {}
    program = mucc.from_torch(made(odd), args, target=TARGET, name=odd.name.lower(), **options)
    graph = program.program.graph
    whole = replace(program, program=import_graph(graph.captured, odd.name.lower(), graph.formats))
    calls = [odd.arguments(FRESH, apart=apart) for apart in (False, True)[: 1 + odd.shares]]
    wrong: list[str] = []
    for how, version in (("compiled", program), ("whole", whole)):
        if version is program or version.text != program.text:
            checks = [c for given, named in calls for c in version.verify(*given, **named)]
            found = [c for c in checks if c.excess > 1]
            wrong += [f"{how}: {c.name} is off by {c.largest:.3g}, {c.excess:.3g}" for c in found]
    return wrong


def compiled(odd: Odd) -> list[str]:
    """What is wrong with a module under `torch.compile`: values, dtypes, memory, changed arguments, state."""
    torch._dynamo.reset()
    wrong = _ran(odd, False)
    if odd.gradients:
        torch._dynamo.reset()
        wrong += [f"with gradients: {w}" for w in _ran(odd, True)]
    return wrong


class _Run:
    """A call of a module, eager or compiled: its values by name."""

    def __init__(self, odd: Odd, gradients: bool, backend: Any = None):
        self.module = made(odd)
        self.args, self.keywords = odd.arguments(FRESH)
        function = self.module if backend is None else torch.compile(self.module, backend=backend)
        with torch.set_grad_enabled(gradients):
            torch.manual_seed(3)
            result = function(*self.args, **self.keywords)
            leaves, self.structure = torch.utils._pytree.tree_flatten(result)
            if gradients:
                total = sum(
                    v.float().square().sum()
                    for v in leaves
                    if isinstance(v, torch.Tensor) and v.requires_grad
                )
                total.backward()
        self.values = {f"result {n}": v for n, v in enumerate(leaves)}
        given = torch.utils._pytree.tree_leaves((self.args, self.keywords))
        self.values |= {f"argument {n}": v for n, v in enumerate(given)}
        self.values |= self.module.state_dict()
        self.values |= {
            f"gradient of {n}": p.grad for n, p in self.module.named_parameters() if p.grad is not None
        }

    def memory(self) -> dict[str, int]:
        """Which values lie in the same memory, each group called after its first."""
        first: dict[int, int] = {}
        tensors = {k: v for k, v in self.values.items() if isinstance(v, torch.Tensor) and v.numel()}
        return {
            name: first.setdefault(v.untyped_storage().data_ptr(), n)
            for n, (name, v) in enumerate(tensors.items())
        }


def _ran(odd: Odd, gradients: bool) -> list[str]:
    torch.manual_seed(3)
    theirs = _Run(odd, gradients)
    options = {"interpret": True, "fallback": "error", "regions": "all", "rest": "eager", "target": TARGET}
    ours = _Run(odd, gradients, mucc.torch_backend(**options, fallback_random=True))
    wrong: list[str] = []
    if ours.structure != theirs.structure:
        wrong.append(f"results are {ours.structure}, not {theirs.structure}")
    if list(ours.values) != list(theirs.values):
        return [*wrong, f"values are {list(ours.values)}, not {list(theirs.values)}"]
    found = [difference(n, v, ours.values[n]) for n, v in theirs.values.items()]
    if not all(d.is_good for d in found) and not gradients:
        args, keywords = odd.arguments(FRESH)
        exact = observed_exactly(made(odd), (tuple(args), dict(keywords)), 3)
        if exact is not None:
            names = {n.replace("argument", "input"): n for n in theirs.values}
            found = [
                difference(o, theirs.values[o], ours.values[o], exact.values.get(n)) for n, o in names.items()
            ]
    # A gradient that is 0 but for rounding, such as that of a bias before a norm, is judged by the others.
    slopes = (v for n, v in theirs.values.items() if n.startswith("gradient") and isinstance(v, torch.Tensor))
    least = 1e-6 * max((float(v.abs().max()) for v in slopes if v.numel()), default=0.0)
    small = {d.name for d in found if d.name.startswith("gradient") and d.largest <= least}
    wrong += [
        f"{d.name} is off by {d.largest:.3g}, {d.excess:.3g}"
        for d in found
        if not d.is_good and d.name not in small
    ]
    for name, value in theirs.values.items():
        if isinstance(value, torch.Tensor) and isinstance(got := ours.values[name], torch.Tensor):
            if value.requires_grad != got.requires_grad:
                wrong.append(f"{name} {'has no' if value.requires_grad else 'has a'} gradient")
            if value.numel() > 1 and value.shape == got.shape and _strides(value) != _strides(got):
                wrong.append(f"{name} has strides {got.stride()}, not {value.stride()}")
    if ours.memory() != theirs.memory():
        wrong.append(f"memory is shared as {ours.memory()}, not {theirs.memory()}")
    return wrong


def _strides(value: Any) -> list[int]:
    """The strides of axes that have more than one element."""
    return [s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1]
