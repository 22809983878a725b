"""Two regions of one graph that differ in one thing never share a kernel that is wrong for one of them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
F: Any = torch.nn.functional

from inductor import backend, calls  # noqa: E402 (it needs torch)

N = 16
ALWAYS = -1e9
"""A margin by which every region is taken."""

Step = Callable[[Any, Any, Any], Any]
"""What follows a product: a function of its result and of two further matrices."""


pytestmark = pytest.mark.usefixtures("compiled_anew")


def _scalars() -> dict[str, tuple[Step, Step]]:
    return {
        "factor": (lambda y, u, v: y * 2.0, lambda y, u, v: y * 3.0),
        "whole or not": (lambda y, u, v: y * 2, lambda y, u, v: y * 2.5),
        "sign of zero": (lambda y, u, v: (y + 50) / 0.0, lambda y, u, v: (y + 50) / -0.0),
        "bound": (lambda y, u, v: y.clamp(min=0.5), lambda y, u, v: y.clamp(max=0.5)),
        "alpha": (
            lambda y, u, v: torch.add(y, u, alpha=2),
            lambda y, u, v: torch.add(y, u, alpha=3),
        ),
        "slope": (lambda y, u, v: F.leaky_relu(y, 0.25), lambda y, u, v: F.leaky_relu(y, 0.5)),
        "exponent": (lambda y, u, v: y**2, lambda y, u, v: y**3),
        "eps": (
            lambda y, u, v: F.layer_norm(y, (N,), eps=1e-5),
            lambda y, u, v: F.layer_norm(y, (N,), eps=4.0),
        ),
        "correction": (lambda y, u, v: y.var(1, correction=0), lambda y, u, v: y.var(1, correction=1)),
        "relation": (lambda y, u, v: torch.where(y > u, u, v), lambda y, u, v: torch.where(y >= u, u, v)),
        "mode": (lambda y, u, v: F.gelu(y), lambda y, u, v: F.gelu(y, approximate="tanh")),
        "fill": (
            lambda y, u, v: y.masked_fill(u > 0, 1.0),
            lambda y, u, v: y.masked_fill(u > 0, float("-inf")),
        ),
        "dropout": (lambda y, u, v: F.dropout(y, 0.5, False), lambda y, u, v: F.dropout(y, 1.0, False) * 2),
    }


def _axes() -> dict[str, tuple[Step, Step]]:
    return {
        "axis of a sum": (lambda y, u, v: y.sum(0), lambda y, u, v: y.sum(1)),
        "axis of a softmax": (lambda y, u, v: y.softmax(0), lambda y, u, v: y.softmax(1)),
        "kept axis": (lambda y, u, v: y + y.sum(1), lambda y, u, v: y + y.sum(1, keepdim=True)),
        "half": (lambda y, u, v: y[:, : N // 2], lambda y, u, v: y[:, N // 2 :]),
        "first row": (lambda y, u, v: y[::2] * 2, lambda y, u, v: y[1::2] * 2),
        "step": (lambda y, u, v: y[:4:1] * 2, lambda y, u, v: y[::4] * 2),
        "diagonal": (lambda y, u, v: y.tril(0), lambda y, u, v: y.tril(1)),
        "flip": (lambda y, u, v: y.flip(0), lambda y, u, v: y.flip(1)),
        "transposed": (lambda y, u, v: y + u, lambda y, u, v: y.T + u),
        "transposed operand": (lambda y, u, v: y + u, lambda y, u, v: y + u.T),
        "row or column": (lambda y, u, v: y + u[0], lambda y, u, v: y + u[:, :1]),
        "row of an operand": (lambda y, u, v: y + u[0], lambda y, u, v: y + u[1]),
        "repeated or not": (
            lambda y, u, v: y + u[:1].expand(N, N),
            lambda y, u, v: y + u[:, :1].expand(N, N),
        ),
        "padding": (lambda y, u, v: F.pad(y, (1, 0)), lambda y, u, v: F.pad(y, (0, 1))),
        "part of a tuple": (lambda y, u, v: y.max(1)[0], lambda y, u, v: y.min(1)[0]),
        "order of parts": (lambda y, u, v: torch.cat([y, u]), lambda y, u, v: torch.cat([u, y])),
    }


def _operands() -> dict[str, tuple[Step, Step]]:
    return {
        "order": (lambda y, u, v: y - u, lambda y, u, v: u - y),
        "one twice": (lambda y, u, v: y + u * v, lambda y, u, v: y + u * u),
        "another one": (lambda y, u, v: y + u * v + u, lambda y, u, v: y + u * v + v),
        "dtype between": (lambda y, u, v: y.bfloat16().float(), lambda y, u, v: (y / 8).half().float()),
        "dtype of a result": (lambda y, u, v: y.bfloat16(), lambda y, u, v: y.half()),
        "dtype of a mask": (
            lambda y, u, v: torch.where(u > 0, y, v),
            lambda y, u, v: torch.where((u > 0).float() > 0.5, v, y),
        ),
        "results": (lambda y, u, v: (y.relu(),), lambda y, u, v: (y, y.relu(), y.sum(1))),
        "read elsewhere": (
            lambda y, u, v: (y.relu(), u.sort(1)[0]),
            lambda y, u, v: (y.relu(), y.relu().sort(1)[0]),
        ),
        "indices": (
            lambda y, u, v: y + torch.arange(N),
            lambda y, u, v: y + torch.arange(1, N + 1),
        ),
        "constant tensor": (
            lambda y, u, v: y + torch.full((N,), 2.0),
            lambda y, u, v: y + torch.full((N,), 3.0),
        ),
        "constant": (lambda y, u, v: y * torch.tensor(2.0), lambda y, u, v: y * torch.tensor(3.0)),
        "tensor of indices": (
            lambda y, u, v: y[torch.tensor([0, 3])],
            lambda y, u, v: y[torch.tensor([1, 2])],
        ),
        "kind of norm": (
            lambda y, u, v: F.batch_norm(y, u[0], v[0] ** 2 + 1, training=False),
            lambda y, u, v: F.batch_norm(y, None, None, training=True, eps=1.0),
        ),
    }


DIFFERENCES = {**_scalars(), **_axes(), **_operands()}

AROUND: tuple[Step, ...] = (
    lambda y, u, v: torch.relu(y),
    lambda y, u, v: y + u,
    lambda y, u, v: y * 0.5,
    lambda y, u, v: y - v * 2,
    lambda y, u, v: y.abs() + 1,
    lambda y, u, v: torch.minimum(y, u),
)
"""What lies between a product and the difference: exact, so that comparisons are those of float64."""


def matrix(*shape: int) -> Any:
    """Draw quarters: sums of products of them are exact."""
    return torch.randint(-4, 5, shape).float() / 4


def two_layers(seed: int, steps: tuple[Step, Step]) -> Callable[..., list[Any]]:
    """Make a function of two equal layers whose last steps are different."""
    drawn = random.Random(seed)
    between = [drawn.choice(AROUND) for _ in range(drawn.randrange(3))]

    def layer(step: Step, x: Any, w: Any, u: Any, v: Any) -> list[Any]:
        y = x @ w
        for each in between:
            y = each(y, u, v)
        return torch.utils._pytree.tree_leaves(step(y, u, v))

    def function(x: Any, z: Any, w: Any, u: Any, v: Any) -> list[Any]:
        return layer(steps[0], x, w, u, v) + layer(steps[1], z, w, u, v)

    return function


def agrees(function: Any, inputs: list[Any], **options: Any) -> Any:
    """Compare a function with itself in float64, by kernels for every product; returns the backend."""
    made: Any = backend(margin=ALWAYS)
    with torch.no_grad():
        got = torch.compile(function, backend=made, **options)(*inputs)
        want = function(*[t.double() if t.is_floating_point() else t for t in inputs])
    for g, w in zip(got, want, strict=True):
        assert g.dtype in (w.dtype, torch.float32)
        torch.testing.assert_close(g.double(), w.double(), rtol=2e-2, atol=2e-2)
    assert calls(made) >= 2
    return made


def texts(made: Any) -> set[str]:
    return {str(k.op) for p in made.programs for k in p.kernels}


@pytest.mark.parametrize("seed", range(4))
def test_equal_layers_share_a_kernel(seed: int):
    """Without a difference there is one text: so what follows is about sharing."""
    same: Step = lambda y, u, v: y.clamp(-3, 3)  # noqa: E731
    assert len(texts(agrees(two_layers(seed, (same, same)), [matrix(N, N) for _ in range(5)]))) == 1


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.long)])
def test_one_difference_is_seen(name: str, turn: int):
    """Every second difference in one order, the others in the other one; long tests turn them."""
    seed = sorted(DIFFERENCES).index(name)
    first, second = DIFFERENCES[name]
    steps = (second, first) if (seed + turn) % 2 else (first, second)
    agrees(two_layers(seed, steps), [matrix(N, N) for _ in range(5)])


def _given() -> dict[str, Callable[[], list[Any]]]:
    """Make operands of which the second layer's differ from the first's, by what differs."""

    def with_(z: Callable[[], Any]) -> Callable[[], list[Any]]:
        return lambda: [matrix(N, N), z(), *(matrix(N, N) for _ in range(3))]

    return {
        "order of axes": with_(lambda: matrix(N, N).T),
        "offset": with_(lambda: matrix(2 * N, N)[3 : N + 3]),
        "row stride": with_(lambda: matrix(N, 2 * N)[:, 1 : N + 1]),
        "element stride": with_(lambda: matrix(N, 2 * N)[:, ::2]),
        "repeated rows": with_(lambda: matrix(1, N).expand(N, N)),
        "repeated columns": with_(lambda: matrix(N, 1).expand(N, N)),
        "rows": with_(lambda: matrix(1, N)),
    }


@pytest.mark.parametrize("name", _given())
def test_operands_that_lie_otherwise_are_read_so(name: str):
    same: Step = lambda y, u, v: y.relu() + u  # noqa: E731
    agrees(two_layers(0, (same, same)), _given()[name]())


def test_operands_that_are_one_tensor_are_read_so():
    same: Step = lambda y, u, v: y.relu() + u  # noqa: E731
    x, w = matrix(N, N), matrix(N, N)
    agrees(two_layers(0, (same, same)), [x, x, w, w, w])
    torch._dynamo.reset()
    agrees(two_layers(0, (same, same)), [x, w, w, x, w])


def test_extents_of_other_names_are_other_forms():
    same: Step = lambda y, u, v: y.relu().sum(0)  # noqa: E731
    x, z = matrix(5, N), matrix(7, N)
    for t in (x, z):
        torch._dynamo.mark_dynamic(t, 0)
    function = two_layers(0, (same, same))
    made: Any = backend(margin=ALWAYS)
    compiled = torch.compile(function, backend=made)
    w, u, v = matrix(N, N), matrix(1, N), matrix(1, N)
    for a, b in ((x, z), (matrix(9, N), matrix(3, N))):
        with torch.no_grad():
            got, want = compiled(a, b, w, u, v), function(*[t.double() for t in (a, b, w, u, v)])
        for g, e in zip(got, want, strict=True):
            torch.testing.assert_close(g.double(), e, rtol=1e-4, atol=1e-4)
    assert calls(made) >= 2


def test_frozen_weights_are_those_of_their_layer():
    layers = torch.nn.Sequential(*(torch.nn.Linear(N, N) for _ in range(3)))
    exact, x = copy.deepcopy(layers).double(), matrix(N, N)
    settings = {"cpp.weight_prepack": False}
    made: Any = backend(margin=ALWAYS, **settings)
    with torch._inductor.config.patch({"freezing": True, **settings}), torch.no_grad():
        got = torch.compile(layers, backend=made)(x)
    torch.testing.assert_close(got.double(), exact(x.double()), rtol=1e-4, atol=1e-4)
    assert calls(made) == 3 and len(texts(made)) == 1


def test_what_was_changed_before_is_read_as_it_is_then():
    def function(x: Any, z: Any, w: Any, u: Any, v: Any) -> list[Any]:
        first = (x @ w).relu() + u
        u.mul_(2)
        return [first, (z @ w).relu() + u]

    given = [matrix(N, N) for _ in range(5)]
    made: Any = backend(margin=ALWAYS)
    with torch.no_grad():
        got = torch.compile(function, backend=made)(*[t.clone() for t in given])
        want = function(*[t.double() for t in given])
    for g, e in zip(got, want, strict=True):
        torch.testing.assert_close(g.double(), e)
    assert calls(made) >= 2


def test_numbers_that_kernels_hold_are_in_forms():
    """Numbers of the module's state are literals of a kernel, which its inputs do not show."""
    from mucc.torch.backend.emission import Emitter
    from mucc.torch.importer.capture import capture
    from mucc.torch.importer.partition import Formats, Graph, Piece, classify

    class Scaled(torch.nn.Module):
        def forward(self, x: Any, z: Any) -> Any:
            return x * torch.tensor(2.0), z * torch.tensor(3.0)

    captured = capture(Scaled(), [matrix(N, N), matrix(N, N)])
    graph = Graph(captured, Formats())
    classify(graph, None)
    scaled = [n for n in graph.nodes if n.target == torch.ops.aten.mul.Tensor]
    emit = Emitter(graph)
    kernels = [str(emit(Piece([n])).op) for n in scaled]
    assert len({*kernels}) == 2 and "2." in kernels[0] and "3." in kernels[1]
