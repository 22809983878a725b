"""Lists of problems (`kernel each`): what doors take and refuse, lists in Python, kernels that take them."""

from __future__ import annotations

import ctypes as ct
import json
from typing import Any

import pytest
from builders import lowered
from hostlib import MANIFEST, FakeArray, State, Tensor, host_library, scalar, tensor

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.kernels.gemm.op import GemmOp
from mucc.library.errors import MuccValueError
from mucc.library.signature import Manifest
from mucc.runtime import lists

_LINEAR = json.loads(json.dumps(MANIFEST))["kernels"][0]
INFO = Manifest.parse({**MANIFEST, "kernels": [{**_LINEAR, "each": True}]}).kernels[0]
SHAPES = [(3, 16, 24), (5, 8, 40), (1, 24, 8)]


class Lib:
    """The C door of the test library's kernels for lists."""

    def __init__(self) -> None:
        self.dll = ct.CDLL(str(host_library()))
        self.state = State.in_dll(self.dll, "state")
        ct.memset(ct.addressof(self.state), 0, ct.sizeof(State))
        self.dll.mucc_last_error.restype = ct.c_char_p

    def call(self, name: str, args: list[Tensor], workspace: int = 0, size: int = 0) -> str:
        """The error text of a call; empty when it went well."""
        door = getattr(self.dll, f"mucc_{name}")
        door.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
        failed = door((Tensor * len(args))(*args), len(args), workspace, size, 0)
        return self.dll.mucc_last_error().decode() if failed else ""

    def workspace(self, name: str, args: list[Tensor]) -> int:
        query = getattr(self.dll, f"mucc_{name}_workspace")
        query.argtypes, query.restype = [ct.c_void_p, ct.c_int], ct.c_int64
        return query((Tensor * len(args))(*args), len(args))


@pytest.fixture
def lib() -> Lib:
    return Lib()


def problems(**change: Tensor) -> list[Tensor]:
    """The arguments of three problems of different shapes; some of those of the second are replaced."""
    args: list[Tensor] = []
    for i, (m, n, k) in enumerate(SHAPES):
        at = 0x10000 * (i + 1)
        own = {
            "x": tensor("bf16", [m, k], data=at),
            "w": tensor("bf16", [n, k], data=at + 0x4000),
            "alpha": scalar(float(i)),
            "y": tensor("f32", [m, n], data=at + 0x8000),
        }
        args += (own | (change if i == 1 else {})).values()
    return args


def test_all_problems_are_launched_at_once(lib: Lib) -> None:
    assert lib.call("each_linear", problems()) == ""
    assert lib.state.launches == 300
    assert (list(lib.state.dims)[:3], lib.state.pointers[0], lib.state.alpha) == ([1, 24, 8], 0x30000, 2.0)


def test_a_program_without_such_a_kernel_runs_once_for_each(lib: Lib) -> None:
    lib.state.need = 512
    assert lib.workspace("each_alone", problems()) == 512
    assert lib.call("each_alone", problems(), workspace=0x100000, size=512) == ""
    assert (lib.state.launches, lib.state.workspace) == (3, 0x100000)


def test_one_problem_is_a_list_of_one(lib: Lib) -> None:
    assert lib.call("each_linear", problems()[:4]) == ""
    assert lib.state.launches == 100


TAKES = "MU6001: each_linear takes 4 arguments (x, w, alpha, y) for each problem, got "


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (problems()[:7], TAKES + "7"),
        ([], TAKES + "0"),
        (
            problems(w=tensor("bf16", [8, 24])),
            "MU6006: argument 'w' of each_linear: expected bf16[N, K] with K = 40 (from 'x'), "
            "got bf16[8, 24] (problem 2 of 3)",
        ),
        (
            problems(x=tensor("bf16", [5, 40], data=0x20002)),
            "MU6009: argument 'x' of each_linear: expected a data pointer that is a multiple of 16 bytes, "
            "got 0x20002 (problem 2 of 3)",
        ),
        (
            problems(w=tensor("bf16", [8, 40], data=0)),
            "MU6015: argument 'w' of each_linear: the data pointer is NULL (problem 2 of 3)",
        ),
        (
            problems(y=tensor("f32", [5, 8], data=0x18010)),
            "MU6026: argument 'y' of each_linear: in problem 2 it overlaps 'y' in problem 1",
        ),
        (
            [
                *problems()[:4],
                tensor("bf16", [5, 40], device=(2, 1)),
                tensor("bf16", [8, 40], device=(2, 1)),
                scalar(1.0),
                tensor("f32", [5, 8], device=(2, 1)),
            ],
            "MU6005: each_linear: the tensors are on cuda:1, those of the first problem on cuda:0 "
            "(problem 2 of 2)",
        ),
    ],
    ids=["count", "none", "shape", "alignment", "null", "overlap", "device"],
)
def test_bad_problem(lib: Lib, args: list[Tensor], message: str) -> None:
    assert lib.call("each_linear", args) == message
    assert lib.state.launches == 0


def test_results_side_by_side_do_not_overlap(lib: Lib) -> None:
    after_the_first = tensor("f32", [5, 8], data=0x18000 + 4 * 3 * 16)
    assert lib.call("each_linear", problems(y=after_the_first)) == ""


def test_python_flattens_lists_and_repeats_what_is_none() -> None:
    args: list[Any] = [["x0", "x1"], "w", ("a0", "a1"), ["y0", "y1"], "workspace"]
    expected = ["x0", "w", "a0", "y0", "x1", "w", "a1", "y1", "workspace"]
    assert lists.flattened(INFO, args) == expected
    assert lists.flattened(INFO, [[], "w", 1.0, []]) == []


def test_lists_of_different_lengths() -> None:
    with pytest.raises(MuccValueError, match=r"MU6044: linear: lists are of one length, .* 'x' 2, 'y' 1"):
        lists.flattened(INFO, [["x0", "x1"], "w", 1.0, ["y0"]])


def test_the_tvm_ffi_door_takes_problem_after_problem() -> None:
    tvm_ffi: Any = pytest.importorskip("tvm_ffi")
    library = tvm_ffi.load_module(str(host_library()))
    args: list[Any] = []
    for i, (m, n, k) in enumerate(SHAPES):
        at = 0x10000 * (i + 1)
        args += [
            FakeArray("bf16", [m, k], data=at),
            FakeArray("bf16", [n, k], data=at + 0x4000),
            1.5 * i,
            FakeArray("f32", [m, n], data=at + 0x8000),
        ]
    state = State.in_dll(ct.CDLL(str(host_library())), "state")
    ct.memset(ct.addressof(state), 0, ct.sizeof(State))
    library.each_linear(*args)
    assert (state.launches, state.alpha) == (300, 3.0)
    with pytest.raises(Exception, match="MU6001"):
        library.each_linear(*args[:-1])


PASSES = ("mu-canonicalize", "decompose", "mu-canonicalize", "form-stages", "pair-contractions")
LINEAR = "kernel each k[M, N, K](x: bf16[M, K], w: bf16[N, K], v: bf16[N, K]) -> {result} {{ {body} }}"


@pytest.mark.parametrize(
    ("result", "body", "schedule", "listed"),
    [
        ("bf16[M, N]", "return relu(x @ w.T)", "", True),
        ("f32[M]", "return sum(x @ w.T, axis=1)", "", True),
        ("bf16[M, N]", "return silu(x @ w.T) * (x @ v.T)", "", True),
        ("bf16[M, N]", "return x @ w.T", "mainloop = pingpong", False),
        ("bf16[M, N]", "return x @ w.T", "scheduler = stream_k", False),
        ("bf16[M, M]", "h = x @ w.T return h @ h.T", "", False),
        ("f32[M]", "return sum(x, axis=1)", "", False),
    ],
)
def test_which_programs_are_one_launch(result: str, body: str, schedule: str, listed: bool) -> None:
    text = LINEAR.format(result=result, body=body)
    if schedule:
        text += f"\nschedule k for sm_90a {{ {schedule} }}"
    found = lowered(
        text, *PASSES, "convert-to-cutlass", "fuse-epilogue", "select-schedule"
    ).body.block.first_op
    assert isinstance(found, c.ProgramOp)
    assert any(isinstance(k, GemmOp) and k.is_listed for k in found.kernels) is listed


@pytest.mark.parametrize("result", ["M, N", "N, M"])
def test_lists_of_products_that_no_kernel_computes_in_one_launch(result: str) -> None:
    """A kernel of any kind runs once for each problem."""
    value = "matmul(x, w.T, compute=f32)" + (".T" if result == "N, M" else "")
    text = f"kernel each f[M, N, K](x: f32[M, K], w: f32[N, K]) -> f32[{result}] {{\n    return {value}\n}}\n"
    module = compile_text(Source("f.mcu", text)).cutlass
    (gemm,) = (op for op in module.walk() if isinstance(op, GemmOp))
    assert not gemm.is_listed and gemm.mainloop and gemm.mainloop.data is Mainloop.MULTISTAGE
