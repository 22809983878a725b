"""What a solution may be: a Python file with `ModelNew`, a library, or a program of mucc."""

from __future__ import annotations

import ast
import os
from contextlib import suppress
from dataclasses import dataclass

from mucc.agent.isolation.zygote import Zygote
from mucc.api import files

SOURCES = (".py", ".so", ".mcu", ".cu", ".cuh", ".cpp", ".h", ".hpp")
"""Endings of files that a solution may load from its own folder."""


@dataclass(frozen=True)
class Solution:
    """A Python file that defines `ModelNew`; `tree` is its syntax where somebody wrote it.

    `is_library` is a driver of compiled kernels, which compiles nothing when it is called.
    """

    path: str
    shown: str
    tree: ast.Module | None
    is_library: bool = False


def open_solution(path: str, problem: str, folder: str, zygote: Zygote, device: str) -> Solution:
    """Return the file to load for a solution. Raises MU5010 and MU5011; what `driver_of` raises for
    libraries.
    """
    if path.endswith((".so", ".mcu")):
        from mucc.agent.audit.library import driver_of

        return Solution(driver_of(path, problem, folder, zygote, device), path, None, True)
    text = files.read_source(path).text
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        tree = None  # loading it says what is wrong
    return Solution(os.path.abspath(path), path, tree)


def sources_beside(path: str) -> list[str]:
    """Return the files that a solution may read beside itself: sources and libraries, and packages.

    Links that lead elsewhere are left out: they would show any private file.
    """
    folder = os.path.dirname(path)
    within = os.path.realpath(folder) + os.sep
    found = [path]
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            package = entry.is_dir() and os.path.exists(os.path.join(entry.path, "__init__.py"))
            if entry.is_symlink() and not os.path.realpath(entry.path).startswith(within):
                continue
            if package or (entry.is_file() and entry.name.endswith(SOURCES)):
                found.append(entry.path)
    return found
