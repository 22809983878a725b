"""Bounds: how fast a card could run programs and PyTorch modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.analysis.bound import DRAM, FP32, Rates
    from mucc.analysis.sol import Sol
    from mucc.analysis.sol_report import as_json, as_text
    from mucc.sol.program import analyse_import, analyse_problem, analyse_source

__all__ = [
    "DRAM",
    "FP32",
    "Rates",
    "Sol",
    "analyse_import",
    "analyse_problem",
    "analyse_source",
    "as_json",
    "as_text",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.analysis.bound": ("DRAM", "FP32", "Rates"),
        "mucc.analysis.sol": ("Sol",),
        "mucc.analysis.sol_report": ("as_json", "as_text"),
        "mucc.sol.program": ("analyse_import", "analyse_problem", "analyse_source"),
    },
)
