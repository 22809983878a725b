"""A directory of its own for tests of commands, and a build that runs no compiler."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compiler_stand_in import Compiler, Parts

from mucc.build.toolchain import assembly, discover, nvcc
from mucc.diagnostics import Diagnostic, Severity


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory with a cache of its own, and nvcc replaced by something quick."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    Compiler.runs = 0
    monkeypatch.setitem(sys.modules, "mucc.compiler.driver", Compiler("mucc.compiler.driver"))
    return tmp_path / "work"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What nvcc was asked to compile."""
    seen: list[str] = []

    def built(text: str, kind: str) -> nvcc.Built:
        seen.append(text)
        spilled = Diagnostic("MU5201", "spills", severity=Severity.WARNING)
        return nvcc.Built(f"{kind}: {text}".encode(), (spilled,) if "spill" in text else ())

    def build(text: str, kind: str, toolchain: object, pool: object, **options: object) -> nvcc.Built:
        return built(text, kind)

    class Assembly:
        def __init__(self, *_: object, **options: object):
            pass

        def build(self, parts: Parts) -> nvcc.Built:
            if "fixed" in parts.text:
                raise assembly.Unspliceable("it does not bend")
            return built(parts.text, "so")

        def image(self, image: str, *, ptx: bool) -> nvcc.Built:
            return built(f"image of {image}", "ptx" if ptx else "cubin")

    monkeypatch.setattr(assembly, "Assembly", Assembly)
    tool = discover.Tool(sys.executable, "test")
    toolchain = discover.Toolchain(tool, tool, tool)
    monkeypatch.setattr(nvcc, "build", build)
    monkeypatch.setattr("mucc.build.artefact.find_toolchain", lambda nvcc, host: toolchain)
    return seen
