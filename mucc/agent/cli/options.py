"""Options that several commands of `mucc-agent` have; see also `mucc.cli.options`."""

from __future__ import annotations

from mucc.agent.audit.options import PRECISIONS
from mucc.api.commands import option, options
from mucc.api.sandbox import Isolation

DECLARED = "declared"

_NARROWEST = f"the narrowest format for f32 products; {DECLARED} is f32"


def precision() -> str:
    """Declare the format in which products of f32 may be computed."""
    return option(DECLARED, choices=PRECISIONS, help=_NARROWEST)


def precision_if_named() -> str | None:
    """Declare the format of products of f32, None if the command line does not say."""
    return option(None, choices=PRECISIONS, help=f"{_NARROWEST} (default: {DECLARED})")


_ISOLATION = "layers that confine processes: all are required, the best that this machine allows, or none"
_MODES = tuple(mode.value for mode in Isolation)


def isolation() -> str:
    """Declare which layers confine the processes that run problem files and candidates."""
    return option(Isolation.BEST.value, choices=_MODES, help=_ISOLATION)


def isolation_if_named() -> str | None:
    """Declare which layers confine processes, None if the command line does not say."""
    return option(None, choices=_MODES, help=f"{_ISOLATION} (default: {Isolation.BEST.value})")


def bound_card() -> str | None:
    """Declare the card with whose speed of light solutions are compared."""
    return options.card("the card whose bound holds (default: the one at hand)")
