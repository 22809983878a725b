"""What tests need to load and call a kernel library without a GPU: the ABI in ctypes, fake tensors."""

from __future__ import annotations

import atexit
import ctypes as ct
import json
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.host import compiled
from bench.host.abi import CPU, CUDA, DTYPES, Device, DType, Tensor
from mucc.files.package import INCLUDES

REPO = Path(__file__).resolve().parents[2]
HOST_ABI = Path(__file__).with_name("host_abi.cpp")
INCLUDE = REPO / "mucc" / "support" / "include"

MANIFEST = {
    "abi": 1,
    "mucc": "0.1.0",
    "target": "sm_90a",
    "program_hash": "0" * 64,
    "kernels": [
        {
            "name": "linear",
            "symbol": "mucc_linear",
            "ffi": "linear",
            "dims": [{"name": n, "value": None} for n in "MNK"],
            "args": [
                {
                    "name": "x",
                    "role": "input",
                    "dtype": "bf16",
                    "shape": ["M", "K"],
                    "layout": "row_major",
                    "align": 16,
                },
                {
                    "name": "w",
                    "role": "input",
                    "dtype": "bf16",
                    "shape": ["N", "K"],
                    "layout": "row_major",
                    "align": 16,
                },
                {
                    "name": "alpha",
                    "role": "scalar",
                    "dtype": "f32",
                    "shape": [],
                    "layout": "row_major",
                    "align": 4,
                },
                {
                    "name": "y",
                    "role": "output",
                    "dtype": "f32",
                    "shape": ["M", "N"],
                    "layout": "row_major",
                    "align": 16,
                },
            ],
            "promises": [{"text": "K % 8 == 0", "why": "TMA needs 16-byte rows of x"}],
            "stages": [{"name": "out", "kind": "gemm"}],
            "workspace": True,
            "sol": {
                "flops": {"tensor.bf16": [[2, "M", "N", "K"]]},
                "bytes": [[2, "M", "K"], [2, "N", "K"], [4, "M", "N"]],
            },
        },
        {
            "name": "laid",
            "symbol": "mucc_laid",
            "ffi": "laid",
            "dims": [{"name": "B", "value": None}, {"name": "K", "value": 64}],
            "args": [
                {
                    "name": "c",
                    "role": "input",
                    "dtype": "f16",
                    "shape": ["B", "K", 8],
                    "layout": "col_major",
                    "align": 16,
                },
                {
                    "name": "s",
                    "role": "input",
                    "dtype": "f32",
                    "shape": [],
                    "layout": "row_major",
                    "align": 4,
                },
                {
                    "name": "v",
                    "role": "input",
                    "dtype": "f16",
                    "shape": ["B", "K"],
                    "layout": [None, 1],
                    "align": 16,
                },
                {
                    "name": "y",
                    "role": "output",
                    "dtype": "f16",
                    "shape": ["B", "K"],
                    "layout": "row_major",
                    "align": 2,
                },
            ],
            "promises": [],
            "stages": [{"name": "out", "kind": "gemm"}],
            "workspace": False,
            "sol": {"flops": {}, "bytes": [[16, "B", "K"]]},
        },
    ],
}


class State(ct.Structure):
    """The `State` of host_abi.cpp."""

    _fields_ = [
        ("launches", ct.c_int64),
        ("dims", ct.c_int64 * 4),
        ("pointers", ct.c_void_p * 4),
        ("strides", (ct.c_int64 * 3) * 4),
        ("alpha", ct.c_double),
        ("sm_count", ct.c_int64),
        ("device", ct.c_int64),
        ("stream", ct.c_void_p),
        ("workspace", ct.c_void_p),
        ("workspace_bytes", ct.c_uint64),
        ("memo_hit", ct.c_int64),
        ("need", ct.c_int64),
        ("mode", ct.c_int64),
        ("current_device", ct.c_int64),
        ("capturing", ct.c_int64),
        ("out_of_memory", ct.c_int64),
        ("no_gpu", ct.c_int64),
        ("set_device_calls", ct.c_int64),
        ("mallocs", ct.c_int64),
    ]


def tensor(
    dtype: str,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    *,
    data: int = 0x7F0000001000,
    device: tuple[int, int] = (CUDA, 0),
    byte_offset: int = 0,
) -> Tensor:
    """A tensor that nothing stands behind: its pointer is only looked at."""
    n = len(shape)
    return Tensor(
        data,
        Device(*device),
        n,
        DType(*DTYPES[dtype], 1),
        (ct.c_int64 * n)(*shape),
        None if strides is None else (ct.c_int64 * n)(*strides),
        byte_offset,
    )


def scalar(value: float, dtype: str = "f32") -> Tensor:
    """A by-value scalar in the C convention."""
    box = ct.c_float(value) if dtype == "f32" else ct.c_double(value)
    t = tensor(dtype, [], data=ct.addressof(box), device=(CPU, 0))
    t._box = box  # type: ignore[attr-defined]
    return t


class DLManagedTensor(ct.Structure):
    """DLPack's exchange structure, without a deleter: the test keeps the memory."""

    _fields_ = [("tensor", Tensor), ("context", ct.c_void_p), ("deleter", ct.c_void_p)]


class FakeArray:
    """An array on a GPU that is not there, for whoever speaks DLPack."""

    def __init__(self, dtype: str, shape: Sequence[int], strides: Sequence[int] | None = None, **more: Any):
        self.managed = DLManagedTensor(tensor(dtype, shape, strides, **more), None, None)

    def __dlpack__(self, **_options: object) -> object:
        new = ct.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ct.py_object, [ct.c_void_p, ct.c_char_p, ct.c_void_p]
        return new(ct.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self.managed.tensor.device
        return device.type, device.id


def cuda_paths() -> tuple[Path, Path] | None:
    """Include and library folders of the pip CUDA runtime, or None."""
    root = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13"
    if not (root / "include" / "cuda_runtime.h").exists():
        return None
    return root / "include", root / "lib"


def build(source: Path, out: Path, *, defines: Sequence[str] = (), link_cuda: bool = False) -> Path:
    """Compile a host-only kernel library, or skip the test where that cannot be done."""
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    if not (paths := cuda_paths()):
        pytest.skip("needs the CUDA headers: pip install 'mucc[nvcc]'")
    include, lib = paths
    command = [
        gxx,
        "-std=c++17",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
    ]
    command += [
        *(f"-I{path}" for path in INCLUDES),
        "-isystem",
        str(include),
        *(f"-D{d}" for d in defines),
    ]
    linked = [*([f"-L{lib}", "-lcudart_static"] if link_cuda else []), "-ldl", "-lrt", "-lpthread"]

    def make(made: Path) -> None:
        whole = [*command, str(source), "-o", str(made), *linked]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    text = source.read_text(encoding="utf-8")
    return compiled.library((compiled.version(gxx), command, linked, text), out, make)


@cache
def host_library() -> Path:
    """The library of host_abi.cpp, built once per test process."""
    folder = Path(tempfile.mkdtemp(prefix="mucc-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(HOST_ABI, folder / "host_abi.so", defines=[raw_string(MANIFEST)])


def raw_string(manifest: object) -> str:
    """A define that hands a manifest to host_abi.cpp."""
    return f'MANIFEST=R"manifest({json.dumps(manifest)})manifest"'
