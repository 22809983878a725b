"""The torch.compile backend: Inductor, with kernels of mucc in the place of regions."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from mucc.runtime.build import MuccWarning
from mucc.target import DEFAULT_TARGET, target_of
from mucc.torch.backend.attention_calls import call_attention
from mucc.torch.backend.background import Background, WithoutKernels, compiled_anyhow, served
from mucc.torch.backend.channels_last import lay_out_convolutions
from mucc.torch.backend.concatenate import concatenate
from mucc.torch.backend.copies import copied
from mucc.torch.backend.encoder_layers import take_apart_layers
from mucc.torch.backend.four_axes import give_four_axes
from mucc.torch.backend.indices import IndicesPass
from mucc.torch.backend.layouts import lay_out_masks
from mucc.torch.backend.masks import MasksPass
from mucc.torch.backend.options import Options
from mucc.torch.backend.passes import Divided, RegionsPass, card_of, failed, say_once
from mucc.torch.backend.pending import PendingBuilds, can_build
from mucc.torch.backend.verified import INDUCTOR, MUCC, REST, FirstCall, Run, Trial, Verdict, may_be_timed
from mucc.torch.importer.capture import torch
from mucc.torch.importer.program import Program

_inductor: Any = importlib.import_module("torch._inductor.compile_fx")
_aot: Any = importlib.import_module("functorch.compile")

log = logging.getLogger("mucc.torch")

PASS = "post_grad_custom_pre_pass"
"""Inductor's setting for a pass over each functional graph, behind its decompositions and patterns."""

JOINT = "joint_custom_pre_pass"
"""The same for a pass over forward and backward in one graph, before AOTAutograd parts them."""


def torch_backend(**options: Any) -> Backend:
    """Make a backend for `torch.compile(model, backend=...)` with options; see `Options`.

    The name "mucc" is this with none. Raises DiagnosticError MU7062 for options that there are not, MU4001
    for an unknown target.
    """
    return Backend(Options.of(options))


def dynamo_backend(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Any:
    """Run the backend that torch finds by the name "mucc", with options and mode of `torch.compile`."""
    given = dict(options or {})
    if mode is not None:
        given["mode"] = mode
    return torch_backend(**given)(module, inputs)


class Backend:
    """Compiler of dynamo graphs. `programs` has the program of each graph with kernels, in order; `masks` is
    the number of calls of attention whose mask was dropped, `joined` that of products with the weights of
    several. `verdicts` are those of graphs that were timed in two versions, now or before (`verify`).

    A graph that Inductor finds in its cache is not divided again, and has no program.
    """

    runs_graphs = True
    """Whether what is compiled is to be run, and may be timed."""

    def __init__(self, options: Options | None = None):
        self.options = options or Options()
        self.divided: list[Divided] = []
        self.background: list[Background] = []
        self.masks = 0
        self.joined = 0
        self.verdicts: list[Verdict] = []

    def __deepcopy__(self, memo: object) -> Self:
        """Return the backend itself, as copies of functions do: a copied model compiles by the same one."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options alone: what was compiled belongs to this process."""
        return Backend, (self.options,)

    @property
    def programs(self) -> list[Program]:
        """The programs of the graphs that got kernels."""
        return [d.program for d in self.divided if d.program.kernels]

    def __call__(self, module: Any, inputs: Sequence[Any], mode: str | None = None, **_: Any) -> Any:
        """Compile a graph of dynamo by Inductor; returns the function that runs it."""
        options = self.options if mode is None else Options.of({**vars(self.options), "mode": mode})
        target = self.target(inputs)
        if target is None:
            return self._compiled(options, None, None, module, inputs)
        trial = self._trial(options, target, module, inputs)
        known = trial.known() if trial is not None else None
        if trial is not None and known is not None:
            self._report(known)
            if known.kept == INDUCTOR:
                return self._plain(options, trial.fresh(), inputs)
            trial = None
        self._lay_out(module, options, _needs_gradient(module, inputs))
        if known is not None and known.kept == REST:
            return self._compiled(options, target, None, module, inputs, has_kernels=False)
        is_open = any(isinstance(i, torch.SymInt) for i in inputs)
        if options.background and not options.measures and not is_open:
            return self._served(options, target, trial, module, inputs)
        if trial is not None:
            return self._first_call(options, target, trial, module, inputs)
        return self._compiled(options, target, None, module, inputs)

    def _served(
        self, options: Options, target: str, trial: Trial | None, module: Any, inputs: Sequence[Any]
    ) -> Run:
        """Compile a graph whose kernels are built in the background."""
        background = Background()
        self.background.append(background)

        def make(module: Any, inputs: Sequence[Any]) -> Any:
            begins = None if background.was_needed else background
            return self._compiled(options, target, begins, module, inputs)

        def choose(made: Run, first: Run, arguments: Sequence[Any]) -> Run:
            assert trial is not None
            return self._faster(trial, {MUCC: made, REST: first}, arguments, options)

        # In a CUDA graph of Inductor's, which a call may be a part of, no call can be timed.
        is_timed = trial is not None and not options.has_cuda_graphs
        return served(module, inputs, background, make, choose if is_timed else None)

    def _first_call(
        self, options: Options, target: str, trial: Trial, module: Any, inputs: Sequence[Any]
    ) -> Run:
        """Compile a graph that is compared with Inductor's at its first call."""
        has_graphs, is_laid_out = options.has_cuda_graphs, trial.is_changed(module)
        timed = options.without_cuda_graphs if has_graphs else options
        divided, before = len(self.divided), (self.masks, self.joined)
        again = copied(module) if has_graphs else module
        ours = self._compiled(timed, target, None, again, inputs)

        def is_inductors() -> bool:
            """Whether mucc is known to have changed nothing; a backward graph comes later."""
            new = self.divided[divided:]
            same = (
                not is_laid_out
                and before == (self.masks, self.joined)
                and not _needs_gradient(module, inputs)
            )
            return same and bool(new) and not any(d.program.kernels for d in new)

        def choose(arguments: Sequence[Any]) -> Run:
            run = ours
            if not is_inductors():
                with trial.compiling():
                    plain = self._plain(timed, trial.fresh(), inputs)
                run = self._faster(trial, {MUCC: ours, INDUCTOR: plain}, arguments, options)
            if not has_graphs:
                return run
            with trial.compiling():
                if run is ours:
                    return self._compiled(options, target, None, module, inputs)
                return self._plain(options, trial.fresh(), inputs)

        return FirstCall(choose)

    def _faster(
        self, trial: Trial, versions: Mapping[str, Run], arguments: Sequence[Any], options: Options
    ) -> Run:
        """Return the version of a graph that is faster; the one with mucc if timing fails."""
        try:
            verdict = trial.compare(versions, arguments, options.has_cuda_graphs)
        except Exception as error:
            log.info("a graph is not timed: %r", error)
            return versions[MUCC]
        self._report(verdict)
        return versions[verdict.kept]

    def _report(self, verdict: Verdict) -> None:
        """Keep what was measured of a graph; warn where Inductor alone compiles it."""
        self.verdicts.append(verdict)
        if verdict.kept == INDUCTOR:
            warnings.warn(
                f"MU7064: mucc was measured to gain nothing in a graph of {verdict.operations} operations "
                f"({verdict}): Inductor compiles all of it",
                MuccWarning,
                stacklevel=2,
            )

    def _trial(self, options: Options, target: str, module: Any, inputs: Sequence[Any]) -> Trial | None:
        """Copy a graph as dynamo gave it, if it is to be timed; None if not."""
        if not self.runs_graphs or not options.verifies or not may_be_timed(inputs):
            return None
        on_gpu = torch.cuda.is_available() and not options.interpret
        card = torch.cuda.get_device_name() if on_gpu else card_of(target).device.name
        return Trial(module, inputs, options, target, card)

    def _plain(self, options: Options, module: Any, inputs: Sequence[Any]) -> Run:
        """Compile a graph by Inductor alone."""
        return self.compile_fx(_inner(options), module, inputs, options.config)

    def _lay_out(self, module: Any, options: Options, trains: bool) -> None:
        try:
            take_apart_layers(module)
            if trains:
                call_attention(module)
            give_four_axes(module)
            lay_out_masks(module)
            if not trains:
                lay_out_convolutions(module)
        except Exception as error:  # nothing of the graph is changed by what fails
            failed(error, options)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all kernels are built (`background`); returns whether they are. Later calls use them."""
        return all(background.wait(seconds) for background in self.background)

    def _compiled(
        self,
        options: Options,
        target: str | None,
        background: Background | None,
        module: Any,
        inputs: Sequence[Any],
        has_kernels: bool = True,
        waits: bool = False,
    ) -> Any:
        settings = dict(options.config)
        compile = _inner(options)
        overlaps = (
            target is not None
            and background is None
            and has_kernels
            and not waits
            and self.runs_graphs
            and can_build(options)
        )
        if target is not None:
            made = self.graph_pass(options, target, not _needs_gradient(module, inputs))
            made.background = background
            settings[PASS] = made.behind(PASS, settings.get(PASS))
            if not has_kernels:
                settings[PASS] = WithoutKernels(made.first)
            report = partial(failed, options=options)
            indices = IndicesPass(report).behind(JOINT, settings.get(JOINT))
            settings[JOINT] = MasksPass(self._dropped, report).behind(JOINT, indices)
            if background is not None:
                compile = compiled_anyhow(compile, PASS, made.first, background)
            compile = self._concatenated(compile, made)
            if overlaps:
                found = self._overlapped(compile, made, module, inputs, settings)
                if found is not None:
                    return found
                with _without_cached_graphs():
                    return self._compiled(options, target, None, module, inputs, waits=True)
        return self.compile_fx(compile, module, inputs, settings)

    def _overlapped(
        self,
        compile: Callable[..., Any],
        made: RegionsPass,
        module: Any,
        inputs: Sequence[Any],
        settings: Mapping[str, Any],
    ) -> Any:
        """Compile a copy of a graph while its kernels are built; returns None where one cannot be built.

        A backward graph that is compiled later waits for its kernels.
        """
        before = len(self.divided), self.masks, self.joined
        again = copied(module)
        with PendingBuilds() as pending:
            made.pending = pending
            found = self.compile_fx(compile, again, inputs, settings)
            made.pending = None
            if pending.succeed():
                return found
        del self.divided[before[0] :]
        _, self.masks, self.joined = before
        return None

    def _concatenated(self, compile: Callable[..., Any], made: RegionsPass) -> Callable[..., Any]:
        """Return a compiler of Inductor's graphs that joins products of frozen weights before."""

        def inner(module: Any, inputs: Sequence[Any], **options: Any) -> Any:
            try:
                self.joined += concatenate(module, inputs, made.seconds)
            except Exception as error:
                failed(error, made.options)
            return compile(module, inputs, **options)

        return inner

    def compile_fx(
        self, compile: Callable[..., Any], module: Any, inputs: Sequence[Any], settings: Mapping[str, Any]
    ) -> Any:
        """Compile a graph of dynamo with settings of Inductor; `compile` gets the graphs of AOTAutograd."""
        return _inductor.compile_fx(module, inputs, inner_compile=compile, config_patches=settings)

    def graph_pass(self, options: Options, target: str, is_inference: bool) -> RegionsPass:
        """Make the pass over the graphs that AOTAutograd makes of one of dynamo's."""
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else None
        card = card_of(target, device)
        return RegionsPass(options, card, is_inference, options.interpret, self.report)

    def _dropped(self, masks: int) -> None:
        self.masks += masks

    def report(self, divided: Divided) -> None:
        """Note how a graph was divided; warn of the first that mucc leaves alone."""
        self.divided.append(divided)
        if not divided.program.kernels and not self.programs:
            graph = f"{divided.name} graph of {len(divided.program.graph.nodes)} operations"
            warnings.warn(
                f"MU7064: mucc expects to gain nothing in the {graph}: "
                "Inductor compiles all of it; mucc.explain(model, ...) has the reasons",
                MuccWarning,
                stacklevel=2,
            )

    def target(self, inputs: Sequence[Any]) -> str | None:
        """Choose the target; None, reported once, if all is left to Inductor."""
        if self.options.interpret:
            return self.options.target or DEFAULT_TARGET
        devices = {t.device for t in inputs if isinstance(t, torch.Tensor) and t.device.type == "cuda"}
        if not devices:
            say_once("MU7061", "no tensor of the graph is on a GPU: Inductor compiles it")
            return None
        if self.options.target is not None:
            return self.options.target
        found = {target_of(*torch.cuda.get_device_capability(device)) for device in devices}
        if len(found) > 1 or None in found:
            names = ", ".join(sorted({torch.cuda.get_device_name(d) for d in devices}))
            say_once("MU7061", f"mucc has no target for {names}: Inductor compiles the graph")
            return None
        return found.pop()


@contextlib.contextmanager
def _without_cached_graphs() -> Generator[None]:
    """Compile graphs anew that caches of Inductor and AOTAutograd have with kernels that cannot be built."""
    functorch: Any = importlib.import_module("torch._functorch.config")
    inductor: Any = importlib.import_module("torch._inductor.config")
    with functorch.patch(enable_autograd_cache=False), inductor.patch(fx_graph_cache=False):
        yield


def _inner(options: Options) -> Callable[..., Any]:
    """Return the compiler of AOTAutograd's graphs."""
    return _inductor.compile_fx_inner if options.rest == "inductor" else _called


def _called(module: Any, inputs: Sequence[Any], **_: Any) -> Any:
    """Run mucc's pass over a graph; return a function that executes the graph's operations eagerly."""
    config: Any = importlib.import_module("torch._inductor.config")
    if (found := config.post_grad_custom_pre_pass) is not None:
        found(module.graph)
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    return _aot.make_boxed_func(module.forward)


def _needs_gradient(module: Any, inputs: Sequence[Any]) -> bool:
    tensors = [*(t for t in inputs if isinstance(t, torch.Tensor)), *module.parameters()]
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
