"""Build the kernels of a graph while Inductor compiles the graph."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Self

from mucc.build.toolchain.discover import find_toolchain
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.backend.operator import Builds, Request
from mucc.torch.backend.options import Options

log = logging.getLogger("mucc.torch")


class Later:
    """Builds of chosen kernels, which are waited for when Inductor is done. A context, as `Builds` is.

    Inductor needs of a kernel what its text says. Where one cannot be built, the graph has to be compiled
    again.
    """

    def __init__(self) -> None:
        self.builds = Builds()
        self._requests: list[Request] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.builds.__exit__(*error)

    def begin(self, requests: Iterable[Request]) -> None:
        """Begin to build kernels of the graph that are not being built yet."""
        wanted = list(requests)
        self._requests += wanted
        self.builds.begin(wanted)

    def is_good(self) -> bool:
        """Wait for the kernels, and load them; returns whether there are all of them."""
        try:
            return not self.builds.finish(self._requests)
        except Exception as error:  # reported where the graph is compiled again
            log.info("kernels cannot be built: %r", error)
            return False


def may_wait(options: Options) -> bool:
    """Whether kernels can be expected to be built: the tools for it are there."""
    if options.interpret:
        return False
    try:
        find_toolchain()
    except DiagnosticError:
        return False
    return True
