"""Regions of mucc within Inductor's graphs: one graph, its caches, its modes, mutation, threads."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

from inductor import Graphs, Mlp, backend, calls  # noqa: E402 (it needs torch)


@pytest.fixture(autouse=True)
def fresh(compiled_anew: None):
    torch._dynamo.utils.counters.clear()


# The choice


def test_products_are_taken_with_what_follows_them(monkeypatch: pytest.MonkeyPatch):
    graphs, made = Graphs(monkeypatch), backend()
    model, x = Mlp().to(torch.bfloat16), torch.rand(4096, 64).to(torch.bfloat16)
    with torch.no_grad():
        got = torch.compile(model, backend=made)(x)
        torch.testing.assert_close(got, model(x), rtol=2e-2, atol=2e-2)
    first = made.programs[0].kernels[0]
    assert "gelu(" in made.programs[0].text() and any("addmm" in n.name for n in first.piece.nodes)
    assert "mucc.run_kernel.default" in graphs.targets() and "aten.erf.default" not in graphs.targets()
    taken = [d for d in made.divided[0].choice.decisions if d.taken]
    assert taken and all(d.gain > 0.05 * d.mucc for d in taken)


def test_what_gains_nothing_is_inductors_own_graph(monkeypatch: pytest.MonkeyPatch):
    from mucc.runtime.build import MuccWarning
    from mucc.torch.backend.passes import RegionsPass

    def f(x: Any, w: Any) -> Any:
        return torch.softmax(x @ w, -1).sum(0) + torch.cumsum(x, 1).mean()

    x, w = torch.rand(4, 8), torch.rand(8, 8)
    graphs, made = Graphs(monkeypatch), backend()
    with pytest.warns(MuccWarning, match="MU7064") as warned:
        torch.compile(f, backend=made)(x, w)
    assert len([w for w in warned if "MU7064" in str(w.message)]) == 1
    ours = graphs.targets()
    torch._dynamo.reset()
    graphs.graphs.clear()
    monkeypatch.setattr(RegionsPass, "__call__", lambda self, graph: None)
    torch.compile(f, backend=backend())(x, w)
    assert ours == graphs.targets() and not made.programs


def test_the_margin_decides():
    model, x = Mlp().to(torch.bfloat16), torch.rand(4096, 64).to(torch.bfloat16)
    with torch.no_grad():
        counts: list[int] = []
        for margin in (0.0, 100.0):
            torch._dynamo.reset()
            made = backend(margin=margin)
            torch.compile(model, backend=made)(x)
            counts.append(calls(made))
    assert counts[0] > 0 and counts[1] == 0


def test_a_graph_that_gains_little_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import regions
    from mucc.torch.backend.passes import RegionsPass

    model, x = Mlp().to(torch.bfloat16), torch.rand(4096, 64).to(torch.bfloat16)
    begun: list[Any] = []
    monkeypatch.setattr(RegionsPass, "begin", lambda *given: begun.append(given[2]))
    counts: list[int] = []
    for least in (0.0, 10.0):
        monkeypatch.setattr(regions, "LEAST", least)
        torch._dynamo.reset()
        made = backend(margin=0.0)
        with torch.no_grad():
            torch.compile(model, backend=made)(x)
        counts.append(calls(made))
        assert bool(begun) == bool(counts[-1])
        begun.clear()
    assert counts[0] > 0 and counts[1] == 0
    reasons = [d.reason for d in made.divided[0].choice.decisions]
    assert any("less than 1000% of the graph" in r for r in reasons)


def test_what_surrounds_a_pool_is_fused_with_it_by_inductor(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import expected, fusible

    pool = nn.Sequential(nn.MaxPool2d(2), nn.GELU(), nn.Flatten(), nn.Linear(400, 120)).to(torch.bfloat16)
    x = torch.rand(64, 16, 10, 10).to(torch.bfloat16)
    seconds: list[float] = []
    for name in (fusible.POOLING, "no such pool"):
        monkeypatch.setattr(fusible, "POOLING", name)
        torch._dynamo.reset()
        made = backend(margin=0.0)
        with torch.no_grad():
            torch.compile(pool, backend=made)(x)
        seconds.append(made.divided[0].choice.alone)
    fused, apart = seconds
    assert fused < apart - expected.LAUNCH


def test_two_products_of_one_operand_are_one_region():
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = (nn.Linear(128, 1024, bias=False) for _ in range(2))

        def forward(self, x: Any) -> Any:
            return F.silu(self.gate(x)) * self.up(x)

    model, x = Gated().to(torch.bfloat16), torch.rand(2, 1024, 128).to(torch.bfloat16)
    made = backend()
    with torch.no_grad():
        got = torch.compile(model, backend=made)(x)
        torch.testing.assert_close(got, model(x), rtol=2e-2, atol=2e-2)
    (kernel,) = made.programs[0].kernels
    assert made.programs[0].text().count("@") == 2 and kernel.results[0].meta["val"].shape == (2, 1024, 1024)


def test_a_cheaper_end_is_left_to_what_follows():
    """A norm behind a residual sum reads it in f32: the region stores the sum, not its f32."""
    norm, linear = nn.LayerNorm(256), nn.Linear(64, 256)

    def f(x: Any, y: Any) -> Any:
        z = y + linear(x)
        return norm(z), z

    for module in (norm, linear):
        module.to(torch.bfloat16)
    made = backend(margin=-1.0)
    x, y = torch.rand(4096, 64).to(torch.bfloat16), torch.rand(4096, 256).to(torch.bfloat16)
    with torch.no_grad():
        torch.compile(f, backend=made)(x, y)
    results = [r.meta["val"].dtype for p in made.programs for k in p.kernels for r in k.results]
    assert results and all(dtype == torch.bfloat16 for dtype in results)


@pytest.mark.parametrize(("heads", "causal"), [(4, True), (2, False)])
def test_attention_is_one_operation_of_a_kernel(heads: int, causal: bool):
    """Inductor sees attention as PyTorch's backend for the device, with fewer heads of keys too."""

    def f(q: Any, k: Any, v: Any) -> Any:
        grouped = k.shape[1] != q.shape[1]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped) * 2

    q, k, v = (torch.rand(2, n, 6, 8) for n in (4, heads, heads))
    made = backend(regions="all")
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(q, k, v), f(q, k, v))
    assert "attention(" in made.programs[0].text()


def _written_out(relu: bool, batch: int, length: int, heads: int, width: int) -> Any:
    """Return causal attention of `[batch, length, 3 * heads * width]` in operations of its own."""

    def f(qkv: Any) -> Any:
        q, k, v = qkv.view(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * width**-0.5
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
        weights = torch.relu(scores) if relu else torch.softmax(scores, -1)
        return (weights @ v).transpose(1, 2).reshape(batch, length, heads * width)

    return f


@pytest.mark.parametrize("relu", [False, True])
def test_attention_that_is_written_out_is_put_together(relu: bool):
    """PyTorch gives products of batches one axis of batches, and softmax as its parts."""
    from mucc.frontend.source import kernel_text

    made, qkv = backend(regions="all"), torch.randn(2, 7, 3 * 4 * 8, dtype=torch.bfloat16)
    f = _written_out(relu, 2, 7, 4, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(qkv), f(qkv), rtol=3e-2, atol=3e-2)
    (kernel,) = made.programs[0].kernels
    text = kernel_text(kernel.op)
    assert text.count("@") == 2 and "exp(" not in text and ("softmax(" in text) != relu
    assert "(8, 7, 7)" not in text, "heads are an axis of their own"


@pytest.mark.parametrize("relu", [False, True])
def test_both_products_of_attention_may_be_one_region(relu: bool):
    import mucc

    x = torch.zeros(4, 512, 3 * 8 * 64, dtype=torch.bfloat16)
    report = mucc.explain(_written_out(relu, 4, 512, 8, 64), x, device="h100_sxm", margin=-0.2)
    (taken,) = (p for p in report.graphs[0].parts if p.is_kernel)
    assert sum("bmm" in operation for operation in taken.operations) == 2


def test_a_token_reads_its_cache_where_it_is(monkeypatch: pytest.MonkeyPatch):
    """Keys and values that heads of queries repeat are copied by Inductor alone; that counts against it."""

    def f(q: Any, k: Any, v: Any) -> Any:
        k, v = (x[:, :, None].expand(16, 8, 4, 512, 128).reshape(16, 32, 512, 128) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    q, k, v = (torch.rand(16, h, n, 128, dtype=torch.bfloat16) for h, n in ((32, 1), (8, 512), (8, 512)))
    graphs, made = Graphs(monkeypatch), backend()
    with torch.no_grad():
        got = torch.compile(f, backend=made)(q, k, v)
    torch.testing.assert_close(got, f(q, k, v), rtol=2e-2, atol=2e-2)
    assert graphs.targets().count("mucc.run_kernel.default") == 1
    (decision,) = made.divided[0].choice.decisions
    rate = made.graph_pass(made.options, "sm_90a", True).costs.rates["dram"]
    copied = 2 * k.numel() * k.element_size() * (1 + 4) / rate
    assert decision.taken and decision.inductor > copied > decision.mucc
    assert made.divided[0].choice.rest < 1e-6, "no copy is left"


@pytest.mark.parametrize(("heads", "causal"), [(4, False), (4, True)])
def test_attention_is_trained_by_operations_of_kernels(heads: int, causal: bool):
    """The log-sum-exp passes from the graph of the forward to that of the backward pass."""

    def f(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal) * 2

    inputs = [torch.rand(2, n, 6, 8, requires_grad=True) for n in (4, heads, heads)]
    made = backend(regions="all")
    found = torch.autograd.grad(torch.compile(f, backend=made)(*inputs).square().sum(), inputs)
    expected = torch.autograd.grad(f(*inputs).square().sum(), inputs)
    torch.testing.assert_close(found, expected)
    text = "".join(program.text() for program in made.programs)
    assert "attention_logsumexp(" in text
    assert all(f"attention_d{x}(" in text for x in "qkv")


def test_counting_along_an_axis_is_part_of_a_kernel():
    def f(x: Any) -> Any:
        return torch.where(torch.arange(2, 14, 2) > 5, x, 0.0).exp()

    made, x = backend(regions="all"), torch.rand(3, 6)
    torch.testing.assert_close(torch.compile(f, backend=made)(x), f(x))
    (kernel,) = made.programs[0].kernels
    assert len(kernel.parameters) == 1


# One graph


def test_a_graph_stays_one_graph(monkeypatch: pytest.MonkeyPatch):
    model = nn.Sequential(*(Mlp() for _ in range(3))).to(torch.bfloat16)
    graphs, made = Graphs(monkeypatch), backend(regions="all")
    x = torch.rand(32, 64).to(torch.bfloat16)
    with torch.no_grad():
        torch.compile(model, backend=made, fullgraph=True)(x)
    assert len(graphs.graphs) == 1 and not torch._dynamo.utils.counters["graph_break"]


def test_training_is_a_forward_and_a_backward_graph(monkeypatch: pytest.MonkeyPatch):
    import copy

    graphs, made = Graphs(monkeypatch), backend(margin=-1.0)
    model, x = Mlp(), torch.rand(256, 64)
    twin = copy.deepcopy(model)
    torch.compile(model, backend=made)(x).square().sum().backward()
    twin(x).square().sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-3)
    assert [d.name for d in made.divided] == ["forward", "backward"] and len(graphs.graphs) == 2
    assert all(d.program.kernels for d in made.divided)


@pytest.mark.parametrize("regions", ["expected", "all"])
def test_a_cache_of_keys_is_updated_in_place(regions: str):
    """A decode step writes keys into a buffer that it then reads, and returns views of it."""
    w = torch.rand(64, 64)

    def step(x: Any, keys: Any, at: Any) -> Any:
        new = F.gelu(x @ w)
        keys.index_copy_(1, at, new[:, None])
        view = keys[:, :3]
        keys.mul_(0.5)
        return view.sum(-1), keys[0], new

    made = backend(regions=regions, margin=-1.0)
    compiled = torch.compile(step, backend=made)
    x, at = torch.rand(8, 64), torch.tensor([2])
    first = torch.rand(8, 5, 64)
    second = first.clone()
    with torch.no_grad():
        for _ in range(2):
            expected, got = step(x, first, at), compiled(x, second, at)
            torch.testing.assert_close(got, expected)
            torch.testing.assert_close(second, first)
            assert got[1].data_ptr() == second.data_ptr()
    assert calls(made)


def test_what_changes_memory_between_keeps_its_place():
    """`copy_` of a graph stays behind what reads the old value."""

    def f(x: Any, w: Any) -> Any:
        y = F.gelu(x @ w)
        x.copy_(y)
        return y + 1, (x @ w).relu()

    made = backend(margin=-1.0)
    x, w = torch.rand(16, 16), torch.rand(16, 16)
    mine = x.clone()
    with torch.no_grad():
        expected, got = f(x, w), torch.compile(f, backend=made)(mine, w)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(mine, x)
    assert calls(made)


def test_sizes_within_a_range_do_not_recompile():
    model, made = Mlp(), backend(margin=-1.0)
    compiled = torch.compile(model, backend=made, dynamic=True)
    with torch.no_grad():
        for rows in (4, 9, 33, 128, 5):
            x = torch.rand(rows, 64)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-3, atol=1e-3)
    assert len(made.divided) == 1 and torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("given", [None, (1, 4096)])
def test_a_range_gives_kernels_several_schedules(
    given: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
):
    from mucc.compiler.driver import Options, compile_text
    from mucc.compiler.typical_dims import sizes_of
    from mucc.diagnostics.core import Source
    from mucc.torch.backend import passes

    asked: list[Any] = []
    request = passes.RegionsPass.request

    def keeping(self: Any, *args: Any) -> Any:
        asked.append(request(self, *args))
        return asked[-1]

    monkeypatch.setattr(passes.RegionsPass, "request", keeping)
    model, made = nn.Linear(64, 256).to(torch.bfloat16), backend(regions="all", sizes=given)
    with torch.no_grad():
        compiled = torch.compile(model, backend=made, dynamic=bool(given) or None)
        for rows in (40, 3, 700):
            x = torch.rand(rows, 64).to(torch.bfloat16)
            if not given:
                torch._dynamo.mark_dynamic(x, 0, min=2, max=4096)
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-2, atol=2e-2)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    (dims,) = {r.dims for r in asked}
    assert dims == (("D0", "1..4096" if given else "2..4096"),)
    text = asked[0].program.replace("64]", "4096]").replace("256", "4096")
    (family,) = compile_text(Source("k", text), Options(sizes=sizes_of(dict(dims)))).families
    assert len(family.entries) > 1


def test_of_several_ranges_few_are_sampled():
    from mucc.torch.backend.graphs import Extents
    from mucc.torch.backend.passes import _sizes

    extents = Extents({"D0": 5, "D1": 300, "D2": 9}, {"D0": (1, 64), "D1": (1, 4096)})
    names = ["D0", "D1", "D2", "K"]
    assert _sizes(names, extents, None) == {"D0": "1..64", "D1": 512, "D2": 16}
    assert _sizes(names, extents, (8, 16)) == {"D0": "1..64", "D1": 512, "D2": "8..16"}


def test_threads_share_kernels():
    from mucc.torch.backend.operator import Request, _ready, run_request

    program = "kernel f(x: f32[8, 8], y: f32[8, 8]) -> f32[8, 8] {\n    return relu(x - y)\n}\n"
    request = Request(program, "sm_90a", interpret=True).text
    _ready.cache_clear()
    x, y = torch.rand(8, 8), torch.rand(8, 8)
    wrong: list[Any] = []

    def run() -> None:
        for _ in range(10):
            (got,) = run_request([x, y], request)
            if not torch.equal(got, torch.relu(x - y)):
                wrong.append(got)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# The operator


def test_the_operator_is_what_torch_asks_of_one():
    from mucc.torch.backend.operator import RUN_KERNEL, Request

    program = "kernel f[M](x: f32[M, 8], n: s32[M]) -> (a: f32[M, 8], b: s32[M]) {\n    return x + 1, n\n}\n"
    request = Request(program, "sm_90a", (("M", 16),), interpret=True).text
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    given = [torch.rand(3, 8), torch.arange(3, dtype=torch.int32)]
    found = torch.library.opcheck(RUN_KERNEL, (given, request), test_utils=tests)
    assert set(found.values()) == {"SUCCESS"}
    assert torch.Tag.pt2_compliant_tag in RUN_KERNEL.tags and len(RUN_KERNEL.tags) == 2


def test_a_request_is_its_text():
    from mucc.torch.backend.operator import Request

    request = Request("kernel ü", "sm_80", (("M", 16), ("N", 3)), True, True)
    assert Request.of(request.text) == Request.of(request.letters) == request
    assert request.letters.isalnum() and request.letters.isascii()


# Options


def test_modes_and_options_are_inductors(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import backend as module

    given: list[dict[str, Any]] = []
    compile_fx = module._inductor.compile_fx

    def recording(*args: Any, **keywords: Any) -> Any:
        given.extend(filter(None, [keywords.get("config_patches")]))
        return compile_fx(*args, **keywords)

    monkeypatch.setattr(module._inductor, "compile_fx", recording)
    x = torch.rand(4, 4)
    torch.compile(torch.sin, backend=backend(max_fusion_size=7), mode="reduce-overhead")(x)
    torch._dynamo.reset()
    torch.compile(torch.sin, backend=backend(mode="max-autotune-no-cudagraphs"))(x)
    assert given[0]["triton.cudagraphs"] and given[0]["max_fusion_size"] == 7
    assert given[1]["max_autotune"] and "triton.cudagraphs" not in given[1]


def test_a_pass_of_the_caller_runs_too(monkeypatch: pytest.MonkeyPatch):
    from torch._inductor.custom_graph_pass import CustomGraphPass

    seen: list[int] = []

    class Counting(CustomGraphPass):
        def __call__(self, graph: Any) -> None:
            seen.append(len(graph.nodes))

        def uuid(self) -> Any:
            return "counting"

    made = backend(margin=-1.0, post_grad_custom_pre_pass=Counting())
    model, x = Mlp(), torch.rand(8, 64)
    with torch.no_grad():
        torch.compile(model, backend=made)(x)
    assert len(seen) == 1 and calls(made)


def test_the_cache_key_names_all_that_decides():
    from mucc.torch.backend.options import Options
    from mucc.torch.backend.passes import RegionsPass, card_of

    def uuid(target: str = "sm_90a", anywhere: bool = True, **options: Any) -> Any:
        made = RegionsPass(Options.of(options), card_of(target), True, anywhere, lambda divided: None)
        return made.uuid()

    different = [uuid(), uuid("sm_80"), uuid(margin=0.1), uuid(compute="tf32"), uuid(anywhere=False)]
    assert len(set(different)) == 5 and uuid() == uuid()


# Whole: Inductor compiles C++


PROCESS = """
import json, sys, torch, mucc
from torch._dynamo.utils import counters
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.GELU())
with torch.no_grad():
    for p in model.parameters():
        p.fill_(0.25)
made = mucc.torch_backend(interpret=True, fallback="error", regions="all")
compiled = torch.compile(lambda x: torch.cumsum(model(x), 0) + 1, backend=made, dynamic=True)
with torch.no_grad():
    got = [compiled(torch.full((n, 16), 0.5)) for n in (4, 7)]
expected = [torch.cumsum(model(torch.full((n, 16), 0.5)), 0) + 1 for n in (4, 7)]
print(json.dumps({
    "off": max(float((a - b).abs().max()) for a, b in zip(got, expected)),
    "hits": counters["inductor"]["fxgraph_cache_hit"],
    "misses": counters["inductor"]["fxgraph_cache_miss"],
    "graphs": counters["stats"]["unique_graphs"],
    "divided": len(made.divided),
}))
"""


@pytest.mark.long
def test_a_second_process_finds_the_graph_in_inductors_cache(tmp_path: Path):
    """Code of Inductor's calls the kernel, with all that this needs."""
    found: list[dict[str, Any]] = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROCESS], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = found
    assert first["off"] < 1e-5 and second["off"] < 1e-5
    assert first["graphs"] == second["graphs"] == 1
    assert (first["hits"], first["divided"]) == (0, 1) and (second["hits"], second["divided"]) == (1, 0)


# Memory order


class _Vision(nn.Module):
    """Convolutions as vision models have them: a stem, a residual of another width, layer scales."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
        self.inner, self.inner_norm = nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16)
        self.wide, self.skip = nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(16, 32, 1, 2, bias=False)
        self.deep, self.scale = nn.Conv2d(32, 32, 7, 1, 3, groups=32), nn.Parameter(torch.rand(32, 1, 1))
        self.up = nn.ConvTranspose2d(32, 8, 2, stride=2)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.norm(self.stem(x)))
        y = F.relu(self.inner_norm(self.inner(x)))
        y = F.relu(F.silu(self.wide(y)) + self.skip(x))
        gate = torch.sigmoid(y.mean((2, 3), keepdim=True))
        return self.up(y * gate + self.scale * self.deep(y)), y


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_channels_last_stay_last_without_copies(dtype: str, monkeypatch: pytest.MonkeyPatch):
    model = _Vision().eval()
    for norm in (model.norm, model.inner_norm):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    model.to(memory_format=torch.channels_last).to(getattr(torch, dtype))
    x = torch.rand(2, 3, 21, 13).to(memory_format=torch.channels_last).to(getattr(torch, dtype))
    graphs, made = Graphs(monkeypatch), backend(margin=-100.0)
    with torch.no_grad():
        got, expected = torch.compile(model, backend=made)(x), model(x)
    tolerance = 1e-5 if dtype == "float32" else 3e-2
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        assert a.stride() == b.stride() and a.is_contiguous(memory_format=torch.channels_last)
    assert calls(made) >= 5 and "aten.convolution.default" not in graphs.targets()
    assert "aten.clone.default" not in graphs.targets()


def test_operands_that_are_turned_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch):
    """A matrix with its axes exchanged is passed as it lies, and so is a result that is to lie so."""

    def f(x: Any, w: Any, y: Any) -> Any:
        return F.gelu(x.t() @ w).t() + y

    x, w, y = torch.rand(64, 32), torch.rand(64, 48), torch.rand(32, 48).t()
    graphs, made = Graphs(monkeypatch), backend(margin=-100.0)
    with torch.no_grad():
        got, expected = torch.compile(f, backend=made)(x, w, y), f(x, w, y)
    torch.testing.assert_close(got, expected)
    assert calls(made) == 1 and "aten.clone.default" not in graphs.targets()
    assert got.stride() == expected.stride()


def test_a_linear_layer_with_its_weights_as_rows_is_one_kernel_with_what_follows():
    """GPT-2 multiplies by weights [K, N] in a view of two axes, and returns to three."""

    def f(x: Any, w: Any, b: Any) -> Any:
        return F.gelu(torch.addmm(b, x.view(-1, 64), w).view(2, 1024, 1024), approximate="tanh")

    x, w, b = (torch.rand(s).to(torch.bfloat16) for s in ((2, 1024, 64), (64, 1024), (1024,)))
    made = backend()
    with torch.no_grad():
        got = torch.compile(f, backend=made)(x, w, b)
        torch.testing.assert_close(got, f(x, w, b), rtol=2e-2, atol=2e-2)
    (kernel,) = made.programs[0].kernels
    assert "approximate=tanh)" in made.programs[0].text()
    assert kernel.results[0].meta["val"].shape == (2, 1024, 1024)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("channels", "size", "stride", "is_product"), [(3, 4, 4, True), (3, 4, 2, False), (16, 4, 4, False)]
)
def test_embedded_images_are_products(channels: int, size: int, stride: int, is_product: bool, last: bool):
    layout = torch.channels_last if last else torch.contiguous_format
    layer = nn.Conv2d(channels, 32, size, stride).to(memory_format=layout)
    x = torch.rand(2, channels, 16, 24).to(memory_format=layout)
    made = backend(margin=-100.0)

    def f(x: Any) -> Any:
        return F.relu(layer(x)).flatten(2).transpose(1, 2)

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(x), f(x), rtol=1e-4, atol=1e-4)
    text = made.programs[0].text()
    assert ("conv(" not in text and " @ " in text) is is_product
