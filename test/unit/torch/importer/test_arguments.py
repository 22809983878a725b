"""Arguments, state and results of imported modules: aliasing, keywords, containers, what changes in place."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from mucc.diagnostics.core import DiagnosticError

torch: Any = pytest.importorskip("torch", reason="needs torch")

from importerlib import agrees  # noqa: E402

from mucc.library.errors import MuccError  # noqa: E402
from mucc.torch.importer import from_torch  # noqa: E402
from mucc.torch.importer.verify import _with_own_values  # noqa: E402  # pyright: ignore[reportPrivateUsage]

F = torch.nn.functional


class Applied(torch.nn.Module):
    """A function of a module with state of all kinds, some of it shared."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function
        self.w = torch.nn.Parameter(torch.randn(8, 8))
        self.tied = self.w
        self.register_buffer("b", torch.randn(8, 8))
        self.h = torch.randn(8, 8)
        self.scale = torch.tensor(2.0)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def tensors(count: int = 1) -> list[Any]:
    torch.manual_seed(3)
    return [torch.randn(8, 8) for _ in range(count)]


# Arguments that are one tensor


def test_arguments_that_are_one_tensor_stay_apart():
    x, y, z = tensors(3)
    made = from_torch(
        Applied(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v)), (x, x, x), whole=True
    )
    assert len(made.program.kernels[0].parameters) == 3
    torch.testing.assert_close(made.interpreted()(x, y, z), F.scaled_dot_product_attention(x, y, z))
    agrees(made, x, x, x)


def test_arguments_that_are_state_stay_apart():
    module = Applied(lambda m, x, y: x * m.w + y * m.b + m.tied)
    made = from_torch(module, (module.w, module.b), whole=True)
    x, y = tensors(2)
    torch.testing.assert_close(made.interpreted()(x, y), module(x, y).detach())
    agrees(made, module.w, module.b)


def test_verify_takes_values_of_their_own_for_inputs_of_one_memory():
    x, y = tensors(2)
    made = from_torch(Applied(lambda m, a, b: a - 2 * b), (x, y), whole=True)
    assert any("share no memory" in d.name for d in made.verify(x, x))
    assert not any("share no memory" in d.name for d in made.verify(x, y))
    (first, second), _ = _with_own_values(((x, x[:4]), {}), set(), 0)
    assert first is x and not torch.equal(second, x[:4])


def test_what_changes_shares_no_memory():
    def change(m: Any, a: Any, b: Any) -> Any:
        a.mul_(2)
        return a + b

    x, y = tensors(2)
    whole = torch.randn(12, 8)
    for pair in ((x, x), (whole[:8], whole[4:])):
        with pytest.raises(DiagnosticError) as caught:
            from_torch(Applied(change), pair)
        assert caught.value.diagnostics[0].code == "MU7021"
        assert "shares memory" in caught.value.diagnostics[0].message
    made = from_torch(Applied(change), (x, y), whole=True)
    agrees(made, x, y)
    driver = made.interpreted()
    for pair in ((x, x), (x, x.T), (whole[:8], whole[4:])):
        with pytest.raises(MuccError, match="MU7053"):
            driver(*pair)
    parts = torch.randn(16, 8)
    driver(parts[:8], parts[8:])


def test_buffers_that_change_are_no_arguments():
    def change(m: Any, x: Any) -> Any:
        m.b.add_(x)
        return m.b * 2

    module = Applied(change)
    driver = from_torch(module, tensors(), whole=True).interpreted()
    with pytest.raises(MuccError, match="MU7053"):
        driver(module.b)


def test_state_that_changes_under_two_names_is_refused():
    module = Applied(lambda m, x: m.b.add_(x) + m.same)
    module.same = module.b
    with pytest.raises(DiagnosticError) as caught:
        from_torch(module, tensors(), whole=True)
    assert caught.value.diagnostics[0].code == "MU7021"


def _copied_view(m: Any, x: Any) -> Any:
    y = x.clone().view(-1)
    x.add_(1)
    return y


def _swapped(m: Any, x: Any, y: Any) -> Any:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x + y


def _written_view(m: Any, x: Any) -> Any:
    y = x.view(64)
    y[3:9] = 0
    return x, y


def _zeroed(m: Any, x: Any) -> Any:
    y = x.T.reshape(-1)
    x.zero_()
    return y


def _assigned(m: Any, x: Any) -> Any:
    m.h = torch.tanh(m.h + x)
    return m.h * m.scale


def _changed_attribute(m: Any, x: Any) -> Any:
    m.h.mul_(x)
    return m.h.T


CHANGING = [_copied_view, _swapped, _written_view, _zeroed, _assigned, _changed_attribute]


@pytest.mark.parametrize("function", CHANGING)
@pytest.mark.parametrize("whole", [False, True], ids=["compiled", "whole"])
def test_what_changes_in_place(function: Callable[..., Any], whole: bool):
    args = tensors(2 if function is _swapped else 1)
    agrees(from_torch(Applied(function), args, whole=whole), *args)


def test_a_capture_leaves_the_module_as_it_is():
    module = Applied(_assigned)
    before, buffers = dict(vars(module)), dict(module.named_buffers())
    from_torch(module, tensors(), whole=True)
    assert all(vars(module)[name] is value for name, value in before.items())
    assert all(buffers[name] is value for name, value in module.named_buffers())


# Keywords


class Options(torch.nn.Module):
    def forward(
        self, x: Any, mask: Any = None, *, scale: float = 1.0, shift: bool = False, n: int = 3, **others: Any
    ) -> Any:
        x = x if mask is None else x * mask
        x = x + n if shift else x
        return {"out": x * scale + others.get("extra", 0)}


def test_arguments_by_keyword():
    x, y = tensors(2)
    given: dict[str, Any] = {"mask": y, "shift": True, "scale": 2.0, "extra": x}
    made = from_torch(Options(), (x,), example_keywords=given, whole=True)
    agrees(made, x, **given)
    driver, module = made.interpreted(), Options()
    call: dict[str, Any] = {"extra": y, "scale": 3.0, "shift": True}
    for args, more in (((x, y), {}), ((x,), {"mask": y}), ((), {"mask": y, "x": x}), ((x, y), {"n": 3})):
        torch.testing.assert_close(driver(*args, **call, **more)["out"], module(*args, **call, **more)["out"])
    for args, more in (((x, y), {"n": 4}), ((x, y), {"shift": False}), ((x,), {}), ((x, y, x), {})):
        with pytest.raises(MuccError, match="MU7050"):
            driver(*args, **{**call, **more})


def test_arguments_that_are_none_or_left_out():
    x, y = tensors(2)
    for args in ((x,), (x, None)):
        driver = from_torch(Options(), args, whole=True).interpreted()
        for call in ({}, {"mask": None}, {"shift": False}):
            torch.testing.assert_close(driver(x, **call)["out"], x + 0)
        with pytest.raises(MuccError, match="MU7050"):
            driver(x, y)


def test_open_extents_of_keywords():
    x, y = tensors(2)
    made = from_torch(
        Options(), (x,), example_keywords={"mask": y}, dynamic_shapes={"x": {0: "M"}, "mask": {0: "M"}}
    )
    assert "f32[M, 8]" in made.text
    agrees(made, torch.randn(5, 8), mask=torch.randn(5, 8))


def test_containers_are_taken_by_their_keys():
    x, y = tensors(2)
    made = from_torch(
        Applied(lambda m, d, rows: d["a"] - d["b"] * rows[0]), ({"a": x, "b": y}, [x]), whole=True
    )
    torch.testing.assert_close(made.interpreted()({"b": y, "a": x}, [y]), x - y * y)
    with pytest.raises(MuccError, match="MU7050"):
        made.interpreted()({"a": x, "c": y}, [y])


def test_a_call_that_the_module_does_not_take():
    with pytest.raises(DiagnosticError) as caught:
        from_torch(Options(), (), example_keywords={"mask": None})
    assert caught.value.diagnostics[0].code == "MU7012"


def test_explain_takes_keywords():
    from mucc.torch.backend import explain

    x, y = tensors(2)
    for keywords, operations in (({}, 2), ({"mask": y}, 3), ({"mask": y, "shift": True}, 4)):
        found = explain(Options().eval(), x, scale=2.0, extra=1, **keywords)
        assert [graph.operations for graph in found.graphs] == [operations]


# Results


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Output:
    first: Any
    second: Any = None


RESULTS: list[Callable[[Any], Any]] = [
    lambda x: torch.max(x, 1),
    lambda x: x.topk(3),
    lambda x: x.sort(),
    lambda x: torch.cummax(x, 0),
    lambda x: Pair(x + 1, (x * 2, None)),
    lambda x: Output(x + 1),
    lambda x: {"a": Output(Pair(x, x), x * 2)},
    lambda x: collections.OrderedDict(a=x + 1),
    lambda x: (x, float("inf"), "name", True),
]


@pytest.mark.parametrize("function", RESULTS)
def test_results_are_nested_as_torch_has_them(function: Callable[[Any], Any]):
    (x,) = tensors()
    made = from_torch(Applied(lambda m, x: function(x)), (x,), whole=True)
    expected, got = function(x), made.interpreted()(x)
    flat = torch.utils._pytree.tree_flatten
    assert type(got) is type(expected) and flat(got)[1] == flat(expected)[1]
    agrees(made, x)


def test_dataclasses_may_be_arguments():
    x, y = tensors(2)
    made = from_torch(Applied(lambda m, d: d.first - d.second), (Output(x, y),), whole=True)
    torch.testing.assert_close(made.interpreted()(Output(y, x)), y - x)


def test_results_of_classes_within_functions_are_refused():
    class Hidden(NamedTuple):
        a: Any

    with pytest.raises(DiagnosticError) as caught:
        from_torch(Applied(lambda m, x: Hidden(x * 2)), tensors()).driver  # noqa: B018
    assert caught.value.diagnostics[0].code == "MU7021"


# Recurrent layers


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(
    "options", [{}, {"batch_first": True, "bidirectional": True, "num_layers": 2}], ids=str
)
def test_recurrent_layers_are_captured_whole(
    kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    def unrolled(*args: Any, **options: Any) -> Any:
        raise AssertionError("a time step was traced")

    layer = getattr(torch.nn, kind)(8, 16, **options)
    for name in ("_rnn_helper", "lstm_impl", "gru_impl"):
        monkeypatch.setattr(torch._decomp.decompositions, name, unrolled, raising=False)
    made = from_torch(layer, (torch.randn(5, 3, 8),))
    assert sum("rnn" in r.operation or "gru" in r.operation or "lstm" in r.operation for r in made.rows) == 1
    agrees(made, torch.randn(5, 3, 8))


def test_torch_is_left_as_it_was():
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    before = torch.ops.aten.lstm.input.py_kernels[key]
    from_torch(torch.nn.LSTM(8, 8), (torch.randn(5, 3, 8),))
    assert torch.ops.aten.lstm.input.py_kernels[key] is before
