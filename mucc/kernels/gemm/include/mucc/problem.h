// A contraction problem as the code of a program states it and the code of a CUTLASS kernel takes it. Neither side sees
// the other's types, so one compiled kernel (a skeleton) serves every program that needs it.
#pragma once

#include <mucc/call.h>

namespace mucc::gemm {

// A matrix, vector or number that the kernel reads or writes. Strides in elements over (rows, columns, batch); those
// that the kernel's type fixes do not count. A number passed by value has no data.
struct Operand {
  void* data = nullptr;
  int64_t stride[3] = {0, 0, 0};
  float value = 0.0f;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

enum class Raster : int { kHeuristic, kAlongM, kAlongN };

// Rows are M, columns N. `extra` holds what the epilogue's nodes read and write, in their order.
struct Problem {
  int m = 0, n = 0, k = 0, batch = 1;
  bool batched = false;
  bool padded = false;  // rows begin at whole granules of TMA's copies, but may be of any length
  Operand a, b, c, d;  // a over (M, K), b over (N, K), c and d over (M, N)
  Operand b2;          // a second right operand, of which only the data counts
  Operand groups, rows;  // of a grouped contraction, as int32: the ends of its groups; where each row of D goes
  int row_count = 0;     // rows that D has then
  Operand picked;        // as int32: which row of A each row of the product is made from; no data where it is its own
  int picked_count = 0;  // rows that A has then
  Operand extra[kMaxArgs];
  Raster raster = Raster::kHeuristic;
  int swizzle = 1, splits = 1;
  bool split_k = false;  // of a stream-K kernel: exactly `splits` parts along K
};

struct Stage;

// A compiled kernel without its code for the device.
struct Skeleton {
  int (*run)(Call const&, Stage const&, void* scratch);
  // The workspace that CUTLASS wants for itself, in bytes; negative with an error set.
  int64_t (*scratch)(Call const&, Stage const&);
  // The parameter block of a launch, for tests; `out` has room for `parameter_bytes`.
  int (*parameters)(Call const&, Stage const&, void* scratch, void* out);
  int64_t parameter_bytes;
  // Of kernels that take lists: calls that differ in arguments only, on one device and stream.
  int (*run_list)(Call const* calls, int count, Stage const&) = nullptr;
};

// One launch in a program.
struct Stage {
  char const* name;
  Skeleton const* skeleton;
  Code* code;
  int (*describe)(Call const&, Problem&);
};

// An extent of the problem, the product of those of some axes, as CUTLASS counts it.
inline int extent(Call const& c, char const* stage, char const* name, int64_t value, int& out) {
  if (value > INT32_MAX)
    return fail("MU6007", "%s, stage %s: %s = %lld is above 2147483647", c.kernel->name, stage, name,
                static_cast<long long>(value));
  out = int(value);
  return 0;
}

}  // namespace mucc::gemm
