"""The layout of the repository, and what a wheel of it holds."""

import os
import re
import runpy
import subprocess
import tarfile
import tomllib
import zipfile
from collections import Counter
from email import message_from_bytes
from fnmatch import fnmatch
from pathlib import Path

import pytest
from distributions import built

from mucc.version import __version__

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINKS = ("dialects", "passes", "runtime", "agent")


def sources() -> set[str]:
    """Every Python file of the package, as a path in the wheel."""
    return {str(path.relative_to(ROOT)) for path in (ROOT / "mucc").rglob("*.py")}


@pytest.mark.parametrize("name", LINKS)
def test_the_links_resolve(name: str):
    link = ROOT / name
    assert link.is_symlink() and not link.readlink().is_absolute()
    assert link.resolve() == ROOT / "mucc" / name and (link / "__init__.py").is_file()


def test_every_directory_with_code_is_a_package():
    folders = {Path(path).parent for path in sources()}
    assert {folder for folder in folders if str(folder / "__init__.py") not in sources()} == set()


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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(built("wheel", tmp_path_factory.mktemp("wheel")))


def test_a_wheel_holds_the_package_and_its_data(wheel: zipfile.ZipFile):
    names = {n for n in wheel.namelist() if ".dist-info/" not in n}
    assert {n for n in names if n.endswith(".py")} == sources()
    assert {n.partition("/")[0] for n in names} == {"mucc"}
    data = {n for n in names if not n.endswith(".py")}
    present = {str(p.relative_to(ROOT)) for p in (ROOT / "mucc/support").rglob("*") if p.is_file()}
    present |= {str(p.relative_to(ROOT)) for p in (ROOT / "mucc/target/data").rglob("*.toml")}
    present |= {str(p.relative_to(ROOT)) for p in (ROOT / "mucc/kernels").glob("*/include/mucc/*")}
    present |= {"mucc/agent/guide.md", "mucc/agent/propose/llm/prices.toml", "mucc/editor/words.json"}
    present |= {str(p.relative_to(ROOT)) for p in (ROOT / "mucc/library/cmake").glob("*.cmake")}
    assert data == present | {"mucc/py.typed"}


def test_an_index_page_says_who_and_what_and_has_no_broken_links(wheel: zipfile.ZipFile):
    metadata = message_from_bytes(wheel.read(f"mucc-{__version__}.dist-info/METADATA"))
    assert metadata["Author"] and metadata["License-Expression"] == "Apache-2.0"
    classifiers = metadata.get_all("Classifier") or []
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} < set(classifiers)
    page = metadata.get_payload()
    assert isinstance(page, str) and "pip install" in page and "docs/language.md" in page
    assert re.findall(r"\]\((?!https?:|#)[^)\s]*\)", page) == []
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)\s]*)\)", page)) <= headings


def test_links_of_an_index_page():
    readme = runpy.run_path(str(ROOT / "setup.py"))["index_readme"]
    text = "[the *language*](docs/language.md), [docs/sol.md](docs/sol.md), [bench](bench/)"
    text += ", [x](https://x.org), [y](#z)"
    assert readme(text, None) == (
        "the *language* (`docs/language.md`), docs/sol.md, bench, [x](https://x.org), [y](#z)"
    )
    source = "https://example.org/mucc/blob/main"
    image = "![dots and rings](docs/figures/overview.svg)"
    assert readme(image, None) == "dots and rings"
    assert readme(image, source) == f"![dots and rings]({source}/docs/figures/overview.svg)"
    assert f"[bench]({source}/bench/), [x](https://x.org), [y](#z)" in readme(text, source + "/")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what belongs to a checkout is known to git")
def test_an_sdist_is_a_checkout(tmp_path: Path):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = {path for path in listed if path and os.path.lexists(ROOT / path)} - {".gitignore"}
    with tarfile.open(built("sdist", tmp_path)) as archive:
        members = {m.name.partition("/")[2]: m for m in archive.getmembers() if not m.isdir()}
    assert wanted - set(members) == set()
    assert set(members) - wanted <= {"PKG-INFO", "setup.cfg"}
    assert {name: members[name].linkname for name in LINKS} == {n: f"mucc/{n}" for n in LINKS}
