"""Jobs of builds as tasks of a cluster: each with its core and its memory, on any machine with equal tools.

A task is the same wherever and however often it runs, so a machine that is lost costs the tasks that it had.
Jobs that the cluster cannot run, when its object store is full or after several losses, run on this machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from mucc.build import jobs
from mucc.build.cluster.connection import VARIABLE, Cluster, connect, imported
from mucc.build.cluster.objects import Objects, contents
from mucc.build.cluster.versions import Versions, with_compilers
from mucc.build.jobs import AWAKE, PEAK_BYTES, Cancelled, Job, Result
from mucc.diagnostics.core import Diagnostic, DiagnosticError

LOSSES = 3
"""How often a task is given to the cluster again before this machine runs it."""


class Answer(NamedTuple):
    """What a task comes to: a result, diagnostics of a job that could not run, or a machine that differs."""

    kind: Literal["result", "error", "unfit"]
    result: Result | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    node: str = ""
    name: str = ""
    differences: tuple[str, ...] = ()


def run_there(job: Job, inputs: dict[str, Any], here: Versions, words: Mapping[str, str]) -> Answer:
    """Run a job on the machine of a task, with the tools that are there.

    `inputs` are files as `Objects.put` gives them, `words` the values of placeholders that are no paths.
    """
    from mucc.build.toolchain.discover import find_toolchain

    if different := with_compilers().differences(here):
        node, name = this_node()
        return Answer("unfit", node=node, name=name, differences=tuple(different))
    files = {name: contents(imported(), given) for name, given in inputs.items()}
    try:
        tools = {**words, **find_toolchain().tools()}
        whole = Job(job.program, job.stage, job.kind, job.command, files, job.outputs, job.timeout)
        return Answer("result", jobs.run(whole, tools))
    except DiagnosticError as error:
        return Answer("error", diagnostics=tuple(error.diagnostics))


def this_node() -> tuple[str, str]:
    """Return Ray's number of the machine that this runs on, and its address."""
    ray = imported()
    return str(ray.get_runtime_context().get_node_id()), str(ray.util.get_node_ip_address())


class RayRunner:
    """Runs jobs on a cluster, for `Pool(runner=…)`."""

    remote = True

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.cores = cluster.cores
        self.memory_bytes = cluster.memory_bytes
        self.objects = Objects(cluster.ray)
        self._task = cluster.ray.remote(run_there)

    def __call__(
        self,
        job: Job,
        tools: Mapping[str, str],
        *,
        keep: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> Result:
        if keep is not None:  # its files stay on this machine
            return jobs.run(job, tools, keep=keep, cancelled=cancelled)
        errors = self.cluster.ray.exceptions
        losses = 0
        while losses < LOSSES:
            try:
                answer = self._wait(job, self._submit(job, tools), cancelled)
            except (errors.ObjectStoreFullError, errors.OutOfDiskError):
                self.objects.drop()
                break
            except (errors.RayError, errors.RayTaskError) as error:
                if (
                    isinstance(error, errors.TaskCancelledError)
                    and cancelled is not None
                    and cancelled.is_set()
                ):
                    raise Cancelled(f"{job.place}: called off") from None
                losses += 1
                continue
            match answer.kind:
                case "unfit":
                    self.cluster.refuse(answer.node, answer.name, answer.differences)
                case "error":
                    raise DiagnosticError(answer.diagnostics)
                case "result":
                    assert answer.result is not None
                    return answer.result
        return jobs.run(job, tools, cancelled=cancelled)

    def _submit(self, job: Job, tools: Mapping[str, str]) -> Any:
        """Start a task for a job; files go by reference."""
        bare = Job(job.program, job.stage, job.kind, job.command, {}, job.outputs, job.timeout)
        inputs = {name: self.objects.put(data) for name, data in job.inputs.items()}
        memory = min(PEAK_BYTES[job.kind], self.cluster.largest_bytes)
        task = self._task.options(num_cpus=1, memory=memory, max_retries=LOSSES, **self.cluster.placement())
        words = {name: value for name, value in tools.items() if not os.path.isabs(value)}
        return task.remote(bare, inputs, self.cluster.mine, words)

    def _wait(self, job: Job, reference: Any, cancelled: threading.Event | None) -> Answer:
        """Wait for a task in short steps; one that is called off is cancelled."""
        ray = self.cluster.ray
        while True:
            ready, _ = ray.wait([reference], timeout=AWAKE)
            if ready:
                return ray.get(reference)
            if cancelled is not None and cancelled.is_set():
                ray.cancel(reference)
                raise Cancelled(f"{job.place}: called off")


_runners: dict[str, RayRunner] = {}
_lock = threading.Lock()


def runner_for(address: str, nvcc: str | None = None) -> RayRunner:
    """Return the runner for a cluster, one for each address. Raises as `connect` and `Cluster.probe` do."""
    cluster = connect(address, nvcc)
    with _lock:
        if (found := _runners.get(address)) is None or found.cluster is not cluster:
            cluster.probe()
            found = _runners[address] = RayRunner(cluster)
        return found


def ambient_runner() -> RayRunner | None:
    """Return the runner for the cluster that MUCC_RAY names; None without one."""
    return runner_for(address) if (address := os.environ.get(VARIABLE)) else None
