"""Build the kernels of a graph while Inductor compiles the graph with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mucc.build.toolchain.discover import find_toolchain
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.backend.operator import Builds, Request
from mucc.torch.backend.options import Options

log = logging.getLogger("mucc.torch")


class PendingBuilds(Builds):
    """Builds of kernels that a graph is compiled with before they are done.

    Inductor needs the text of a kernel only. Where a kernel cannot be built, the graph has to be compiled
    again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._required: list[Request] = []

    def require(self, requests: Iterable[Request]) -> None:
        """Begin to build kernels that the graph calls, if they are not being built yet."""
        wanted = list(requests)
        self._required += wanted
        self.begin(wanted)

    def succeed(self) -> bool:
        """Wait for the required kernels, and load them; returns whether all could be built."""
        try:
            return not self.finish(self._required)
        except Exception as error:  # reported where the graph is compiled again
            log.info("kernels cannot be built: %r", error)
            return False


def can_build(options: Options) -> bool:
    """Whether kernels can be expected to be built: calls are not interpreted, and the tools are there."""
    if options.interpret:
        return False
    try:
        find_toolchain()
    except DiagnosticError:
        return False
    return True
