"""What warps ask of memory is counted from PTX: sectors and lines of requests, conflicts of banks."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path

import numpy as np
import pytest

from bench.accesses import Cost, Rates, costs
from bench.host.ptx.machine import Counted, Machine
from mucc.build.toolchain import nvrtc

KERNEL = """
.version 9.0
.target sm_90a
.address_size 64

.visible .entry k(.param .u64 k_param_0)
{{
	.reg .b32 %r<8>;
	.reg .b64 %rd<8>;
	.reg .pred %p<2>;
	.shared .align 16 .b8 words[16384];
	ld.param.u64 %rd1, [k_param_0];
	mov.u32 %r1, %tid.x;
	{0}
	ret;
}}
"""
AT = "mul.wide.u32 %rd2, %r1, {0}; add.s64 %rd3, %rd1, %rd2; "


def counted(code: str, folder: Path, threads: int = 32) -> Counted:
    machine = Machine(folder)
    machine.library.ptx_clear()
    machine.load(0, KERNEL.format(code))
    memory = np.zeros(1 << 16, np.uint8)
    pointer = ct.c_void_p(-(-memory.ctypes.data // 512) * 512)
    given = (ct.c_void_p * 1)(ct.addressof(pointer))
    machine.count(1)
    try:
        assert not machine.library.ptx_launch(b"k", (ct.c_uint * 3)(1, 1, 1), threads, 1, 0, given)
        (found,) = machine.counted()
    finally:
        machine.count(0)
    return found


@pytest.mark.parametrize(
    ("code", "sectors", "lines", "used"),
    [
        (AT.format(4) + "ld.global.u32 %r2, [%rd3];", 4, 1, 128),
        (AT.format(16) + "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];", 16, 4, 512),
        (AT.format(16) + "st.global.u32 [%rd3], %r1;", 16, 4, 128),
        (AT.format(1024) + "ld.global.u16 %r2, [%rd3];", 32, 32, 64),
        ("ld.global.u32 %r2, [%rd1];", 1, 1, 4),
        (AT.format(4) + "ld.global.u32 %r2, [%rd3+16];", 5, 2, 128),
        (
            AT.format(64) + "setp.lt.u32 %p1, %r1, 3; @%p1 ld.global.u32 %r2, [%rd3];",
            3,
            2,
            12,
        ),
    ],
    ids=["adjacent", "vectors", "scattered stores", "far apart", "one place", "shifted", "some lanes"],
)
def test_requests_are_made_of_sectors(code: str, sectors: int, lines: int, used: int, tmp_path: Path) -> None:
    (one,) = counted(code, tmp_path).traffic
    assert (one.requests, one.sectors, one.lines, one.bytes) == (1, sectors, lines, used)


@pytest.mark.parametrize(
    ("distance", "access", "cycles", "least"),
    [
        (4, "ld.shared.u32 %r4, [%r3]", 1, 1),
        (8, "ld.shared.u32 %r4, [%r3]", 2, 1),
        (128, "st.shared.u32 [%r3], %r1", 32, 1),
        (132, "st.shared.u32 [%r3], %r1", 1, 1),
        (0, "ld.shared.u32 %r4, [%r3]", 1, 1),
        (16, "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 4, 4),
        (32, "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 8, 4),
        (8, "ld.shared.v2.u32 {%r4, %r5}, [%r3]", 2, 2),
    ],
)
def test_banks_conflict(distance: int, access: str, cycles: int, least: int, tmp_path: Path) -> None:
    code = f"mov.u32 %r2, words; mul.lo.u32 %r3, %r1, {distance}; add.u32 %r3, %r3, %r2; {access};"
    (one,) = counted(code, tmp_path).traffic
    assert (one.requests, one.sectors, one.cycles, one.least) == (1, 0, cycles, least)


def test_each_turn_of_a_loop_is_a_request_of_all_lanes(tmp_path: Path) -> None:
    loop = (
        AT.format(4) + "mov.u32 %r2, 0; $A: ld.global.u32 %r3, [%rd3]; add.s64 %rd3, %rd3, 256;"
        " add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5; @%p1 bra $A;"
    )
    found = counted(loop, tmp_path, 64)
    (one,) = found.traffic
    assert (one.requests, one.sectors, one.lines) == (10, 40, 10)
    assert found.sectors == 40 and found.instructions == 2 * (5 + 5 * 5 + 1)


def test_a_line_scales_what_some_blocks_took(tmp_path: Path) -> None:
    found = counted(AT.format(16) + "st.global.u32 [%rd3], %r1;", tmp_path)
    found.blocks = 1000
    rates = Rates(1.0, 1.0, 1.0, 32.0, 1.0)
    cost = Cost.of(found, rates)
    assert cost.l1 == 4000 and cost.l2 == 16_000 and cost.used == 0.25 and cost.poor == tuple(found.traffic)


@pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")
def test_open_extents_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--dims has no extent of N"):
        costs("kernel k[M, N](x: f32[M, N]) -> f32[M, N] { return relu(x) }", {"M": 3}, 1, tmp_path)


@pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")
def test_a_program_is_counted_at_its_real_extents(tmp_path: Path) -> None:
    text = "kernel k(x: f32[65536, 4096]) -> f32[65536, 4096] { return relu(x) }"
    (cost,), dram = costs(text, {}, 4, tmp_path)
    assert cost.used == 1 and cost.shared == 0
    # Twice a GiB, read once and written once, at 3 TB/s; L2 has twice that.
    assert 600 < dram < 800 and 0.2 * dram < cost.l2 < dram
