"""How builds are compared by their machine code: finding cubins, reading cuobjdump, counting differences."""

from __future__ import annotations

import contextlib
import random
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.sass import Comparison, compare, count_differences
from bench.splice import Row, draw_dims, line, summarise
from mucc.build.toolchain.machine_code import (
    CUBIN_SECTION,
    EM_CUDA,
    NO_BITS,
    Function,
    Resources,
    cubins,
    elf_size,
    functions_of,
    parse_sass,
    resources,
    section,
)

X86 = 62


def elf(machine: int, sections: dict[str, bytes], *, programs: int = 0, bss: int = 0) -> bytes:
    """A 64-bit ELF file with these sections, and, after the section headers, so many program headers."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".names", ".bss"))
    contents = [*sections.values(), names]
    offset, headers = 64, [bytes(64)]
    for name, data in zip((*sections, ".names"), contents, strict=True):
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, offset, len(data), 0, 0, 1, 0))
        offset += len(data)
    at = names.index(b"\0.bss\0") + 1
    headers.append(struct.pack("<IIQQQQIIQQ", at, NO_BITS, 0, 0, offset, bss, 0, 0, 1, 0))
    after = offset + 64 * len(headers)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQI", 2, machine, 1, 0, after if programs else 0, offset, 0)
    header += struct.pack("<6H", 64, 56, programs, 64, len(headers), len(headers) - 2)
    return header + b"".join(contents) + b"".join(headers) + bytes(56 * programs)


def test_a_section_is_found_by_its_whole_name():
    data = elf(X86, {".mucc": b"shorter", CUBIN_SECTION: b"content", f"{CUBIN_SECTION}s": b"longer"})
    assert section(data, CUBIN_SECTION) == b"content"
    assert section(data, ".nv_fatbin") is None


@pytest.mark.parametrize(("programs", "bss"), [(0, 0), (3, 0), (0, 10**6)])
def test_the_size_of_an_elf_file_is_what_its_headers_reach_to(programs: int, bss: int):
    data = elf(EM_CUDA, {".text": b"x" * 100}, programs=programs, bss=bss)
    assert elf_size(data + b"more") == len(data)


def test_cubins_are_found_one_after_another():
    first, second = elf(EM_CUDA, {".text": b"\x7fELF and the like"}), elf(EM_CUDA, {".t": b"2"}, programs=2)
    host = elf(X86, {})
    assert cubins(first + second) == [first, second]
    assert cubins(bytes(5) + first + bytes(11) + second + b"\x7fELF") == [first, second]
    assert cubins(host + second) == [second]
    assert cubins(b"") == cubins(b"nothing at all") == []
    with pytest.raises(ValueError, match=f"a cubin of {len(second)} bytes begins at byte {len(first)}"):
        cubins(first + second[:-1])


def with_resources() -> bytes:
    """A cubin whose symbols 5 and 6 are kernels, of which the first has static shared memory."""

    def attribute(kind: int, *words: int) -> bytes:
        return struct.pack(f"<BBH{len(words)}I", 4, kind, 4 * len(words), *words)

    info = attribute(0x2F, 5, 168) + attribute(0x11, 5, 48) + struct.pack("<BBH", 3, 0x1B, 255)
    info += attribute(0x2F, 6, 20)
    data = bytearray(
        elf(
            EM_CUDA,
            {
                ".nv.info": info,
                ".nv.info.mu_a": attribute(0x05, 384, 1, 1),
                ".text.mu_a": bytes(16),
                ".text.mu_b": bytes(16),
                ".nv.shared.mu_a": bytes(1024),
            },
        )
    )
    headers = struct.unpack_from("<Q", data, 40)[0]
    for place, symbol in ((3, 5), (4, 6)):
        struct.pack_into("<I", data, headers + 64 * place + 44, 0x0F000000 | symbol)
    return bytes(data)


def test_resources_are_read_from_the_sections_of_a_cubin():
    assert resources(with_resources()) == [
        Resources("mu_a", 168, 48, 1024, 384),
        Resources("mu_b", 20, 0, 0, 0),
    ]


@given(st.integers(0, 2**31), st.integers(1, 255))
@example(3107, 128)  # an offset that is no ssize_t
def test_a_damaged_cubin_is_no_crash(place: int, change: int):
    data = bytearray(with_resources())
    data[place % len(data)] ^= change
    with contextlib.suppress(ValueError):
        resources(bytes(data))


LISTING = """
Fatbin elf code:
================
arch = sm_90a
code version = [1,8]
host = linux
compile_size = 64bit

	code for sm_90
	.target	sm_90

		Function : _Z1kILi3EEvPf
	.headerflags	@"EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                          /* 0x00000a00ff017b82 */
                                                                                   /* 0x000fe20000000800 */
        /*0070*/              @!P0 BRA 0xb0 ;                                      /* 0x00000000000c7944 */
                                                                                   /* 0x021fea0003c00000 */
        /*0080*/                   MOV R20, 32@lo((_Z1kILi3EEvPf + .L_x_1@srel)) ; /* 0x4040000008057820 */
                                                                                   /* 0x000fca0000400000 */
		..........


		Function : mucc_gemm
	.headerflags	@"EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        /*0000*/                   EXIT ;                                          /* 0x000000000000794d */
                                                                                   /* 0x000fea0003800000 */
		..........
"""


def test_the_output_of_cuobjdump_is_read():
    first, second = parse_sass(LISTING)
    assert first == Function(
        "_Z1kILi3EEvPf",
        ("LDC R1, c[0x0][0x28]", "@!P0 BRA 0xb0", "MOV R20, 32@lo((<symbol> + .L_x_1@srel))"),
        (
            "0x00000a00ff017b82 0x000fe20000000800",
            "0x00000000000c7944 0x021fea0003c00000",
            "0x4040000008057820 0x000fca0000400000",
        ),
    )
    assert second == Function("mucc_gemm", ("EXIT",), ("0x000000000000794d 0x000fea0003800000",))
    assert parse_sass("cuobjdump info: no code\n") == []


def test_differences_are_counted_by_line():
    assert count_differences("abcd", "abcd") == 0
    assert count_differences("abcd", "abXd") == 1
    assert count_differences("abcd", "abcXd") == 1
    assert count_differences("abcd", "bcd") == 1
    assert count_differences("", "ab") == 2


def function(name: str, text: str, schedule: str = "") -> Function:
    return Function(name, tuple(text), tuple(t + schedule for t in text))


def test_functions_are_compared_with_those_most_like_them():
    plain = [function("_Z1a", "abcdef"), function("_Z1b", "uvwxyz")]
    split = [function("mucc_b", "uvwxyz", "!"), function("mucc_a", "abcdeX")]
    assert compare(plain, split) == Comparison(instructions=1, encodings=1 + 6, of=12)
    assert compare(plain, plain[::-1]) == Comparison(0, 0, 12)
    assert compare(plain, split[1:]) == Comparison(1 + 6, 1 + 6, 12)
    assert compare(plain[:1], split) == Comparison(1 + 6, 1 + 6, 6)


def test_libraries_are_disassembled_whole_or_cubin_by_cubin(tmp_path: Path):
    (tmp_path / "listing").write_text(LISTING)
    tool = tmp_path / "cuobjdump"
    tool.write_text(f"#!/bin/sh\necho $2 >> {tmp_path}/calls\ncat {tmp_path}/listing\n")
    tool.chmod(0o755)
    cubin = elf(EM_CUDA, {".text": b"x"})
    whole, parts = tmp_path / "whole.so", tmp_path / "parts.so"
    whole.write_bytes(elf(X86, {".nv_fatbin": cubin}))
    parts.write_bytes(elf(X86, {CUBIN_SECTION: cubin + bytes(8) + cubin}))
    assert [f.name for f in functions_of(whole, str(tool))] == ["_Z1kILi3EEvPf", "mucc_gemm"]
    assert len(functions_of(parts, str(tool))) == 4
    calls = (tmp_path / "calls").read_text().split()
    assert calls[0] == str(whole) and [Path(c).name for c in calls[1:]] == ["0.cubin", "1.cubin"]


def test_sizes_have_rests_and_keep_the_promises():
    for _ in range(100):
        dims = draw_dims(random.Random())
        assert dims["M"] % 2 == 1 and dims["N"] % 8 == 0 and dims["K"] % 8 == 0


def test_the_figures_of_the_comparison():
    good = Row("relu", "row", False, 1, equal_bits=True, error=1e-3, plain_ms=1, split_ms=1, time_ratio=1.0)
    good.sass_differences, good.sass_encodings, good.sass_instructions = 0, 2, 100
    slow = Row("tanh", "row", True, 2, equal_bits=False, error=1e-3, plain_ms=2, split_ms=2.42)
    slow.time_ratio = 1.21
    slow.sass_differences = 5
    lost = Row("erf", "row", True, 3)
    lost.blame("there is no erf.so")
    lost.blame("nor anything else")
    assert summarise([good, slow, lost]) == {
        "splice.epilogues": 3.0,
        "splice.bitwise_equal": 1.0,
        "splice.without_library": 1.0,
        "splice.same_sass_without_library": 1.0,
        "splice.same_sass": 1.0,
        "splice.time_ratio_worst": 1.21,
        "splice.time_ratio_geomean": 1.1,
    }
    assert "splice.time_ratio_worst" not in summarise([lost])
    assert "same bits" in line(good) and "OTHER BITS" in line(slow) and "library" in line(slow)
    assert line(lost).endswith("there is no erf.so; nor anything else") and "not run" in line(lost)
