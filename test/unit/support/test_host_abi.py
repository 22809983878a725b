"""mucc/host.h: what the doors of a kernel library accept, refuse and say. Needs g++, no GPU."""

from __future__ import annotations

import ctypes as ct
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hostlib import (
    CPU,
    CUDA,
    HOST_ABI,
    INCLUDE,
    MANIFEST,
    State,
    Tensor,
    build,
    host_library,
    raw_string,
    scalar,
    tensor,
)

from mucc.diagnostics.codes import CODES
from mucc.files.package import INCLUDES

M, N, K = 3, 16, 24


KERNELS = ("linear", "laid", "thinned", "each_linear", "each_alone")
"""The kernels of the test library."""


class Lib:
    """The C door of the test library."""

    def __init__(self, path: Path):
        self.path = path
        self.dll = ct.CDLL(str(path))
        self.state = State.in_dll(self.dll, "state")
        self.dll.mucc_last_error.restype = ct.c_char_p
        self.dll.mucc_manifest.restype = ct.c_char_p
        for name in KERNELS:
            call = getattr(self.dll, f"mucc_{name}")
            call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
            query = getattr(self.dll, f"mucc_{name}_workspace")
            query.argtypes = [ct.c_void_p, ct.c_int]
            query.restype = ct.c_int64

    def call(self, name: str, *args: Tensor, workspace: int = 0, size: int = 0, stream: int = 0) -> str:
        """The error text of a call; empty when it went well."""
        before = self.state.launches
        packed = (Tensor * len(args))(*args)
        rc = getattr(self.dll, f"mucc_{name}")(packed, len(args), workspace, size, stream)
        if rc == 0:
            assert self.state.launches == before + 1
            return ""
        return self.error()

    def workspace(self, name: str, *args: Tensor) -> int:
        return getattr(self.dll, f"mucc_{name}_workspace")((Tensor * len(args))(*args), len(args))

    def error(self) -> str:
        return self.dll.mucc_last_error().decode()


@pytest.fixture(scope="session")
def path() -> Path:
    return host_library()


@pytest.fixture
def lib(path: Path) -> Lib:
    found = Lib(path)
    ct.memset(ct.addressof(found.state), 0, ct.sizeof(State))
    return found


def linear(**change: Tensor) -> list[Tensor]:
    """Good arguments of `linear`, some of them replaced."""
    good = {
        "x": tensor("bf16", [M, K], data=0x1000),
        "w": tensor("bf16", [N, K], data=0x2000),
        "alpha": scalar(0.5),
        "y": tensor("f32", [M, N], data=0x3000),
    }
    return list((good | change).values())


def laid(**change: Tensor) -> list[Tensor]:
    """Good arguments of `laid`, some of them replaced."""
    good = {
        "c": tensor("f16", [2, 64, 8], [512, 1, 64]),
        "s": tensor("f32", []),
        "v": tensor("f16", [2, 64], [128, 1]),
        "y": tensor("f16", [2, 64]),
    }
    return list((good | change).values())


def thinned(**change: Tensor) -> list[Tensor]:
    """Good arguments of `thinned`, some of them replaced."""
    good = {"w": tensor("bf16", [N, 64], [32, 1], data=0x2000), "y": tensor("bf16", [N])}
    return list((good | change).values())


def test_good_call_arrives_as_sent(lib: Lib) -> None:
    assert lib.call("linear", *linear(), stream=77) == ""
    s = lib.state
    assert list(s.dims)[:3] == [M, N, K]
    assert list(s.pointers)[:3] == [0x1000, 0x2000, 0x3000]
    assert [list(row)[:2] for row in s.strides][:3] == [[K, 1], [K, 1], [N, 1]]
    assert (s.alpha, s.sm_count, s.device, s.stream) == (0.5, 132, 0, 77)
    assert s.set_device_calls == 0


def test_strides_byte_offset_and_double_scalar(lib: Lib) -> None:
    x = tensor("bf16", [M, K], [K, 1], data=0x1000, byte_offset=32)
    assert lib.call("linear", *linear(x=x, alpha=scalar(0.25, "f64"))) == ""
    assert (lib.state.pointers[0], lib.state.alpha) == (0x1020, 0.25)


def test_a_sparse_matrix_has_the_strides_of_its_stored_half(lib: Lib) -> None:
    assert lib.call("thinned", *thinned()) == ""
    assert (lib.state.pointers[0], list(lib.state.dims)[:2]) == (0x2000, [N, 64])


def test_layouts(lib: Lib) -> None:
    assert lib.call("laid", *laid()) == ""
    assert list(lib.state.strides[0]) == [512, 1, 64]
    assert list(lib.state.strides[2])[:2] == [128, 1]


def test_axis_of_extent_one_may_have_any_stride(lib: Lib) -> None:
    one = {
        "c": tensor("f16", [1, 64, 8], [5, 1, 64]),
        "v": tensor("f16", [1, 64], [7, 1]),
        "y": tensor("f16", [1, 64], [0, 1]),
    }
    assert lib.call("laid", *laid(**one)) == ""
    assert lib.state.strides[0][0] == 512
    assert lib.state.strides[2][0] == 64, "a stride that TMA accepts, not the 7 that came"


def test_the_tensors_device_becomes_current_and_is_given_back(lib: Lib) -> None:
    on1 = {
        "x": tensor("bf16", [M, K], device=(CUDA, 1)),
        "w": tensor("bf16", [N, K], device=(CUDA, 1)),
        "y": tensor("f32", [M, N], device=(CUDA, 1)),
    }
    assert lib.call("linear", *linear(**on1)) == ""
    assert (lib.state.device, lib.state.sm_count) == (1, 133)
    assert (lib.state.set_device_calls, lib.state.current_device) == (2, 0)


ROW = "TMA needs 16-byte rows of x"
ERRORS: list[tuple[str, str, dict[str, Tensor], str]] = [
    (
        "dtype",
        "linear",
        {"x": tensor("f16", [M, K])},
        "MU6003: argument 'x' of linear: expected dtype bf16, got f16[3, 24]",
    ),
    (
        "8-bit float",
        "linear",
        {"x": tensor("e4m3", [M, K])},
        "MU6003: argument 'x' of linear: expected dtype bf16, got e4m3[3, 24]",
    ),
    (
        "8-bit integer",
        "linear",
        {"x": tensor("s8", [M, K])},
        "MU6003: argument 'x' of linear: expected dtype bf16, got s8[3, 24]",
    ),
    (
        "scalar dtype",
        "linear",
        {"alpha": tensor("i64", [], device=(CPU, 0))},
        "MU6003: argument 'alpha' of linear: expected dtype f32 or f64, got s64[]",
    ),
    (
        "rank",
        "linear",
        {"x": tensor("bf16", [1, M, K])},
        "MU6004: argument 'x' of linear: expected rank 2, bf16[M, K], got rank 3, bf16[1, 3, 24]",
    ),
    (
        "scalar on the GPU",
        "linear",
        {"alpha": tensor("f32", [])},
        "MU6002: argument 'alpha' of linear: expected a number (passed by value, f32), "
        "got a tensor that is not on the CPU",
    ),
    (
        "scalar of rank 1",
        "linear",
        {"alpha": tensor("f32", [1], device=(CPU, 0))},
        "MU6002: argument 'alpha' of linear: expected a number (passed by value, f32), "
        "got a tensor that is not 0-d",
    ),
    (
        "on the CPU",
        "linear",
        {"x": tensor("bf16", [M, K], device=(CPU, 0))},
        "MU6005: argument 'x' of linear: expected a tensor on a CUDA device, got one on the CPU",
    ),
    (
        "other device",
        "linear",
        {"w": tensor("bf16", [N, K], device=(CUDA, 1))},
        "MU6005: argument 'w' of linear: expected a tensor on cuda:0 (where 'x' is), got one on cuda:1",
    ),
    (
        "foreign device",
        "linear",
        {"x": tensor("bf16", [M, K], device=(10, 0))},
        "MU6005: argument 'x' of linear: expected a tensor on a CUDA device, "
        "got one on DLPack device type 10",
    ),
    (
        "shape against an earlier argument",
        "linear",
        {"w": tensor("bf16", [N, 40])},
        "MU6006: argument 'w' of linear: expected bf16[N, K] with K = 24 (from 'x'), got bf16[16, 40]",
    ),
    (
        "shape against a bound dim",
        "laid",
        {"v": tensor("f16", [2, 72], [72, 1])},
        "MU6006: argument 'v' of laid: expected f16[B, K] with K = 64 (fixed when compiled), got f16[2, 72]",
    ),
    (
        "shape against a number",
        "laid",
        {"c": tensor("f16", [2, 64, 4], [256, 1, 64])},
        "MU6006: argument 'c' of laid: expected f16[B, K, 8], got f16[2, 64, 4]",
    ),
    (
        "empty",
        "linear",
        {"x": tensor("bf16", [0, K])},
        "MU6007: argument 'x' of linear: expected extents from 1 to 2147483647 in bf16[M, K], "
        "got bf16[0, 24], an empty tensor",
    ),
    (
        "too large",
        "linear",
        {"x": tensor("bf16", [2**31, K])},
        "MU6007: argument 'x' of linear: expected extents from 1 to 2147483647 in bf16[M, K], "
        "got bf16[2147483648, 24]",
    ),
    (
        "negative extent",
        "linear",
        {"x": tensor("bf16", [-3, K])},
        "MU6007: argument 'x' of linear: expected extents from 1 to 2147483647 in bf16[M, K], "
        "got bf16[-3, 24]",
    ),
    (
        "a view",
        "linear",
        {"x": tensor("bf16", [M, K], [48, 1])},
        "MU6008: argument 'x' of linear: expected row-major bf16[M, K] with strides [24, 1], "
        "got strides [48, 1] of shape [3, 24]",
    ),
    (
        "row-major for column-major",
        "laid",
        {"c": tensor("f16", [2, 64, 8])},
        "MU6008: argument 'c' of laid: expected column-major f16[B, K, 8] with strides [512, 1, 64], "
        "got strides [512, 8, 1] of shape [2, 64, 8]",
    ),
    (
        "inner stride",
        "laid",
        {"v": tensor("f16", [2, 64], [128, 2])},
        "MU6008: argument 'v' of laid: expected f16[B, K] with strides (_, 1), free ones at least 1, "
        "got strides [128, 2] of shape [2, 64]",
    ),
    (
        "an expanded view",
        "laid",
        {"v": tensor("f16", [2, 64], [0, 1])},
        "MU6008: argument 'v' of laid: expected f16[B, K] with strides (_, 1), free ones at least 1, "
        "got strides [0, 1] of shape [2, 64]",
    ),
    (
        "misaligned stride",
        "laid",
        {"v": tensor("f16", [2, 64], [68, 1])},
        "MU6009: argument 'v' of laid: expected a stride that is a multiple of 16 bytes, got 136 bytes",
    ),
    (
        "misaligned pointer",
        "linear",
        {"x": tensor("bf16", [M, K], data=0x1008)},
        "MU6009: argument 'x' of linear: expected a data pointer that is a multiple of 16 bytes, got 0x1008",
    ),
    (
        "misaligned by byte_offset",
        "linear",
        {"x": tensor("bf16", [M, K], data=0x1000, byte_offset=2)},
        "MU6009: argument 'x' of linear: expected a data pointer that is a multiple of 16 bytes, got 0x1002",
    ),
    (
        "promise",
        "linear",
        {"x": tensor("bf16", [M, 12]), "w": tensor("bf16", [N, 12])},
        f"MU6011: linear needs K % 8 == 0 ({ROW}), got M = 3, N = 16, K = 12",
    ),
    (
        "dense for sparse",
        "thinned",
        {"w": tensor("bf16", [N, 64])},
        "MU6008: argument 'w' of thinned: expected packed (mucc.sparsify) bf16[N, K] with strides [32, 1], "
        f"got strides [64, 1] of shape [{N}, 64]",
    ),
    (
        "one dense row for sparse",
        "thinned",
        {"w": tensor("bf16", [1, 64]), "y": tensor("bf16", [1])},
        "MU6008: argument 'w' of thinned: expected packed (mucc.sparsify) bf16[N, K] with strides [32, 1], "
        "got strides [64, 1] of shape [1, 64]",
    ),
    (
        "null",
        "linear",
        {"x": tensor("bf16", [M, K], data=0)},
        "MU6015: argument 'x' of linear: the data pointer is NULL",
    ),
]


@pytest.mark.parametrize(("kernel", "change", "message"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_bad_argument(lib: Lib, kernel: str, change: dict[str, Tensor], message: str) -> None:
    args = {"linear": linear, "laid": laid, "thinned": thinned}[kernel](**change)
    assert lib.call(kernel, *args) == message
    assert lib.workspace(kernel, *args) == -1
    assert lib.error() == message
    assert lib.state.launches == 0


def test_count(lib: Lib) -> None:
    expected = "MU6001: linear takes 4 arguments (x, w, alpha, y), got "
    assert lib.call("linear", *linear()[:3]) == expected + "3"
    assert lib.call("linear", *linear(), tensor("f32", [1])) == expected + "5"
    assert lib.dll.mucc_linear(None, 4, None, 0, None) != 0
    assert lib.error() == expected + "0"


def test_null_shape(lib: Lib) -> None:
    x = tensor("bf16", [M, K])
    x.shape = None
    assert lib.call("linear", *linear(x=x)) == (
        "MU6002: argument 'x' of linear: expected a tensor bf16[M, K], got a MuccTensor whose shape is NULL"
    )


def test_absurd_rank(lib: Lib) -> None:
    x = tensor("bf16", [M, K])
    x.ndim = 1 << 30
    assert lib.call("linear", *linear(x=x)) == (
        "MU6004: argument 'x' of linear: expected rank 2, bf16[M, K], got rank 1073741824"
    )


def test_null_scalar(lib: Lib) -> None:
    alpha = tensor("f32", [], data=0, device=(CPU, 0))
    assert lib.call("linear", *linear(alpha=alpha)).startswith("MU6002: argument 'alpha' of linear: ")


def test_a_long_message_is_cut_not_overrun(lib: Lib) -> None:
    lib.state.mode = 4
    assert lib.dll.mucc_linear((Tensor * 4)(*linear()), 4, None, 0, None) != 0
    assert lib.error() == "MU6010: " + "x" * 1015


def test_workspace_of_the_c_door(lib: Lib) -> None:
    lib.state.need = 1000
    assert lib.workspace("linear", *linear()) == 1000
    need = "MU6012: linear needs a workspace of 1000 bytes, got "
    assert lib.call("linear", *linear()) == need + "0"
    assert lib.call("linear", *linear(), workspace=0x4000, size=999) == need + "999"
    assert lib.call("linear", *linear(), workspace=0x4080, size=1000) == (
        "MU6013: linear: the workspace must be 256-byte aligned, got 0x4080"
    )
    assert lib.call("linear", *linear(), workspace=0x4000, size=1000) == ""
    assert (lib.state.workspace, lib.state.workspace_bytes) == (0x4000, 1000)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (1, "MU6010: cannot run this"),
        (2, "MU6021: linear: unexpected C++ exception: boom"),
        (3, "MU6021: linear: unexpected C++ exception"),
        (209, "MU6017: launching: this library holds no code for this GPU (cudaErrorName)"),
        (100, "MU6018: launching: no usable NVIDIA GPU or driver: what went wrong"),
        (700, "MU6016: launching: cudaErrorName: what went wrong"),
    ],
)
def test_failing_launch(lib: Lib, mode: int, message: str) -> None:
    lib.state.mode = mode
    packed = (Tensor * 4)(*linear())
    assert lib.dll.mucc_linear(packed, 4, None, 0, None) != 0
    assert lib.error() == message


def test_no_gpu(lib: Lib) -> None:
    lib.state.no_gpu = 1
    assert lib.call("linear", *linear()).startswith(
        "MU6018: reading the current device: no usable NVIDIA GPU"
    )


def test_memo_repeats_and_notices_every_change(lib: Lib) -> None:
    def hit(*args: Tensor, **more: int) -> bool:
        assert lib.call("linear", *args, **more) == ""
        return bool(lib.state.memo_hit)

    base = linear(alpha=scalar(3.0))
    assert not hit(*base)
    assert hit(*base)
    assert hit(*base, stream=5), "the stream is not part of what is remembered"
    changes = [
        linear(alpha=scalar(3.5)),
        linear(alpha=scalar(3.0), x=tensor("bf16", [M, K], data=0x9000)),
        linear(
            alpha=scalar(3.0), x=tensor("bf16", [5, K], data=0x1000), y=tensor("f32", [5, N], data=0x3000)
        ),
    ]
    for args in changes:
        assert not hit(*args)
    assert hit(*base), "four entries are kept"
    lib.state.need = 8
    assert not hit(*base, workspace=0x8000, size=8)


def test_memo_notices_free_strides(lib: Lib) -> None:
    for pitch in (72, 80):
        args = laid(v=tensor("f16", [2, 64], [pitch, 1], data=0xA000))
        assert lib.call("laid", *args) == ""
        assert lib.state.memo_hit == 0
        assert lib.call("laid", *args) == ""
        assert lib.state.memo_hit == 1


def test_only_doors_are_exported(path: Path) -> None:
    if not (nm := shutil.which("nm")):
        pytest.skip("needs nm")
    listing = subprocess.run(
        [nm, "-D", "--defined-only", path], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listing.splitlines()}
    doors = {f"{p}{k}{s}" for p in ("mucc_", "__tvm_ffi_") for k in KERNELS for s in ("", "_workspace")}
    assert names == doors | {"mucc_manifest", "mucc_on_launch", "mucc_last_error", "state"}


def test_without_a_gpu_the_real_runtime_reports_it(tmp_path: Path) -> None:
    source = tmp_path / "real.cpp"
    text = HOST_ABI.read_text()
    start, end = text.index('extern "C" {\ncudaError_t'), text.index("namespace {\n\nint record")
    source.write_text(text[:start] + text[end:])
    real = Lib(build(source, tmp_path / "real.so", defines=[raw_string(MANIFEST)], link_cuda=True))
    assert real.call("linear", *linear(x=tensor("f16", [M, K]))).startswith("MU6003"), (
        "checks come before CUDA"
    )
    count = ct.c_int()
    try:
        driver = ct.CDLL("libcuda.so.1")
        has_gpu = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ct.byref(count)) == 0 and count.value > 0
    except OSError:
        has_gpu = False
    if has_gpu:
        pytest.skip("there is a GPU here; what is tested is its absence")
    assert real.call("linear", *linear()).startswith(
        "MU6018: reading the current device: no usable NVIDIA GPU"
    )


def test_abi_header_is_plain_c(tmp_path: Path) -> None:
    if not (gcc := shutil.which("gcc")):
        pytest.skip("needs gcc")
    source = tmp_path / "client.c"
    source.write_text(
        "#include <mucc/abi.h>\nint main(void) { float a = 1; return (int)mucc_scalar(&a).ndim; }\n"
    )
    command = [gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{INCLUDE}", "-c", str(source)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "client.o")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_code_of_the_run_time_is_explained() -> None:
    runtime = INCLUDE.parents[1] / "runtime"
    headers = [header for folder in INCLUDES for header in (Path(folder) / "mucc").iterdir()]
    files = [*headers, *runtime.glob("*.py")]
    used = {code for f in files for code in re.findall(r"\"(MU\d{4})", f.read_text(encoding="utf-8"))}
    assert len(used) > 20
    assert used <= set(CODES), used - set(CODES)
