"""Blocks of models through torch.compile by the interpreter, against eager PyTorch in float64."""

from __future__ import annotations

import copy
import importlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

from inductor import backend as by_interpreter  # noqa: E402 (it needs torch)

leaves: Any = torch.utils._pytree.tree_leaves
checkpoint: Any = importlib.import_module("torch.utils.checkpoint").checkpoint


pytestmark = pytest.mark.usefixtures("compiled_anew")


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=by_interpreter(regions="all"), **options)


def close(expected: Any, got: Any, tolerance: float = 1e-4) -> None:
    """Compare structures of tensors in float64; expected ones may be of another dtype."""
    for e, g in zip(leaves(expected), leaves(got), strict=True):
        torch.testing.assert_close(g.double(), e.double(), rtol=tolerance, atol=tolerance)


def doubled(value: Any, grad: bool) -> Any:
    """Copy tensors in a structure; those of floats to float64."""

    def one(t: Any) -> Any:
        made = t.detach().double() if t.is_floating_point() else t.clone()
        return made.requires_grad_(grad and t.requires_grad)

    return torch.utils._pytree.tree_map(one, value)


def trains(model: Any, *inputs: Any, calls: int = 1, tolerance: float = 3e-4) -> None:
    """Compare results, gradients and state of a model with those in float64, over calls in a row."""
    exact = copy.deepcopy(model).double()
    function = compiled(model)
    for _ in range(calls):
        reference = doubled(inputs, True)
        results = exact(*reference), function(*inputs)
        for result in results:
            sum(t.sin().sum() for t in leaves(result) if t.requires_grad).backward()
        close(*results, tolerance)
        close([p.grad for p in exact.parameters()], [p.grad for p in model.parameters()], tolerance)
        close([t.grad for t in reference if t.requires_grad], [t.grad for t in inputs if t.requires_grad])
        close(list(exact.state_dict().values()), list(model.state_dict().values()), tolerance)
        for t in inputs:
            t.grad = None


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int = 16, heads: int = 2, causal: bool = False):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Checkpointed(nn.Module):
    """A block that is computed again in the backward pass, where its attention reads parts of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Any) -> Any:
        return checkpoint(self.block, x, use_reentrant=False)


class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.Conv2d(8, 8, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))
        self.short = nn.Conv2d(4, 8, 1, 2, bias=False)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norms[0](self.first(x)), inplace=True)
        y = self.norms[1](self.second(y)) + self.norms[2](self.short(x))
        return F.adaptive_avg_pool2d(F.relu(y, inplace=True), 1).flatten(1)


class Tied(nn.Module):
    """A language model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, 9, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(F.gelu(self.embed(tokens)))


class Recurrent(nn.Module):
    """Cells of recurrent networks over a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm = nn.GRUCell(4, 6), nn.LSTMCell(6, 5)

    def forward(self, x: Any) -> Any:
        hidden, state = x.new_zeros(x.shape[1], 6), (x.new_zeros(x.shape[1], 5),) * 2
        for step in x:
            hidden = self.gru(step, hidden)
            state = self.lstm(hidden, state)
        return hidden, state


class Experts(nn.Module):
    """Two of four experts for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.route, self.weights = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x: Any) -> Any:
        shares, chosen = F.softmax(self.route(x), -1).topk(2)
        made = torch.einsum("nd,nkde->nke", x, self.weights[chosen])
        return (made * shares[..., None]).sum(1)


class InPlace(nn.Module):
    """A layer whose result is changed, also through a view."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        y = self.linear(x).relu() + 0.5
        y[:, ::2] *= 3
        y.view(-1)[2:5].add_(1)
        return y, y.T


CASES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "transformer": lambda: (Block(), torch.randn(2, 5, 16, requires_grad=True)),
    "causal": lambda: (Block(causal=True), torch.randn(2, 7, 16, requires_grad=True)),
    "checkpointed": lambda: (Checkpointed(), torch.randn(2, 4, 16, requires_grad=True)),
    "tied": lambda: (Tied(), torch.randint(0, 9, (2, 5))),
    "recurrent": lambda: (Recurrent(), torch.randn(2, 3, 4, requires_grad=True)),
    "experts": lambda: (Experts(), torch.randn(6, 8, requires_grad=True)),
    "in place": lambda: (InPlace(), torch.randn(4, 6, requires_grad=True)),
    "no rows": lambda: (nn.Sequential(nn.Linear(6, 8), nn.GELU()), torch.randn(0, 6, requires_grad=True)),
    "empty images": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()),
        torch.randn(0, 3, 8, 8, requires_grad=True),
    ),
    "expanded": lambda: (nn.Sequential(nn.Linear(6, 6), nn.SiLU()), torch.randn(6).expand(4, 6)),
    "every second": lambda: (nn.Sequential(nn.Linear(6, 6), nn.SiLU()), torch.randn(4, 12)[:, ::2]),
    "offset": lambda: (nn.Sequential(nn.Linear(6, 6), nn.SiLU()), torch.randn(33)[1:25].view(4, 6)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_float64(name: str):
    model, *inputs = CASES[name]()
    trains(model, *inputs)


def test_statistics_of_batches_move_over_calls():
    trains(Residual(), torch.randn(3, 4, 6, 6, requires_grad=True), calls=2, tolerance=2e-3)


@pytest.mark.parametrize("last", [False, True])
def test_inference_of_convolutions(last: bool):
    model, x = Residual().eval(), torch.randn(3, 4, 6, 6)
    if last:
        model, x = (m.to(memory_format=torch.channels_last) for m in (model, x))
    with torch.no_grad():
        close(copy.deepcopy(model).double()(x.double()), compiled(model)(x), 2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_errors_of_halves_are_those_of_eager_pytorch(dtype: Any):
    model, x = Block().to(dtype), torch.randn(2, 5, 16).to(dtype)
    exact = copy.deepcopy(model).double()(x.double())
    eager, got = model(x), compiled(model)(x)
    errors = [float((r.double() - exact).abs().max()) for r in (eager, got)]
    assert got.dtype == dtype and errors[1] <= 2 * errors[0] + 1e-3
    found = [torch.autograd.grad(r.float().sin().sum(), list(model.parameters())) for r in (eager, got)]
    for expected, gradient in zip(*found, strict=True):
        assert gradient.dtype == dtype
        assert (gradient - expected).abs().max() <= 0.06 * expected.abs().max() + 0.02


def test_batches_of_any_size_after_the_first():
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    exact, function = copy.deepcopy(model).double(), compiled(model)
    for batch in (3, 5, 9, 1, 0, 2):
        x = torch.randn(batch, 6)
        for run, value in ((exact, x.double()), (function, x)):
            run(value).sin().sum().backward()
        close([p.grad for p in exact.parameters()], [p.grad for p in model.parameters()])


def test_memory_orders_after_the_first():
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU())
    exact, function = copy.deepcopy(model).double(), compiled(model)
    for x in (
        torch.randn(4, 6),
        torch.randn(6, 4).T,
        torch.randn(4, 12)[:, ::2],
        torch.randn(25)[1:].view(4, 6),
    ):
        close(exact(x.double()), function(x))


@pytest.mark.parametrize("grad", [False, True])
def test_weights_that_change_after_compiling(grad: bool):
    def make() -> Any:
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()

    model, x, other = make(), torch.randn(3, 4), make()
    other[1].running_mean.normal_()
    function = compiled(model)

    def is_right() -> None:
        with torch.set_grad_enabled(grad):
            close(copy.deepcopy(model).double()(x.double()), function(x))

    is_right()
    model.load_state_dict(other.state_dict())
    is_right()
    with torch.no_grad():
        model[0].weight.mul_(3)
        model[1].running_var.add_(2)
    model[3].bias.data.fill_(7.0)
    is_right()
    model[0].weight = nn.Parameter(torch.randn(8, 4))
    is_right()
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()}, assign=True)
    is_right()


def test_results_that_are_views_of_arguments_and_of_each_other():
    def f(x: Any) -> Any:
        y = F.relu(x @ x.T)
        return x[1:], x.T, y.view(-1), y[::2], x, y, y

    x = torch.randn(4, 4)
    got = compiled(f)(x)
    close(f(x), got)
    got[2].zero_()
    assert not got[3].any() and not got[5].any()
    got[1].fill_(3.0)
    assert (x == 3).all() and (got[0] == 3).all()


def test_one_tensor_as_two_arguments_that_change():
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return F.relu(x * y), y @ x

    function = compiled(f)
    first, second = torch.randn(4, 4), torch.randn(4, 4)
    close(f(first.clone(), second.clone()), function(first.clone(), second.clone()))
    a, b = first.clone(), first.clone()
    close(f(a, a), function(b, b))
    close(a, b)


def test_a_cache_of_keys_in_buffers():
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(8, 24)
            for name in ("keys", "values"):
                self.register_buffer(name, torch.zeros(1, 2, 6, 4))

        def forward(self, x: Any, place: Any) -> Any:
            q, k, v = self.project(x).view(1, 1, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            self.keys.index_copy_(2, place, k)
            self.values.index_copy_(2, place, v)
            seen = torch.arange(6)[None] <= place[:, None]
            return F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)

    model = Decoder()
    exact, function = copy.deepcopy(model).double(), compiled(model)
    with torch.no_grad():
        for step in range(3):
            x, place = torch.randn(1, 1, 8), torch.tensor([step])
            close(exact(x.double(), place), function(x, place))
    close(list(exact.state_dict().values()), list(model.state_dict().values()))


def test_float64_is_not_computed_in_less():
    def f(x: Any) -> Any:
        return (x + 1e9) - 1e9, torch.logsumexp(x, -1), x @ x.T, F.gelu(x)

    x = torch.randn(4, 4, dtype=torch.float64)
    torch.testing.assert_close(compiled(f)(x), f(x), rtol=1e-13, atol=1e-13)


def test_nan_and_infinity():
    def f(x: Any) -> Any:
        return (
            *(x.amax(-1), F.relu(x), torch.clamp(x, -1, 1), F.softmax(x, -1), torch.maximum(x, -x)),
            *(torch.where(x > 0, x, 0.0), x.argmax(-1), x.std(-1), torch.sign(x), F.leaky_relu(x)),
            *(x.cumsum(-1), x.sort(-1).values, F.max_pool1d(x[None], 2)),
        )

    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 3.0, -2.0], [inf, 1.0, -3.0, 2.0], [-inf, -1.0, 0.0, -0.0], [-inf] * 4])
    torch.testing.assert_close(compiled(f)(x), f(x), equal_nan=True, rtol=1e-4, atol=1e-5)


def test_dtypes_that_meet():
    def f(x: Any, half: Any, short: Any) -> Any:
        return x + half, half @ half.T, torch.cat([x, half.float()]), half * 2.5, short * half, x.half() / 3

    x, half, short = torch.randn(4, 4), torch.randn(4, 4).half(), torch.randn(4, 4).bfloat16()
    expected, got = f(x, half, short), compiled(f)(x, half, short)
    assert [t.dtype for t in got] == [t.dtype for t in expected]
    close(expected, got, 2e-2)


def test_exported_programs():
    model = Block()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (torch.randn(2, 4, 16),), dynamic_shapes={"x": {0: batch}})
    exact, function = copy.deepcopy(model).double(), compiled(program.module(), dynamic=True)
    for n in (2, 5):
        x = torch.randn(n, 4, 16)
        close(exact(x.double()), function(x))


def test_threads_with_models_of_their_own():
    models = [nn.Sequential(nn.Linear(6, 6 + n), nn.GELU()) for n in range(3)]
    functions = [compiled(model) for model in models]
    problems: list[BaseException] = []

    def run(n: int) -> None:
        try:
            for _ in range(2):
                x = torch.randn(3, 6)
                close(copy.deepcopy(models[n]).double()(x.double()), functions[n](x))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
