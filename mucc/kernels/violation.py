"""Rules that a schedule breaks, as findings that blame a setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.ir import Attribute

from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.rewriting import Finding


class Violation(NamedTuple):
    """A rule that a schedule breaks: the setting to blame, the fact that decides, a legal value.

    `fix` is source text for the setting, itself legal together with the other settings; `helps` say what else
    can be done.
    """

    code: str
    setting: str
    message: str
    notes: tuple[str, ...] = ()
    fix: str | None = None
    helps: tuple[str, ...] = ()

    def finding(self, program: ProgramOp, op: DeviceKernelOp, settings: Mapping[str, Attribute]) -> Finding:
        """Return the finding that blames a setting of a device kernel; `settings` are all that it has."""
        return Finding(
            code=self.code,
            message=self.message,
            location=op.location,
            kernel=program.sym_name.data,
            stage=op.stage.data,
            setting=self.setting,
            notes=self.notes,
            helps=self.helps,
            fix=self.fix,
            settings=settings,
        )
