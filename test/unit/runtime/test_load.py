"""`mucc.load`: a library that can be loaded, and every file that cannot. Needs g++, no GPU."""

from __future__ import annotations

import copy
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hostlib import HOST_ABI, MANIFEST, build, host_library, raw_string

from mucc.library.checksum import seal
from mucc.runtime import MuccError, MuccRuntimeError, load
from mucc.runtime.elf import read_manifest


@pytest.fixture(scope="session")
def library() -> Path:
    return host_library()


def refused(path: Path) -> MuccError:
    with pytest.raises(MuccRuntimeError) as caught:
        load(path)
    return caught.value


def test_module(library: Path) -> None:
    module = load(library)
    assert [k.name for k in module.kernels] == ["linear", "laid"]
    assert module.manifest == MANIFEST
    assert module["linear"] is module.linear
    assert [k.name for k in module] == ["linear", "laid"]
    assert "linear" in dir(module)
    assert repr(module) == (
        f"<mucc.Module '{library}' for sm_90a\n"
        "    linear[M, N, K](x: bf16[M, K], w: bf16[N, K], alpha: f32) -> f32[M, N]\n"
        "    laid[B, K=64](c: f16[B, K, 8] col_major, s: f32[], v: f16[B, K] strides(_, 1)) -> f16[B, K]>"
    )
    assert repr(module.laid).startswith("<mucc.Kernel laid[B, K=64](")


def test_unknown_kernel(library: Path) -> None:
    module = load(library)
    assert not hasattr(module, "nothing")
    with pytest.raises(MuccRuntimeError, match=r"MU6037: .* has no kernel 'nothing', it has linear, laid"):
        module["nothing"]
    with pytest.raises(AttributeError, match="MU6037"):
        _ = module.nothing


def test_a_kernel_may_be_named_like_an_attribute(tmp_path: Path) -> None:
    manifest = copy.deepcopy(MANIFEST)
    manifest["kernels"][0]["name"] = "kernels"
    module = load(build(HOST_ABI, tmp_path / "k.so", defines=[raw_string(manifest)]))
    assert module["kernels"].name == "kernels"
    assert len(module.kernels) == 2


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.so").code == "MU6030"
    assert str(refused(tmp_path)) == f"MU6030: cannot read '{tmp_path}': Is a directory"


def test_what_may_not_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (Path("/dev/zero"), pipe):
        assert str(refused(path)) == f"MU6031: '{path}' is a device or a pipe, not a shared library"
    assert refused(tmp_path / "a\0b").code == "MU6030"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"not a library", "is not a shared library"), (b"\x7fELF\x02\x01", "is cut off")],
)
def test_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "k.so"
    path.write_bytes(content)
    assert str(refused(path)) == f"MU6031: '{path}' {message}"


def patched(data: bytes, offset: int, new: bytes) -> bytes:
    return data[:offset] + new + data[offset + len(new) :]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda d: patched(d, 18, struct.pack("<H", 8)), "MU6032", "is for machine 8, this machine is"),
        (lambda d: patched(d, 16, struct.pack("<H", 2)), "MU6031", "an ELF file, but not a shared library"),
        (lambda d: patched(d, 4, b"\x01"), "MU6031", "not a 64-bit little-endian library"),
        (lambda d: d[: len(d) // 2], "MU6031", "is cut off"),
        (lambda d: d[:-1], "MU6031", "is cut off"),
        (lambda d: patched(d, 40, struct.pack("<Q", 2**60)), "MU6031", "is cut off"),
        (lambda d: patched(d, 62, struct.pack("<H", 60000)), "MU6031", "is damaged"),
        (lambda d: d.replace(b".mucc_manifest\0", b".nope_manifest\0"), "MU6033", "mucc did not make it"),
        (
            lambda d: d.replace(b'{"abi": 1,', b'{"abi": 2,'),
            "MU6034",
            "it is of ABI 2 (mucc 0.1.0), this mucc knows 1",
        ),
        (lambda d: d.replace(b'{"abi": 1,', b'!"abi": 1,'), "MU6035", "it is not JSON"),
        (lambda d: d.replace(b'"target"', b'"tarmac"'), "MU6035", "a field 'target' is missing"),
        (lambda d: d.replace(b"\0__tvm_ffi_laid\0", b"\0__tvm_ffi_lost\0"), "MU6036", "it does not export"),
    ],
    ids=lambda v: v if isinstance(v, str) and not v.startswith("MU") else "",
)
def test_damaged_libraries(
    library: Path, tmp_path: Path, change: Callable[[bytes], bytes], code: str, message: str
) -> None:
    data = library.read_bytes()
    assert change(data) != data
    path = tmp_path / "k.so"
    path.write_bytes(change(data))
    error = refused(path)
    assert error.code == code
    assert message in error.message


def test_every_cut_is_noticed(library: Path, tmp_path: Path) -> None:
    data = library.read_bytes()
    path = tmp_path / "k.so"
    for size in range(0, len(data), max(len(data) // 97, 1)):
        path.write_bytes(data[:size])
        with pytest.raises(MuccRuntimeError, match="MU6031"):
            read_manifest(path)


def test_the_seal_notices_one_flipped_bit(library: Path, tmp_path: Path) -> None:
    sealed = seal(library.read_bytes())
    path = tmp_path / "k.so"
    path.write_bytes(sealed)
    assert load(path).linear.name == "linear"
    middle = len(sealed) // 2
    path.unlink()  # what was loaded stays mapped: cutting the file short would take its pages
    path.write_bytes(patched(sealed, middle, bytes([sealed[middle] ^ 1])))
    error = refused(path)
    assert (error.code, "checksum" in error.message) == ("MU6031", True)


def test_an_ordinary_library_is_not_run(tmp_path: Path) -> None:
    source = tmp_path / "foreign.cpp"
    source.write_text(
        "#include <cstdlib>\n"
        "__attribute__((constructor)) void f() { std::exit(3); }\n"
        "int mucc_manifest = 1;\n"
    )
    assert refused(build(source, tmp_path / "foreign.so")).code == "MU6033"


def test_a_library_that_was_built_anew_is_loaded_anew(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "k.so"
    path.write_bytes(library.read_bytes())
    assert load(path).info.version == "0.1.0"
    changed = tmp_path / "new.so"
    changed.write_bytes(
        library.read_bytes().replace(b"MU6001: ", b"MU6001; ").replace(b"takes %d arg", b"WANTS %d arg")
    )
    os.replace(changed, path)
    with pytest.raises(TypeError, match="linear WANTS 4 arguments"):
        load(path).linear.ffi()


def test_errors_reach_python_when_the_library_came_before_tvm_ffi(library: Path) -> None:
    code = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1])\n"
        "import mucc\n"
        "try: mucc.load(sys.argv[1]).linear.ffi(1)\n"
        "except TypeError as e: print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "MU6001: linear takes 4 arguments (x, w, alpha, y), got 1\n"


def test_importing_the_runtime_imports_neither_torch_nor_tvm_ffi() -> None:
    code = (
        "import sys, mucc, mucc.runtime as r; r.load; print({'torch', 'tvm_ffi', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
