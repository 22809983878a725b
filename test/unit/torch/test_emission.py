"""Kernels of equal regions of a graph, which are emitted once."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

from inductor import backend, calls  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.usefixtures("compiled_anew")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many kernels were emitted, and how many operations were built to see whether they can be."""
    from mucc.torch.backend import emission
    from mucc.torch.importer import partition

    found = {"emit_piece": 0, "attempt": 0}

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*given: Any, **options: Any) -> Any:
            found[name] += 1
            return function(*given, **options)

        monkeypatch.setattr(module, name, call)

    counted(emission, "emit_piece")
    counted(partition, "attempt")
    return found


def layers(number: int) -> Any:
    made = [nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(number)]
    return nn.Sequential(*made).to(torch.bfloat16)


def test_more_equal_layers_are_no_more_work(counts: dict[str, int]):
    work: list[tuple[int, int]] = []
    for number in (4, 12):
        counts.update(dict.fromkeys(counts, 0))
        torch._dynamo.reset()
        made, model, x = backend(margin=-10.0), layers(number), torch.rand(4096, 64).to(torch.bfloat16)
        with torch.no_grad():
            got = torch.compile(model, backend=made)(x)
            torch.testing.assert_close(got, model(x), rtol=5e-2, atol=5e-2)
        assert calls(made) == number
        work.append((counts["emit_piece"], counts["attempt"]))
    assert work[0] == work[1]


def test_kernels_of_equal_layers_read_their_own_weights():
    """The first of equal regions is emitted; the others take its kernel with values of their own."""
    made, model, x = backend(margin=-10.0), layers(3), torch.rand(4096, 64).to(torch.bfloat16)
    with torch.no_grad():
        torch.compile(model, backend=made)(x)
    (program,) = made.programs
    assert len({str(k.op) for k in program.kernels}) == 1
    read = [frozenset(n.name for n in k.parameters) for k in program.kernels]
    assert len(set(read)) == 3 and all(k.op.parent is None for k in program.kernels)
    written = [k.results[0] for k in program.kernels]
    assert all(w in k.piece.nodes for w, k in zip(written, program.kernels, strict=True))


def test_equal_shapes_that_lie_otherwise_are_other_kernels(counts: dict[str, int]):
    def f(x: Any, y: Any, w: Any) -> Any:
        return torch.relu(x @ w), torch.relu(y @ w)

    w = torch.rand(64, 64).to(torch.bfloat16)
    x, y = (torch.rand(4096, 64).to(torch.bfloat16) for _ in range(2))
    texts: list[set[str]] = []
    for second in (y, torch.rand(64, 4096).to(torch.bfloat16).T):
        torch._dynamo.reset()
        made = backend(margin=-10.0)
        with torch.no_grad():
            got = torch.compile(f, backend=made)(x, second, w)
            torch.testing.assert_close(got, f(x, second, w), rtol=2e-2, atol=2e-2)
        texts.append({str(k.op) for p in made.programs for k in p.kernels})
    assert [len(t) for t in texts] == [1, 2]


def test_an_operation_that_returns_its_operand_is_the_operand_of_its_own_layer():
    """Attempts are shared too: of an operation that changes nothing, the operand by its place."""

    def f(x: Any, y: Any) -> Any:
        return [F.dropout(torch.relu(t @ t.T), 0.5, training=False).contiguous() * 2 for t in (x, y)]

    made, x, y = backend(regions="all"), torch.rand(8, 8), torch.rand(8, 8)
    torch.testing.assert_close(torch.compile(f, backend=made)(x, y), f(x, y))
