"""Runs an odd module through the importer and through the backend, against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch_modules import Odd

import mucc
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.program import import_graph
from mucc.torch.importer.tolerance import in_float64
from mucc.torch.importer.verify import difference

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

    def __init__(self, odd: Odd, gradients: bool, backend: Any = None, in_f64: bool = False):
        self.module = made(odd)
        self.args, self.keywords = odd.arguments(FRESH)
        if in_f64:
            self.module = self.module.double()
            given = (self.args, self.keywords)
            self.args, self.keywords = torch.utils._pytree.tree_map(in_float64, given)
        function = self.module if backend is None else torch.compile(self.module, backend=backend)
        with torch.set_grad_enabled(gradients):
            torch.manual_seed(3)
            result = function(*self.args, **self.keywords)
            leaves, self.structure = torch.utils._pytree.tree_flatten(result)
            if gradients:
                total = sum(
                    (v if in_f64 else v.float()).square().sum()
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
    if not all(d.is_good for d in found):
        exact = _exact_values(odd, gradients)
        found = [difference(n, v, ours.values[n], exact.get(n)) for n, v in theirs.values.items()]
        zeros = _zero_gradients(exact, ours.values)
        found = [d for d in found if d.name not in zeros]
    wrong += [f"{d.name} is off by {d.largest:.3g}, {d.excess:.3g}" for d in found if not d.is_good]
    moved: dict[str, str] = {}
    for name, value in theirs.values.items():
        if isinstance(value, torch.Tensor) and isinstance(got := ours.values[name], torch.Tensor):
            if value.requires_grad != got.requires_grad:
                wrong.append(f"{name} {'has no' if value.requires_grad else 'has a'} gradient")
            if value.numel() > 1 and value.shape == got.shape and _strides(value) != _strides(got):
                moved[name] = f"{name} has strides {got.stride()}, not {value.stride()}"
    wrong += _moved_by_mucc(odd, gradients, moved, ours.values) if moved else []
    if ours.memory() != theirs.memory():
        wrong.append(f"memory is shared as {ours.memory()}, not {theirs.memory()}")
    return wrong


def _exact_values(odd: Odd, gradients: bool) -> dict[str, Any]:
    """What a call of the module in float64 leaves, by name; nothing where it does not compute in it."""
    try:
        return _Run(odd, gradients, in_f64=True).values
    except Exception:
        return {}


def _zero_gradients(exact: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """Gradients that are zero but for rounding, in float64 and in ours: that of a bias before a norm is one.

    They have no size of their own to judge a difference by, so the module's largest gradient gives it.
    """
    gradients = {n: v for n, v in exact.items() if n.startswith("gradient") and isinstance(v, torch.Tensor)}
    size = {n: float(v.abs().max()) for n, v in gradients.items() if v.numel()}
    largest = max(size.values(), default=0.0)
    return {
        n for n in size if size[n] <= 2.0**-44 * largest and float(ours[n].abs().max()) <= 2.0**-20 * largest
    }


def _moved_by_mucc(odd: Odd, gradients: bool, moved: dict[str, str], ours: dict[str, Any]) -> list[str]:
    """Of values with strides other than eager PyTorch's, those whose strides Inductor's graph has not either.

    Its decompositions change strides of their own: `cat` with an empty tensor returns the other one's.
    """
    torch._dynamo.reset()
    decomposed = _Run(odd, gradients, "aot_eager_decomp_partition").values
    return [why for name, why in moved.items() if _strides(decomposed[name]) != _strides(ours[name])]


def _strides(value: Any) -> list[int]:
    """The strides of axes that have more than one element."""
    return [s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1]
