"""What a solution may be: a Python file with `ModelNew`, a library, or a program of mucc."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass

from mucc.agent.isolation.zygote import Zygote
from mucc.api import files


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
