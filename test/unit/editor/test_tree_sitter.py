"""The generated parser of tree-sitter and its highlights, on every program of the repository."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.frontend import parse
from mucc.frontend.lexer import KEYWORDS, lex

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "editors" / "tree-sitter-mcu"
PROGRAMS = sorted(
    path
    for name in ("examples", "test/data", "test/gpu", "test/diagnostics")
    for path in (ROOT / name).rglob("*.mcu")
)


def test_the_parser_is_that_of_the_grammar():
    with (FOLDER / "src" / "parser.c").open() as file:
        first = file.readline()
    digest = hashlib.sha256((FOLDER / "grammar.js").read_bytes()).hexdigest()
    assert digest in first, "run `tree-sitter generate --abi 14`, and put the digest into the first line"


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Any:
    tree_sitter: Any = pytest.importorskip("tree_sitter", reason="needs tree-sitter: pip install 'mucc[dev]'")
    library = tmp_path_factory.mktemp("tree-sitter") / "mcu.so"
    command = ["gcc", "-shared", "-fPIC", "-O0", str(FOLDER / "src" / "parser.c"), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "tree_sitter/parser.h" in done.stderr:
        pytest.skip("needs the header of tree-sitter: apt-get install libtree-sitter-dev")
    assert done.returncode == 0, done.stderr
    made = ctypes.CDLL(str(library)).tree_sitter_mcu
    made.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return tree_sitter.Language(capsule(made(), b"tree_sitter.Language", None))


def test_programs_are_parsed_as_by_the_compiler(language: Any):
    """Programs have no errors, and texts in which the compiler expects another token (MU0001) have some.

    Other errors of the compiler's parser, such as a number that is too large, are no matter of grammar.
    """
    parser = sys.modules["tree_sitter"].Parser(language)
    assert len(PROGRAMS) > 200
    bad = 0
    for path in PROGRAMS:
        data = path.read_bytes()
        sink = parse(Source("", data.decode()))[1]
        unexpected = any(d.code == "MU0001" for d in sink.diagnostics)
        found = parser.parse(data).root_node.has_error
        assert found or not unexpected, path.name
        assert sink.has_errors or not found, path.name
        bad += found
    assert bad > 5


def test_highlights_name_what_the_compiler_reads(language: Any):
    """Keywords are keywords, numbers numbers, comments comments, and every name has a colour."""
    tree_sitter: Any = sys.modules["tree_sitter"]
    query = tree_sitter.Query(language, (FOLDER / "queries" / "highlights.scm").read_text())
    parser = tree_sitter.Parser(language)
    seen: set[str] = set()
    for path in sorted((ROOT / "examples").glob("*.mcu")):
        data = path.read_bytes()
        names: dict[int, set[str]] = {}
        for name, nodes in tree_sitter.QueryCursor(query).captures(parser.parse(data).root_node).items():
            seen.add(name)
            for node in nodes:
                names.setdefault(node.start_byte, set()).add(name)
        source = Source(path.name, data.decode())
        for token in lex(source, DiagnosticSink(source))[0]:
            if token.kind == "eof":
                continue
            start = len(source.text[: token.span.start].encode())
            found = names.get(start, set())
            assert found, f"{path.name}: '{token.text}' has no colour"
            if token.text in KEYWORDS and token.text != "none":
                assert found & {"keyword", "type.qualifier", "constant.builtin", "property"}, (
                    path,
                    token.text,
                )
            if token.kind in ("int", "float", "shape"):
                assert found & {"number"}, (path.name, token.text, found)
    assert seen >= {
        "comment",
        "keyword",
        "function",
        "function.builtin",
        "type.builtin",
        "number",
        "operator",
    }
