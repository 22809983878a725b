"""Types of the JSON that commands print and libraries carry, and conversion from and to JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.analysis.sol_json import BoundJson, LimitJson, SolReport, StageBoundJson
    from mucc.compiler.schedule_json import EstimateJson, ExplanationJson
    from mucc.diagnostics.json_form import CheckJson, CodeJson, DiagnosticJson
    from mucc.files.json_data import Json, from_json, to_json
    from mucc.library.manifest_json import KernelJson, ManifestJson, StageJson

__all__ = [
    "BoundJson",
    "CheckJson",
    "CodeJson",
    "DiagnosticJson",
    "EstimateJson",
    "ExplanationJson",
    "Json",
    "KernelJson",
    "LimitJson",
    "ManifestJson",
    "SolReport",
    "StageBoundJson",
    "StageJson",
    "from_json",
    "to_json",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.analysis.sol_json": ("BoundJson", "LimitJson", "SolReport", "StageBoundJson"),
        "mucc.compiler.schedule_json": ("EstimateJson", "ExplanationJson"),
        "mucc.diagnostics.json_form": ("CheckJson", "CodeJson", "DiagnosticJson"),
        "mucc.files.json_data": ("Json", "from_json", "to_json"),
        "mucc.library.manifest_json": ("KernelJson", "ManifestJson", "StageJson"),
    },
)
