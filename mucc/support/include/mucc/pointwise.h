// The host side of pointwise kernels: which of a stage's kernels runs, and its launch.
#pragma once

#include <mucc/call.h>
#include <mucc/view.h>

namespace mucc {

// Whether lanes of a view can be loaded and stored `v` at a time.
template <class View>
bool fits(View const& view, int v) {
  int const bytes = vector_bytes(v, sizeof(typename View::Element));
  if (reinterpret_cast<uintptr_t>(view.data) % bytes != 0) return false;
  for (int a = 0; a < View::kRank; ++a)
    if (a != View::kAxis && view.stride[a] * int64_t(sizeof(typename View::Element)) % bytes != 0) return false;
  return true;
}

template <class View>
bool fits(Rows<View> const& rows, int v) {
  int const size = sizeof(typename View::Element);
  return fits(rows.at, v) && rows.stride * size % vector_bytes(v, size) == 0;
}

template <int R>
int64_t product(Extents<R> const& extents) {
  int64_t result = 1;
  for (int64_t e : extents.of) result *= e;
  return result;
}

constexpr int64_t blocks_of(int64_t work, int64_t each) { return (work + each - 1) / each; }

// The kernels of a stage come by the width of a step (one element, a vector) and by that of an index (32 or 64 bits).
enum : int { kWide = 1, kVector = 2 };

// Runs `op` over a space. `vector` says that the tensors can be read in vectors of Op::kVector elements.
template <class Op>
int launch_map(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector) {
  int64_t& innermost = extents.of[Op::kRank - 1];
  vector = vector && innermost % Op::kVector == 0;
  int64_t const elements = product(extents);
  if (vector) innermost /= Op::kVector;
  bool const wide = elements > INT32_MAX;
  int64_t total = product(extents);
  auto narrow = uint32_t(total);
  void* parameters[] = {&op, &extents, wide ? static_cast<void*>(&total) : &narrow};
  Geometry const geometry{{unsigned(at_most(blocks_of(total, Op::kThreads), INT32_MAX)), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[kVector * vector + kWide * wide], geometry, parameters);
}

// Runs a kernel of mucc/pack.cuh over a space. `codes` are the narrow and the wide kernel.
template <class Op>
int launch_pack(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents) {
  constexpr int kSize = sizeof(typename Op::Bits), kSide = 128 / kSize, kCount = 16 / kSize;
  int64_t const columns = extents.of[Op::kRank - 1], rows = extents.of[Op::kRank - 2];
  int64_t const outer = product(extents) / columns / rows;
  int64_t counts[2], blocks;  // what the kernel takes
  if (Op::kTurned) {
    counts[1] = blocks_of(columns, kSide);
    blocks = counts[0] = outer * blocks_of(rows, kSide) * counts[1];
  } else {
    counts[0] = outer * rows;
    counts[1] = blocks_of(columns, kCount) + !Op::kPadded;
    blocks = blocks_of(counts[0] * counts[1], Op::kThreads);
  }
  bool const wide = product(extents) > INT32_MAX / 2;
  uint32_t const narrow[] = {uint32_t(counts[0]), uint32_t(counts[1])};
  void* parameters[4] = {&op, &extents};
  for (int i = 0; i < 2; ++i)
    parameters[2 + i] = wide ? static_cast<void*>(&counts[i]) : const_cast<uint32_t*>(&narrow[i]);
  Geometry const geometry{{unsigned(at_most(blocks, INT32_MAX)), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[wide], geometry, parameters);
}

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
