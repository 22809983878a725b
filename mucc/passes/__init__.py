"""The compiler's passes, one per file; `pipeline` lists them in order. Kinds of kernels have further ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from mucc.dialects.rewriting import Pass

_MODULES = {
    "promise-extents": ("promise_extents", "PromiseExtents"),
    "move-permutes": ("move_permutes", "MovePermutes"),
    "undo-permutes": ("move_permutes", "UndoPermutes"),
    "move-regroups": ("move_regroups", "MoveRegroups"),
    "mu-canonicalize": ("mu_canonicalize", "MuCanonicalize"),
    "associate-products": ("associate_products", "AssociateProducts"),
    "sum-operands": ("sum_operands", "SumOperands"),
    "contract-sums": ("contract_sums", "ContractSums"),
    "narrow-operands": ("narrow_operands", "NarrowOperands"),
    "decompose": ("decompose", "Decompose"),
    "check-lowering": ("check_lowering", "CheckLowering"),
    "scale-products": ("scale_products", "ScaleProducts"),
    "merge-anchors": ("merge_anchors", "MergeAnchors"),
    "store-conditions": ("store_conditions", "StoreConditions"),
    "form-stages": ("form_stages", "FormStages"),
    "convert-to-cutlass": ("convert_to_cutlass", "ConvertToCutlass"),
    "fuse-epilogue": ("fuse_epilogue", "FuseEpilogue"),
    "select-schedule": ("select_schedule", "SelectSchedule"),
    "legalize-tile": ("legalize_tile", "LegalizeTile"),
    "legalize-pipeline": ("legalize_pipeline", "LegalizePipeline"),
    "prepare-operands": ("prepare_operands", "PrepareOperands"),
    "legalize-target": ("legalize_target", "LegalizeTarget"),
    "plan-workspace": ("plan_workspace", "PlanWorkspace"),
}


def _module_pass(cls: type[Pass]) -> type[ModulePass]:
    """Return a pass as xDSL's tools take it: its fields are options on the command line."""
    from xdsl.passes import ModulePass

    made = type(cls.__name__, (cls, ModulePass), {"__doc__": cls.__doc__, "__module__": cls.__module__})
    return dataclass(frozen=True)(made)


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Return a loader of every pass, by the name of the pass on the command line."""

    def loader(module: str, name: str) -> Callable[[], type[ModulePass]]:
        return lambda: _module_pass(getattr(import_module(module), name))

    from mucc.kernels.registry import KINDS

    own = {key: (f"mucc.passes.{module}", name) for key, (module, name) in _MODULES.items()}
    theirs = {key: r.place.split(":") for kind in KINDS.values() for key, r in kind.passes.items()}
    return {key: loader(*where) for key, where in (*own.items(), *theirs.items())}
