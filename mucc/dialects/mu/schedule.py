"""`mu.schedule`: the schedule settings that a user pinned."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu.settings import SETTINGS
from mucc.dialects.mu.syntax import FormattedOp


@irdl_op_definition
class ScheduleOp(FormattedOp):
    """Settings that the user pinned for a kernel, or for one of its stages, on one target."""

    name = "mu.schedule"

    kernel = prop_def(StringAttr)
    stage = opt_prop_def(StringAttr)
    target = prop_def(StringAttr)
    settings = prop_def(DictionaryAttr)

    FORMAT: ClassVar[str] = "$kernel (`stage` $stage^)? `for` $target $settings attr-dict"

    def __init__(self, kernel: str, stage: str | None, target: str, settings: dict[str, Attribute]):
        super().__init__(
            properties={
                "kernel": StringAttr(kernel),
                "stage": StringAttr(stage) if stage else None,
                "target": StringAttr(target),
                "settings": DictionaryAttr(settings),
            }
        )

    def verify_(self) -> None:
        for name, value in self.settings.data.items():
            if name not in SETTINGS:
                raise VerifyException(f"unknown schedule setting '{name}'")
            if not isinstance(value, attribute := SETTINGS[name].attribute):
                raise VerifyException(f"schedule setting '{name}' is no {attribute.name}")
