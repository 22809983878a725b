"""Time a graph of dynamo at its first call, with mucc and without it, and keep what is faster.

Predictions err, and regions that are measured one by one say nothing of masks, of layouts, and of what a
kernel keeps Inductor from fusing. So the whole graph is run both ways, on the arguments of its first call.
Memory that it changes is restored. Times are kept in the tuning database, and later compilations make one
version.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mucc.build.cache.keys import loaded_fingerprint
from mucc.database.records import kernel_digest
from mucc.torch.backend.copies import copied
from mucc.torch.backend.options import Options
from mucc.torch.backend.times import store, stored
from mucc.torch.backend.timing import Call, row_seconds, seconds_of
from mucc.torch.importer.capture import torch
from mucc.torch.importer.program import formats

_config: Any = importlib.import_module("torch._inductor.config")
_dispatch: Any = importlib.import_module("torch._dispatch.python")
_fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")
_functional: Any = importlib.import_module("torch._subclasses.functional_tensor")

log = logging.getLogger("mucc.torch")

MUCC, INDUCTOR, REST = "mucc", "inductor", "mucc without kernels"
"""Versions of a graph: compiled with mucc, by Inductor alone, and with mucc's layouts and masks alone."""

GPU, ROW = "on the GPU", "in a row"
"""What is timed of a version: its work on the GPU, and calls in a row, which the host may slow down."""

FASTER, NOISE = 1.005, 0.98
"""mucc is kept if it is so many times as fast by one of the times, and by none slower than `NOISE` allows."""

RESTORING = "restoring"
"""What is timed beside the versions: writing back the memory that a graph changes, as after each call."""

LEAST = 1e-9
"""Seconds that a version takes at least, so that times can be divided."""

BYTES = 2 << 30
"""The most memory that a graph may change to be timed: it is copied before, and back after each call."""

Run = Callable[..., Any]


@dataclass(frozen=True)
class Verdict:
    """Measured seconds of the versions of a graph of `operations`, by what was timed and the version."""

    operations: int
    times: Mapping[tuple[str, str], float]

    @property
    def rival(self) -> str:
        """The version that mucc's was compared with."""
        return next(version for _, version in self.times if version != MUCC)

    @property
    def gains(self) -> dict[str, float]:
        """How many times as fast as its rival the version with mucc is, by what was timed."""
        return {what: self.times[what, self.rival] / self.times[what, MUCC] for what, _ in self.times}

    @property
    def kept(self) -> str:
        """The version that runs."""
        gains = self.gains.values()
        return MUCC if max(gains) > FASTER and min(gains) >= NOISE else self.rival

    def __str__(self) -> str:
        return "; ".join(
            "{:.1f} us with mucc, {:.1f} us without, {}".format(
                *(self.times[what, v] * 1e6 for v in (MUCC, self.rival)), what
            )
            for what in self.gains
        )


class Trial:
    """A graph of dynamo as it was given, of fixed extents, and what is known of its versions.

    `card` is the name of the GPU, as the driver has it.
    """

    def __init__(self, module: Any, inputs: Sequence[Any], options: Options, target: str, card: str):
        self.module = copied(module)
        self.inputs, self.options, self.target, self.card = inputs, options, target, card
        self.context = torch._guards.TracingContext.try_get()

    @cached_property
    def key(self) -> str:
        """A digest of everything that the times of a graph depend on, but the card."""
        tensors = [
            (str(t.dtype), tuple(t.shape), t.stride(), t.requires_grad, t.device.type)
            if isinstance(t, torch.Tensor)
            else repr(t)
            for t in self.inputs
        ]
        graphs = [str(m.graph) for m in self.module.modules() if isinstance(m, torch.fx.GraphModule)]
        attributes = [(n, tuple(t.shape)) for n, t in self.module.state_dict().items()]
        # Settings whose text has an address are passes, which have no digest here.
        given = ((k, repr(v)) for k, v in sorted(_config.save_config_portable().items()))
        setup = [repr(self.options), *(item for item in given if " at 0x" not in item[1])]
        setup += [formats(self.options.compute, self.options.round), torch.is_grad_enabled()]
        versions = torch.__version__, loaded_fingerprint()
        return kernel_digest(repr((graphs, attributes, tensors, setup, versions)))

    @property
    def operations(self) -> int:
        """The number of calls in the graph."""
        return sum(n.op.startswith("call") for n in self.module.graph.nodes)

    def known(self) -> Verdict | None:
        """Return the times that the database has of two versions; None without them."""
        found: dict[tuple[str, str], float] = {}
        for name, seconds in stored(self.target, self.card, self.key).items():
            version, _, what = name.partition(", ")
            found[what, version] = seconds
        versions = {version for _, version in found}
        return Verdict(self.operations, found) if MUCC in versions and len(versions) == 2 else None

    def fresh(self) -> Any:
        """Return a copy of the graph, since compiling a graph changes it in place."""
        return copied(self.module)

    def is_changed(self, module: Any) -> bool:
        """Whether a graph differs from the one that dynamo gave."""
        return str(module.graph) != str(self.module.graph)

    def compare(self, versions: Mapping[str, Run], arguments: Sequence[Any], on_gpu_alone: bool) -> Verdict:
        """Time two versions on arguments of the graph, whose memory stays as it is, and keep the times.

        Work on the GPU is timed if an argument is there, calls in a row unless the GPU is to be timed alone.
        Raises what they raise, and ValueError if a graph changes too much memory.
        """
        changed = written(self.module, arguments)
        if sum(arguments[n].numel() * arguments[n].element_size() for n in changed) > BYTES:
            raise ValueError("the graph changes too much memory to be timed")
        kept = {n: arguments[n].clone() for n in changed}

        def restore() -> None:
            with torch.no_grad():
                for n, value in kept.items():
                    arguments[n].copy_(value)

        calls = {name: _step(run, arguments, restore) for name, run in versions.items()}
        if kept:
            calls[RESTORING] = restore
        found: dict[tuple[str, str], float] = {}
        devices = sorted({t.device.index for t in arguments if _on_gpu(t)})
        clocks = {GPU: seconds_of} if devices else {}
        if not devices or not on_gpu_alone:
            clocks[ROW] = row_seconds
        try:
            with torch.random.fork_rng(devices=devices):
                for what, clock in clocks.items():
                    times = dict(zip(calls, clock([*calls.values()]), strict=True))
                    restoring = times.pop(RESTORING, 0.0)
                    found.update({(what, name): max(t - restoring, LEAST) for name, t in times.items()})
        finally:
            restore()
        verdict = Verdict(self.operations, found)
        log.info("a graph of %d operations: %s; kept: %s", self.operations, verdict, verdict.kept)
        named = {f"{version}, {what}": seconds for (what, version), seconds in found.items()}
        store(self.target, self.card, self.key, "graph", "graph", named)
        return verdict

    @contextmanager
    def compiling(self) -> Generator[None]:
        """Set up what dynamo had set up when it gave the graph."""
        with torch._guards.tracing(self.context):
            yield


def may_be_timed(inputs: Sequence[Any]) -> bool:
    """Whether a graph can be run several times: its extents are fixed, and no other process takes part."""
    distributed = torch.distributed
    return not any(isinstance(i, torch.SymInt) for i in inputs) and not (
        distributed.is_available() and distributed.is_initialized()
    )


def written(module: Any, arguments: Sequence[Any]) -> list[int]:
    """Return which arguments a graph of dynamo changes in place; it is run on fake tensors to see that.

    They are functional ones, as AOTAutograd's, which see all changes. Versions of tensors do not move with
    the statistics of batch norm, and tensors of inference mode have none. Raises what operations raise whose
    extents depend on values.
    """
    mode = _fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a for a in arguments]
    functional = _functional.FunctionalTensorMode(_allow_token_discovery=True)  # for operations with effects
    with mode, functional, _dispatch.enable_python_dispatcher(), torch.no_grad():
        to_functional = _functional.FunctionalTensor.to_functional
        given = [to_functional(t) if isinstance(t, torch.Tensor) else t for t in fakes]
        torch.fx.Interpreter(module).run(*given, enable_io_processing=False)
    tensors = ((n, t) for n, t in enumerate(given) if isinstance(t, torch.Tensor))
    return [n for n, t in tensors if torch._functionalize_has_data_mutation(t.elem)]


@dataclass
class FirstCall:
    """A graph that runs the version which `choose` returns for the arguments of its first call."""

    choose: Callable[[Sequence[Any]], Run]
    run: Run | None = None
    lock: Any = field(default_factory=threading.RLock)

    def __call__(self, *arguments: Any) -> Any:
        if self.run is None:
            with self.lock:
                if self.run is None:
                    self.run = self.choose(arguments)
        assert self.run is not None
        return self.run(*arguments)


def _on_gpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _step(run: Run, arguments: Sequence[Any], restore: Call) -> Call:
    """Return a function that runs a version forward, and backward if it has gradients, without a trace."""
    trains = torch.is_grad_enabled()

    def step() -> None:
        given = [
            a.detach().requires_grad_(a.requires_grad) if trains and isinstance(a, torch.Tensor) else a
            for a in arguments
        ]
        leaves = torch.utils._pytree.tree_leaves(run(*given))
        made = [r for r in leaves if isinstance(r, torch.Tensor) and r.requires_grad]
        wanted = [g for g in given if isinstance(g, torch.Tensor) and g.requires_grad]
        if trains and made and wanted:
            torch.autograd.grad(made, wanted, [torch.ones_like(r) for r in made], allow_unused=True)
        restore()

    return step
