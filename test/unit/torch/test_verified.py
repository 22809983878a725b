"""Graphs are timed with mucc and without it at their first call, and what is faster runs."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


pytestmark = pytest.mark.usefixtures("compiled_anew", "own_database")


class Counting(nn.Module):
    """A layer that counts its calls in place, and reads its count as an index."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any, kept: Any) -> Any:
        kept.index_copy_(0, self.count, x[:1].detach())
        self.count.add_(1)
        return F.gelu(self.layer(x)) + kept


class Watch:
    """The clock of rows of calls: it runs each version twice, and says `mucc` seconds for 1 of its rival."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mucc: float):
        from mucc.torch.backend import verified

        self.mucc, self.timed = mucc, 0
        monkeypatch.setattr(verified, "row_seconds", self.seconds)

    def seconds(self, calls: Sequence[Callable[[], Any]]) -> list[float]:
        self.timed += 1
        for call in [*calls, *calls]:
            call()
        return [self.mucc, 1.0, 0.0][: len(calls)]


def backend(**options: Any) -> Any:
    import mucc

    given = {"interpret": True, "fallback": "error", "rest": "eager", "regions": "all", "verify": True}
    return mucc.torch_backend(**{**given, **options})


def compiled(monkeypatch: pytest.MonkeyPatch, trains: bool = False, **options: Any) -> tuple[Any, list[str]]:
    """Call a layer three times, compare it with PyTorch; returns the backend and what was compiled, in order.

    "kernels" stands for a graph with mucc's pass, "inductor" for one without.
    """
    from mucc.torch.backend import backend as module

    made: list[str] = []
    compile_fx = module.Backend.compile_fx

    def keeping(self: Any, inner: Any, graph: Any, inputs: Any, settings: Any) -> Any:
        made.append("kernels" if module.PASS in settings else "inductor")
        return compile_fx(self, inner, graph, inputs, settings)

    monkeypatch.setattr(module.Backend, "compile_fx", keeping)
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend_, model, x = backend(**options), Counting(), torch.rand(4, 16)
    kept, want, count = torch.zeros(4, 16), torch.zeros(4, 16), model.count
    function = torch.compile(model, backend=backend_, dynamic=False)
    with torch.set_grad_enabled(trains):
        for n in range(3):
            got = function(x, kept)
            want[n] = x[0]
            expected = F.gelu(model.layer(x)) + want
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(kept, want)
            assert count.tolist() == [n + 1]
            if trains:
                ours, theirs = (
                    torch.autograd.grad(r.square().sum(), [*model.parameters()]) for r in (got, expected)
                )
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert all(p.grad is None for p in model.parameters())
    return backend_, made


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize(("seconds", "kept"), [(0.5, "mucc"), (2.0, "inductor")])
def test_what_is_faster_runs(seconds: float, kept: str, trains: bool, monkeypatch: pytest.MonkeyPatch):
    watch = Watch(monkeypatch, seconds)
    made, compilations = compiled(monkeypatch, trains)
    assert [v.kept for v in made.verdicts] == [kept] and watch.timed == 1
    assert compilations == ["kernels", "inductor"]

    again, compilations = compiled(monkeypatch, trains)
    assert [v.kept for v in again.verdicts] == [kept] and watch.timed == 1, "times are kept"
    assert compilations == ["kernels" if kept == "mucc" else "inductor"]


def test_a_warning_says_that_inductor_is_faster(monkeypatch: pytest.MonkeyPatch):
    from mucc.runtime.build import MuccWarning

    Watch(monkeypatch, 2.0)
    with pytest.warns(MuccWarning, match=r"MU7064.*2000000.0 us with mucc, 1000000.0 us without, in a row"):
        compiled(monkeypatch)


def test_times_are_of_one_graph_and_setting():
    from mucc.torch.backend.options import Options
    from mucc.torch.backend.verified import Trial

    def key(graph: Any, x: Any, **options: Any) -> str:
        def called(x: Any) -> Any:
            return graph(x)

        module = torch.fx.symbolic_trace(called)
        return Trial(module, [x], Options.of(options), "sm_90a", "a card").key

    x = torch.rand(4, 16)
    with torch.no_grad():
        keys = [
            key(torch.relu, x),
            key(torch.sigmoid, x),
            key(torch.relu, x.T),
            key(torch.relu, x.half()),
            key(torch.relu, x, margin=0.1),
            key(torch.relu, x, shape_padding=False),
        ]
        assert keys[0] == key(torch.relu, torch.rand(4, 16))
        with torch._inductor.config.patch(freezing=True):
            keys.append(key(torch.relu, x))
    keys.append(key(torch.relu, x))
    assert len({*keys}) == len(keys)


def test_what_mucc_leaves_alone_is_not_timed(monkeypatch: pytest.MonkeyPatch):
    watch = Watch(monkeypatch, 0.5)
    made, compilations = compiled(monkeypatch, regions="expected", margin=1e9)
    assert not made.verdicts and not watch.timed and compilations == ["kernels"]


def test_cuda_graphs_are_of_the_version_that_is_kept(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import backend as module

    graphs: list[Any] = []
    compile_fx = module.Backend.compile_fx

    def keeping(self: Any, inner: Any, graph: Any, inputs: Any, settings: Any) -> Any:
        graphs.append(settings["triton.cudagraphs"])
        return compile_fx(self, inner, graph, inputs, settings)

    monkeypatch.setattr(module.Backend, "compile_fx", keeping)
    for seconds, last in ((0.5, "kernels"), (2.0, "inductor")):
        Watch(monkeypatch, seconds)
        _, compilations = compiled(monkeypatch, mode="reduce-overhead", margin=seconds)
        assert compilations == ["kernels", "inductor", last]
    assert graphs == [False, False, True] * 2


def test_what_cannot_be_timed_has_the_kernels(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import verified

    watch = Watch(monkeypatch, 2.0)
    monkeypatch.setattr(verified, "BYTES", 16)
    made, compilations = compiled(monkeypatch)
    assert not made.verdicts and not watch.timed and compilations == ["kernels", "inductor"]
    assert verified.may_be_timed([])
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert not verified.may_be_timed([]), "processes would differ in what they choose"


@pytest.mark.parametrize(("seconds", "kernels"), [(0.5, True), (2.0, False)])
def test_kernels_built_in_the_background_have_to_be_faster(
    seconds: float, kernels: bool, monkeypatch: pytest.MonkeyPatch
):
    from mucc.torch.backend import background, operator

    Watch(monkeypatch, seconds)
    may_end, finish = threading.Event(), operator.Builds.finish

    def waiting(builds: Any, requests: Any) -> Any:
        assert may_end.wait(30)
        return finish(builds, requests)

    monkeypatch.setattr(operator.Builds, "finish", waiting)
    monkeypatch.setattr(background, "PATIENCE", 0.05)
    monkeypatch.setattr(operator, "_loaded", {})
    ran: list[Any] = []
    interpreted = operator.interpreted

    def running(program: str) -> Callable[[Any], Any]:
        def run(tensors: Any) -> Any:
            ran.append(program)
            return interpreted(program)(tensors)

        return run

    monkeypatch.setattr(operator, "interpreted", running)
    model, x = nn.Linear(16, 24 + 8 * kernels), torch.rand(4, 16)  # of no other test
    for again in (False, True):
        torch._dynamo.reset()
        made = backend(background=True)
        function = torch.compile(model, backend=made)
        with torch.no_grad():
            function(x)
            may_end.set()
            assert made.wait(30)
            function(x)
            ran.clear()
            torch.testing.assert_close(function(x), model(x), rtol=1e-4, atol=1e-5)
        assert bool(ran) == kernels, again
        assert [v.kept for v in made.verdicts] == ["mucc" if kernels else "mucc without kernels"], again


@pytest.mark.parametrize(
    ("row", "gpu", "kept"),
    [(1.2, 1.0, True), (1.0, 1.2, True), (1.0, 1.0, False), (0.99, 1.2, True), (0.9, 1.2, False)],
)
def test_mucc_is_kept_if_it_gains_and_loses_nothing(row: float, gpu: float, kept: bool):
    from mucc.torch.backend.verified import GPU, INDUCTOR, MUCC, ROW, Verdict

    times = {(GPU, MUCC): 1.0, (GPU, INDUCTOR): gpu, (ROW, MUCC): 1.0, (ROW, INDUCTOR): row}
    assert (Verdict(1, times).kept == MUCC) == kept


def test_a_verdict_has_all_times_that_count():
    from mucc.torch.backend.verified import GPU, INDUCTOR, MUCC, ROW, Verdict

    times = {(GPU, MUCC): 2e-6, (GPU, INDUCTOR): 3e-6, (ROW, MUCC): 5e-6, (ROW, INDUCTOR): 4e-6}
    gpu, row = str(Verdict(1, times)).split("; ")
    assert gpu == "2.0 us with mucc, 3.0 us without, on the GPU"
    assert row == "5.0 us with mucc, 4.0 us without, in a row"


def test_what_a_graph_changes_is_known():
    from mucc.torch.backend.verified import written

    def f(a: Any, b: Any, c: Any, d: Any) -> Any:
        b.view(-1)[2:3].mul_(2)
        c.index_copy_(0, d, a[:1])
        return (a * 2).relu_() + b

    module = torch.fx.symbolic_trace(f)
    arguments = torch.rand(2, 2), torch.rand(2, 2), torch.rand(2, 2), torch.tensor([0])
    before = [a.clone() for a in arguments]
    assert written(module, arguments) == [1, 2]
    assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))


@pytest.mark.parametrize("context", ["no_grad", "inference_mode"])
def test_statistics_of_batch_norm_change(context: str):
    from mucc.torch.backend.verified import written

    def f(x: Any, mean: Any, variance: Any, scale: Any) -> Any:
        return torch.linalg.inv(F.batch_norm(x * scale, mean, variance, scale, training=True))

    with getattr(torch, context)():
        arguments = torch.rand(8, 8), torch.zeros(8), torch.ones(8), torch.ones(8)
        assert written(torch.fx.symbolic_trace(f), arguments) == [1, 2]
        assert not arguments[1].any()


def test_timing_leaves_statistics_of_batch_norm_as_a_call_leaves_them(monkeypatch: pytest.MonkeyPatch):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)), torch.rand(4, 8)
    other = copy.deepcopy(model)
    other(x)
    watch, made = Watch(monkeypatch, 0.5), backend()
    torch.compile(model, backend=made)(x)
    assert watch.timed
    for expected, got in zip(other.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(got, expected)


def test_rows_are_timed_by_their_fastest_block(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import timing

    clock = [0.0]
    lengths = {"a": 0.003, "b": 0.001}
    called: list[str] = []

    def call(name: str) -> None:
        called.append(name)
        clock[0] += lengths[name] * (5 if len(called) % 7 == 0 else 1)

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    a, b = timing.row_seconds([lambda: call("a"), lambda: call("b")])
    assert 0.003 <= a < 0.006 and 0.001 <= b < 0.0018


def test_rows_are_timed_until_their_least_time_is_no_chance(monkeypatch: pytest.MonkeyPatch):
    """Of a busy host: each block is slowed down by another amount, until the host is idle."""
    from mucc.torch.backend import timing

    blocks = iter([0.9, 0.7, 0.5, 0.4, 0.2, 0.3, 0.1, 0.0, 0.0])

    def elapsed(call: Any, count: int) -> float:
        return 0.02 if count == 1 else 0.02 + next(blocks)

    monkeypatch.setattr(timing, "_elapsed", elapsed)
    assert timing.row_seconds([lambda: None]) == [0.01]
    assert next(blocks, None) is None
