"""What a solution's source does with frames: only reads where they are, or follows them to their callers."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from types import CodeType, FrameType

ATTRIBUTES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")
"""Attributes of tracebacks and generators that are frames, which lead to the frames of their callers."""

FUNCTIONS = ("_getframe", "currentframe")
"""Functions that return a frame of the stack."""

FACTS = ("f_code", "f_lineno", "f_lasti", "f_globals")
"""Attributes of a frame of the solution's own code that lead to nothing but that code."""

STACKS = ("stack", "format_stack", "extract_stack", "print_stack")
"""Functions of `inspect` and `traceback` that tell the stack of who calls them, as text where nothing follows
the frames that are in it."""

HANDED = ("walk_tb", "getinnerframes", "trace")
"""Functions of `inspect` and `traceback` that return the frames of a traceback."""

FOLLOWS = frozenset(
    [
        *("f_back", "getouterframes", "walk_stack", "attrgetter", "methodcaller", "__getattribute__"),
        *("eval", "exec", "getmembers", "pythonapi", "FunctionType", "CodeType"),
        *("__import__", "import_module", "importlib", "runpy", "imp", "pkgutil"),
    ]
)
"""Names by which source can follow a frame to its caller, or load code that can."""

OBJECTS = frozenset(["frame", "f_locals", "f_globals", "f_builtins"])
"""Names by which source gets objects of frames that it did not follow: those of a whole stack."""

SHOWN = "reads the names of its callers"
"""What is said where text of the stack was made: it tells calls apart, and leads to no object."""

RESUMED = 0x20 | 0x80 | 0x200
"""Flags of code whose frames may run again: generators, coroutines, and generators of these."""

MENTIONS = re.compile("|".join([*ATTRIBUTES, *FUNCTIONS, *STACKS, *HANDED]))

Site = tuple[CodeType, int]


class Frames:
    """The places in the source of a solution, and of files beside it, where frames are read.

    They are found before the solution runs, in the source alone: code objects compare by what they do, so
    that code which is made later and says that it comes from the file is none of them.
    """

    def __init__(self, path: str):
        self._harmless: dict[Site, int] = {}
        """Instructions that read a frame of which only facts are read, and how many callers up it is."""
        self._known: dict[Site, int] = {}
        """All instructions that read a frame so many callers up."""
        self._follows = False
        """Whether anything in the source can follow a frame."""
        self._takes = False
        """Whether anything in it can take objects from the frames of a stack."""
        sources = _loaded(path, dict(_sources(path)))
        if any(MENTIONS.search(text) for _, text in sources):
            for file, text in sources:
                self._read(file, text)

    def _read(self, file: str, text: str) -> None:
        try:
            tree, code = ast.parse(text), compile(text, file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._follows = True
            return
        self._follows = self._follows or _mentions(tree, FOLLOWS) or _computes_names(tree)
        self._takes = self._takes or _mentions(tree, OBJECTS)
        known, harmless = _places(tree)
        for one in _nested(code):
            for n, place in enumerate(one.co_positions()):
                if place in known:
                    self._known[one, 2 * n] = known[place]
                if place in harmless:
                    self._harmless[one, 2 * n] = known[place]

    def depth(self, frame: FrameType) -> int | None:
        """Return how many callers up the frame is that the current instruction of a frame reads, where the
        source only reads facts of it; None where it may do more."""
        site = frame.f_code, frame.f_lasti
        return self._harmless.get(site) if self._follows else self._known.get(site)

    @property
    def follows(self) -> bool:
        """Whether anything in the source can follow a frame to others."""
        return self._follows

    @property
    def takes(self) -> bool:
        """Whether anything in the source can take objects from the frames of a stack, or follow these."""
        return self._follows or self._takes


def has_ended(frame: FrameType | None) -> bool:
    """Whether a frame leads to no callers any more, and never will."""
    return frame is None or (frame.f_back is None and not frame.f_code.co_flags & RESUMED)


def _sources(path: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of the solution's file, and of all Python files and packages beside it."""
    yield from _texts([path])
    folder = os.path.dirname(path) or "."
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            beside = os.path.join(folder, name)
            if name.endswith(".py") and beside != path:
                yield from _texts([beside])
            elif os.path.exists(os.path.join(beside, "__init__.py")):
                for inside, _, names in os.walk(beside):
                    yield from _texts(os.path.join(inside, n) for n in sorted(names) if n.endswith(".py"))


def _loaded(path: str, texts: dict[str, str]) -> list[tuple[str, str]]:
    """Return the files, with their texts, whose names the solution's file mentions, or one that is mentioned:
    others are not loaded by it, unless it loads by names that it computes."""
    found: dict[str, str] = {}
    left = [path]
    while left:
        file = left.pop()
        if file in texts and file not in found:
            words = set(re.findall(r"\w+", texts[file]))
            found[file] = texts[file]
            left += [other for other in texts if not words.isdisjoint(_names_of(path, other))]
    return list(found.items())


def _names_of(path: str, file: str) -> list[str]:
    """Return the name of the module or package beside the solution that a file is, or is part of."""
    return [os.path.relpath(file, os.path.dirname(path)).split(os.sep)[0].removesuffix(".py")]


def _texts(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    for file in files:
        with suppress(OSError, ValueError), open(file, encoding="utf-8") as held:
            yield file, held.read()


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


Place = tuple[int | None, int | None, int | None, int | None]


def _places(tree: ast.Module) -> tuple[dict[Place, int], set[Place]]:
    """Return where source reads frames, with how many callers up these are, and where it reads facts of them
    only."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    known: dict[Place, int] = {}
    harmless: set[Place] = set()
    for node in ast.walk(tree):
        if (depth := _depth(node)) is None or not isinstance(node, ast.expr):
            continue
        place = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
        known[place] = depth
        if _is_fact(node, parents) or _is_held_for_facts(node, parents):
            harmless.add(place)
    return known, harmless


def _depth(node: ast.AST) -> int | None:
    """Return how many callers up the frame is that an expression reads, None if it reads none or one that
    the source does not tell."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()) if name in ATTRIBUTES:
            return 0
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=[]) if name in FUNCTIONS:
            match node.args:
                case []:
                    return 0
                case [ast.Constant(value=int(depth))]:
                    return depth
                case _:
                    return None
        case _:
            return None


def _is_fact(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether all that is done with a frame is to read a fact of it, or to compare it with None."""
    match parents.get(node):
        case ast.Attribute(attr=name, ctx=ast.Load()):
            return name in FACTS
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case _:
            return False


def _is_held_for_facts(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a frame goes to a local variable of which only facts are read."""
    match parents.get(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    around = parents.get(node)
    while around is not None and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(around, ast.ClassDef | ast.Lambda | ast.Module):
            return False
        around = parents.get(around)
    return around is not None and all(
        _keeps(part, name, parents) for statement in around.body for part in ast.walk(statement)
    )


def _keeps(part: ast.AST, name: str, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a part of a function hands on no frame that a variable of this name holds."""
    match part:
        case ast.Name(id=used, ctx=ast.Load()):
            return used not in ("locals", "vars", "eval", "exec") and (
                used != name or _is_fact(part, parents)
            )
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name not in names
        case _:
            return True


def _mentions(tree: ast.Module, names: Set[str]) -> bool:
    """Whether source uses one of these names, or has a text that holds one with an underscore."""
    return any(_is_mention(node, names) for node in ast.walk(tree))


def _is_mention(node: ast.AST, names: Set[str]) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
        case ast.Constant(value=str(text)):
            return any(name in text for name in names if "_" in name)
        case ast.alias(name=name):
            return name.rpartition(".")[2] in names
        case ast.MatchClass(kwd_attrs=attributes):
            return not names.isdisjoint(attributes)
        case _:
            return False


def _computes_names(tree: ast.Module) -> bool:
    """Whether source reads attributes whose names it does not state."""
    used = stated = 0
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
                stated += 1
            case ast.Name(id="getattr") | ast.Attribute(attr="getattr"):
                used += 1
            case _:
                pass
    return used > stated
