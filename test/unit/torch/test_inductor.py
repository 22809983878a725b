"""Graphs of Inductor with regions of mucc: one graph, its caches, its modes, mutation, threads."""

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

pytestmark = pytest.mark.usefixtures("compiled_anew")


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


def test_the_files_of_mucc_are_listed_once_for_all_keys(monkeypatch: pytest.MonkeyPatch):
    from mucc.build.cache import keys

    listed: list[str] = []
    real = keys.files_below
    monkeypatch.setattr(keys, "files_below", lambda folder: listed.append(folder) or real(folder))
    keys.loaded_fingerprint.cache_clear()
    made = backend(margin=-1.0)
    with torch.no_grad():
        torch.compile(Mlp(), backend=made)(torch.rand(8, 64))
        torch.compile(torch.sin, backend=made)(torch.rand(8, 64))
    assert listed.count(keys.PACKAGE) == 1


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
