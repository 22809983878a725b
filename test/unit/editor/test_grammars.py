"""Grammars of editors: current, and true to the compiler's lexer and parser on every example."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from functools import cache
from pathlib import Path

import pytest
from earley import Grammar

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.editor import grammars
from mucc.frontend import parse
from mucc.frontend.lexer import KEYWORDS, Token, lex

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.mcu"))
PROGRAMS = [*EXAMPLES, *sorted((ROOT / "test" / "data").rglob("*.mcu"))]
EXTENSION = ROOT / "editors" / "vscode"

NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def tokens(path: Path) -> list[Token]:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    return [t for t in lex(source, DiagnosticSink(source))[0] if t.kind != "eof"]


def test_the_files_are_current():
    assert grammars.main(["--check"]) == 0, "`make docs` writes them"


def test_every_keyword_is_in_the_grammars():
    words = grammars.words()
    named = {*words["declaring"], *words["logical"], *words["keywords"], *words["constants"]}
    assert named >= KEYWORDS
    text = (ROOT / "editors" / "tree-sitter-mcu" / "grammar.js").read_text()
    assert [word for word in KEYWORDS if f"'{word}'" not in text] == []
    assert [layout for layout in words["layouts"] if f"'{layout}'" not in text] == []


def test_hooks_are_as_pre_commit_wants_them():
    tool = shutil.which("pre-commit")
    if tool is None:
        pytest.skip("needs pre-commit: pip install 'mucc[dev]'")
    subprocess.run([tool, "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")], check=True)


# Pygments


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_pygments_splits_programs_as_the_compiler_does(path: Path):
    pygments = pytest.importorskip("pygments.token")
    from mucc.editor.highlight import McuLexer

    kinds = {
        "int": pygments.Number,
        "float": pygments.Number,
        "shape": pygments.Number,
        "name": pygments.Name,
    }
    text = path.read_text(encoding="utf-8")
    found = {(start, value): kind for start, kind, value in McuLexer().get_tokens_unprocessed(text)}
    assert pygments.Text not in found.values()
    for token in tokens(path):
        kind = found[token.start, token.text]
        if token.text in KEYWORDS:
            assert kind in pygments.Keyword or kind in pygments.Operator.Word or token.text == "where"
        elif token.kind == "name":
            assert kind in pygments.Name or kind in pygments.Keyword, token
        elif token.kind in kinds:
            assert kind in kinds[token.kind], token


def test_pygments_knows_files_by_their_names():
    lexers = pytest.importorskip("pygments.lexers")
    from importlib.metadata import entry_points

    if not any(e.value.startswith("mucc.") for e in entry_points(group="pygments.lexers")):
        pytest.skip("the installation of mucc is older than its lexer")
    assert lexers.get_lexer_for_filename("kernel.mcu").name == "mucc"


# tree-sitter


@cache
def tree_sitter() -> Grammar:
    command = ["node", "test/lib/tree_sitter_dsl.js", "editors/tree-sitter-mcu/grammar.js"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Grammar(json.loads(done.stdout), KEYWORDS)


@NODE
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_tree_sitter_grammar_derives_programs(path: Path):
    texts = [token.text for token in tokens(path)]
    good = not any(d.severity == "error" for d in parse(Source("", path.read_text()))[1].diagnostics)
    assert (tree_sitter().stops_at("source_file", texts) is None) == good


@NODE
@pytest.mark.parametrize(
    "text",
    [
        "kernel k(x: f32[4]) -> f32[4] { y = x }",
        "kernel k(x f32[4]) -> f32[4] { return x }",
        "schedule k for sm_90a { tile 128x64 }",
        "kernel for(x: f32[4]) -> f32[4] { return x }",
        "fn f(x) { return }",
    ],
)
def test_the_tree_sitter_grammar_rejects_what_is_no_program(text: str):
    source = Source("", text)
    assert parse(source)[1].has_errors
    found = [t.text for t in lex(source, DiagnosticSink(source))[0] if t.kind != "eof"]
    assert tree_sitter().stops_at("source_file", found) is not None


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tree-sitter") is None, reason="the tree-sitter CLI is not installed")
def test_tree_sitter_generates_a_parser(tmp_path: Path):
    folder = tmp_path / "grammar"
    shutil.copytree(ROOT / "editors" / "tree-sitter-mcu", folder)
    subprocess.run(["tree-sitter", "generate"], cwd=folder, check=True)
    subprocess.run(["tree-sitter", "test"], cwd=folder, check=True)
    subprocess.run(["tree-sitter", "parse", "-q", *map(str, EXAMPLES)], cwd=folder, check=True)


# VS Code


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_extension_is_built_and_its_grammar_names_tokens(tmp_path: Path):
    folder = tmp_path / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "*.vsix"))
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    if (done := subprocess.run(install, cwd=folder, capture_output=True, text=True)).returncode:
        pytest.skip(f"npm cannot install: {done.stderr[-200:]}")
    subprocess.run(["npm", "run", "package"], cwd=folder, check=True, capture_output=True)
    with zipfile.ZipFile(folder / "mucc.vsix") as archive:
        names = set(archive.namelist())
    assert {"extension/dist/extension.js", "extension/syntaxes/mcu.tmLanguage.json"} <= names
    command = ["node", "test/tokens.js", *map(str, EXAMPLES)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    scopes = json.loads(done.stdout)
    for path in EXAMPLES:
        compare(path, scopes[str(path)])


SCOPES = {
    "int": ("constant.numeric",),
    "float": ("constant.numeric",),
    "shape": ("constant.numeric",),
    "name": ("entity.", "support.", "variable.", "storage.", "constant.language"),
}


def compare(path: Path, lines: list[list[tuple[int, int, str]]]) -> None:
    """Compare the scopes of a file with the compiler's tokens."""
    source = Source(path.name, path.read_text(encoding="utf-8"))
    for token in tokens(path):
        line, column = source.line_col(token.start)
        here = next(scope for start, end, scope in lines[line - 1] if start <= column - 1 < end)
        if token.text in KEYWORDS:
            assert here.startswith(("storage.", "keyword.", "constant.language", "support.")), (token, here)
        elif token.kind in SCOPES:
            assert here.startswith(SCOPES[token.kind]), (token, here)
