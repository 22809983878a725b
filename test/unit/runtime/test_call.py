"""Calls through tvm-ffi and torch, on tensors that only look as if on a GPU. Needs g++, no GPU."""

from __future__ import annotations

import ctypes as ct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hostlib import CPU, CUDA, MANIFEST, FakeArray, State, host_library

from mucc.library.signature import Manifest
from mucc.runtime import Kernel, Module, MuccError, MuccRuntimeError, MuccTypeError, MuccValueError, load

M, N, K = 3, 16, 24


@pytest.fixture(scope="session")
def module() -> Module:
    return load(host_library())


@pytest.fixture
def state(module: Module) -> State:
    found = State.in_dll(ct.CDLL(str(module.path)), "state")
    ct.memset(ct.addressof(found), 0, ct.sizeof(State))
    return found


def arrays(**change: Any) -> list[Any]:
    good = {
        "x": FakeArray("bf16", [M, K], data=0x1000),
        "w": FakeArray("bf16", [N, K], [K, 1], data=0x2000),
        "alpha": 0.5,
        "y": FakeArray("f32", [M, N], data=0x3000),
    }
    return list((good | change).values())


# ---- tvm-ffi ---------------------------------------------------------------------------------------------


def test_a_good_call(module: Module, state: State) -> None:
    assert module.linear.ffi(*arrays()) is None
    assert (list(state.dims)[:3], list(state.pointers)[:3]) == ([M, N, K], [0x1000, 0x2000, 0x3000])
    assert (state.alpha, state.launches) == (0.5, 1)


@pytest.mark.parametrize(("given", "seen"), [(2, 2.0), (True, 1.0), (-1.25, -1.25)])
def test_scalars(module: Module, state: State, given: float, seen: float) -> None:
    module.linear.launch(*arrays(alpha=given))
    assert state.alpha == seen


def test_scalar_as_a_cpu_tensor(module: Module, state: State) -> None:
    box = ct.c_float(0.75)
    module.linear.launch(*arrays(alpha=FakeArray("f32", [], data=ct.addressof(box), device=(CPU, 0))))
    assert state.alpha == 0.75


@pytest.mark.parametrize(
    ("change", "kind", "code", "text"),
    [
        (
            {"x": None},
            MuccTypeError,
            "MU6002",
            "argument 'x' of linear: expected a tensor bf16[M, K], got None",
        ),
        (
            {"x": 3},
            MuccTypeError,
            "MU6002",
            "argument 'x' of linear: expected a tensor bf16[M, K], got an int",
        ),
        ({"x": "3"}, MuccTypeError, "MU6002", "expected a tensor bf16[M, K], got a string"),
        ({"x": [3]}, MuccTypeError, "MU6002", "expected a tensor bf16[M, K], got a list"),
        ({"alpha": None}, MuccTypeError, "MU6002", "expected a number (passed by value, f32), got None"),
        ({"x": FakeArray("f32", [M, K])}, MuccTypeError, "MU6003", "expected dtype bf16, got f32[3, 24]"),
        ({"x": FakeArray("bf16", [M, K], device=(CPU, 0))}, MuccValueError, "MU6005", "got one on the CPU"),
        (
            {"w": FakeArray("bf16", [N, 8])},
            MuccValueError,
            "MU6006",
            "with K = 24 (from 'x'), got bf16[16, 8]",
        ),
    ],
)
def test_bad_arguments(
    module: Module, state: State, change: dict[str, Any], kind: type[MuccError], code: str, text: str
) -> None:
    with pytest.raises(kind) as caught:
        module.linear.launch(*arrays(**change))
    assert caught.value.code == code
    assert text in caught.value.message
    assert str(caught.value) == f"{code}: {caught.value.message}"
    assert state.launches == 0
    builtin = TypeError if kind is MuccTypeError else ValueError
    with pytest.raises(builtin, match=code) as raw:
        module.linear.ffi(*arrays(**change))
    assert not isinstance(raw.value, MuccError)


@pytest.mark.parametrize(("mode", "code"), [(1, "MU6010"), (2, "MU6021"), (700, "MU6016")])
def test_failing_launch(module: Module, state: State, mode: int, code: str) -> None:
    state.mode = mode
    with pytest.raises(MuccRuntimeError) as caught:
        module.linear.launch(*arrays())
    assert caught.value.code == code


def test_workspace_is_cached_per_device_and_stream(module: Module, state: State) -> None:
    state.need = 5000
    assert module.linear.workspace_bytes(*arrays()) == 5000
    module.linear.launch(*arrays())
    first, allocations = state.workspace, state.mallocs
    assert first % 256 == 0
    assert state.workspace_bytes >= 5000
    state.need = 100
    module.linear.launch(*arrays())
    assert (state.workspace, state.mallocs) == (first, allocations)
    state.need = int(state.workspace_bytes) + 1
    module.linear.launch(*arrays())
    assert state.workspace != first, "the outgrown buffer is kept, since a captured graph may use it"
    assert state.workspace_bytes >= 2 * 5000
    on1 = {n: FakeArray(d, s, device=(CUDA, 1)) for n, d, s in [("x", "bf16", [M, K]), ("w", "bf16", [N, K])]}
    before = state.workspace
    module.linear.launch(*arrays(**on1, y=FakeArray("f32", [M, N], device=(CUDA, 1))))
    assert (state.device, state.workspace != before) == (1, True)


def test_workspace_cannot_grow_during_capture(module: Module, state: State) -> None:
    state.need, state.capturing = 1 << 24, 1
    with pytest.raises(MuccRuntimeError) as caught:
        module.linear.launch(*arrays())
    assert caught.value.code == "MU6014"
    assert "pass a workspace, or run once before the capture" in caught.value.message
    state.capturing = 0
    module.linear.launch(*arrays())
    state.capturing = 1
    module.linear.launch(*arrays())
    assert state.launches == 2


def test_no_memory_for_the_workspace(module: Module, state: State) -> None:
    state.need, state.out_of_memory = 1 << 40, 1
    with pytest.raises(MuccRuntimeError, match="MU6020"):
        module.linear.launch(*arrays())


def test_own_workspace(module: Module, state: State) -> None:
    state.need = 1000
    module.linear.launch(*arrays(), FakeArray("u8", [1000], data=0x4000))
    assert (state.workspace, state.workspace_bytes, state.mallocs) == (0x4000, 1000, 0)
    module.linear.launch(*arrays(), None)
    assert state.workspace != 0x4000
    for bad, code in [
        (FakeArray("u8", [999], data=0x4000), "MU6012"),
        (FakeArray("u8", [1000], data=0x4010), "MU6013"),
        (FakeArray("f32", [1000], data=0x4000), "MU6019"),
        (FakeArray("u8", [10, 100], data=0x4000), "MU6019"),
        (FakeArray("u8", [1000], device=(CUDA, 1)), "MU6019"),
        (3, "MU6019"),
    ]:
        with pytest.raises(MuccError) as caught:
            module.linear.launch(*arrays(), bad)
        assert caught.value.code == code


def test_threads_do_not_share_errors(module: Module, state: State) -> None:
    def failing(dtype: str, found: list[str]) -> None:
        for _ in range(300):
            with pytest.raises(MuccTypeError) as caught:
                module.linear.launch(*arrays(x=FakeArray(dtype, [M, K])))
            found.append(caught.value.message)

    texts: dict[str, list[str]] = {"f16": [], "f32": []}
    threads = [threading.Thread(target=failing, args=item) for item in texts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for dtype, found in texts.items():
        assert set(found) == {f"argument 'x' of linear: expected dtype bf16, got {dtype}[3, 24]"}


# ---- torch -----------------------------------------------------------------------------------------------


class Recorder:
    """Stands for a library's function: keeps the arguments, and fills the outputs with a number."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any) -> int:
        self.calls.append(args)
        return 0


@pytest.fixture
def torch() -> Iterator[Any]:
    yield pytest.importorskip("torch", reason="needs torch")


def stubbed(name: str) -> tuple[Kernel, Recorder]:
    """A kernel whose library only records, so that torch can call it with tensors on the CPU."""
    info = next(k for k in Manifest.parse(MANIFEST).kernels if k.name == name)
    recorder = Recorder()
    return Kernel(info, recorder, Recorder()), recorder


def test_kernels_without_tensors_to_read_run_on_the_current_device(torch: Any) -> None:
    linear = next(k for k in Manifest.parse(MANIFEST).kernels if k.name == "linear")
    y = replace(linear.outputs[0], shape=(2, 5))
    scalars = tuple(a for a in linear.inputs if a.role == "scalar")
    recorder = Recorder()
    kernel = Kernel(replace(linear, name="filled", dims={}, args=(*scalars, y)), recorder, Recorder())
    out = kernel(0.5)
    assert recorder.calls[0][0] == 0.5
    assert (tuple(out.shape), out.dtype) == ((2, 5), torch.float32)
    assert out.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert tuple(kernel.op(0.5).shape) == (2, 5)


def test_outputs_are_allocated(torch: Any) -> None:
    kernel, recorder = stubbed("linear")
    x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)
    y = kernel(x, w, 0.5)
    assert (tuple(y.shape), y.dtype, y.device) == ((M, N), torch.float32, x.device)
    assert [id(a) for a in recorder.calls[0]] == [id(a) for a in (x, w, recorder.calls[0][2], y)]
    by_name = kernel(x, alpha=2.0, w=w)
    assert recorder.calls[1][:3] == (x, w, 2.0)
    assert by_name is recorder.calls[1][3]
    mine = torch.empty(M, N)
    assert kernel(x, w, 0.5, out=mine) is mine
    assert kernel(x, w, 0.5, out=[mine]) is mine
    space = torch.empty(8, dtype=torch.uint8)
    kernel(x, w, 0.5, workspace=space)
    assert recorder.calls[-1][-1] is space


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        (2, {}, "3 arguments are needed, 2 came"),
        (3, {"alpha": 1}, "argument 'alpha' came twice"),
        (3, {"beta": 1}, "there is no argument 'beta'"),
        (1, {"alpha": 1}, "3 arguments are needed, 2 came"),
        (0, {}, "3 arguments are needed, 0 came"),
    ],
)
def test_signature_errors(torch: Any, args: int, named: dict[str, Any], message: str) -> None:
    kernel, recorder = stubbed("linear")
    given = [torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16), 1.0]
    with pytest.raises(MuccTypeError) as caught:
        kernel(*given[:args], **named)
    assert caught.value.code == "MU6040"
    assert caught.value.message == f"{message}; the signature is {kernel.info.signature}"
    assert not recorder.calls


def test_wrong_number_of_outputs(torch: Any, module: Module) -> None:
    x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)
    with pytest.raises(MuccTypeError, match="MU6040: linear has 1 outputs, out= holds 2"):
        module.linear(x, w, 0.5, out=(x, x))


@pytest.mark.parametrize(
    ("pick", "code"),
    [
        (lambda t, x, w: (x, w), "MU6005"),
        (lambda t, x, w: (x.float(), w), "MU6003"),
        (lambda t, x, w: (x[0], w), "MU6004"),
        (lambda t, x, w: (3, w), "MU6002"),
        (lambda t, x, w: ([x], w), "MU6002"),
        (lambda t, x, w: (x.float().numpy(), w), "MU6041"),
        (lambda t, x, w: (x, w.float().numpy()), "MU6005"),
    ],
)
def test_argument_errors_name_the_argument(torch: Any, module: Module, pick: Any, code: str) -> None:
    x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)
    with pytest.raises(MuccError) as caught:
        module.linear(*pick(torch, x, w), 0.5)
    assert caught.value.code == code or caught.value.code == "MU6041"
    assert "argument '" in caught.value.message


def test_a_lack_of_memory_is_no_argument_error(
    torch: Any, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)

    def empty(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "empty", empty)
    with pytest.raises(torch.OutOfMemoryError):
        module.linear(x, w, 0.5)


def test_the_operator_refuses_a_cpu_tensor_by_name(torch: Any, module: Module) -> None:
    x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)
    with pytest.raises(MuccValueError, match="MU6005: argument 'x' of linear"):
        module.linear.op(x, w, 0.5)


def test_fake_tensors(torch: Any, module: Module) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.zeros(M, K, dtype=torch.bfloat16, device="cuda:1")
        w = torch.zeros(N, K, dtype=torch.bfloat16, device="cuda:1")
        for y in (module.linear.op(x, w, 0.5), module.linear(x, w, 0.5)):
            assert (tuple(y.shape), y.dtype, str(y.device)) == ((M, N), torch.float32, "cuda:1")
        c, s = torch.zeros(5, 8, 64, dtype=torch.float16).transpose(1, 2), torch.zeros(())
        assert tuple(module.laid.op(c, s, c[..., 0]).shape) == (5, 64)


def test_meta_tensors(torch: Any, module: Module) -> None:
    x = torch.zeros(M, K, dtype=torch.bfloat16, device="meta")
    w = torch.zeros(N, K, dtype=torch.bfloat16, device="meta")
    assert tuple(module.linear(x, w, 0.5).shape) == (M, N)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile_without_a_graph_break(torch: Any, backend: str, dynamic: bool) -> None:
    kernel, recorder = stubbed("linear")
    torch.compiler.reset()

    def function(x: Any, w: Any) -> Any:
        return kernel(x * 2, w, 0.5).relu() + kernel(x, w=w, alpha=1.0)

    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows in (M, 7):
        x, w = torch.zeros(rows, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)
        assert tuple(compiled(x, w).shape) == (rows, N)
    assert [len(c) for c in recorder.calls] == [4] * 4


def test_torch_export_holds_the_operator(torch: Any) -> None:
    kernel, _ = stubbed("linear")

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(N, K, dtype=torch.bfloat16))

        def forward(self, x: Any) -> Any:
            return kernel(x, self.w, 0.5)

    rows = torch.export.Dim("rows", min=2, max=4096)
    x = torch.zeros(M, K, dtype=torch.bfloat16)
    program = torch.export.export(Layer(), (x,), dynamic_shapes={"x": {0: rows}})
    assert kernel.op in {node.target for node in program.graph.nodes}


def test_torch_compile_refuses_what_the_operator_lacks(torch: Any) -> None:
    kernel, _ = stubbed("linear")
    torch.compiler.reset()
    x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(N, K, dtype=torch.bfloat16)
    out = torch.empty(M, N)
    with pytest.raises(Exception, match="without out, workspace and stream"):
        torch.compile(lambda: kernel(x, w, 0.5, out=out), backend="eager", fullgraph=True)()


def test_layouts_of_outputs(torch: Any) -> None:
    import copy

    manifest = copy.deepcopy(MANIFEST)
    kernel = manifest["kernels"][0]
    for layout, strides in [
        ("col_major", (1, M)),
        ([None, 1], (16, 1)),
        ([1, None], (1, 4)),
        ([100, 1], (100, 1)),
    ]:
        kernel["args"][3]["layout"] = layout
        kernel["args"][1]["shape"] = ["N", "K"]
        info = Manifest.parse(manifest).kernels[0]
        x, w = torch.zeros(M, K, dtype=torch.bfloat16), torch.zeros(13, K, dtype=torch.bfloat16)
        y = Kernel(info, Recorder(), Recorder())(x, w, 0.5)
        assert (tuple(y.shape), y.stride()) == ((M, 13), strides)


def test_without_torch_launch_still_works_and_a_call_says_so(module: Module) -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import mucc\nm = mucc.load(sys.argv[1])\n"
        "for f in (lambda: m.linear(1, 2, 3), lambda: m.linear.launch(1)):\n"
        "    try: f()\n"
        "    except mucc.runtime.MuccError as e: print(e.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(module.path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "MU6042\nMU6001\n"), done.stderr


def test_numpy_is_told_where_kernels_read(module: Module) -> None:
    """By both doors, since an array in main memory can reach no kernel."""
    numpy = pytest.importorskip("numpy")
    kernel = module.kernels[0]
    arrays = [numpy.zeros((8, 8), "f4") for _ in kernel.info.args]
    for call in (lambda: kernel(*arrays[: len(kernel.info.inputs)]), lambda: kernel.launch(*arrays)):
        with pytest.raises(MuccError, match=r"main memory.*torch.from_numpy\(a\).cuda\(\)") as caught:
            call()
        assert caught.value.code == "MU6041"


def test_jax_is_not_installed(module: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MuccError, match="needs jax") as caught:
        _ = Kernel(module.kernels[0].info, module.kernels[0].ffi, module.kernels[0].ffi_workspace).jax
    assert caught.value.code == "MU6045"


def test_threads_that_load_a_kernel_at_once_share_its_operator(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mucc.runtime import torch_glue

    library: Any = torch_glue._LIBRARY  # pyright: ignore[reportPrivateUsage]
    both, real, found = threading.Barrier(2), library.define, list[Any]()

    def define(text: str) -> Any:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # for a thread that defines the same operator
        return real(text)

    def load() -> None:
        info = Manifest.parse(MANIFEST).kernels[0]
        found.append(Kernel(info, Recorder(), Recorder(), "of threads").op)

    monkeypatch.setattr(library, "define", define)
    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0] is found[1]
