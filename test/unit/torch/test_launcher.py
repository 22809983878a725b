"""How code that Inductor generates launches kernels: what a call passes on, and what it falls back to."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

from inductor import backend, calls  # noqa: E402 (it needs torch)

from mucc.library.signature import Arg, KernelInfo  # noqa: E402
from mucc.runtime.kernel import Kernel  # noqa: E402
from mucc.torch.backend import operator  # noqa: E402
from mucc.torch.backend.launcher import Launcher  # noqa: E402
from mucc.torch.backend.operator import Request  # noqa: E402
from mucc.torch.backend.versions import is_known  # noqa: E402

PROGRAM = """kernel f(x: f32[4, 8], y: f32[4, 8]) -> (a: f32[4, 8], b: f32[4, 8]) {
    return x + y, x - y
}
"""


def _info(workspace: bool = False, **dims: int | None) -> KernelInfo:
    tensors = (("x", "input"), ("y", "input"), ("a", "output"), ("b", "output"))
    args = tuple(Arg(name, role, "f32", (4, 8), "row_major", 16) for name, role in tensors)
    return KernelInfo("f", "mucc_f", "f", dims, args, (), workspace, {}, ())


class Library:
    """Stands for a library on the GPU: keeps the arguments of calls, and refuses them with `error`."""

    def __init__(self, bytes: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.asked = 0
        self.bytes = bytes
        self.error: Exception | None = None

    def launch(self, *args: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(args)

    def workspace(self, *args: Any) -> int:
        self.asked += 1
        return self.bytes


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Launcher, Library]]:
    """Make a launcher whose library is a stand-in."""
    monkeypatch.setattr(operator, "_loaded", {})
    operator._ready.cache_clear()

    def make(
        info: KernelInfo | None = None, bytes: int = 0, strict: bool = False
    ) -> tuple[Launcher, Library]:
        library, request = Library(bytes), Request(PROGRAM, "sm_90a", strict=strict)
        kernel = Kernel(info or _info(), library.launch, library.workspace)
        operator.adopt(request, kernel)
        return Launcher(request.text), library

    return make


def _tensors() -> list[Any]:
    return [torch.rand(4, 8) for _ in range(4)]


# The library's entry


def test_a_call_is_one_of_the_library_with_the_same_tensors(made: Any):
    launched, library = made()
    given = _tensors()
    for _ in range(3):
        assert launched.launch(*given) is None
    assert [[id(t) for t in call] for call in library.calls] == [[id(t) for t in given]] * 3
    assert library.asked == 0


def test_later_calls_run_nothing_of_torch(made: Any):
    """No dispatcher, no operator, no lookup of the request: a function whose one call is the library's."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"{function} was called")

    launched, library = made()
    given = _tensors()
    launched.launch(*given)
    operator._ready.cache_clear()
    operator._loaded.clear()
    with Nothing():
        launched.launch(*given)
    assert len(library.calls) == 2


@pytest.mark.parametrize(("dims", "asked"), [({}, 1), ({"M": None}, 3), ({"M": 4}, 1)])
def test_a_workspace_is_allocated_for_each_call(made: Any, dims: dict[str, int | None], asked: int):
    launched, library = made(_info(True, **dims), bytes=96)
    given = _tensors()
    for _ in range(3):
        launched.launch(*given)
    spaces = [call[4] for call in library.calls]
    assert len({s.data_ptr() for s in spaces}) == 3 and library.asked == asked
    assert all(s.dtype == torch.uint8 and s.shape == (96,) and s.device == given[0].device for s in spaces)


def test_calls_without_need_of_a_workspace_get_none(made: Any):
    """A need that depends on the call is asked for again: the library would take memory of its own."""
    launched, library = made(_info(True), bytes=0)
    given = _tensors()
    launched.launch(*given)
    library.bytes = 64
    launched.launch(*given)
    assert [len(call) for call in library.calls] == [4, 5] and library.calls[1][4].numel() == 64


def test_a_workspace_that_is_too_small_is_measured_again(made: Any):
    launched, library = made(_info(True), bytes=32)
    given = _tensors()
    launched.launch(*given)
    library.bytes, library.error = 64, ValueError("MU6012: f needs a workspace of 64 bytes, got 32")
    with pytest.warns(UserWarning, match="MU7063"):
        launched.launch(*given)
    library.error = None
    launched.launch(*given)
    assert library.calls[-1][4].numel() == 64


# What the library refuses


def test_a_call_that_is_refused_is_computed_into_the_same_results(made: Any):
    launched, library = made()
    library.error = ValueError("MU6009: argument 'x' of f must be aligned to 16 bytes")
    x, y, a, b = _tensors()
    places = a.data_ptr(), b.data_ptr()
    with pytest.warns(UserWarning, match="MU7063: PyTorch computes 'f'"):
        launched.launch(x, y, a, b)
    torch.testing.assert_close((a, b), (x + y, x - y))
    assert (a.data_ptr(), b.data_ptr()) == places
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launched.launch(y, x, a, b)
    torch.testing.assert_close((a, b), (x + y, y - x))
    library.error = None
    launched.launch(x, y, a, b)
    assert library.calls == [(x, y, a, b)]


def test_what_begins_misaligned_is_copied_for_the_library(made: Any):
    launched, library = made()

    def refuse(*args: Any) -> None:
        if any(t.data_ptr() % 16 for t in args):
            raise ValueError("MU6009: argument 'x' of f must be aligned to 16 bytes")
        torch.add(args[0], args[1], out=args[2])
        torch.sub(args[0], args[1], out=args[3])

    library.launch = refuse
    kernel = Kernel(_info(), refuse, library.workspace)
    request = Request(PROGRAM, "sm_90a", strict=True)
    operator.adopt(request, kernel)
    launched = Launcher(request.text)
    x, (_, y, a, b) = torch.rand(33)[1:].view(4, 8), _tensors()
    launched.launch(x, y, a, b)
    torch.testing.assert_close((a, b), (x + y, x - y))


def test_strict_requests_and_other_errors_raise(made: Any):
    from mucc.library.errors import MuccValueError

    launched, library = made(strict=True)
    library.error = ValueError("MU6006: argument 'x' of f has 5 rows")
    with pytest.raises(MuccValueError, match="MU6006"):
        launched.launch(*_tensors())
    launched, library = made()
    library.error = torch.OutOfMemoryError("no memory")
    with pytest.raises(torch.OutOfMemoryError, match="no memory"):
        launched.launch(*_tensors())


def test_interpreted_requests_are_stored():
    launched = Launcher(Request(PROGRAM, "sm_90a", interpret=True).text)
    x, y, a, b = _tensors()
    for _ in range(2):
        launched.launch(x, y, a.zero_(), b.zero_())
        torch.testing.assert_close((a, b), (x + y, x - y))


def test_the_operator_that_stores_is_what_torch_asks_of_one():
    from mucc.torch.backend.operator import STORE_KERNEL

    request = Request(PROGRAM, "sm_90a", interpret=True).text
    x, y, a, b = _tensors()
    tests = ("test_schema", "test_faketensor")
    found = torch.library.opcheck(STORE_KERNEL, ([x, y], [a, b], request), test_utils=tests)
    assert set(found.values()) == {"SUCCESS"}


# Inductor's code. It compiles C++ for what is left to it, so most graphs here are kernels alone.

lowered = pytest.mark.skipif(not is_known(torch.__version__), reason="Inductor calls the operator")


def _code(f: Any, *inputs: Any, **options: Any) -> tuple[Any, list[str]]:
    """Compile and call a function; returns what it returns, and Inductor's code."""
    from torch._inductor.utils import run_and_get_code

    made = backend(**{"rest": "inductor", "regions": "all", **options})
    return run_and_get_code(torch.compile(f, backend=made), *inputs)


class Layers(nn.Module):
    """Layers that are equal, with weights of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x)).cumsum(0)
        return x


@lowered
def test_inductors_code_calls_launchers(compiled_anew: None):
    model, x = nn.Sequential(nn.Linear(16, 8), nn.GELU()), torch.rand(4, 16)
    with torch.no_grad():
        got, (code,) = _code(model, x)
        torch.testing.assert_close(got, model(x))
    assert "torch.ops.mucc" not in code and code.count(".launch(") == 1
    assert " = empty_strided_cpu((4, 8), (8, 1), torch.float32)" in code


@lowered
def test_a_graph_of_kernels_alone_is_work_for_a_cuda_graph(
    compiled_anew: None, monkeypatch: pytest.MonkeyPatch
):
    """From torch 2.14 on, a graph without a node that Inductor counts as a kernel is not replayed."""
    from torch._inductor import scheduler

    seen: list[Any] = []
    generate = scheduler.Scheduler.codegen

    def codegen(self: Any) -> None:
        seen.extend(self.nodes)
        generate(self)

    monkeypatch.setattr(scheduler.Scheduler, "codegen", codegen)
    model, x = nn.Linear(16, 8), torch.rand(4, 16)
    with torch.no_grad():
        _, (code,) = _code(model, x)
    assert ".launch(" in code and seen
    assert not any(isinstance(node, scheduler.NopKernelSchedulerNode) for node in seen)


@lowered
def test_a_result_that_nothing_reads_is_stored_too(compiled_anew: None):
    from torch._inductor.utils import run_and_get_code

    from mucc.torch.backend.lowering import lower_kernels

    assert lower_kernels(), "this version of torch has what the lowering needs"
    request = Request(PROGRAM, "sm_90a", interpret=True).text
    x, y, *_ = _tensors()
    compiled = torch.compile(lambda x, y: torch.ops.mucc.run_kernel.default([x, y], request)[1])
    got, (code,) = run_and_get_code(compiled, x, y)
    torch.testing.assert_close(got, x - y)
    assert code.count(" = empty_strided_cpu((4, 8)") == 2 and ".launch(" in code


@lowered
def test_a_graph_that_is_not_contiguous_hands_over_what_is(compiled_anew: None):
    linear = nn.Linear(16, 8)
    x = torch.rand(16, 4).t()
    with torch.no_grad():
        got, (code,) = _code(lambda x: torch.relu(linear(x)), x)
        torch.testing.assert_close(got, torch.relu(linear(x)))
    assert ".launch(" in code and got.is_contiguous()


@lowered
@pytest.mark.long
def test_equal_layers_share_a_launcher_and_memory_is_used_again(compiled_anew: None):
    model, x = Layers(), torch.rand(4, 16)
    with torch.no_grad():
        got, (code,) = _code(model, x, regions="expected", margin=-1.0)
        torch.testing.assert_close(got, model(x))
    assert code.count("MuccLauncher(") == 1 and code.count(".launch(") == 3
    lines = [line.strip() for line in code.splitlines()]
    before = [lines[n - 1] for n, line in enumerate(lines) if ".launch(" in line]
    assert all("empty_strided_cpu(" in line or "# reuse" in line for line in before), "allocated when needed"
    assert any("# reuse" in line for line in lines)


@pytest.mark.long
def test_forward_and_backward_with_open_extents(compiled_anew: None):
    model, made = nn.Sequential(nn.Linear(16, 8), nn.GELU()), backend(rest="inductor", regions="all")
    compiled = torch.compile(model, backend=made, dynamic=True)
    for rows in (4, 7):
        x = torch.rand(rows, 16, requires_grad=True)
        wanted = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
        got = torch.autograd.grad(compiled(x).square().sum(), [x, *model.parameters()])
        torch.testing.assert_close(got, wanted)
    assert calls(made)


@lowered
@pytest.mark.long
def test_a_wrapper_in_cpp_calls_the_operator(compiled_anew: None):
    model, x = nn.Sequential(nn.Linear(16, 8), nn.GELU()), torch.rand(4, 16)
    with torch.no_grad():
        got, code = _code(model, x, cpp_wrapper=True)
        torch.testing.assert_close(got, model(x))
    assert "store_kernel" in "".join(code) and ".launch(" not in "".join(code)


@pytest.fixture
def anew() -> Iterator[None]:
    """Register the lowering anew, in the test and after it."""
    from torch._inductor import lowering as inductors

    from mucc.torch.backend.lowering import lower_kernels
    from mucc.torch.backend.operator import RUN_KERNEL

    def forget() -> None:
        lower_kernels.cache_clear()
        inductors.lowerings.pop(RUN_KERNEL, None)

    forget()
    yield
    forget()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the lowering logs."""
    from mucc.torch.backend import lowering

    lines: list[str] = []

    def keep(line: str, *of: Any) -> None:
        lines.append(line % of)

    monkeypatch.setattr(lowering.log, "info", keep)
    return lines


def _calls_the_operator(said: list[str], reason: str) -> None:
    model, x = nn.Sequential(nn.Linear(16, 8), nn.GELU()), torch.rand(4, 16)
    with torch.no_grad():
        got, (code,) = _code(model, x)
        torch.testing.assert_close(got, model(x))
    assert "torch.ops.mucc.run_kernel.default(" in code and ".launch(" not in code
    (line,) = [line for line in said if "through torch's dispatcher" in line]
    assert reason in line


@lowered
def test_without_what_the_lowering_needs_inductor_calls_the_operator(
    compiled_anew: None, anew: None, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    from torch._inductor import lowering as inductors

    monkeypatch.delattr(inductors, "empty_strided")
    _calls_the_operator(said, "empty_strided")


@pytest.mark.parametrize("version", ["2.10.1", "2.15.0+cu130", "3.0.0a0", "main"])
def test_versions_of_torch_that_are_not_known_call_the_operator(
    compiled_anew: None, anew: None, said: list[str], monkeypatch: pytest.MonkeyPatch, version: str
):
    from mucc.torch.backend import lowering

    monkeypatch.setattr(lowering, "torch_version", lambda: version)
    if version == "2.15.0+cu130":
        _calls_the_operator(said, f"torch {version}")
    assert not lowering.lower_kernels()


@lowered
@pytest.mark.parametrize("version", ["2.11.0+cu130", "2.12.1", "2.13.0+cpu", "2.14.1"])
def test_known_versions_of_torch_call_launchers(anew: None, monkeypatch: pytest.MonkeyPatch, version: str):
    from mucc.torch.backend import lowering

    monkeypatch.setattr(lowering, "torch_version", lambda: version)
    assert lowering.lower_kernels()


@lowered
@pytest.mark.parametrize("name", ["process_kernel", "tensor_to_layout"])
def test_a_call_that_cannot_be_built_is_one_of_the_operator(
    compiled_anew: None, anew: None, said: list[str], monkeypatch: pytest.MonkeyPatch, name: str
):
    """Before and after Inductor knows of the call."""
    from torch._inductor import ir

    known: Any = getattr(ir.FallbackKernel, name)
    failed: list[str] = []

    def once(*args: Any) -> Any:
        if not failed:
            failed.append(name)
            raise TypeError("it has another signature")
        return known(*args)

    monkeypatch.setattr(ir.FallbackKernel, name, staticmethod(once))
    _calls_the_operator(said, "TypeError('it has another signature')")
    assert failed == [name]
