"""What audits ask of imports of their problems, in children of a zygote."""

from __future__ import annotations

from mucc.agent.audit.bound import lowest
from mucc.agent.audit.observations import Bound
from mucc.agent.isolation.call import Call
from mucc.agent.isolation.zygote import Zygote
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import Answer, Request

SECONDS = 180.0
"""That an import may take."""


def imported(zygote: Zygote, request: Request) -> Answer:
    """Send a request, and return its answer. Raises DiagnosticError."""
    return Answer.from_json(_call(zygote, "import_problem", request).result())


class SolCall:
    """The speed of light of a problem on a card, found beside the audit."""

    def __init__(self, zygote: Zygote, request: Request, card: str):
        self._call = _call(zygote, "bound_problem", request, card=card)

    def bound(self, precision: str) -> tuple[Bound | None, str]:
        """Return the bound, or the reason why there is none."""
        try:
            return lowest(self._call.result(), precision), ""
        except DiagnosticError as error:
            return None, error.diagnostics[0].message

    def close(self) -> None:
        """End it."""
        self._call.close()


def _call(zygote: Zygote, function: str, request: Request, **more: str) -> Call:
    return Call(
        zygote,
        f"mucc.agent.importing.child:{function}",
        request.shown,
        seconds=SECONDS,
        memory=request.memory,
        request=request.to_json(),
        **more,
    )
