"""Check that the public surface is complete, documented and lazy, and that its documented example runs."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
MODULES = sorted(p.stem for p in (ROOT / "mucc" / "api").glob("*.py") if p.stem != "__init__")


def rows() -> dict[str, list[str]]:
    """What the table of the page lists: names by module."""
    found = re.findall(r"^\| `mucc\.api\.(\w+)` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in found}


def imported_for_types(module: str) -> dict[str, str]:
    """By name, the module that a type checker takes it from."""
    tree = ast.parse((ROOT / "mucc" / "api" / f"{module}.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_the_page_lists_every_name() -> None:
    assert sorted(rows()) == MODULES
    for module, names in rows().items():
        assert sorted(names) == sorted(import_module(f"mucc.api.{module}").__all__), module


@pytest.mark.parametrize("module", MODULES)
def test_names_are_those_that_type_checkers_see(module: str) -> None:
    if module == "importer":
        pytest.importorskip("torch")
    surface, seen = import_module(f"mucc.api.{module}"), imported_for_types(module)
    assert sorted(surface.__all__) == sorted(seen)
    for name, home in seen.items():
        defining = import_module(home)
        expected = getattr(defining, name) if hasattr(defining, name) else import_module(f"{home}.{name}")
        assert getattr(surface, name) is expected, name


@pytest.mark.parametrize("module", MODULES)
def test_names_have_docstrings(module: str) -> None:
    """Functions and classes, with the public methods and properties that a class has itself."""
    if module == "importer":
        pytest.importorskip("torch")
    surface = import_module(f"mucc.api.{module}")
    named: dict[str, Any] = {name: getattr(surface, name) for name in surface.__all__}
    for name, value in list(named.items()):
        if inspect.isclass(value):
            own = {part: member for part, member in value.__dict__.items() if part[0] != "_"}
            named |= {f"{name}.{part}": member for part, member in own.items()}
    missing: list[str] = []
    for name, value in named.items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if (inspect.isfunction(function) or inspect.isclass(function)) and not function.__doc__:
            missing.append(name)
    assert missing == []


def test_tuning_has_the_names_that_it_lists() -> None:
    import mucc.tune

    assert all(callable(getattr(mucc.tune, name)) for name in mucc.tune.__all__)


def test_an_unknown_name_is_an_error() -> None:
    from mucc.api import diagnostics

    with pytest.raises(AttributeError, match=r"module 'mucc\.api\.diagnostics' has no attribute 'nothing'"):
        _ = diagnostics.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_surface_loads_nothing_else() -> None:
    code = "".join(f"import mucc.api.{module}\n" for module in MODULES)
    code += "import json, sys; print(json.dumps([m for m in sys.modules if m.count('.') < 2]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(run.stdout))
    assert {m for m in loaded if m.startswith("mucc")} == {"mucc", "mucc.api", "mucc.version"}
    assert not {"click", "numpy", "torch", "xdsl"} & loaded


def test_the_agent_may_import_no_other_room() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (c for c in contracts if c["name"] == "The agent is a client of the public surface")
    rooms = {f"mucc.{p.parent.name}" for p in (ROOT / "mucc").glob("*/__init__.py")}
    assert set(contract["forbidden_modules"]) == rooms - {"mucc.agent", "mucc.api"}


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "<example>", "exec"), scope)
    printed = capsys.readouterr().out
    assert re.search(r"^MU\d{4} ", printed)
    assert re.search(r"[\d.]+ us: \{.*'tile': '\d+x\d+x\d+'.*\}; then [\d.]+ us", printed)
    assert "(pinned)" in printed and "nothing else is legal with what is pinned" in printed
    assert "linear_gelu on" in printed and "bound" in printed
