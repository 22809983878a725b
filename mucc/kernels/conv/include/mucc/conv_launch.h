// The host side of convolutions: the tiles of a problem, and which of a stage's kernels computes them.
#pragma once

#include <mucc/conv.h>
#include <mucc/pointwise.h>

namespace mucc::conv {

constexpr int64_t kMostAlong = int64_t(1) << 30;  // what kernels count in 32 bits

// Checks what kernels count in 32 bits. 0 for success, else an error is set.
template <class W, class T>
int check(Call const& c, char const* stage, Problem<T> const& p) {
  bool fits = p.batch < kMostAlong && p.channels < kMostAlong / W::kTaps && p.outputs < kMostAlong;
  for (int a = 0; a < 3; ++a) {
    int64_t const reach = int64_t(W::dilation(a)) * W::size(a) + W::pad(a) + W::stride(a);
    fits = fits && (p.out[a] + 1) * W::stride(a) + reach < kMostAlong && p.low[a] + p.count[a] + reach < kMostAlong;
  }
  return fits ? 0 : fail("MU6007", "%s, stage %s: 2^30 or more positions along an axis, or products in a sum", c.kernel->name, stage);
}

// Whether pieces of 16 bytes of x can be copied whole.
template <class T>
bool x_fits(Problem<T> const& p) {
  constexpr int64_t kPiece = 16 / sizeof(T);
  bool fits = reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && (p.batch == 1 || p.x_batch % kPiece == 0);
  for (int a = 0; a < 3; ++a) fits = fits && (p.low[a] + p.count[a] == 1 || p.x_at[a] % kPiece == 0);
  return fits;
}

// The same for weights, of which whole rows along K are contiguous, or with kChannels all channels of a tap.
template <class W, bool kChannels, class T>
bool w_fits(Problem<T> const& p) {
  constexpr int64_t kPiece = 16 / sizeof(T);
  bool fits = reinterpret_cast<uintptr_t>(p.w) % 16 == 0 && (p.groups == 1 || p.w_group % kPiece == 0) &&
              (p.outputs == 1 || p.w_output % kPiece == 0);
  for (int a = 0; kChannels && a < 3; ++a) fits = fits && (W::size(a) == 1 || p.w_at[a] % kPiece == 0);
  return fits;
}

// Whether results can be stored `v` neighbours at a time.
template <class Op, class T>
bool stores_vectors(Problem<T> const& p, int v) {
  using W = typename Op::Windows;
  return Op::Shape::kAlongChannels ? p.outputs % v == 0 : (!W::kTransposed || W::stride(2) == 1) && p.out[2] % v == 0;
}

// Whether x and weights can be read `v` channels at a time.
template <class W, class T>
bool vectors_fit(Problem<T> const& p, int v) {
  int64_t const bytes = vector_bytes(v, sizeof(T)), count = bytes / int64_t(sizeof(T));
  bool fits = reinterpret_cast<uintptr_t>(p.x) % bytes == 0 && reinterpret_cast<uintptr_t>(p.w) % bytes == 0 &&
              (p.batch == 1 || p.x_batch % count == 0);
  for (int a = 0; a < 3; ++a) {
    fits = fits && (p.low[a] + p.count[a] == 1 || p.x_at[a] % count == 0);
    fits = fits && (W::size(a) == 1 || p.w_at[a] % count == 0);
  }
  return fits;
}

// Launches a block for each tile of each group and class of outputs. `codes` has a kernel that loads and stores single
// elements, where the tensors allow it one that copies pieces of 16 bytes, and last the best one that stores vectors.
template <class Op>
int launch_tiles(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                 Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  constexpr bool kCopies = Op::kVectorX || Op::kVectorW;
  if (check<W>(c, stage, problem)) return 1;
  int64_t rows = problem.batch;
  for (int a = 0; a < 3; ++a) rows *= W::kTransposed ? blocks_of(problem.out[a], W::stride(a)) : problem.out[a];
  problem.row_tiles = blocks_of(rows, Op::Shape::kM);
  problem.column_tiles = blocks_of(problem.outputs, Op::Shape::kN);
  int64_t const blocks = problem.row_tiles * problem.column_tiles * problem.groups * W::kClasses;
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  bool const copies = kCopies && (!Op::kVectorX || x_fits(problem)) &&
                      (!Op::kVectorW || w_fits<W, Op::kChannelsInner>(problem));
  vector = vector && copies == kCopies && stores_vectors<Op>(problem, Op::kVector);
  int const code = copies + vector;
  void* parameters[] = {&op, &problem};
  Geometry geometry{{unsigned(blocks), 1, 1}, unsigned(Op::Shape::kThreads)};
  geometry.shared = unsigned(Op::Shape::kShared);
  return start(c, stage, codes[code], geometry, parameters);
}

// Launches a thread for each run of outputs. `codes` has a kernel of single elements, and where results and x are adjacent
// along channels one of vectors.
template <class Op>
int launch_direct(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                  Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  if (check<W>(c, stage, problem)) return 1;
  int64_t const outputs = problem.groups * problem.outputs;
  bool const wide = Op::kVectors && vector && outputs % Op::kVector == 0 && vectors_fit<W>(problem, Op::kVector);
  int64_t const along = Op::kAlongChannels && wide ? outputs / Op::kVector : outputs;
  int64_t& items = problem.row_tiles;
  items = problem.batch * along * problem.out[0] * blocks_of(problem.out[1], Op::kRun) * problem.out[2];
  int64_t const blocks = blocks_of(items, Op::kThreads);
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  void* parameters[] = {&op, &problem};
  Geometry const geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[wide], geometry, parameters);
}

}  // namespace mucc::conv
