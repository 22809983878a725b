"""What the backend uses of PyTorch without documentation, and what it does where a version lacks it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.diagnostics.core import DiagnosticError  # noqa: E402 (it needs torch)
from mucc.runtime.build import MuccWarning  # noqa: E402
from mucc.torch import backend  # noqa: E402
from mucc.torch.backend.versions import KNOWN, LOWERING, USED, missing, parts_of  # noqa: E402

SOURCES = sorted(Path(backend.__file__).parent.glob("*.py"))


def _imported(node: ast.AST) -> str | None:
    """Return the module that an expression imports by `importlib.import_module`, if it does."""
    match node:
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name))]):
            return name
        case _:
            return None


def _is_private(module: str) -> bool:
    return "._" in module or module in ("functorch.compile", "torch.fx.passes.fake_tensor_prop")


def _uses(path: Path) -> Iterator[tuple[str, str]]:
    """Find the names that a file of the backend takes of modules that are not documented."""
    tree = ast.parse(path.read_text())
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if made := _imported(
                value
            ):
                modules[name] = made
            case _:
                pass
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        module = _imported(node.value)
        if isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
        if module and _is_private(module):
            yield module, node.attr


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_all_that_is_used_without_documentation_is_listed(path: Path):
    listed = {
        (module, name.partition(".")[0])
        for names in (USED, LOWERING)
        for module, wanted in names.items()
        for name in wanted
    }
    used = set(_uses(path)) - {("torch._inductor", "compile")}
    assert used <= listed, "see versions.py"


def test_this_version_has_all_that_is_used():
    assert missing(USED) == []


def test_what_is_missing_is_named_with_its_module():
    names = {"torch._inductor.config": ("triton.cudagraphs", "triton.no_such"), "torch._no_such": ("x",)}
    assert missing(names) == ["torch._inductor.config.triton.no_such", "torch._no_such"]


@pytest.mark.parametrize("named", [True, False])
def test_inductor_compiles_all_where_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, compiled_anew: None, named: bool
):
    from torch._inductor import compile_fx

    monkeypatch.delattr(compile_fx, "view_to_reshape")
    seen: list[Any] = []
    monkeypatch.setattr(torch._inductor, "compile", lambda *args, options: seen.append(options) or args[0])
    made = backend.dynamo_backend if named else backend.torch_backend(margin=0.1)
    options = {"options": {"margin": 0.1, "max-autotune": True}} if named else {}
    compiled = torch.compile(lambda x: x + 1, backend=made, **options)
    with pytest.warns(
        MuccWarning, match=r"MU7060: .* torch 2\.\S+ has no torch\._inductor\.compile_fx\.view_to"
    ):
        assert compiled(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert seen == [{"max_autotune": True} if named else {}]
    with pytest.raises(DiagnosticError, match="which mucc needs"):
        backend.torch_backend(fallback="error")(None, [])


# What differs between versions


def test_a_call_has_the_same_parts_in_all_versions():
    """Up to torch 2.13 a tuple of five, from 2.14 on an object."""
    fields = {"example_output": [1], "tensor_args": [2], "non_tensor_args": ["r"], "unflatten_args": len}
    given = ([1], [2], ["r"], len)
    assert parts_of((*given, {"unbacked": "symbols"})) == given
    assert parts_of(SimpleNamespace(**fields, unbacked_bindings={})) == given
    with pytest.raises(AttributeError, match="example_output"):
        parts_of([1, 2, 3, 4, 5])


def test_the_matrix_of_versions_ends_at_the_last_that_is_known():
    """`test/tools/torch_matrix.py` runs the last three minor versions."""
    (major, first), (_, last) = KNOWN
    tools = Path(__file__).parents[2] / "tools/torch_matrix.py"
    (line,) = [line for line in tools.read_text().splitlines() if line.startswith("MINORS = ")]
    minors = ast.literal_eval(line.removeprefix("MINORS = "))
    assert minors == tuple(f"{major}.{n}" for n in range(last - 2, last + 1)) and first <= last - 2
