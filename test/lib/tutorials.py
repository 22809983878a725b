"""Tutorials as programs: the code blocks of a page are run in order in a copy of the checkout.

A block is one of three things, by the word behind its fence:

* `diff`: `--- PATH`, then what changes, with lines around it that stand in the file exactly once; `@@`
  parts two places of one file.
* `console`: `$ COMMAND` and what it prints. A line `...` stands for any lines, `...` within a line for any
  text.
* any other word but `text`: a file, whose path is in a comment on the block's first line.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

COPIED = ("mucc", "test/conftest.py", "test/lib", "test/unit", "lit.cfg.py", "pyproject.toml", "examples")
"""What a tutorial's checkout has of this one."""

SECONDS = 300
"""Guards against a command that hangs."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"^(?:#|//) ([\w./-]+\.\w+)\n\n?")


class Block(NamedTuple):
    """A code block of a page, with the number of its first line there."""

    word: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The code blocks of a page in order."""
    for found in _FENCE.finditer(page):
        yield Block(found[1], found[2], page.count("\n", 0, found.start(2)) + 1)


class Checkout:
    """A copy of what tutorials change, in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name in COPIED:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place)
            else:
                shutil.copy2(ROOT / name, place)

    def follow(self, page: str) -> None:
        """Do what every block of a page says. Raises AssertionError at the first that does not work."""
        for block in blocks(page):
            try:
                self._follow(block)
            except AssertionError as error:
                raise AssertionError(f"line {block.line} ({block.word}): {error}") from None

    def _follow(self, block: Block) -> None:
        match block.word:
            case "text":
                pass
            case "diff":
                self._edit(block.text)
            case "console":
                for command, printed in _commands(block.text):
                    self._run(command, printed)
            case _:
                found = _PATH.match(block.text)
                assert found, "the first line names no file"
                place = self.folder / found[1]
                assert not place.exists(), f"{found[1]} exists already"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(block.text[found.end() :], encoding="utf-8")

    def _edit(self, diff: str) -> None:
        head, _, rest = diff.partition("\n")
        assert head.startswith("--- "), "the first line is not `--- PATH`"
        place = self.folder / head.removeprefix("--- ")
        text = place.read_text(encoding="utf-8")
        for hunk in re.split(r"^@@\n", rest, flags=re.MULTILINE):
            lines = [line or " " for line in hunk.splitlines()]
            assert all(line[0] in " +-" for line in lines), "a line begins with none of blank, + and -"
            old, new = (
                "".join(f"{line[1:]}\n" for line in lines if line[0] in kept) for kept in (" -", " +")
            )
            assert old != new, "nothing changes"
            count = f"\n{text}".count(f"\n{old}")
            assert old and count == 1, f"{head[4:]} has {count} places that read\n{old}"
            text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
        place.write_text(text, encoding="utf-8")

    def _run(self, command: str, printed: str) -> None:
        scripts = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
            "MUCC_CACHE_DIR": str(self.folder / "build" / "cache"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert matches(printed, done.stdout), f"`{command}` printed\n{done.stdout}instead of\n{printed}"


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console with what it prints."""
    first, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not first, "a console begins with `$ `"
    for part in parts:
        command, _, printed = part.partition("\n")
        yield command, printed


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what a page says."""
    lines = (
        r"(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n"
        for line in expected.splitlines()
    )
    return re.fullmatch("".join(lines), printed) is not None
