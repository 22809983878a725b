"""The child process of `mucc import`: reads a request, runs the problem file, writes the answer.

The problem file is untrusted code: it may print, raise, hang, end the process, or allocate without end.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.limits import limit_process
from mucc.torch.importer.request import (
    Answer,
    Check,
    InputStructure,
    KernelProgram,
    OperationRow,
    Request,
    Result,
    error_to_json,
    parse_problem,
)

TORCH = (
    "torch",
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch.export._trace",
    "torch.utils.flop_counter",
)
"""Modules of torch to load before the problem file, which torch would load at first use."""


def main() -> None:
    """Answer the request in the first file of the command line; write the answer to the second."""
    with open(sys.argv[1], encoding="utf-8") as file:
        request = Request.from_json(json.load(file))
    started = time.monotonic()
    gc.disable()  # importing makes hardly any garbage, and collections took a fifth of its time (decision 73)
    for name in TORCH:
        import_module(name)
    gc.freeze()
    gc.enable()
    torch_seconds = time.monotonic() - started
    limit_process(request.memory)

    def work() -> Any:
        answer = serve(request)
        answer.seconds["torch"] = torch_seconds
        return answer.to_json()

    result = answered(request.shown, work)
    temporary = f"{sys.argv[2]}.part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(temporary, sys.argv[2])
    sys.stdout.flush()
    os._exit(0)  # whatever threads the problem file has left


def answered(shown: str, work: Callable[[], Any]) -> Result:
    """Run work on a problem file, and convert its answer or its errors to JSON."""
    try:
        return {"answer": work()}
    except DiagnosticError as error:
        return {"errors": error_to_json(error)}
    except MemoryError:
        from mucc.torch.importer.problem import raised

        error = raised(shown, "the import", MemoryError())
        assert isinstance(error, DiagnosticError)
        return {"errors": error_to_json(error)}
    except Exception as error:
        from mucc.diagnostics.internal import internal_error

        internal = internal_error(error, verbose=False, program=shown)
        return {"errors": error_to_json(DiagnosticError(internal))}


def serve(request: Request) -> Answer:
    """Import a problem file. Raises DiagnosticError."""
    from mucc.torch.importer.problem import load_problem, load_shapes, shapes_of
    from mucc.torch.importer.sizes import smaller

    answer = Answer()
    tree = parse_problem(request.shown, request.text)
    if request.scale_down:
        tree = smaller(request, tree, steady=request.verify)
    mark, cpu = time.monotonic(), time.process_time()
    problem = (load_problem if request.tracing is None else load_shapes)(request, tree)
    answer.inputs = shapes_of(problem.inputs)
    answer.seconds["problem"] = time.monotonic() - mark
    if request.tracing is not None:
        answer.kernels = _traced(request, problem)
        return answer
    program = _program(request, problem, answer)
    answer.text = program.text(_comment(request))
    answer.driver = program.driver(_origin(request))
    answer.inner = program.inner()
    if request.structure:
        from mucc.torch.importer.inputs import structures

        found = structures(request, tree, program.graph.captured)
        answer.structure = {name: InputStructure(s.pattern.value, s.constant) for name, s in found.items()}
    for row in program.rows():
        units = None if row.count is None else row.units
        answer.rows.append(
            OperationRow(
                *(row.name, row.operation, row.kernel, row.reason),
                *(row.work.operations, row.work.bytes, units, row.moved),
            )
        )
    answer.seconds |= {"total": time.monotonic() - mark, "cpu": time.process_time() - cpu}
    if request.verify:
        _verify(request, tree, program, answer)
    return answer


def _traced(request: Request, problem: Any) -> list[KernelProgram]:
    """Trace the compilation of a problem. Raises MU7012 for what the module raises."""
    from mucc.torch.backend.ahead import traced
    from mucc.torch.importer.problem import guarded

    assert request.tracing is not None
    tracing = request.tracing
    what = "torch.compile of the module"
    return guarded(request.shown, what, lambda: traced(problem.module, problem.inputs, tracing))


def _comment(request: Request) -> str:
    return f"{os.path.basename(request.path)}, imported from PyTorch by `mucc import`."


def _origin(request: Request) -> Any:
    from mucc.torch.importer.driver import Origin

    folder = os.path.dirname(os.path.abspath(request.driver)) or "."
    return Origin(
        os.path.relpath(os.path.abspath(request.path), folder),
        os.path.relpath(os.path.abspath(request.kernels), folder),
        f"mucc import {os.path.basename(request.path)}",
    )


def _program(request: Request, problem: Any, answer: Answer | None = None) -> Any:
    from mucc.torch.importer.capture import arguments_of, capture
    from mucc.torch.importer.dynamic import dynamic_of, import_dynamic, parse_dynamic
    from mucc.torch.importer.judge import compiles
    from mucc.torch.importer.program import formats, import_graph

    mark = time.monotonic()
    judge = None if request.whole else compiles(request.target)
    how = formats(request.compute, request.round)
    if request.dynamic:
        given = arguments_of(problem.module, problem.inputs)
        dynamic = dynamic_of(parse_dynamic(request.dynamic), given)
        captured_at = mark
        program = import_dynamic(problem.module, given, request.name, how, judge, dynamic)
        if answer is not None:
            answer.notes = dynamic.notes
    else:
        captured = capture(problem.module, problem.inputs)
        captured_at = time.monotonic()
        target = None if request.whole else request.target
        program = import_graph(captured, request.name, how, judge, target=target)
    if answer is not None:
        answer.seconds |= {"capture": captured_at - mark, "lower": time.monotonic() - captured_at}
    return program


def _verify(request: Request, tree: ast.Module, program: Any, answer: Answer) -> None:
    """Compare the program with PyTorch on fresh inputs, at smaller sizes where it is too large for a CPU."""
    from mucc.torch.importer.capture import failure
    from mucc.torch.importer.problem import guarded, load_problem, shapes_of
    from mucc.torch.importer.sizes import is_large, smaller
    from mucc.torch.importer.verify import compare

    mark = time.monotonic()
    if is_large(sum(r.operations for r in answer.rows), sum(r.bytes for r in answer.rows)):
        found = smaller(request, tree, steady=True)
        if ast.dump(found) == ast.dump(tree):
            raise failure(
                "MU7041",
                f"{request.shown} is too large to be verified on a CPU, and runs at no smaller size",
                "give the sizes names at the top level of the file: `batch_size = 64`",
            )
        tree = found
        program = _program(request, load_problem(request, tree))
    real = load_problem(request, tree, fake=False, seed=request.seed)

    def call(module: Any, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        return guarded(request.shown, "the module, as PyTorch runs it,", lambda: module(*inputs, **keywords))

    driver = program.driver(_origin(request))
    found = compare(program, driver, real.module, real.inputs, request.seed, call)
    answer.checks = [Check(d.name, d.largest, d.excess, d.noise) for d in found]
    answer.checked = shapes_of(real.inputs)
    answer.seconds["verify"] = time.monotonic() - mark


if __name__ == "__main__":
    main()
