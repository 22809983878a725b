// The host side of reduction kernels: which of a stage's kernels runs, and its launch.
#pragma once

#include <mucc/pointwise.h>

namespace mucc {

// How many blocks share a result: enough to keep the GPU busy, each with at least `least` steps to make.
inline int64_t shares(Call const& c, bool allowed, int64_t blocks, int64_t steps, int64_t least) {
  int64_t const wanted = blocks_of(4 * int64_t(c.sm_count), blocks);
  return allowed ? at_least(1, at_most(wanted, steps / least)) : 1;
}

// Reduces over the last axes of a space. `codes` holds the kernels where a warp has a result to itself, then those
// where a block has; only the latter where the innermost axis is kept. `fill` writes the identity to all results.
template <class Op>
int launch_reduce(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                  int (*fill)(Call const&, Op const&, int64_t count)) {
  constexpr int kFast = Op::kRows ? Op::kRank - 1 : Op::kKept - 1;
  constexpr int kWarps = Op::kThreads / 32;
  vector = vector && extents.of[kFast] % Op::kVector == 0;
  bool const wide = product(extents) > INT32_MAX;
  int const width = vector ? Op::kVector : 1;
  extents.of[kFast] /= width;
  int64_t results = 1, elements = 1;
  for (int a = 0; a < Op::kKept; ++a) results *= extents.of[a];
  for (int a = Op::kKept; a < Op::kRank; ++a) elements *= extents.of[a];
  int64_t blocks, split;
  Code* code = codes + kVector * vector + kWide * wide;
  if (Op::kRows) {
    bool const block = elements > Op::kThreads || results < 16 * int64_t(c.sm_count);
    if (block) code += 4;
    blocks = block ? results : blocks_of(results, kWarps);
    split = shares(c, block && Op::kDense, blocks, elements, 4 * Op::kThreads);
  } else {
    blocks = blocks_of(results, 32);
    split = shares(c, Op::kDense, blocks, elements, 8 * kWarps);
  }
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  int64_t chunk = blocks_of(elements, split);
  split = blocks_of(elements, chunk);
  if (split > 1 && fill(c, op, Op::kRows ? results : results * width)) return 1;
  uint32_t const narrow[] = {uint32_t(results), uint32_t(elements), uint32_t(chunk)};
  int64_t const full[] = {results, elements, chunk};
  void* parameters[5] = {&op, &extents};
  for (int i = 0; i < 3; ++i)
    parameters[2 + i] = wide ? const_cast<int64_t*>(&full[i]) : static_cast<void*>(const_cast<uint32_t*>(&narrow[i]));
  Geometry const geometry{{unsigned(blocks), unsigned(split), 1}, unsigned(Op::kThreads)};
  return start(c, stage, *code, geometry, parameters);
}

}  // namespace mucc
