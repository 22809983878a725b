"""Masks for inputs: what lies there before a call tells nothing, and becomes what is meant by one pass.

The judge draws a key for each timed call, and masks inputs with it. The candidate's process has the masked
bytes on the GPU beforehand; the key comes when the clock is about to start.
"""

from __future__ import annotations

import ctypes
from typing import Any

WORD = 8
"""Bytes of a word."""

ALL = (1 << 64) - 1

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Constants of SplitMix64 (Steele, Lea and Flood, 2014)."""

BLOCKS, THREADS = 264, 512
"""Of the kernel: two blocks for each multiprocessor of an H100, whatever the size."""


def mixed(value: int) -> int:
    """Return the finaliser of SplitMix64 for a number of 64 bits."""
    value = (value ^ (value >> 30)) * FIRST & ALL
    value = (value ^ (value >> 27)) * SECOND & ALL
    return value ^ (value >> 31)


def mask(key: tuple[int, int], index: int) -> int:
    """Return the mask of a word. Each half of the key is behind a function that the other keeps from being
    turned round, as words whose plain bits are known (bands of NaN) would allow."""
    return mixed(mixed((key[0] + index * STEP) & ALL) ^ key[1])


def _mix(register: str) -> str:
    lines: list[str] = []
    for shift, factor in ((30, FIRST), (27, SECOND), (31, None)):
        lines += [f"shr.u64 %t, {register}, {shift};", f"xor.b64 {register}, {register}, %t;"]
        lines += [f"mul.lo.u64 {register}, {register}, {factor:#x};"] if factor else []
    return "\n\t".join(lines)


PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry unmask(.param .u64 from, .param .u64 to, .param .u64 words, .param .u64 key)
{{
	.reg .pred %p;
	.reg .b32 %a, %b, %c;
	.reg .b64 %i, %n, %step, %from, %to, %at, %z, %t, %v, %k0, %k1, %keys;
	.shared .align 8 .b64 held[2];
	ld.param.u64 %from, [from];
	ld.param.u64 %to, [to];
	ld.param.u64 %n, [words];
	ld.param.u64 %keys, [key];
	cvta.to.global.u64 %from, %from;
	cvta.to.global.u64 %to, %to;
	cvta.to.global.u64 %keys, %keys;
	mov.u32 %a, %tid.x;
	setp.ne.u32 %p, %a, 0;
	@%p bra known;
	ld.volatile.global.u64 %k0, [%keys];
	ld.volatile.global.u64 %k1, [%keys+8];
	st.shared.u64 [held], %k0;
	st.shared.u64 [held+8], %k1;
known:
	bar.sync 0;
	ld.shared.u64 %k0, [held];
	ld.shared.u64 %k1, [held+8];
	mov.u32 %b, %ctaid.x;
	mov.u32 %c, %ntid.x;
	mad.lo.u32 %a, %b, %c, %a;
	cvt.u64.u32 %i, %a;
	mov.u32 %b, %nctaid.x;
	mul.lo.u32 %b, %b, %c;
	cvt.u64.u32 %step, %b;
next:
	setp.ge.u64 %p, %i, %n;
	@%p bra end;
	shl.b64 %at, %i, 3;
	add.u64 %v, %from, %at;
	ld.global.u64 %v, [%v];
	mul.lo.u64 %z, %i, {STEP:#x};
	add.u64 %z, %z, %k0;
	{_mix("%z")}
	xor.b64 %z, %z, %k1;
	{_mix("%z")}
	xor.b64 %v, %v, %z;
	add.u64 %at, %to, %at;
	st.global.u64 [%at], %v;
	add.u64 %i, %i, %step;
	bra next;
end:
	ret;
}}
"""
"""The kernel: words of `from` with the masks of a key, to `to`; once more gives what they were."""


class Masking:
    """The kernel in the context of this process, on the default stream. Raises RuntimeError where the driver
    refuses."""

    def __init__(self, driver: Any):
        self._launch = driver.cuLaunchKernel
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._checked(driver.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(PTX.encode())))
        found = driver.cuModuleGetFunction(ctypes.byref(self._function), module, ctypes.c_char_p(b"unmask"))
        self._checked(found)

    def apply(self, source: int, target: int, words: int, key: int) -> None:
        """Mask words at an address of the GPU, with the key that lies at another."""
        held = [ctypes.c_uint64(value) for value in (source, target, words, key)]
        places = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in held))
        sizes = (ctypes.c_uint(n) for n in (BLOCKS, 1, 1, THREADS, 1, 1, 0))
        self._checked(self._launch(self._function, *sizes, None, places, None))

    @staticmethod
    def _checked(status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}")
