"""`torch.compile(model, backend="mucc")` on a GPU: values of eager PyTorch, and nothing compiled twice."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import warnings
from typing import Any

import pytest

import mucc

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def layer(dtype: str = "bfloat16") -> Any:
    return nn.Sequential(nn.Linear(256, 512), nn.GELU()).cuda().to(getattr(torch, dtype))


def compiled(model: Any, **options: Any) -> tuple[Any, Any]:
    backend = mucc.torch_backend(fallback="error", regions="all", fx_graph_cache=False)
    return torch.compile(model, backend=backend, **options), backend


def test_inference():
    model, x = layer(), torch.randn(128, 256, device="cuda", dtype=torch.bfloat16)
    function, backend = compiled(model)
    with torch.no_grad():
        torch.testing.assert_close(function(x), model(x), rtol=2e-2, atol=2e-2)
    assert len(backend.programs[0].kernels) == 1


def test_dynamic_batches_are_one_program():
    model = layer()
    function, backend = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (128, 7, 1000):
            x = torch.randn(rows, 256, device="cuda", dtype=torch.bfloat16)
            torch.testing.assert_close(function(x), model(x), rtol=2e-2, atol=2e-2)
    assert len(backend.programs) == 1


def test_training():
    model, x = layer("float32"), torch.randn(64, 256, device="cuda")
    function, backend = compiled(model)
    gradients: list[Any] = []
    for forward in (model, function):
        model.zero_grad()
        forward(x).square().mean().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    assert len(backend.programs) == 2


def test_a_refused_extent_is_pytorchs():
    def f(x: Any, w: Any) -> Any:
        return torch.relu(x @ w.T)

    function = torch.compile(f, backend=mucc.torch_backend(regions="all"), dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", mucc.runtime.MuccWarning)
        for k in (64, 63, 72):
            x, w = (torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for n in (128, 96))
            torch.testing.assert_close(function(x, w), f(x, w), rtol=2e-2, atol=2e-2)


def test_views_that_begin_anywhere():
    model = layer()
    function, _ = compiled(model)
    whole = torch.randn(128 * 256 + 1, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        for start in (0, 1):
            x = whole[start : start + 128 * 256].view(128, 256)
            torch.testing.assert_close(function(x), model(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("regions", ["expected", "all"])
def test_cuda_graphs(regions: str):
    """Calls are recorded with Inductor's kernels, and replayed on other arguments."""
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in "ab")
    )
    model = model.cuda().bfloat16()
    backend = mucc.torch_backend(fallback="error", regions=regions, fx_graph_cache=False)
    function = torch.compile(model, backend=backend, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(4096, 256, device="cuda", dtype=torch.bfloat16)
            torch.compiler.cudagraph_mark_step_begin()
            torch.testing.assert_close(function(x), model(x), rtol=2e-2, atol=2e-2)
    assert backend.programs
    assert not torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]


@pytest.mark.filterwarnings("ignore:MU7064")
def test_regions_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    """Times are kept: a second compilation measures nothing, and decides alike."""
    from mucc.torch.backend import measured

    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    timed: list[int] = []
    seconds_of = measured.seconds_of
    monkeypatch.setattr(measured, "seconds_of", lambda calls: (timed.append(1), seconds_of(calls))[1])
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU()).cuda().bfloat16()
    x = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    taken: list[list[bool]] = []
    counts: list[int] = []
    for _ in range(2):
        torch._dynamo.reset()
        backend = mucc.torch_backend(fallback="error", measure=True, fx_graph_cache=False)
        with torch.no_grad():
            function = torch.compile(model, backend=backend)
            torch.testing.assert_close(function(x), model(x), rtol=2e-2, atol=2e-2)
        decisions = backend.divided[0].choice.decisions
        assert any(d.measured for d in decisions)
        taken.append([d.taken for d in decisions])
        counts.append(len(timed))
    assert counts[0] == counts[1] > 0 and taken[0] == taken[1]


class Counted(nn.Module):
    """A layer with a count of its calls, an index into what it changes in place."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.Dropout(0.1))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any, kept: Any) -> Any:
        kept.index_copy_(0, self.count, x[:1].detach())
        self.count.add_(1)
        return self.layer(x) + kept


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.filterwarnings("ignore:MU7064")
def test_graphs_are_timed_with_and_without_mucc(
    mode: str, grad: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    """Nothing of it is seen: memory is changed once in a call, and random numbers are as they were."""
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    module = Counted().cuda().bfloat16().train(grad)
    kept = torch.zeros(2048, 1024, device="cuda", dtype=torch.bfloat16)
    found: list[Any] = []
    for _ in range(2):
        torch._dynamo.reset()
        model = copy.deepcopy(module)
        backend = mucc.torch_backend(fallback="error", regions="all", verify=True, mode=mode)
        function = torch.compile(model, backend=backend)
        for n in range(3):
            # Inductor's CUDA graphs write over gradients that somebody keeps for the next call.
            model.zero_grad(set_to_none=True)
            x = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16)
            state = torch.cuda.get_rng_state()
            with torch.set_grad_enabled(grad):
                got = function(x, kept)
                if grad:
                    got.float().square().mean().backward()
            assert model.count.tolist() == [n + 1]
            assert torch.equal(kept[n], x[0])
            if not grad:
                torch.testing.assert_close(got, model.layer(x) + kept, rtol=2e-2, atol=2e-2)
                assert torch.equal(torch.cuda.get_rng_state(), state)
        found.append([dict(v.times) for v in backend.verdicts])
    times, again = found
    assert len(times) == 1 and all(t > 0 for t in times[0].values())
    assert len(times[0]) == (4 if mode == "default" else 2)
    assert [{k: pytest.approx(t) for k, t in found.items()} for found in times] == again


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.filterwarnings("ignore:MU7064")
def test_a_causal_mask_of_positions_is_dropped(grad: bool):
    def attend(q: Any, k: Any, v: Any) -> Any:
        places = torch.arange(q.shape[2], device=q.device)
        seen = (places[:, None] >= places)[None, None].expand(q.shape[0], -1, -1, -1)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    shape = 2, 4, 256, 64
    given = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=grad) for _ in range(3)]
    backend = mucc.torch_backend(fallback="error", fx_graph_cache=False)
    got, wanted = torch.compile(attend, backend=backend)(*given), attend(*given)
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
    if grad:
        gradients = [torch.autograd.grad(y.float().sum(), given) for y in (got, wanted)]
        torch.testing.assert_close(*gradients, rtol=5e-2, atol=5e-2)
    assert backend.masks == 1 + grad


SCRIPT = """
import torch, mucc
import mucc.build.jobs
run = mucc.build.jobs.run
jobs = []
mucc.build.jobs.run = lambda job, *args, **options: (jobs.append(job), run(job, *args, **options))[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.SiLU()).cuda().bfloat16()
function = torch.compile(model, backend=mucc.torch_backend(fallback="error", regions="all"))
with torch.no_grad():
    print(float(function(torch.ones(32, 64, device="cuda", dtype=torch.bfloat16)).sum()))
print("jobs:", len(jobs))
"""


def test_a_second_process_compiles_nothing(tmp_path: Any):
    folders = {"MUCC_CACHE_DIR": tmp_path / "mucc", "TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor"}
    environment = {**os.environ, **{name: str(folder) for name, folder in folders.items()}}
    printed: list[list[str]] = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split("\n"))
    assert printed[0][0] == printed[1][0]
    assert printed[0][1] != "jobs: 0" and printed[1][1] == "jobs: 0"


MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.to(torch.bfloat16)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))

def get_inputs():
    return [torch.rand(8192, 1024, dtype=torch.bfloat16)]

def get_init_inputs():
    return [1024]
"""

SERVE = """
import sys, torch
from mucc.build.toolchain.discover import find_toolchain
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.backend import torch_backend
try:
    sys.exit(f"there is a compiler: {find_toolchain(None)}")
except DiagnosticError:
    pass
names = {}
exec(open(sys.argv[1]).read(), names)
backend = torch_backend(fallback="error")
with torch.no_grad():
    model, x = names["Model"](1024).cuda(), names["get_inputs"]()[0].cuda()
    torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x), rtol=2e-2, atol=2e-2)
print(sum(len(p.kernels) for p in backend.programs), "kernels")
"""


def test_a_bundle_serves_without_a_compiler(tmp_path: Any):
    (tmp_path / "model.py").write_text(MODEL)
    card = torch.cuda.get_device_name()
    packed, own = str(tmp_path / "packed"), str(tmp_path / "own")
    words = ["bundle", str(tmp_path / "model.py"), "-o", packed, "--device", card]
    made = subprocess.run([sys.executable, "-m", "mucc", *words], capture_output=True, text=True, timeout=500)
    assert made.returncode == 0 and "1 kernel" in made.stderr, made.stderr
    # Triton needs a C compiler, its assembler and its linker; mucc finds no C++ compiler among them.
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("gcc", "as", "ld"):
        (tools / tool).symlink_to(shutil.which(tool) or pytest.skip(f"no {tool}"))
    given = {"PATH": str(tools), "MUCC_CACHE_SHARED": packed, "MUCC_CACHE_DIR": own, "CC": str(tools / "gcc")}
    command = [sys.executable, "-c", SERVE, str(tmp_path / "model.py")]
    served = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, timeout=300)
    assert served.returncode == 0 and served.stdout == "1 kernels\n", served.stdout + served.stderr
