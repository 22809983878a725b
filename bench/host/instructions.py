"""Replace instructions of a GPU by calls of functions for the host, which are in the headers in `include`."""

from __future__ import annotations

import re

HEADERS = (
    ("view.cuh", r'asm\("cvt\.f32\.f16 [^;]*;"[^;]*;', "result = on_host::from_f16(x.bits);"),
    ("view.cuh", r'asm\("cvt\.rn\.bf16\.f32 [^;]*;"[^;]*;', "to.bits = on_host::to_bf16(x);"),
    ("view.cuh", r'asm\("cvt\.rn\.f16\.f32 [^;]*;"[^;]*;', "to.bits = on_host::to_f16(x);"),
    (
        "pack.cuh",
        r'asm volatile\("ld\.global.*?\)\);',
        "on_host::read_words(to, from);",
    ),
    (
        "shared.cuh",
        r"extern __shared__ [^;]*;\s*return dynamic_bytes;",
        "return on_host::dynamic[on_host::block];",
    ),
    (
        "shared.cuh",
        r"return uint32_t\(__cvta_generic_to_shared\(at\)\);",
        "return uint32_t(static_cast<char const*>(at) - on_host::dynamic[on_host::block]);",
    ),
    ("row_teams.cuh", r'asm volatile\("st\.relaxed[^;]*;[^;]*;', "on_host::store_word(slot, both);"),
    (
        "row_teams.cuh",
        r'asm volatile\("ld\.relaxed[^;]*;[^;]*;',
        "both = on_host::load_word(slot);",
    ),
    ("attention.cuh", r'asm volatile\("cp\.async\.cg[^;]*;[^;]*;', "on_host::copy_piece(to, from, wanted);"),
    ("attention.cuh", r'asm volatile\("cp\.async\.commit_group[^;]*;[^;]*;', "on_host::commit_copies();"),
    ("attention.cuh", r'asm volatile\("cp\.async\.wait_group[^;]*;[^;]*;', "on_host::wait_copies(kLeft);"),
    ("conv_copy.cuh", r"for \(int i = 0; i < 16; \+\+i\)[^;]*;", "on_host::copy_piece(to, from, present);"),
    (
        "conv_copy.cuh",
        r'#if defined\(__CUDA_ARCH__\)\s*asm volatile\("cp\.async\.commit_group.*?#endif',
        "on_host::commit_copies();",
    ),
    (
        "conv_copy.cuh",
        r'#if defined\(__CUDA_ARCH__\)\s*asm volatile\("cp\.async\.wait_group.*?#endif',
        "on_host::wait_copies(kPending);",
    ),
    (
        "attention.cuh",
        r'asm volatile\("ldmatrix[^;]*x4\.shared[^;]*;[^;]*;',
        "on_host::matrices(x, row, false);",
    ),
    (
        "attention.cuh",
        r'asm volatile\("ldmatrix[a-z.0-9]*x4\.trans[^;]*;[^;]*;',
        "on_host::matrices(x, row, true);",
    ),
    (
        "attention.cuh",
        r'asm\("mma\.sync[a-z0-9.]*\.(b?f16)\.f32 [^;]*;[^;]*;',
        r"on_host::multiply(on_host::from_\1, c, a, b0, b1);",
    ),
    (
        "attention.cuh",
        r'asm\("mma\.sync[a-z0-9.]*\.tf32\.f32 [^;]*;[^;]*;',
        "on_host::multiply_single(c, a, b0, b1);",
    ),
    (
        "attention.cuh",
        r'asm\("cvt\.rn\.(b?f16)x2[^;]*;[^;]*;',
        r"both = on_host::to_\1(low) | uint32_t(on_host::to_\1(high)) << 16;",
    ),
    (
        "attention.cuh",
        r'asm\("cvt\.rn\.satfinite\.e4m3x2[^;]*;" : "=h"\((\w+)\) : "f"\((\w)\), "f"\((\w)\)\);',
        r"\1 = uint16_t(mucc::to_e4m3(\3) | mucc::to_e4m3(\2) << 8);",
    ),
    ("attention.cuh", r'asm\("ex2\.approx[^;]*;[^;]*;', "y = std::exp2(x);"),
    (
        "warpgroup.cuh",
        r'asm volatile\("mbarrier\.init[^;]*;[^;]*;',
        "on_host::start_barrier(barrier, arrivals);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\("mbarrier\.arrive\.shared[^;]*;[^;]*;',
        "on_host::expect(barrier, 0);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\("mbarrier\.arrive\.expect[^;]*;[^;]*;',
        "on_host::expect(barrier, bytes);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\(\s*"\{\.reg \.pred done.*?\);',
        "on_host::await(barrier, parity);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\(\s*"cp\.async\.bulk\.tensor[a-z0-9_.:]*\.im2col.*?: "memory"\);',
        "on_host::copy_positions(to, &map, barrier, channel, first, batch, tap);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\(\s*"cp\.async\.bulk\.tensor.*?: "memory"\);',
        "on_host::copy_tile(to, &map, barrier, element, row, leading);",
    ),
    ("cluster.cuh", r'asm volatile\(\s*"barrier\.cluster.*?: "memory"\);', "on_host::sync_cluster();"),
    (
        "cluster.cuh",
        r'asm volatile\("mapa[^;]*;[^;]*;',
        "found = uint32_t(block) << 24 | at;",
    ),
    (
        "cluster.cuh",
        r'asm volatile\("ld\.shared::cluster[^;]*;[^;]*;',
        "for (int i = 0; i < kCount; ++i) x[i] = on_host::shared_of(at + 4 * i);",
    ),
    ("warpgroup.cuh", r'asm volatile\("prefetch[^;]*;[^;]*;', ""),
    ("warpgroup.cuh", r'asm volatile\("(setmaxnreg|wgmma\.fence)[^;]*;[^;]*;', ""),
    ("warpgroup.cuh", r'asm volatile\("wgmma\.commit[^;]*;[^;]*;', "on_host::commit_products();"),
    ("warpgroup.cuh", r'asm volatile\("(fence\.mbarrier_init|" : "\+f)[^;]*;(" ::: "memory"\);)?', ";"),
    ("warpgroup.cuh", r'asm volatile\("wgmma\.wait_group[^;]*;[^;]*;', "on_host::await_products(kLeft);"),
    ("warpgroup.cuh", r'asm volatile\("bar\.sync[^;]*;[^;]*;', "on_host::named_sync(barrier);"),
    ("warpgroup.cuh", r'asm volatile\("bar\.arrive[^;]*;[^;]*;', "on_host::named_arrive(barrier);"),
)
"""Header, pattern of an instruction, and the C++ that replaces it on the host."""

_HALVES = (
    r'asm volatile\("\{\.reg \.pred p;[^;]*;[^;]*?k16\.f32\.(b?f16)\.[^;]*p, 1, 1, (?:(\d), )?(\d);\}"'
    r'.*?"r"\(keeps\)\);'
)
"""A wgmma instruction: the dtype, and whether columns of the left and the right operand are contiguous."""

_TF32 = r'asm volatile\("\{\.reg \.pred p;[^;]*; "\s*"wgmma[a-z0-9._]*k8\.f32\.tf32\..*?"r"\(keeps\)\);'

_E4M3 = r'asm volatile\("\{\.reg \.pred p;[^;]*; "\s*"wgmma[a-z0-9._]*k32\.f32\.e4m3\..*?"r"\(keeps\)\);'

_S8 = r'asm volatile\("\{\.reg \.pred p;[^;]*; "\s*"wgmma[a-z0-9._]*k32\.s32\.s8\..*?"r"\(keeps\)\);'

_PRODUCTS = (
    (_HALVES, r"on_host::wgmma(on_host::from_\1, sum, a, b, keeps, \3, \g<2>+0);"),
    (_TF32, "on_host::wgmma_tf32(sum, a, b, keeps);"),
    (_E4M3, "on_host::wgmma_e4m3(sum, a, b, keeps);"),
    (_S8, "on_host::wgmma_s8(sum, a, b, keeps);"),
)


def without_products(source: str) -> str:
    """Replace the wgmma instructions of a kernel, which the compiler writes."""
    for pattern, text in _PRODUCTS:
        source = re.sub(pattern, text, source, flags=re.DOTALL)
    return source


def without_instructions(name: str, source: str) -> str:
    """Replace the PTX instructions of a header. Raises ValueError if one of `HEADERS` is not in it."""
    for header, pattern, text in HEADERS:
        if header == name:
            source, count = re.subn(pattern, text, source, flags=re.DOTALL)
            if not count:
                raise ValueError(f"{name} has nothing like {pattern}")
    return source
