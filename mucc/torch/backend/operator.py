"""The torch operators that run a kernel of mucc within Inductor's graphs: `torch.ops.mucc.run_kernel`.

One operator serves all kernels: the program is an argument, as text. A graph that Inductor takes from its
cache in another process holds all that it needs so, and finds the library in mucc's cache. `store_kernel`
is the same for results that exist. Generated code in Python calls a launcher instead (`lowering.py`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from mucc import frontend
from mucc.diagnostics.core import Source
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import Dims, Shaped, dtype_name
from mucc.files.process_lock import ProcessLock
from mucc.library import extents
from mucc.library.errors import MuccError
from mucc.runtime.build import CompileError, MuccWarning, Programs
from mucc.runtime.kernel import Kernel
from mucc.runtime.torch_glue import DTYPES, TorchKernel
from mucc.runtime.views import call_anyhow
from mucc.torch.importer.capture import torch

Tensors = Sequence[Any]
Run = Callable[[Tensors], list[Any]]
"""A function that runs a kernel on contiguous tensors of the parameters' dtypes, and returns new tensors."""


@dataclass(frozen=True)
class Request:
    """What the operator is to run: the text of one kernel, and how.

    `dims` are typical values of open dims, or ranges such as "2..4096", for the choice of schedules. With
    `interpret` the interpreter computes all calls. With `strict`, calls that the kernel refuses raise; else
    the interpreter computes them, with a warning.
    """

    program: str
    target: str
    dims: tuple[tuple[str, int | str], ...] = ()
    interpret: bool = False
    strict: bool = False

    @property
    def text(self) -> str:
        """The request as the operator's argument."""
        return json.dumps(
            [self.program, self.target, dict(self.dims), self.interpret, self.strict], ensure_ascii=False
        )

    @property
    def letters(self) -> str:
        """The same in letters and digits alone: Inductor's C++ has arguments between quotes as they are."""
        return self.text.encode().hex()

    @staticmethod
    def of(text: str) -> Request:
        """Parse either form."""
        if not text.startswith("["):
            text = bytes.fromhex(text).decode()
        program, target, dims, interpret, strict = json.loads(text)
        return Request(program, target, tuple(dims.items()), interpret, strict)


@dataclass(frozen=True)
class Signature:
    """The shapes of a kernel's parameters and results, with named dims, and the results' dtypes in torch."""

    kernel: KernelOp
    parameters: tuple[Dims, ...]
    results: tuple[tuple[Dims, Any], ...]

    @property
    def name(self) -> str:
        return self.kernel.sym_name.data

    def empty(self, tensors: Tensors) -> list[Any]:
        """Allocate results for these arguments, contiguous, on their device. Extents may be symbolic."""
        wanted = extents.names_of(d for dims in self.parameters for d in dims)
        sizes: dict[str, Any] = {}
        for name, source in extents.sources(self.parameters, sorted(wanted)).items():
            sizes[name] = source.at(sizes, tensors[source.array].shape[source.axis])
        return [
            tensors[0].new_empty([extents.polynomial(d).at(sizes) for d in dims], dtype=dtype)
            for dims, dtype in self.results
        ]


@cache
def signature_of(program: str) -> Signature:
    """Parse the text of one kernel. Raises DiagnosticError."""
    parsed, sink = frontend.parse(Source("<torch.compile>", program))
    sink.raise_if_errors()
    module = frontend.lower(parsed, sink)
    sink.raise_if_errors()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    results = [Shaped.of(t) for t in kernel.output_types]
    return Signature(
        kernel,
        tuple(Shaped.of(a.type).dims for a in kernel.body.block.args),
        tuple((r.dims, DTYPES[dtype_name(r.element_type)]) for r in results),
    )


def interpreted(program: str) -> Run:
    """Return a function that runs a kernel by the interpreter, in float64, wherever its tensors are."""
    signature = signature_of(program)

    def run(tensors: Tensors) -> list[Any]:
        found = interpret_kernel(signature.kernel, list(tensors))
        return [
            torch.as_tensor(r).to(tensors[0].device, t).contiguous()
            for r, (_, t) in zip(found, signature.results, strict=True)
        ]

    return run


class Builds:
    """Kernels that are built beside the caller. A context, as `Programs` is."""

    def __init__(self) -> None:
        self._programs = Programs()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._programs.__exit__(*error)

    @property
    def compiles(self) -> bool:
        """Whether a kernel is not in the cache, and is being compiled."""
        return self._programs.compiles

    def begin(self, requests: Iterable[Request]) -> None:
        """Begin to build the kernels that this process does not have yet."""
        for request in requests:
            if not request.interpret and request not in _loaded:
                self._programs.begin(request.program, dict(request.dims), request.target)

    def build(self, requests: Iterable[Request]) -> dict[Request, CompileError]:
        """Build kernels into the cache, and load none; returns those that do not compile.

        Raises what is no error of a program.
        """
        wanted = [r for r in dict.fromkeys(requests) if not r.interpret]
        for request in wanted:
            self._programs.begin(request.program, dict(request.dims), request.target)
        built = ((r, self._programs.built(r.program, dict(r.dims), r.target)) for r in wanted)
        return {request: found for request, found in built if isinstance(found, CompileError)}

    def finish(self, requests: Iterable[Request]) -> dict[Request, CompileError]:
        """Build and load kernels; returns those that do not compile.

        Raises what is no error of a program, such as a missing toolchain that no cached library
        stands in for.
        """
        problems: dict[Request, CompileError] = {}
        missing = [r for r in dict.fromkeys(requests) if r not in _loaded]
        self.begin(missing)
        for request in missing:
            if request.interpret:
                _loaded[request] = interpreted(request.program)
                continue
            module = self._programs.get(request.program, dict(request.dims), request.target)
            if isinstance(module, CompileError):
                problems[request] = module
            else:
                _loaded[request] = _Launched(module.kernels[0])
        return problems


class _Launched:
    """A kernel of a loaded library, with results and a workspace that belong to each call alone."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self._glue = TorchKernel(kernel)

    def __call__(self, tensors: Tensors) -> list[Any]:
        return call_anyhow(self._run, tensors)

    def _run(self, *tensors: Any) -> list[Any]:
        return self._glue.run_apart(tensors)


@cache
def _ready(text: str) -> Run:
    """Return the kernel of a request, built if this process has not yet. Raises CompileError."""
    request = Request.of(text)
    with _lock.held(), Builds() as builds:
        if problems := builds.finish([request]):
            raise problems[request]
    run = _loaded[request]
    if request.strict:
        return run
    return _Lenient(signature_of(request.program).name, run, request.program)


class _Lenient:
    """A kernel whose refused calls the interpreter computes, with one warning."""

    def __init__(self, name: str, run: Run, program: str):
        self.name, self.run, self.program = name, run, program
        self.warned = False

    def __call__(self, tensors: Tensors) -> list[Any]:
        try:
            return self.run(tensors)
        except MuccError as error:
            if not self.warned:
                self.warned = True
                message = f"MU7063: PyTorch computes '{self.name}' for some arguments: {error}"
                warnings.warn(message, MuccWarning, stacklevel=2)
            return interpreted(self.program)(tensors)


def run_request(tensors: Tensors, request: str) -> list[Any]:
    """Run the operator: the kernel of a request on its arguments; returns new tensors."""
    return _ready(request)(tensors)


def adopt(request: Request, kernel: Kernel) -> None:
    """Have a request run a kernel that is loaded."""
    _loaded[request] = _Launched(kernel)
    _ready.cache_clear()


def kernel_of(request: str) -> Kernel | None:
    """Return the kernel of a request, built if this process has not yet; None if it is interpreted.

    Raises CompileError.
    """
    run = _ready(request)
    if isinstance(run, _Lenient):
        run = run.run
    return run.kernel if isinstance(run, _Launched) else None


def store_request(tensors: Tensors, results: Tensors, request: str) -> None:
    """Run the operator that stores: the kernel of a request on its arguments, into given results."""
    for result, value in zip(results, run_request(tensors, request), strict=True):
        result.copy_(value)


def _fake(tensors: Tensors, request: str) -> list[Any]:
    return signature_of(Request.of(request).program).empty(tensors)


def _fake_store(tensors: Tensors, results: Tensors, request: str) -> None:
    pass


def tags() -> tuple[Any, ...]:
    """Return the tags of the operator in this version of torch: arguments are contiguous, as traced."""
    found: Mapping[str, Any] = {
        name: tag
        for name in ("needs_contiguous_strides", "needs_exact_strides", "needs_fixed_stride_order")
        if (tag := getattr(torch.Tag, name, None)) is not None
    }
    return (torch.Tag.pt2_compliant_tag, *list(found.values())[:1])


_loaded: dict[Request, Run] = {}
"""Kernels of this process."""

_lock = ProcessLock()

_LIBRARY = torch.library.Library("mucc", "FRAGMENT")
_LIBRARY.define("run_kernel(Tensor[] tensors, str request) -> Tensor[]", tags=tags())
_LIBRARY.impl("run_kernel", run_request, "CompositeExplicitAutograd")
torch.library.register_fake("mucc::run_kernel", _fake, lib=_LIBRARY)

_LIBRARY.define("store_kernel(Tensor[] tensors, Tensor(a!)[] results, str request) -> ()")
_LIBRARY.impl("store_kernel", store_request, "CompositeExplicitAutograd")
torch.library.register_fake("mucc::store_kernel", _fake_store, lib=_LIBRARY)

RUN_KERNEL: Any = torch.ops.mucc.run_kernel.default
STORE_KERNEL: Any = torch.ops.mucc.store_kernel.default
