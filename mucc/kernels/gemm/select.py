"""Choose the schedule of a contraction: what the user pinned, the target's choice for the rest."""

from __future__ import annotations

from collections.abc import Mapping

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.settings import Chosen
from mucc.kernels.gemm.description import problem_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.settings import pinned_fields, settings_of
from mucc.kernels.gemm.workload import GemmWorkload
from mucc.kernels.interface import Measured, Query


def workload_of(target: str, gemm: GemmOp, sizes: Mapping[str, int]) -> GemmWorkload:
    """Return the workload of a contraction. `sizes` are typical values of open dims."""
    return GemmWorkload(gemm_target(target), problem_of(gemm, sizes))


def select(
    program: c.ProgramOp,
    gemm: GemmOp,
    settings: Chosen,
    sizes: Mapping[str, int],
    measured: Measured,
) -> None:
    """Set the schedule of a contraction. `settings` are pinned, `sizes` typical values of open dims."""
    workload = workload_of(program.target.data, gemm, sizes)
    query = Query(program.sym_name.data, gemm, settings, workload)
    choice = workload.default({**measured(query), **settings})
    if sizes and not workload.is_legal(choice):
        # Rows of typical sizes do not suit the mainloop that is pinned: choose as if they were aligned.
        problem = workload.problem._replace(wide=problem_of(gemm).wide)
        choice = workload.target.default_schedule(problem, pinned_fields(settings))
    gemm.properties |= {**settings_of(choice), **settings}
