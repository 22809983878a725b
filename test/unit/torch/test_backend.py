"""`torch.compile(model, backend="mucc")`: kernels run by the interpreter, against eager PyTorch."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from mucc.diagnostics.core import DiagnosticError

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

ROOT = Path(__file__).parents[3]


pytestmark = pytest.mark.usefixtures("compiled_anew")


def backend(**options: Any) -> Any:
    """All that mucc compiles, by the interpreter, and the rest by PyTorch: no compiler runs."""
    import mucc

    given = {"interpret": True, "fallback": "error", "regions": "all", "rest": "eager", **EAGER}
    return mucc.torch_backend(**{**given, **options})


EAGER = {"fallback_random": True}
"""Inductor's own setting for the random numbers that eager PyTorch draws."""


def close(expected: Any, got: Any) -> None:
    leaves = torch.utils._pytree.tree_leaves
    for e, g in zip(leaves(expected), leaves(got), strict=True):
        if isinstance(e, torch.Tensor):
            assert e.stride() == g.stride() and e.requires_grad == g.requires_grad
            torch.testing.assert_close(g, e, rtol=1e-4, atol=1e-4)
        else:
            assert e == g


def agrees(model: Any, *inputs: Any, grad: bool = False, **options: Any) -> Any:
    """Run a model compiled and eager on equal inputs; the backend, for what it made."""
    import copy

    made = backend()
    compiled = torch.compile(model, backend=made, **options)
    first, second = copy.deepcopy(inputs), copy.deepcopy(inputs)
    state = copy.deepcopy(model.state_dict()) if isinstance(model, nn.Module) else {}
    with torch.set_grad_enabled(grad):
        torch.manual_seed(1)
        expected = model(*first)
        moved = copy.deepcopy(model.state_dict()) if state else {}
        if state:
            model.load_state_dict(state)
        torch.manual_seed(1)
        got = compiled(*second)
    close(expected, got)
    close(first, second)
    if state:
        close(moved, copy.deepcopy(model.state_dict()))
    return made


def kernels(made: Any) -> int:
    return sum(len(p.kernels) for p in made.programs)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def test_a_layer_is_one_kernel():
    made = agrees(nn.Sequential(nn.Linear(16, 32), nn.GELU()), torch.rand(4, 16))
    (program,) = made.programs
    assert "gelu(matmul(x2, x.T, compute=f32) + x1)" in program.text()
    assert len(program.kernels) == 1


def test_linear_layers_are_whole_again():
    made = agrees(Block(), torch.rand(2, 3, 16))
    assert "reshape" not in made.programs[0].text() and kernels(made) == 1


def test_equal_layers_are_equal_kernels():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for _ in range(3)))
    made = agrees(model, torch.rand(4, 8))
    (program,) = made.programs
    assert len(program.kernels) == 3 and len({str(k.op) for k in program.kernels}) == 1


def test_the_text_of_a_program_names_kernels_once():
    from mucc.compiler.driver import compile_text
    from mucc.diagnostics.core import Source
    from mucc.dialects.mu.ops.kernel import KernelOp
    from mucc.frontend.source import module_text

    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 24), nn.Dropout(0.5))
    made = agrees(nn.Sequential(model, nn.Linear(24, 8), model), torch.rand(4, 8))
    (program,) = made.programs
    parsed = compile_text(Source("k.mcu", program.text())).mu
    names = [op.sym_name.data for op in parsed.body.block.ops if isinstance(op, KernelOp)]
    assert 1 < len(set(names)) == len(names) < len(program.kernels)
    assert len({k.name for k in program.kernels}) < len(names)
    assert module_text(parsed) == program.text()


def test_training_has_kernels_forward_and_backward():
    model, x = Block(), torch.rand(2, 3, 16)
    made = backend()
    compiled = torch.compile(model, backend=made)
    gradients: list[list[Any]] = []
    for function in (model, compiled):
        model.zero_grad()
        function(x).square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    close(*gradients)
    assert len(made.programs) == 2 and all(p.kernels for p in made.programs)


def test_a_view_before_a_linear_layer_that_another_product_reads():
    def products(x: Any) -> Any:
        return torch.vmap(torch.vmap(torch.dot, (None, 0)), (0, None))(x, x)

    gradients: list[Any] = []
    for function in (products, torch.compile(products, backend=backend())):
        x = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
        function(x).square().sum().backward()
        gradients.append(x.grad)
    close(*gradients)


def test_a_training_step():
    losses: list[list[float]] = []
    for compiled in (False, True):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
        step = torch.optim.SGD(model.parameters(), lr=0.1)
        function = torch.compile(model, backend=backend()) if compiled else model
        x, y = torch.rand(32, 8), torch.rand(32, 1)
        losses.append([])
        for _ in range(3):
            loss = F.mse_loss(function(x), y)
            step.zero_grad()
            loss.backward()
            step.step()
            losses[-1].append(float(loss))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_dynamic_extents_are_dims():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
    made = backend()
    compiled = torch.compile(model, backend=made, dynamic=True)
    with torch.no_grad():
        for batch in (4, 7, 33):
            x = torch.rand(batch, 16)
            close(model(x), compiled(x))
    (program,) = made.programs
    assert "x2: f32[D0, 16]) -> f32[D0, 32]" in program.text()


def test_extents_that_are_computed():
    def f(x: Any, y: Any) -> Any:
        z = torch.cat([x, y]) * 2
        return F.relu(z.view(-1, 4, 4)) + x.shape[0], z.shape[0]

    made = backend()
    compiled = torch.compile(f, backend=made, dynamic=True)
    for n, m in ((4, 8), (12, 4), (3, 5)):
        x, y = torch.rand(n, 8), torch.rand(m, 8)
        close(f(x, y), compiled(x, y))
    assert kernels(made)


def test_arguments_that_change():
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x: Any, y: Any) -> Any:
            y.mul_(2).add_(x)
            x[:, 0] = 7
            self.total.add_(x.sum(0))
            return F.relu(x - 0.5)

    made = agrees(Counts(), torch.rand(3, 4), torch.rand(3, 4))
    assert kernels(made)


def test_results_that_share_memory():
    def f(x: Any) -> Any:
        y = torch.relu(x @ x.T)
        return y, y.T, y.view(-1), x.T, y.clone(), y[1:]

    x = torch.rand(4, 4)
    compiled = torch.compile(f, backend=backend())
    results = [f(x), compiled(x)]
    for made in results:
        made[0].add_(1)
        made[3].mul_(1.5)
    close(*results)


def test_results_lie_as_torch_has_them():
    def f(x: Any) -> Any:
        return torch.relu(x.transpose(0, 1)), torch.sigmoid(x).permute(2, 0, 1), torch.exp(x[:, ::2])

    assert kernels(agrees(f, torch.rand(3, 4, 6)))


def test_what_mucc_lacks_stays_with_pytorch():
    def f(x: Any) -> Any:
        return torch.relu(torch.linalg.inv(x @ x.T + torch.eye(4)) * 2)

    made = agrees(f, torch.rand(4, 4))
    taken = {str(n.target) for p in made.programs for k in p.kernels for n in k.piece.nodes}
    assert kernels(made) >= 2 and not any("inv" in name for name in taken)


def test_random_numbers_keep_their_order():
    def f(x: Any) -> Any:
        a = F.dropout(x, 0.5)
        b = torch.relu(a)
        c = F.dropout(torch.exp(x), 0.5)
        return b * F.dropout(c, 0.3) + torch.rand_like(x)

    assert kernels(agrees(f, torch.rand(5, 6)))


def test_dtypes_as_torch_promotes_them():
    def f(x: Any, n: Any, keep: Any, rows: Any) -> Any:
        return x * n, torch.where(keep, x, 0.0).bfloat16() + 1, F.embedding(rows, x), x > 0.5, rows + 2**40

    rows = torch.tensor([[0, 2], [1, 1]])
    made = agrees(f, torch.rand(3, 4), torch.arange(4, dtype=torch.int32), torch.rand(3, 4) > 0.3, rows)
    assert kernels(made)


def test_large_integers_stay_exact():
    def f(n: Any) -> Any:
        return n.float() * 2, n == 2**40

    agrees(f, torch.tensor([2**40, 3, -(2**33)]))


def test_negative_indices():
    def f(x: Any, rows: Any) -> Any:
        return torch.relu(x[rows])

    agrees(f, torch.rand(5, 3) - 0.5, torch.tensor([-1, 0, -5, 4]))


def test_autocast():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU())

    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    x = torch.rand(4, 16)
    made = backend()
    with torch.no_grad():
        expected, got = f(x), torch.compile(f, backend=made)(x)
    assert got.dtype == torch.bfloat16 and "bf16" in made.programs[0].text()
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)


def test_inference_mode():
    model, x = Block().eval(), torch.rand(2, 4, 16)
    made = backend()
    compiled = torch.compile(model, backend=made)
    with torch.inference_mode():
        close(model(x), compiled(x))
    assert kernels(made)


def test_graph_breaks_are_those_of_dynamo():
    def f(x: Any) -> Any:
        y = torch.relu(x @ x.T)
        return torch.exp(y) if y.sum() > 3 else torch.tanh(y)

    made = backend()
    compiled = torch.compile(f, backend=made)
    for x in (torch.rand(4, 4), torch.zeros(4, 4)):
        close(f(x), compiled(x))
    assert len(made.programs) >= 2


def test_empty_tensors():
    def f(x: Any) -> Any:
        return torch.relu(x).sum(0) + 1

    agrees(f, torch.rand(0, 4))


def test_nothing_to_compile():
    made = agrees(lambda x: torch.linalg.det(x), torch.rand(3, 3))
    assert not made.programs


# What goes wrong


def quiet_backend(monkeypatch: pytest.MonkeyPatch, problem: Callable[..., Any]) -> Any:
    from mucc.torch.backend import passes

    monkeypatch.setattr(passes, "cut", problem)
    import mucc

    return mucc.torch_backend(interpret=True, regions="all", rest="eager")


@pytest.mark.parametrize("grad", [False, True])
def test_a_failure_is_a_warning(monkeypatch: pytest.MonkeyPatch, grad: bool):
    from mucc.runtime.build import MuccWarning

    def problem(*args: Any) -> Any:
        raise RuntimeError("out of luck")

    model, x = nn.Linear(4, 4), torch.rand(2, 4)
    compiled = torch.compile(model, backend=quiet_backend(monkeypatch, problem))
    with torch.set_grad_enabled(grad), pytest.warns(MuccWarning, match=r"MU7060.*out of luck"):
        got = compiled(x)
    close(model(x).detach(), got.detach())


def test_or_an_error(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import passes

    def problem(*args: Any) -> Any:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(passes, "cut", problem)
    with pytest.raises(Exception, match="out of luck"):
        torch.compile(nn.Linear(4, 4), backend=backend())(torch.rand(2, 4))


def test_a_kernel_that_refuses_a_call(monkeypatch: pytest.MonkeyPatch):
    import mucc
    from mucc.library.errors import MuccValueError
    from mucc.runtime.build import MuccWarning
    from mucc.torch.backend import operator

    def refusing(tensors: Any) -> Any:
        raise MuccValueError("MU6011", "N % 8 == 0 is promised")

    def f(x: Any) -> Any:
        y = torch.relu(x @ x.T).view(-1, 2)
        return y, F.dropout(y, 0.0) + x.shape[0]

    given = {"interpret": True, "regions": "all", "rest": "eager"}
    made = mucc.torch_backend(**given)
    compiled = torch.compile(f, backend=made, dynamic=True)
    x = torch.rand(6, 6)
    with torch.no_grad():
        close(f(x), compiled(x))
        operator._ready.cache_clear()
        for request in operator._loaded:
            monkeypatch.setitem(operator._loaded, request, refusing)
        with pytest.warns(MuccWarning, match="MU7063"):
            got = compiled(x)
        close(f(x), got)
        operator._ready.cache_clear()
        torch._dynamo.reset()
        with pytest.raises(MuccValueError, match="promised"):
            strict = torch.compile(f, backend=mucc.torch_backend(**given, fallback="error"), dynamic=True)
            for request in [*operator._loaded]:
                strict_request = operator.Request(request.program, request.target, request.dims, True, True)
                monkeypatch.setitem(operator._loaded, strict_request, refusing)
            strict(x)
    operator._ready.cache_clear()


def test_views_that_begin_anywhere_are_copied():
    from mucc.library.errors import MuccValueError
    from mucc.runtime.views import call_anyhow

    def relu(x: Any) -> Any:
        if x.data_ptr() % 16:
            raise MuccValueError("MU6006", "misaligned")
        return torch.relu(x)

    x = torch.rand(9)
    close(torch.relu(x[1:]), call_anyhow(relu, [x[1:]]))


def test_tensors_on_the_cpu_are_pytorchs():
    import mucc
    from mucc.runtime.build import MuccWarning
    from mucc.torch.backend import passes

    passes._said.clear()
    model, x = nn.Linear(4, 4), torch.rand(2, 4)
    with pytest.warns(MuccWarning, match="MU7061"):
        close(model(x), torch.compile(model, backend=mucc.torch_backend(rest="eager"))(x))
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", MuccWarning)
        torch.compile(model, backend=mucc.torch_backend(rest="eager"))(x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"targte": "sm_90a"}, "did you mean 'target'"),
        ({"fallback": "never"}, "'eager', 'error'"),
        ({"mode": "fast"}, "'max-autotune'"),
        ({"margin": "little"}, "not a number"),
        ({"margin": float("nan")}, "not a number"),
        ({"interpret": "no"}, "interpret='no' is not True or False"),
        ({"verify": 2}, "not True, False or None"),
        ({"schedules": {"linear": 128}}, "not a dict of settings"),
        ({"target": 90}, "not the name of a target"),
        ({"inductor": "freezing"}, "not a dict of options"),
        ({"regions": "some"}, "'expected', 'all'"),
        ({"sizes": (8, 4)}, "no range of extents"),
        ({"sizes": 4}, "sizes=(1, 4096)"),
    ],
)
def test_options(options: dict[str, Any], words: str):
    import mucc

    with pytest.raises(DiagnosticError) as caught:
        mucc.torch_backend(**options)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MU7062" and words in diagnostic.message


def test_torch_finds_the_name():
    group = "torch_dynamo_backends"
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][group]
    function = EntryPoint("mucc", entries["mucc"], group).load()
    options = {"interpret": True, "fallback": "error", "regions": "all", "rest": "eager"}
    from torch._dynamo.backends.registry import register_backend

    register_backend(function, "mucc_by_name")
    model, x = nn.Linear(4, 4), torch.rand(2, 4)
    with torch.no_grad():
        close(model(x), torch.compile(model, backend="mucc_by_name", options=options)(x))


# Explanations


def test_explain():
    import mucc

    def f(x: Any, w: Any) -> Any:
        return F.gelu(x @ w), torch.linalg.inv(x[:8, :8].float())

    x, w = torch.rand(8192, 64, dtype=torch.bfloat16), torch.rand(64, 2048, dtype=torch.bfloat16)
    with torch.no_grad():
        found = mucc.explain(f, x, w)
    (graph,) = found.graphs
    assert graph.name == "inference" and 0 < graph.covered < 1
    assert "linalg_inv_ex: aten.linalg_inv_ex: no operation of mu for it" in str(found)
    product = next(p for p in graph.parts if "aten.mm" in p.operations)
    assert product.is_kernel and product.gain > 0
    assert graph.seconds == pytest.approx(graph.alone - product.gain)


def test_explain_says_what_a_product_alone_would_lose():
    import mucc

    with torch.no_grad():
        (graph,) = mucc.explain(torch.mm, torch.rand(64, 64), torch.rand(64, 64)).graphs
    (product,) = graph.parts
    assert not product.is_kernel and product.gain <= 0 and graph.seconds == graph.alone
    assert product.reason == "the expected gain is below the margin"


def test_explain_covers_backward():
    import mucc

    layer = nn.Linear(8, 8)
    found = mucc.explain(layer, torch.rand(4, 8))
    assert [g.name for g in found.graphs] == ["forward", "backward"]
    assert layer.weight.grad is None
