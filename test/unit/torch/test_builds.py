"""Kernels that are built while a graph runs without them, and while Inductor compiles the graph."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

from inductor import Mlp, backend, calls  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.usefixtures("compiled_anew")


# Kernels that are built in the background


class _Slow:
    """Builds that end when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from mucc.torch.backend import background, operator

        self.may_end = threading.Event()
        self.error: Exception | None = None
        finish = operator.Builds.finish

        def waiting(builds: Any, requests: Any) -> Any:
            assert self.may_end.wait(30)
            if self.error is not None:
                raise self.error
            return finish(builds, requests)

        monkeypatch.setattr(operator.Builds, "finish", waiting)
        monkeypatch.setattr(background, "PATIENCE", 0.05)
        monkeypatch.setattr(operator, "_loaded", {})


@pytest.mark.parametrize("trains", [False, True])
def test_calls_are_served_while_kernels_are_built(trains: bool, monkeypatch: pytest.MonkeyPatch):
    slow, made = _Slow(monkeypatch), backend(margin=-1.0, background=True)
    model, x = Mlp(), torch.rand(64, 64)
    compiled = torch.compile(model, backend=made)
    with torch.set_grad_enabled(trains):
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        assert not calls(made) and not made.wait(0)
        slow.may_end.set()
        assert made.wait(30)
        got = compiled(x)
        torch.testing.assert_close(got, model(x), rtol=1e-4, atol=1e-4)
    assert calls(made)
    if trains:
        got.sum().backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
        for got, p in zip(gradients, model.parameters(), strict=True):
            torch.testing.assert_close(got, p.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("is_shared", [False, True])
def test_kernels_that_were_built_before_are_used_at_once(
    is_shared: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    slow = _Slow(monkeypatch)
    monkeypatch.setattr("mucc.torch.backend.background.PATIENCE", 30)
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    if is_shared:
        slow.may_end.set()
        monkeypatch.setenv("MUCC_CACHE_SHARED", str(tmp_path))
    used: list[bool] = []
    for _ in range(2):
        torch._dynamo.reset()
        made = backend(margin=-1.0, background=True)
        with torch.no_grad():
            torch.compile(Mlp(), backend=made)(torch.rand(64, 64))
        used.append(bool(calls(made)))
        slow.may_end.set()
        assert made.wait(30)
    assert used == [is_shared, True]


def test_all_compilations_of_a_graph_have_one_key_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    caches = importlib.import_module("torch._functorch._aot_autograd.autograd_cache")
    functorch = importlib.import_module("torch._functorch.config")
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    slow, keys, x = _Slow(monkeypatch), list[str](), torch.rand(64, 64)
    key_of = caches.autograd_cache_key

    def noted(*given: Any, **options: Any) -> Any:
        found = key_of(*given, **options)
        keys.append(found[0])
        return found

    monkeypatch.setattr(caches, "autograd_cache_key", noted)
    counts: list[int] = []
    with functorch.patch(enable_autograd_cache=True), torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            made = backend(margin=-1.0, background=True)
            compiled = torch.compile(Mlp(), backend=made)
            compiled(x)
            slow.may_end.set()
            assert made.wait(30)
            compiled(x)
            counts.append(len(keys))
    assert counts[0] == 2 and len(set(keys)) == 1


def test_copies_of_graphs_keep_what_dynamo_notes():
    from mucc.torch.backend.copies import SOURCE, copied

    seen: list[Any] = []

    def look(module: Any, inputs: Any) -> Any:
        seen.extend((module, copied(module)))
        return module

    with torch.no_grad():
        torch.compile(Mlp(), backend=look)(torch.rand(64, 64))
    module, made = seen
    assert made.graph is not module.graph and made._param_name_to_source == module._param_name_to_source
    sources = [[getattr(n, SOURCE) for n in m.graph.find_nodes(op="placeholder")] for m in seen]
    assert sources[0] == sources[1] and all(sources[0])


def test_a_graph_without_kernels_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from mucc.torch.backend.backend import Backend

    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    compiled: list[Any] = []
    compile_fx = Backend.compile_fx
    monkeypatch.setattr(Backend, "compile_fx", lambda *given: compiled.append(given[2]) or compile_fx(*given))
    made, x = backend(margin=100.0, background=True), torch.rand(64, 64)
    with torch.no_grad():
        function = torch.compile(Mlp(), backend=made)
        function(x)
        assert made.wait(30)
        function(x)
    assert len(compiled) == 1 and not calls(made)


def test_choosing_is_held_while_inductor_compiles():
    from mucc.torch.backend import background as module

    background, chosen, may_choose = module.Background(), list[str](), threading.Event()

    def choose(builds: Any) -> str:
        assert may_choose.wait(30)
        background.hold()
        chosen.append("a region")
        return "all"

    with pytest.MonkeyPatch.context() as patch, pytest.raises(module.Postponed):
        patch.setattr(module, "PATIENCE", 0.05)
        background.result(choose)
    may_choose.set()
    assert background.was_needed and not background.wait(0.1) and not chosen
    background.go_on()
    assert background.wait(30) and chosen


def test_a_graph_without_its_kernels_is_kept_apart_in_caches():
    from mucc.torch.backend.backend import PASS
    from mucc.torch.backend.background import Background, Postponed, WithoutKernels, compiled_anyhow
    from mucc.torch.backend.passes import RegionsPass

    config = torch._inductor.config
    waiting = backend(background=True).graph_pass(backend().options, "sm_90a", True)
    assert isinstance(waiting, RegionsPass)
    seen: list[Any] = []

    class Compiled:
        _fx_graph_cache_key = "key"

        def __call__(self, arguments: list[Any]) -> list[Any]:
            return [sum(arguments)]

    def compile(module: Any, inputs: Any) -> Any:
        seen.append(getattr(config, PASS))
        if seen[-1] is waiting:
            raise Postponed
        return Compiled()

    module = torch.fx.symbolic_trace(lambda x, y: x + y)
    with config.patch({PASS: waiting}):
        made = compiled_anyhow(compile, PASS, waiting.first, Background())(module, ())
        assert getattr(config, PASS) is waiting
    first, second = seen
    assert first is waiting and isinstance(second, WithoutKernels) and first.uuid() != second.uuid()
    assert made([1, 2]) == [3] and not hasattr(made, "_fx_graph_cache_key")


def test_builds_that_fail_in_the_background_leave_inductor(monkeypatch: pytest.MonkeyPatch):
    from mucc.runtime.build import MuccWarning

    slow, made = _Slow(monkeypatch), backend(margin=-1.0, background=True, fallback="eager")
    slow.error = RuntimeError("no compiler")
    model, x = Mlp(), torch.rand(64, 64)
    compiled = torch.compile(model, backend=made)
    with torch.no_grad():
        compiled(x)
        slow.may_end.set()
        assert made.wait(30)
        with pytest.warns(MuccWarning, match="MU7060.*no compiler"):
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert not calls(made)


# Kernels that are built while Inductor compiles


@pytest.mark.parametrize("rest", ["eager", "inductor"])
@pytest.mark.parametrize("is_good", [True, False])
def test_kernels_are_built_while_inductor_compiles(is_good: bool, rest: str, monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import backend as module
    from mucc.torch.backend.pending import PendingBuilds

    events: list[str] = []
    compile_fx, finish = module.Backend.compile_fx, PendingBuilds.succeed

    def compiling(*given: Any) -> Any:
        found = compile_fx(*given)
        events.append("compiled")
        return found

    def finishing(pending: PendingBuilds) -> bool:
        events.append("built")
        return finish(pending) and is_good

    monkeypatch.setattr(module, "can_build", lambda options: True)
    monkeypatch.setattr(module.Backend, "compile_fx", compiling)
    monkeypatch.setattr(PendingBuilds, "succeed", finishing)
    made, model, x = backend(margin=-1.0, rest=rest), Mlp(), torch.rand(64, 64)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=made)(x), model(x), rtol=1e-4, atol=1e-4)
    assert events == ["compiled", "built", *([] if is_good else ["compiled"])]
    assert calls(made) and len(made.divided) == 1
