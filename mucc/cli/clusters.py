"""`--ray ADDRESS`: connect a command, and the commands that it runs, to a cluster."""

from __future__ import annotations

import os

from mucc.build.cluster.connection import VARIABLE
from mucc.build.cluster.runner import runner_for
from mucc.cli.reporting import Reporter
from mucc.diagnostics.usage import usage_error


def use_cluster(address: str, reporter: Reporter, nvcc: str | None = None) -> None:
    """Have all that builds use a cluster, and warn of machines that do not fit. Raises as `runner_for`."""
    if not address.strip():
        raise usage_error("--ray needs an address", "for example --ray auto, --ray local or --ray head:6379")
    cluster = runner_for(address, nvcc).cluster
    os.environ[VARIABLE] = address
    reporter.add(cluster.warnings)
