// Tensors as pointwise kernels see them: a pointer and one stride per axis of the kernel's space. What both the host and
// the device know of them; view.cuh has the rest.
#pragma once

#if defined(__CUDACC_RTC__)
using int64_t = long long;
using uint64_t = unsigned long long;
using int32_t = int;
using uint32_t = unsigned;
using uint16_t = unsigned short;
using int8_t = signed char;
using uint8_t = unsigned char;
#else
#include <cstdint>
#endif

#if defined(__CUDACC__)
#define MUCC_BOTH __host__ __device__
#else
#define MUCC_BOTH
#endif

namespace mucc {

// 16-bit floats as they lie in memory.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

// 8-bit floats: 4 and 5 bits of exponent. e4m3 has no infinities.
struct e4m3 {
  uint8_t bits;
};
struct e5m2 {
  uint8_t bits;
};

// Two integers of 4 bits, the first one in the low half. Strides count integers, not bytes.
struct s4 {
  uint8_t bits;
};
struct u4 {
  uint8_t bits;
};

// Elements that a kernel only moves.
template <int kSize>
struct BitsOf;
template <>
struct BitsOf<1> {
  using Type = uint8_t;
};
template <>
struct BitsOf<2> {
  using Type = uint16_t;
};
template <>
struct BitsOf<4> {
  using Type = uint32_t;
};

template <int R>
struct Extents {
  int64_t of[R];
};

// The product of extents `first` to below `last` of a space, 0 where it is known at a launch only.
template <class Op>
MUCC_BOTH constexpr int64_t known_product(int first, int last) {
  int64_t product = 1;
  for (int a = first; a < last; ++a) product *= Op::kKnown[a];
  return product;
}

// Whether a launch may have so many elements that indices have 64 bits, or so few that they have 32.
MUCC_BOTH constexpr bool may_be_wide(int64_t elements) { return elements == 0 || elements > 0x7fffffff; }
MUCC_BOTH constexpr bool may_be_narrow(int64_t elements) { return elements <= 0x7fffffff; }

// How a tensor lies along the axis that the lanes run along: adjacent elements, the same one, or anyhow.
enum class Along { kUnit, kSame, kAny };

MUCC_BOTH constexpr int vector_bytes(int v, int element) { return v * element < 16 ? v * element : 16; }

// Strides that are compiled in, one for each axis: -1 for those that a launch gives, and none where it gives all.
template <int64_t... kOf>
struct Strides {
  MUCC_BOTH static constexpr int64_t of(int axis) {
    int64_t const known[] = {kOf..., -1};
    return sizeof...(kOf) ? known[axis] : -1;
  }
};

// A tensor seen from a space of R axes, of which `Axis` is the one that lanes run along. Strides count elements.
template <class T, int R, Along kHow, int Axis = R - 1, class KnownStrides = Strides<>>
struct View {
  using Known = KnownStrides;
  static constexpr Along kAlong = kHow;
  static constexpr int kAxis = Axis;
  static constexpr int kRank = R;
  using Element = T;

  T* data;
  int64_t stride[R];
};

// Two tensors whose elements alternate in memory: the second begins one element after the first, and both move by two
// from one lane to the next. `even` is the first.
template <class T, int R, int Axis = R - 1>
struct Alternating {
  using Element = T;
  View<T, R, Along::kAny, Axis> even;
};

// A tensor whose rows, `stride` elements apart, are named by an index. `at` does not move along the index's axes.
template <class V>
struct Rows {
  using Element = typename V::Element;
  V at;
  int64_t stride, count;
};

// The index along axis `At` of a space of R axes, of which `Axis` is the one that lanes run along.
template <int R, int At, int Axis = R - 1>
struct Counter {
  static constexpr Along kAlong = At == Axis ? Along::kUnit : Along::kSame;
  static constexpr int kAxis = Axis;
  static constexpr int kRank = R;
  static constexpr int kAt = At;
};

// Indices: `count` from `low` on.
struct Range {
  int64_t low, count;
};

// A view that has elements at some indices only; those are the places of `index`.
template <class V, class Index>
struct Within {
  static constexpr Along kAlong = V::kAlong;
  static constexpr int kAxis = V::kAxis;
  static constexpr int kRank = V::kRank;
  using Element = typename V::Element;
  V at;
  Index index;
  Range range;
};

}  // namespace mucc
