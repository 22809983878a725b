// What an epilogue reads and writes where it works on vectors of a tile in shared memory: matrices, vectors, numbers and
// reductions. A tile lies there in lines, one after the other; a thread takes `kWidth` elements along a line at a time.
// Lines are rows, or columns where the result is contiguous along columns.
#pragma once

#include <cutlass/array.h>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_conversion.h>
#include <mucc/apply.cuh>
#include <mucc/problem.h>

namespace mucc::multistage {

using gemm::Operand;

// Where a thread's vector lies in the result: elements `first` to `first + kWidth` of a line, of which `valid` are
// inside. None is where the line itself is outside.
struct At {
  int line, first, valid;
  int64_t batch;
};

template <int kWidth>
using Vector = cutlass::Array<float, kWidth>;

// The axes of an operand's strides (rows, columns, batch) that are called lines and elements along a line.
struct Axes {
  int line, along;
};

// ---- memory ---------------------------------------------------------------------------------------------------

template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using type = unsigned char;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<4> {
  using type = unsigned;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

// `kCount` neighbours that a launch does not write, in one access.
template <int kCount, class T>
CUTLASS_DEVICE cutlass::Array<T, kCount> read(T const* from) {
  using W = typename Word<kCount * int(sizeof(T))>::type;
  cutlass::Array<T, kCount> x;
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<W*>(x.data()) = __ldg(reinterpret_cast<W const*>(from));
#endif
  return x;
}
template <int kCount, class T>
CUTLASS_DEVICE void write(T* to, cutlass::Array<T, kCount> const& x) {
  using W = typename Word<kCount * int(sizeof(T))>::type;
  *reinterpret_cast<W*>(to) = *reinterpret_cast<W const*>(x.data());
}

// A matrix, read or written `kAccess` neighbours at a time; 0 where neighbours along a line are apart in memory.
template <class T, int kAccess>
struct Matrix {
  T* data;
  int64_t line, along, batch;

  void set(Operand const& from, Axes axes) {
    *this = {from.as<T>(), from.stride[axes.line], from.stride[axes.along], from.stride[2]};
  }
  CUTLASS_DEVICE T* first(At const& at) const {
    return data + at.batch * batch + at.line * line + at.first * (kAccess ? 1 : along);
  }
  template <int kWidth>
  CUTLASS_DEVICE void load(At const& at, Vector<kWidth>& x) const {
    static constexpr int kCount = kAccess ? kAccess : 1;
    T const* const from = first(at);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; i += kCount) {
      cutlass::Array<T, kCount> some;
      some.fill(T(0));
      if (i < at.valid) some = read<kCount>(from + i * (kAccess ? 1 : along));
      CUTLASS_PRAGMA_UNROLL
      for (int j = 0; j < kCount; ++j) x[i + j] = float(some[j]);
    }
  }
  template <int kWidth>
  CUTLASS_DEVICE void store(At const& at, Vector<kWidth> const& x) const {
    static constexpr int kCount = kAccess ? kAccess : 1;
    T* const to = first(at);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; i += kCount) {
      cutlass::Array<float, kCount> some;
      CUTLASS_PRAGMA_UNROLL
      for (int j = 0; j < kCount; ++j) some[j] = x[i + j];
      if (i < at.valid)
        write<kCount>(to + i * (kAccess ? 1 : along), cutlass::NumericArrayConverter<T, float, kCount>()(some));
    }
  }
};

// A vector along lines: element i of it belongs to element i of every line.
template <class T>
struct Along {
  T const* data;
  int64_t batch;

  void set(Operand const& from, Axes) { *this = {from.as<T>(), from.stride[2]}; }
  template <int kWidth>
  CUTLASS_DEVICE void load(At const& at, int extent, Vector<kWidth>& x) const {
    T const* const from = data + at.batch * batch + at.first;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; ++i) x[i] = at.first + i < extent ? float(from[i]) : 0.0f;
  }
};

// One element for each line.
template <class T>
struct PerLine {
  T const* data;
  int64_t batch;

  void set(Operand const& from, Axes) { *this = {from.as<T>(), from.stride[2]}; }
  CUTLASS_DEVICE float load(At const& at) const {
    return at.valid > 0 ? float(data[at.batch * batch + at.line]) : 0.0f;
  }
};

// One number for each batch: in memory, or where there is none there the operand's own.
template <class T>
struct Number {
  T const* data;
  int64_t batch;
  float value;

  void set(Operand const& from, Axes) { *this = {from.as<T>(), from.stride[2], from.value}; }
  CUTLASS_DEVICE float load(At const& at) const { return data ? float(data[at.batch * batch]) : value; }
};

// ---- reductions -----------------------------------------------------------------------------------------------
//
// Each goes to memory that holds the identity already. All threads of a warp take part.

// Combines the values of `kLanes` neighbouring lanes.
template <class Reduction, int kLanes>
CUTLASS_DEVICE float combine_lanes(float x) {
  CUTLASS_PRAGMA_UNROLL
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2)
    x = Reduction::combine(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}

struct Target {
  float* data;
  int64_t batch;

  void set(Operand const& from, Axes) { *this = {from.as<float>(), from.stride[2]}; }
};

// Along lines, into one element for each. `kLanes` threads have a line.
template <class Reduction, int kWidth, int kLanes>
struct ReduceAlong {
  static constexpr int kShared = kLanes < 32 ? kLanes : 32;

  CUTLASS_DEVICE void add(Target const& to, At const& at, Vector<kWidth> const& x) {
    float sum = Reduction::identity;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; ++i)
      if (i < at.valid) sum = Reduction::combine(sum, Reduction::first(x[i]));
    sum = combine_lanes<Reduction, kShared>(sum);
    if (threadIdx.x % kShared == 0 && at.valid > 0) Reduction::atomic(to.data + at.batch * to.batch + at.line, sum);
  }
  CUTLASS_DEVICE void end(Target const&, At const&, int) {}
};

// Over lines, into a vector along them. A thread has the same place in all of its lines.
template <class Reduction, int kWidth, int kLanes>
struct ReduceLines {
  float sums[kWidth];

  CUTLASS_DEVICE ReduceLines() {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; ++i) sums[i] = Reduction::identity;
  }
  CUTLASS_DEVICE void add(Target const&, At const& at, Vector<kWidth> const& x) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; ++i)
      if (i < at.valid) sums[i] = Reduction::combine(sums[i], Reduction::first(x[i]));
  }
  CUTLASS_DEVICE void end(Target const& to, At const& at, int extent) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      CUTLASS_PRAGMA_UNROLL
      for (int lanes = 16; lanes >= kLanes; lanes /= 2)
        sums[i] = Reduction::combine(sums[i], __shfl_xor_sync(~0u, sums[i], lanes));
      if (threadIdx.x % 32 < kLanes && at.first + i < extent)
        Reduction::atomic(to.data + at.batch * to.batch + at.first + i, sums[i]);
    }
  }
};

// Over everything, into one number.
template <class Reduction, int kWidth, int kLanes>
struct ReduceAll {
  float sum = Reduction::identity;

  CUTLASS_DEVICE void add(Target const&, At const& at, Vector<kWidth> const& x) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kWidth; ++i)
      if (i < at.valid) sum = Reduction::combine(sum, Reduction::first(x[i]));
  }
  CUTLASS_DEVICE void end(Target const& to, At const& at, int) {
    sum = combine_lanes<Reduction, 32>(sum);
    if (threadIdx.x % 32 == 0) Reduction::atomic(to.data + at.batch * to.batch, sum);
  }
};

}  // namespace mucc::multistage
