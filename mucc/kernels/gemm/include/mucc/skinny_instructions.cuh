// Instructions of contractions with few rows: copies to shared memory that a lane waits for, and products by mma.sync for
// each pair of formats.
#pragma once

#include <mucc/narrow.cuh>

namespace mucc::skinny {

// Four words of an operand.
struct alignas(16) Words {
  uint32_t of[4];
};

MUCC_DEVICE uint32_t shared_address(void const* at) { return uint32_t(__cvta_generic_to_shared(at)); }

// 16 bytes that are read once: they do not go into L1. Zeros where they are not `wanted`.
MUCC_DEVICE void copy_once(void* to, void const* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(wanted ? 16 : 0)
               : "memory");
}

// 8 or 16 bytes that other warps read too.
template <int kBytes>
MUCC_DEVICE void copy_often(void* to, void const* from, bool wanted) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(wanted ? kBytes : 0), "n"(kBytes)
               : "memory");
}

MUCC_DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kLeft` of this lane's groups of copies are under way.
template <int kLeft>
MUCC_DEVICE void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Copies the first `count` of up to `kMost` elements, `step` apart, and zeros for the others.
template <int kMost, class T>
MUCC_DEVICE void gather(void* to, T const* from, int64_t step, int count) {
  Pack<T, kMost> pack{};
#pragma unroll
  for (int i = 0; i < kMost; ++i)
    if (i < count) pack.of[i] = from[i * step];
  *static_cast<Pack<T, kMost>*>(to) = pack;
}


// What products of these are added up in.
template <class T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<int8_t> {
  using Type = int32_t;
};
template <>
struct SumOf<uint8_t> {
  using Type = int32_t;
};

// 16 rows of weights by 32 bytes of K, and 8 columns. Words of both operands hold neighbours along K.
#define MUCC_MULTIPLY(WEIGHT, FEW, SUM, LETTER, INSTRUCTION)                                                           \
  MUCC_DEVICE void multiply(WEIGHT, FEW, SUM(&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,   \
                            uint32_t b1) {                                                                             \
    asm("mma.sync.aligned." INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
        : "+" LETTER(c[0]), "+" LETTER(c[1]), "+" LETTER(c[2]), "+" LETTER(c[3])                                       \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                                       \
  }
MUCC_MULTIPLY(bf16, bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
MUCC_MULTIPLY(f16, f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
MUCC_MULTIPLY(float, float, float, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
MUCC_MULTIPLY(e4m3, e4m3, float, "f", "m16n8k32.row.col.f32.e4m3.e4m3.f32")
MUCC_MULTIPLY(e4m3, e5m2, float, "f", "m16n8k32.row.col.f32.e4m3.e5m2.f32")
MUCC_MULTIPLY(e5m2, e4m3, float, "f", "m16n8k32.row.col.f32.e5m2.e4m3.f32")
MUCC_MULTIPLY(e5m2, e5m2, float, "f", "m16n8k32.row.col.f32.e5m2.e5m2.f32")
MUCC_MULTIPLY(int8_t, int8_t, int32_t, "r", "m16n8k32.row.col.s32.s8.s8.s32")
MUCC_MULTIPLY(int8_t, uint8_t, int32_t, "r", "m16n8k32.row.col.s32.s8.u8.s32")
MUCC_MULTIPLY(uint8_t, int8_t, int32_t, "r", "m16n8k32.row.col.s32.u8.s8.s32")
MUCC_MULTIPLY(uint8_t, uint8_t, int32_t, "r", "m16n8k32.row.col.s32.u8.u8.s32")
#undef MUCC_MULTIPLY

// Of rows of 16-bit elements, each word a pair of neighbours across K: the word along K of the `which` element.
MUCC_DEVICE uint32_t turned(uint32_t row0, uint32_t row1, int which) {
  return __byte_perm(row0, row1, which ? 0x7632 : 0x5410);
}

// Adds up over the four lanes that share rows.
MUCC_DEVICE float over_lanes(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace mucc::skinny
