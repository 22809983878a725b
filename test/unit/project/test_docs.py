"""Check the documentation: links, the picture of the architecture, the form of decisions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from mucc.compiler.program import compile_source
from mucc.diagnostics import DiagnosticError, Source
from mucc.diagnostics.render import render_text

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench" / "README.md", *DOCS.rglob("*.md")]
)
ARCHITECTURE = (DOCS / "architecture.md").read_text(encoding="utf-8")

_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What links may name in a page: its headings as GitHub spells them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def links(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        place = page.parent / unquote(path) if path else page
        assert place.exists(), link
        if anchor:
            assert anchor in anchors(place), link


def test_the_index_lists_every_page() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = {p.resolve() for p in DOCS.rglob("*.md") if p.parent.name != "decisions"}
    assert pages - listed == {(DOCS / "README.md").resolve()}


# The architecture


def test_the_architecture_is_a_short_page() -> None:
    assert ARCHITECTURE.count("\n") <= 150


def packages() -> set[str]:
    return {p.parent.name for p in (ROOT / "mucc").glob("*/__init__.py")}


def test_the_architecture_lists_every_package() -> None:
    table = ARCHITECTURE.partition("| package | holds |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(packages())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w*]+/[\w*/.]+)`", ARCHITECTURE))))
def test_the_architecture_names_what_there_is(path: str) -> None:
    places = (ROOT, ROOT / "mucc", ROOT / "mucc" / "torch")
    assert any(any(place.glob(path)) for place in places)


@cache
def imports() -> dict[str, set[str]]:
    """The packages that each package imports, lazily or not."""
    grimp = pytest.importorskip("grimp", reason="comes with import-linter: pip install -e '.[dev]'")
    graph = grimp.build_graph("mucc", exclude_type_checking_imports=True, cache_dir=None)
    found: dict[str, set[str]] = {package: set() for package in packages()}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            source, target = (m.split(".")[1:2] for m in (module, imported))
            if source != target and {*source, *target} <= packages() and source and target:
                found[source[0]].add(target[0])
    for package in ("api", "tune"):
        found[package] |= surfaced(package)
    return found


def surfaced(package: str) -> set[str]:
    """The packages whose names a public package imports on first use."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "mucc" / package).glob("*.py")]
    found = {other for text in texts for other in re.findall(r"^    from mucc\.(\w+)", text, re.MULTILINE)}
    return found - {package}


def reached(package: str) -> set[str]:
    """What a package imports, by way of others too."""
    return {r for other in imports()[package] for r in {other, *reached(other)}}


def drawn() -> set[tuple[str, str]]:
    """The arrows of the picture: `a & b --> c & d` is four."""
    picture = ARCHITECTURE.partition("```mermaid\n")[2].partition("```")[0]
    found: set[tuple[str, str]] = set()
    for line in picture.splitlines()[1:]:
        sources, arrow, targets = line.partition(" --> ")
        assert arrow, line
        found |= {(s.strip(), t.strip()) for s in sources.split("&") for t in targets.split("&")}
    return found


def test_the_picture_shows_the_imports() -> None:
    """All that there are, but those that follow from others."""
    direct = {
        (package, other)
        for package, others in imports().items()
        for other in others
        if not any(other in reached(between) for between in others - {other})
    }
    assert drawn() - direct == set(), "arrows that no import stands behind, or that follow from others"
    assert direct - drawn() == set(), "imports without an arrow"


# Decisions

DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
PARTS = ("Context", "Decision", "What was tried", "Figures", "Consequences")


@pytest.mark.parametrize("page", DECISIONS, ids=lambda p: p.stem)
def test_a_decision_is_one_page_of_one_form(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    number, title = re.match(r"# (\d+)\. (.+)\n", text).groups()  # type: ignore[union-attr]
    assert page.name.startswith(f"{int(number):04d}-")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == PARTS
    assert all(part.strip() for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:])
    assert text.count("\n") <= 60
    row = f"| {number} | [{title}]({page.name}) |"
    assert row in (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")


def test_decisions_are_numbered_in_order() -> None:
    assert [int(p.name[:4]) for p in DECISIONS] == list(range(1, len(DECISIONS) + 1))


FIGURE = re.compile(r"\d\s?(?:µs|ms|[TGM]B/s|TFLOP/s)\b|\d+(?:\.\d+)? times as (?:fast|long)")
"""A measured figure: a time, a rate, or a speedup."""

SOURCE = re.compile(
    r"python -m bench\.\w+|`bench\.\w+|\bmake \w+|bench/results/|test/[\w/]+\.py|`mucc[ -]\w+"
)
"""The command that a figure comes from, or the file that has both."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_figures_name_their_command(page: Path) -> None:
    """A section with measured figures says by which command; of decisions, the section of figures does."""
    if page.name == "errors.md":
        return
    sections = re.split(r"(?m)^(?=#{1,3} )", page.read_text(encoding="utf-8"))
    if page in DECISIONS:
        sections = [section for section in sections if section.startswith("## Figures")]
    missing = [
        section.partition("\n")[0]
        for section in sections
        if FIGURE.search(re.sub(r"(?s)```.*?```", "", section)) and not SOURCE.search(section)
    ]
    assert missing == []


NOT_NESTED = re.compile(r"(?m)^ {1,3}(?:[*-]|\d+\.) .*")
"""An item of a list that Markdown of the site shows beside the one around it."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lists_nest_by_four_spaces(page: Path) -> None:
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    assert NOT_NESTED.findall(text) == []


def test_commands_of_figures_exist() -> None:
    """Benchmarks that pages and results name are there."""
    results = (ROOT / "bench" / "results").glob("*/*.json")
    missing: list[str] = []
    for file in (*PAGES, *results):
        for words in set(re.findall(r"\bpython -m (bench(?:\.[a-z]\w*)+)", file.read_text(encoding="utf-8"))):
            place = ROOT.joinpath(*words.split("."))
            if not place.with_suffix(".py").exists() and not (place / "__main__.py").exists():
                missing.append(f"{name(file)}: {words}")
    assert missing == []


def test_the_readme_shows_what_an_error_looks_like() -> None:
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    program = next(block for block in blocks if block.startswith("// linear_gelu.mcu"))
    shown = next(block for block in blocks if block.startswith("error[MU3004]"))
    source = Source("linear_gelu.mcu", re.sub(r"(    mainloop .*\n)", r"\1    stages    = 6\n", program))
    with pytest.raises(DiagnosticError) as error:
        compile_source(source, "sm_90a")
    (diagnostic,) = error.value.diagnostics
    assert render_text(diagnostic, source) == shown
