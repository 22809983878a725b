"""The layout of the repository, and what a wheel of it holds."""

import os
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from mucc.version import __version__

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINKS = ("dialects", "passes", "runtime", "agent")


def sources() -> set[str]:
    """Every Python file of the package, as a path in the wheel."""
    found: set[str] = set()
    for top in ("mucc", *LINKS):
        prefix = "" if top == "mucc" else "mucc/"
        found |= {prefix + str(path.relative_to(ROOT)) for path in (ROOT / top).rglob("*.py")}
    return found


@pytest.mark.parametrize("name", LINKS)
def test_the_links_resolve(name: str):
    link = ROOT / "mucc" / name
    assert link.is_symlink() and not link.readlink().is_absolute()
    assert link.resolve() == ROOT / name and (link / "__init__.py").is_file()


def test_every_directory_with_code_is_a_listed_package():
    listed = set(PYPROJECT["tool"]["setuptools"]["packages"])
    present = {str(Path(path).parent).replace("/", ".") for path in sources()}
    assert present == listed
    assert all(f"{package.replace('.', '/')}/__init__.py" in sources() for package in listed)


def checked() -> Counter[str]:
    """How often pyright finds each file; like it, this follows no link below a configured root."""
    settings = PYPROJECT["tool"]["pyright"]
    walked = (
        Path(folder, f) for root in settings["include"] for folder, _, fs in os.walk(ROOT / root) for f in fs
    )
    found = Counter(str(path.relative_to(ROOT)) for path in walked if path.suffix == ".py")
    out = {path for path in found for pattern in settings["exclude"] if fnmatch(path, f"{pattern}/*")}
    return Counter({path: n for path, n in found.items() if path not in out})


def test_pyright_checks_each_file_once_by_the_name_it_is_imported_by():
    bench = {str(path.relative_to(ROOT)) for path in (ROOT / "bench").rglob("*.py")}
    problems = {path for path in bench if path.startswith("bench/kernelbench/problems/")}
    assert checked() == Counter(sources() | bench - problems)


def test_the_version_is_written_once():
    assert "version" in PYPROJECT["project"]["dynamic"]
    assert f"## {__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_a_wheel_holds_the_package_and_its_data(tmp_path: Path):
    """Built the way pip builds it, but with the setuptools that is installed."""
    pytest.importorskip("setuptools", reason="building a wheel needs setuptools here")
    options = {"--global-option": ["-q", "build", "-b", str(tmp_path / "build")]}
    program = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r}, {options!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert {n for n in names if n.endswith(".py")} == sources()
    assert {n.partition("/")[0] for n in names} == {"mucc"}
    data = {n for n in names if not n.endswith(".py")}
    present = {str(p.relative_to(ROOT)) for p in (ROOT / "mucc/support").rglob("*") if p.is_file()}
    present |= {str(p.relative_to(ROOT)) for p in (ROOT / "mucc/target/data").rglob("*.toml")}
    present |= {"mucc/agent/guide.md", "mucc/agent/propose/llm/prices.toml"}
    assert data == present | {"mucc/py.typed"}
