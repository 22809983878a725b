// Tensor maps: how TMA sees a tensor.
#pragma once

#include <mucc/view.h>

namespace mucc {

// A tensor map of the CUDA driver.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

// Elements of mapped tensors. f32 is rounded to tf32 on the way.
enum class Mapped : int { kF16, kBf16, kTf32, kByte };

MUCC_BOTH constexpr int bytes_of(Mapped element) { return element == Mapped::kTf32 ? 4 : element == Mapped::kByte ? 1 : 2; }

template <class T>
inline constexpr Mapped mapped = Mapped::kTf32;
template <>
inline constexpr Mapped mapped<f16> = Mapped::kF16;
template <>
inline constexpr Mapped mapped<bf16> = Mapped::kBf16;
template <>
inline constexpr Mapped mapped<e4m3> = Mapped::kByte;
template <>
inline constexpr Mapped mapped<int8_t> = Mapped::kByte;

// Bytes of a row of what a tensor map copies, which are swizzled.
constexpr int kMappedRow = 128;

}  // namespace mucc
