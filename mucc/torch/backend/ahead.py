"""Build the kernels of a model ahead of its first call: as torch.compile would choose them, without a GPU.

dynamo, AOTAutograd and Inductor trace a model with fake tensors up to mucc's pass, which chooses regions and
builds their kernels into the cache. Inductor then goes no further.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mucc.runtime.build import CompileError
from mucc.target.devices import Card, get_card
from mucc.torch.backend.backend import Backend
from mucc.torch.backend.copies import copied
from mucc.torch.backend.measured import Wanted
from mucc.torch.backend.operator import Builds, Request
from mucc.torch.backend.options import Options
from mucc.torch.backend.passes import RegionsPass
from mucc.torch.backend.without_trace import compile_apart
from mucc.torch.importer.capture import torch
from mucc.torch.importer.partition import Graph
from mucc.torch.importer.request import KernelProgram, Tracing

_inductor: Any = importlib.import_module("torch._inductor.compile_fx")
_aot: Any = importlib.import_module("functorch.compile")
_fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")
_functorch_config: Any = importlib.import_module("torch._functorch.config")

SETTINGS: Mapping[str, Any] = {"fx_graph_cache": False, "triton.cudagraphs": False}
"""Inductor's settings while graphs are traced: a graph from its cache would not be divided."""


def faked(value: Any, mode: Any, device: Any = None) -> Any:
    """Return a module, or tensors in a structure, with fake tensors of `mode`; a module is changed.

    Values do not matter, so the module may be on the device "meta", where it takes no memory. Fake tensors
    are on `device`: by default on CUDA's, or on the CPU of a machine without a GPU, where PyTorch chooses no
    kernels of attention for CUDA.
    """
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    known: dict[int, tuple[Any, Any]] = {}  # with the tensor, whose id must not be used again

    def tensor(t: Any) -> Any:
        if not isinstance(t, torch.Tensor):
            return t
        if id(t) not in known:
            laid = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
            made = _fake_tensor.FakeTensor(mode, laid, place)
            if isinstance(t, torch.nn.Parameter):
                made = torch.nn.Parameter(made, requires_grad=t.requires_grad)
            known[id(t)] = t, made
        return known[id(t)][1]

    if not isinstance(value, torch.nn.Module):
        return torch.utils._pytree.tree_map(tensor, value)
    for part in value.modules():
        for own in (part._parameters, part._buffers):
            own.update({name: tensor(t) for name, t in own.items()})
    return value


class _Chosen(BaseException):
    """The regions of a graph are chosen. No `Exception`, since Inductor wraps those."""


class Ahead(Backend):
    """A backend that builds kernels for a card into mucc's cache, and lets PyTorch run the graphs.

    `requests` are the kernels of all graphs; those that a compilation would measure (`Options.measures`) are
    among them, whether they are taken or not. Without `builds`, none is built. Tensors may be fake (`faked`).
    """

    runs_graphs = False

    def __init__(self, options: Options, card: Card, builds: bool = True):
        super().__init__(options)
        self.card, self.builds = card, builds
        self.requests: dict[Request, None] = {}
        self.graphs: set[Any] = set()

    def target(self, inputs: Sequence[Any]) -> str:
        return self.card.target.name

    def graph_pass(self, options: Options, target: str, is_inference: bool) -> RegionsPass:
        return _AheadPass(self, options, is_inference)

    def compile_fx(
        self, compile: Callable[..., Any], module: Any, inputs: Sequence[Any], settings: Mapping[str, Any]
    ) -> Any:
        with _functorch_config.patch(enable_autograd_cache=False):
            return super().compile_fx(self._traced, module, inputs, {**settings, **SETTINGS})

    def _traced(self, module: Any, inputs: Sequence[Any], **options: Any) -> Any:
        """Divide a graph of AOTAutograd; returns the graph as it was, for PyTorch to run."""
        as_it_is = copied(module)
        self.graphs.add(module.graph)
        with contextlib.suppress(_Chosen):
            _inductor.compile_fx_inner(module, inputs, **options)
        return _aot.make_boxed_func(as_it_is.forward)


class _AheadPass(RegionsPass):
    """The pass that builds the kernels of a graph, and ends its compilation."""

    def __init__(self, ahead: Ahead, options: Options, is_inference: bool):
        anywhere = not torch.cuda.is_available()
        super().__init__(options, ahead.card, is_inference, anywhere, ahead.report)
        self.ahead = ahead

    def run(self, graph: Any) -> None:
        super().run(graph)
        if graph in self.ahead.graphs:  # not the body of a control flow operation
            raise _Chosen

    def measure(self, wanted: Wanted, graph: Graph) -> None:
        self.regions.known[self.regions.key(wanted)] = None

    def begin(self, builds: Builds, request: Request) -> None:
        if self.ahead.builds:
            super().begin(builds, request)

    def finished(self, requests: list[Request], builds: Builds) -> dict[Request, CompileError]:
        self.ahead.requests.update(dict.fromkeys(requests))
        return builds.build(requests) if self.ahead.builds else {}


def traced(module: Any, inputs: Sequence[Any], tracing: Tracing) -> list[KernelProgram]:
    """Return the kernels that torch.compile asks for, of a module and inputs on fake tensors.

    Raises MU5401 for an unknown card, MU7062 for an unknown mode, and what the module raises.
    """
    card = get_card(tracing.card)
    options = Options.of({"target": card.target.name, "mode": tracing.mode, "fallback": "error"})
    leaves = torch.utils._pytree.tree_leaves((inputs, [*module.parameters(), *module.buffers()]))
    mode = next((t.fake_mode for t in leaves if isinstance(t, _fake_tensor.FakeTensor)), None)
    mode = mode or _fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    ahead = Ahead(options, card, builds=False)
    compiled = compile_apart(faked(module, mode), ahead, dynamic=False)
    with mode, torch.set_grad_enabled(tracing.trains):
        compiled(*faked(inputs, mode))
    return [KernelProgram(r.program, r.target, dict(r.dims)) for r in ahead.requests]
