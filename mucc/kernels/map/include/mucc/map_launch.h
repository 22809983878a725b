// The host side of map kernels: which of a stage's kernels runs, and its launch.
#pragma once

#include <mucc/pointwise.h>

namespace mucc {

// Runs `op` over a space. `vector` says that the tensors can be read in vectors of Op::kVector elements. A thread has all places
// of axis `kWhole`, where there is one.
template <class Op, int kWhole = -1>
int launch_map(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector) {
  int64_t& innermost = extents.of[Op::kRank - 1];
  vector = vector && innermost % Op::kVector == 0;
  int64_t const elements = product(extents);
  if (vector) innermost /= Op::kVector;
  bool const wide = elements > INT32_MAX;
  int64_t total = product(extents);
  if constexpr (kWhole >= 0) total = total == 0 ? 0 : total / extents.of[kWhole];
  auto narrow = uint32_t(total);
  void* parameters[] = {&op, &extents, wide ? static_cast<void*>(&total) : &narrow};
  Geometry const geometry{{unsigned(at_most(blocks_of(total, Op::kThreads), INT32_MAX)), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[kVector * vector + kWide * wide], geometry, parameters);
}

// The same of a kernel of mucc/map_planes.cuh.
template <class Op>
int launch_map_planes(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector) {
  return launch_map<Op, Op::kTurned>(c, stage, codes, op, extents, vector);
}

// The same by tiles: Op::kDown places of axis Op::kTurned, and Op::kAcross elements.
template <class Op>
int launch_map_tiles(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector) {
  int64_t& innermost = extents.of[Op::kRank - 1];
  vector = vector && innermost % Op::kVector == 0;
  int64_t const elements = product(extents);
  int64_t total = blocks_of(extents.of[Op::kTurned], Op::kDown) * blocks_of(innermost, Op::kAcross);
  for (int a = 0; a < Op::kRank - 1; ++a)
    if (a != Op::kTurned) total *= extents.of[a];
  if (vector) innermost /= Op::kVector;
  bool const wide = elements > INT32_MAX;
  auto narrow = uint32_t(total);
  void* parameters[] = {&op, &extents, wide ? static_cast<void*>(&total) : &narrow};
  Geometry const geometry{{unsigned(at_most(total, INT32_MAX)), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[kVector * vector + kWide * wide], geometry, parameters);
}

// Launches a kernel of copies. It takes how many groups of elements or tiles there are, and how many of a line. `codes` are the
// narrow and the wide kernel.
template <class Op>
int start_pack(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, int64_t (&counts)[2],
               int64_t blocks) {
  bool const wide = product(extents) > INT32_MAX / 2;
  uint32_t const narrow[] = {uint32_t(counts[0]), uint32_t(counts[1])};
  void* parameters[4] = {&op, &extents};
  for (int i = 0; i < 2; ++i)
    parameters[2 + i] = wide ? static_cast<void*>(&counts[i]) : const_cast<uint32_t*>(&narrow[i]);
  Geometry const geometry{{unsigned(at_most(blocks, INT32_MAX)), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[wide], geometry, parameters);
}

// Runs a kernel of mucc/pack.cuh over a space.
template <class Op>
int launch_pack(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents) {
  constexpr int kCount = 16 / int(sizeof(typename Op::Bits));
  int64_t const columns = extents.of[Op::kRank - 1], rows = extents.of[Op::kRank - 2];
  int64_t const outer = product(extents) / columns / rows;
  int64_t counts[2], blocks;  // what the kernel takes
  if constexpr (Op::kTurned) {
    counts[1] = blocks_of(columns, Op::kAcross);
    blocks = counts[0] = outer * blocks_of(rows, Op::kDown) * counts[1];
  } else {
    counts[0] = outer * rows;
    counts[1] = blocks_of(columns, kCount) + !Op::kPadded;
    blocks = blocks_of(counts[0] * counts[1], Op::kThreads);
  }
  return start_pack(c, stage, codes, op, extents, counts, blocks);
}

// Runs a kernel of mucc/pack_planes.cuh over a space. Where pieces of a line are not aligned it has a group more.
template <class Op>
int launch_pack_planes(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents) {
  constexpr int kCount = 16 / int(sizeof(typename Op::Bits));
  int64_t const pixels = extents.of[Op::kRank - 1 - Op::kInto];
  int64_t counts[2];
  counts[1] = blocks_of(pixels, kCount) + !Op::kPadded;
  counts[0] = product(extents) / pixels / Op::kPlanes * counts[1];
  return start_pack(c, stage, codes, op, extents, counts, blocks_of(counts[0], Op::kThreads));
}

}  // namespace mucc
