"""The registry of every diagnostic code.

Each area keeps its codes next to it in the numbering: MU0 syntax, and of MU1 what a file holds
(`codes_program`); MU1 names, types and shapes (`codes_frontend`); MU2 fusion and stages, MU3 schedules, MU4
targets (`codes_passes`; of kernels with rules of their own `codes_families`); MU50 command line and files
(`codes_command`), MU51 and MU52 toolchain (`codes_toolchain`), MU53 tuning (`codes_tuning`), MU54 bounds
(`codes_sol`), MU55 clusters (`codes_cluster`); MU6 calls of kernel libraries (`codes_calls`), and from MU603
run time (`codes_runtime`, and of several schedules `codes_sizes`); MU70 importing PyTorch modules
(`codes_import`); MU71 auditing solutions (`codes_audit`), MU72 runs of the agent (`codes_agent`, and of
models `codes_models`); MU9 defects of mucc (`codes_toolchain`).

A command loads this module where an error decides its exit status, and `mucc explain` and `mucc docs` for
the texts; a command that ends well does not.
"""

from __future__ import annotations

from mucc.diagnostics import (
    codes_agent,
    codes_audit,
    codes_calls,
    codes_cluster,
    codes_command,
    codes_families,
    codes_frontend,
    codes_import,
    codes_models,
    codes_passes,
    codes_program,
    codes_runtime,
    codes_sizes,
    codes_sol,
    codes_toolchain,
    codes_tuning,
)
from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus


def _merged() -> dict[str, CodeInfo]:
    codes: dict[str, CodeInfo] = {}
    areas = (
        codes_program,
        codes_frontend,
        codes_passes,
        codes_families,
        codes_command,
        codes_toolchain,
        codes_tuning,
        codes_sol,
        codes_cluster,
        codes_calls,
        codes_runtime,
        codes_sizes,
        codes_import,
        codes_audit,
        codes_agent,
        codes_models,
    )
    for area in areas:
        for code, info in area.CODES.items():
            if code in codes:
                raise ValueError(f"diagnostic code {code} is registered twice")
            codes[code] = info._replace(explanation=info.explanation.strip() + "\n")
    return dict(sorted(codes.items()))


CODES: dict[str, CodeInfo] = _merged()
"""Every code, in order."""


def exit_status(code: str) -> ExitStatus:
    """Return the exit status for an error of a code; unknown codes count as defects."""
    info = CODES.get(code)
    return ExitStatus.INTERNAL if info is None else info.status
