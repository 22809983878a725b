// Products of a warp by mma.sync, and how it reads and splits factors for them, for each format of numbers.
#pragma once

#include <mucc/conv_place.cuh>

namespace mucc::conv {

#if defined(__CUDA_ARCH__)
MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], Bf16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], F16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], Tf32) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], S8) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(reinterpret_cast<int&>(c[0])), "+r"(reinterpret_cast<int&>(c[1])), "+r"(reinterpret_cast<int&>(c[2])),
        "+r"(reinterpret_cast<int&>(c[3]))
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four e4m3 as two words of f16, which holds them.
MUCC_DEVICE void to_halves(uint32_t four, uint32_t (&to)[2]) {
#if __CUDA_ARCH__ >= 890
  asm volatile("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(to[0]), "=r"(to[1])
      : "r"(four));
#else
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float const low = from_e4m3((unsigned char)(four >> 16 * i)), high = from_e4m3((unsigned char)(four >> (16 * i + 8)));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to[i]) : "f"(high), "f"(low));
  }
#endif
}

// The parts of factors as the tensor cores take them.
template <class Format, int kCount>
MUCC_DEVICE void split(uint32_t (&x)[Format::kParts][kCount]) {
  if constexpr (Format::kRounds) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float const whole = __uint_as_float(x[0][i]);
      x[0][i] = to_tf32(whole);
      if constexpr (Format::kParts == 2) x[1][i] = to_tf32(whole - __uint_as_float(x[0][i]));
    }
  }
}

// Four 8 x 16-byte matrices: lane l names row l % 8 of matrix l / 8.
MUCC_DEVICE void load_matrices(uint32_t (&to)[4], char const* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(uint32_t(__cvta_generic_to_shared(row))));
}
#endif

// A sum of products as f32.
template <class Format>
MUCC_DEVICE float sum_of(float sum) {
#if defined(__CUDA_ARCH__)
  if constexpr (Format::kIntegers) return float(__float_as_int(sum));
#endif
  return sum;
}

}  // namespace mucc::conv
