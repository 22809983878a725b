// The host side of convolutions: the tiles of a problem, and which of a stage's kernels computes them.
#pragma once

#include <mucc/conv.h>
#include <mucc/pointwise.h>

#include <cstdlib>
#include <type_traits>

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
  // Sums of s8 are s32.
  if (std::is_same<T, int8_t>::value && p.channels * W::kTaps >= 1 << 17)
    return fail("MU6007", "%s, stage %s: 2^17 or more products of s8 in a sum", c.kernel->name, stage);
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

// The first element of x that there is.
template <class T>
T const* first_of(Problem<T> const& p) {
  T const* first = p.x;
  for (int a = 0; a < 3; ++a) first += p.low[a] * p.x_at[a];
  return first;
}

// Whether TMA takes the stride of an axis.
template <class T>
bool stride_fits(int64_t extent, int64_t stride) {
  return extent == 1 || (stride > 0 && stride * int64_t(sizeof(T)) % 16 == 0);
}

// Launches blocks of so many threads and bytes of shared memory in clusters of `cluster`, with the parameters of the kernel.
template <class... P>
int launch_blocks(Call const& c, char const* stage, Code& code, int64_t blocks, int threads, int shared, int cluster,
                  P&... parameters) {
  if (check_blocks(c, stage, blocks)) return 1;
  void* addresses[] = {&parameters...};
  Geometry geometry{{unsigned(blocks), 1, 1}, unsigned(threads)};
  if (cluster > 1) geometry.cluster[0] = unsigned(cluster), geometry.cluster[1] = geometry.cluster[2] = 1;
  geometry.shared = unsigned(shared);
  return start(c, stage, code, geometry, addresses);
}

// Counts the tiles of so many rows, which have positions of one element of the batch each where moments are of one.
template <class Op, int kM>
void find_row_tiles(Problem<typename Op::Element>& p, int64_t rows) {
  if (Op::kMoments != Moments::kEach || p.batch == 0) {
    p.row_tiles = blocks_of(rows, kM);
    return;
  }
  p.batch_rows = blocks_of(rows / p.batch, kM) * kM;
  p.row_tiles = p.batch_rows / kM * p.batch;
}

// Launches a block for each tile of each group and class of outputs. `codes` has a kernel that loads and stores single
// elements, where the tensors allow it one that copies pieces of 16 bytes, and last the best one that stores vectors.
template <class Op>
int launch_tiles(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                 Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  constexpr bool kCopies = Op::kVectorX || Op::kVectorW;
  if (check<W>(c, stage, problem)) return 1;
  using Pool = typename Op::Pool;
  int64_t rows = problem.batch * Pool::kVolume;
  for (int a = 0; a < 3; ++a)
    rows *= (W::kTransposed ? blocks_of(problem.out[a], W::stride(a)) : problem.out[a]) / Pool::size(a);
  find_row_tiles<Op, Op::Shape::kM>(problem, rows);
  problem.column_tiles = blocks_of(problem.outputs, Op::Shape::kN);
  int64_t const blocks = problem.row_tiles * problem.column_tiles * problem.groups * W::kClasses;
  bool const copies = kCopies && (!Op::kVectorX || x_fits(problem)) &&
                      (!Op::kVectorW || w_fits<W, Op::kChannelsInner>(problem));
  vector = vector && copies == kCopies && stores_vectors<Op>(problem, Op::kVector);
  return launch_blocks(c, stage, codes[copies + vector], blocks, Op::Shape::kThreads, Op::Shape::kShared, 1, op, problem);
}

// Whether TMA takes the positions of x of one class of outputs, which has some.
template <class W, int kAxes, class T>
bool course_fits(Problem<T> const& p, Axis const (&axes)[3]) {
  // Corners and taps have so many bits together.
  constexpr int kBits = 16 / kAxes, kMost = 1 << (kBits - 1);
  for (int a = 3 - kAxes; a < 3; ++a) {
    Course const walk = course(axes[a]);
    int64_t const lower = walk.lowest - p.low[a];
    int64_t const upper = lower + (axes[a].outs - 1) * axes[a].in_step - (p.count[a] - 1);
    int const farthest = walk.first + (walk.move > 0 ? (axes[a].taps - 1) * walk.move : 0);
    if (lower < -kMost || lower >= kMost || upper < -kMost || upper >= kMost || farthest >= 1 << kBits) return false;
    if (axes[a].in_step > 8 || p.count[a] < 1 || (p.count[a] > 1 && p.x_at[a] <= 0)) return false;
  }
  return true;
}

// The stride of an axis: where it has one element any will do that TMA takes.
constexpr int64_t mapped_stride(int64_t extent, int64_t stride) { return extent == 1 ? kMappedRow : stride; }

// Describes weights `[O, C, ...]`, whose channels are adjacent, to TMA. Groups follow each other along O, or
// along C of a transposed convolution.
template <class Op, int kColumns>
int map_weights(Call const& c, TensorMap& map, Problem<typename Op::Element> const& p) {
  using W = typename Op::Windows;
  using T = typename Op::Element;
  constexpr int kAxes = Op::kRank - 2;
  int64_t const groups_along_c = W::kTransposed ? p.groups : 1;
  int64_t extents[5] = {groups_along_c * p.channels, p.groups / groups_along_c * p.outputs}, strides[5] = {1};
  strides[1] = mapped_stride(extents[1], p.w_output);
  for (int a = 0; a < kAxes; ++a) {
    extents[2 + a] = W::size(2 - a);
    strides[2 + a] = mapped_stride(extents[2 + a], p.w_at[2 - a]);
  }
  return map_tiles(c, &map, p.w, mapped<T>, kAxes + 2, extents, strides, kMappedRow / int(sizeof(T)),
                   kColumns);
}

// Whether they can be described so.
template <class W, class T>
bool w_maps(Problem<T> const& p) {
  bool fits = w_fits<W, true>(p) && (p.outputs * p.groups == 1 || p.w_output > 0);
  for (int a = 0; a < 3; ++a) fits = fits && (W::size(a) == 1 || p.w_at[a] > 0);
  return fits && (p.groups == 1 || p.w_group == (W::kTransposed ? p.channels : p.outputs * p.w_output));
}

// Describes x to TMA, for one class of outputs.
template <class Op>
int map_x(Call const& c, TensorMap& map, Problem<typename Op::Element> const& p, Axis const (&axes)[3]) {
  using T = typename Op::Element;
  constexpr int kAxes = Op::kRank - 2;
  int64_t extents[5] = {p.groups * p.channels}, strides[5] = {1};
  int lower[3], upper[3], steps[3];
  T const* data = p.x;
  for (int i = 0; i < kAxes; ++i) {
    int const a = 2 - i;
    data += p.low[a] * p.x_at[a];
    extents[1 + i] = p.count[a];
    strides[1 + i] = mapped_stride(p.count[a], p.x_at[a]);
    lower[i] = int(course(axes[a]).lowest - p.low[a]);
    upper[i] = int(lower[i] + (axes[a].outs - 1) * axes[a].in_step - (p.count[a] - 1));
    steps[i] = axes[a].in_step;
  }
  extents[1 + kAxes] = p.batch;
  strides[1 + kAxes] = mapped_stride(p.batch, p.x_batch);
  return map_positions(c, &map, data, mapped<T>, kAxes + 2, extents, strides, lower, upper, steps,
                       kMappedRow / int(sizeof(T)), Op::Wide::kM);
}

// Launches a block for each tile of each group and class of outputs, which warpgroups multiply where TMA takes the
// operands. `codes` has the kernels of `launch_tiles`, of which only the first one where no call copies pieces of 16 bytes, and
// two that store single elements and vectors.
template <class Op, int kCodes>
int launch_warpgroups(Call const& c, char const* stage, Code (&codes)[kCodes], Op op, Extents<Op::kRank> extents, bool vector,
                      Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  using Of = typename Op::Wide;
  constexpr int kAxes = Op::kRank - 2, kOthers = Op::kVectorX || Op::kVectorW ? 3 : 1;
  static_assert(kCodes == kOthers + 2, "the kernels that the compiler emits for it");
  if (check<W>(c, stage, problem)) return 1;
  bool fits = x_fits(problem) && (problem.batch == 1 || problem.x_batch > 0) && w_maps<W>(problem);
  Maps<W::kClasses> maps{};
  for (int index = 0; fits && index < W::kClasses; ++index) {
    Axis axes[3];
    bool empty = false;
    for (int a = 2, rest = index; a >= 0; --a) {
      int const count = W::kTransposed ? W::stride(a) : 1;
      axes[a] = axis<W>(a, rest % count, problem.out[a]);
      empty = empty || axes[a].outs == 0 || axes[a].taps == 0;
      rest /= count;
    }
    if (empty) continue;
    fits = course_fits<W, kAxes>(problem, axes);
    if (fits && map_x<Op>(c, maps.x[index], problem, axes)) return 1;
  }
  if (!fits) return launch_tiles(c, stage, codes, op, extents, vector && kOthers > 1, problem);
  if (map_weights<Op, Of::kN>(c, maps.w, problem)) return 1;
  int64_t rows = problem.batch;
  for (int a = 0; a < 3; ++a) rows *= W::kTransposed ? blocks_of(problem.out[a], W::stride(a)) : problem.out[a];
  find_row_tiles<Op, Of::kM>(problem, rows);
  problem.column_tiles = blocks_of(problem.outputs, Of::kN);
  int64_t blocks = problem.row_tiles * problem.column_tiles * problem.groups * W::kClasses * Of::kShares;
  if (check_blocks(c, stage, blocks)) return 1;
  if (Of::kPersistent) blocks = at_most(blocks, int64_t(c.sm_count) * Of::kResident);
  vector = vector && stores_vectors<Op>(problem, Op::kVector);
  return launch_blocks(c, stage, codes[kOthers + vector], blocks, Of::kAllThreads, Of::kShared, Of::kShares, op, problem, maps);
}

// Whether TMA takes chunks of positions of x, whose spatial axes are one contiguous axis.
template <class T>
bool chunks_fit(Problem<T> const& p) {
  int64_t step = 1;
  bool fits = reinterpret_cast<uintptr_t>(p.x) % 16 == 0;
  for (int a = 2; a >= 0; --a) {
    fits = fits && p.low[a] == 0 && p.count[a] == p.out[a] && p.count[a] > 0 && (p.count[a] == 1 || p.x_at[a] == step);
    step *= p.count[a];
  }
  return fits && step < kMostAlong && stride_fits<T>(p.batch, p.x_batch) && stride_fits<T>(p.channels * p.groups, p.x_channel);
}

// Launches a block for each tile of each group, where TMA takes the operands; windows have one element. `codes` has a kernel of
// `launch_tiles` of single elements, and two that store elements and vectors.
template <class Op, int kCodes>
int launch_matrices(Call const& c, char const* stage, Code (&codes)[kCodes], Op op, Extents<Op::kRank> extents, bool vector,
                     Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  using T = typename Op::Element;
  using Of = typename Op::Wide;
  constexpr int kOthers = 1;
  static_assert(kCodes == kOthers + 2, "the kernels that the compiler emits for it");
  static_assert(!Op::kVectorX && !Op::kVectorW, "`launch_tiles` has one kernel");
  static_assert(!W::kTransposed && W::kTaps == 1 && sizeof(T) == 2, "positions of x are those of the result");
  if (check<W>(c, stage, problem)) return 1;
  int64_t const places = problem.out[0] * problem.out[1] * problem.out[2], rows = blocks_of(places, 64) * 64;
  bool const fits = chunks_fit(problem) && w_maps<W>(problem) && problem.batch * rows < kMostAlong;
  if (!fits) return launch_tiles(c, stage, codes, op, extents, false, problem);
  Maps<1> maps{};
  int64_t const channels = problem.groups * problem.channels, sizes[3] = {places, channels, problem.batch};
  int64_t const strides[3] = {1, mapped_stride(channels, problem.x_channel), mapped_stride(problem.batch, problem.x_batch)};
  if (map_tiles(c, &maps.x[0], problem.x, mapped<T>, 3, sizes, strides, 64, kMappedRow / int(sizeof(T)))) return 1;
  if (map_weights<Op, Of::kN>(c, maps.w, problem)) return 1;
  problem.batch_rows = rows;
  problem.row_tiles = blocks_of(problem.batch * rows, Of::kM);
  problem.column_tiles = blocks_of(problem.outputs, Of::kN);
  int64_t blocks = problem.row_tiles * problem.column_tiles * problem.groups * Of::kShares;
  if (Of::kPersistent) blocks = at_most(blocks, int64_t(c.sm_count) * Of::kResident);
  vector = vector && stores_vectors<Op>(problem, Op::kVector);
  return launch_blocks(c, stage, codes[kOthers + vector], blocks, Of::kAllThreads, Of::kShared, Of::kShares, op, problem, maps);
}

// Whether tensor maps can describe positions of x and of weights: batch and outputs innermost, aligned, few along each axis.
template <class W, int kAxes, class T>
bool positions_fit(Problem<T> const& p) {
  constexpr int kBits = 16 / kAxes, kMost = 1 << (kBits - 1);
  auto maps = stride_fits<T>;
  bool fits = p.batch > 0 && p.x_batch == 1 && p.w_output == 1 && p.channels * W::kTaps < kMostAlong &&
              maps(p.channels, p.x_channel) && maps(p.channels, p.w_channel);
  fits = fits && reinterpret_cast<uintptr_t>(first_of(p)) % 16 == 0 && reinterpret_cast<uintptr_t>(p.w) % 16 == 0;
  for (int a = 3 - kAxes; a < 3; ++a) {
    int64_t const lower = -W::pad(a) - p.low[a], upper = lower + (W::size(a) - 1) * W::dilation(a) - (p.count[a] - 1);
    fits = fits && lower >= -kMost && lower < kMost && upper >= -kMost && upper < kMost && W::dilation(a) <= 8 &&
           (p.out[a] - 1) * W::stride(a) < 1 << kBits && p.count[a] > 0;
    fits = fits && maps(p.count[a], p.x_at[a]) && maps(W::size(a), p.w_at[a]);
  }
  return fits;
}

// Launches a block for each tile and share of K, which warpgroups multiply where TMA takes the operands. `codes` has
// the two kernels of `launch_tiles`, and two that store single elements and vectors.
template <class Op, int kCodes>
int launch_positions(Call const& c, char const* stage, Code (&codes)[kCodes], Op op, Extents<Op::kRank> extents, bool vector,
                     Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  using T = typename Op::Element;
  using Of = typename Op::Wide;
  constexpr int kAxes = Op::kRank - 2, kOthers = 2;
  static_assert(kCodes == kOthers + 1 + Of::kAlongChannels, "the kernels that the compiler emits for it");
  static_assert(!Op::kVectorX && !Op::kVectorW, "`launch_tiles` has two kernels");
  if (check<W>(c, stage, problem)) return 1;
  if (!positions_fit<W, kAxes>(problem)) return launch_tiles(c, stage, codes, op, extents, vector, problem);
  PositionMaps maps{};
  int64_t x[5] = {problem.batch}, w[5] = {problem.outputs}, x_strides[5] = {1}, w_strides[5] = {1};
  int lower[3], upper[3], steps[3], ones[3] = {1, 1, 1}, zeros[3] = {};
  T const* data = problem.x;
  for (int i = 0; i < kAxes; ++i) {
    int const a = 2 - i;
    data += problem.low[a] * problem.x_at[a];
    x[1 + i] = problem.count[a], w[1 + i] = W::size(a);
    x_strides[1 + i] = mapped_stride(x[1 + i], problem.x_at[a]), w_strides[1 + i] = mapped_stride(w[1 + i], problem.w_at[a]);
    lower[i] = int(-W::pad(a) - problem.low[a]);
    upper[i] = int(lower[i] + (W::size(a) - 1) * W::dilation(a) - (problem.count[a] - 1));
    steps[i] = W::dilation(a);
  }
  x[1 + kAxes] = w[1 + kAxes] = problem.channels;
  x_strides[1 + kAxes] = mapped_stride(problem.channels, problem.x_channel);
  w_strides[1 + kAxes] = mapped_stride(problem.channels, problem.w_channel);
  if (map_positions(c, &maps.x, data, mapped<T>, kAxes + 2, x, x_strides, lower, upper, steps, 64, 64) ||
      map_positions(c, &maps.w, problem.w, mapped<T>, kAxes + 2, w, w_strides, zeros, zeros, ones, 64, 64))
    return 1;
  int64_t chunks = blocks_of(problem.batch, 64);
  for (int a = 0; a < 3; ++a) chunks *= problem.out[a];
  problem.row_tiles = blocks_of(chunks, Of::kM / 64);
  problem.column_tiles = blocks_of(problem.outputs, Of::kN);
  int64_t const blocks = problem.row_tiles * problem.column_tiles * Of::kShares;
  vector = vector && Of::kAlongChannels && problem.outputs % Op::kVector == 0;
  return launch_blocks(c, stage, codes[kOthers + vector], blocks, Of::kAllThreads, Of::kShared, Of::kShares, op, problem, maps);
}

// Whether TMA takes planes of x, whose last axis is contiguous.
template <class T>
bool planes_fit(Problem<T> const& p) {
  auto maps = stride_fits<T>;
  bool fits = reinterpret_cast<uintptr_t>(first_of(p)) % 16 == 0 && (p.count[2] == 1 || p.x_at[2] == 1) && p.count[2] > 0 &&
              p.low[2] % 4 == 0;
  for (int a = 0; a < 2; ++a) fits = fits && p.count[a] > 0 && maps(p.count[a], p.x_at[a]);
  return fits && maps(p.batch, p.x_batch) && maps(p.channels * p.groups, p.x_channel);
}

// Describes planes of x to TMA.
template <class Op>
int map_planes(Call const& c, TensorMap& map, Problem<typename Op::Element> const& p) {
  using T = typename Op::Element;
  using Of = typename Op::Planes;
  constexpr int kAxes = Op::kRank - 2;
  int64_t extents[5], strides[5];
  int box[5] = {1, 1, 1, 1, 1};
  T const* data = p.x;
  for (int i = 0; i < kAxes; ++i) {
    int const a = 2 - i;
    data += p.low[a] * p.x_at[a];
    extents[i] = p.count[a], strides[i] = mapped_stride(p.count[a], p.x_at[a]), box[i] = Of::box(a);
  }
  extents[kAxes] = p.groups * p.channels, strides[kAxes] = mapped_stride(extents[kAxes], p.x_channel), box[kAxes] = Of::kDeep;
  extents[kAxes + 1] = p.batch, strides[kAxes + 1] = mapped_stride(p.batch, p.x_batch);
  return map_boxes(c, &map, data, mapped<T>, kAxes + 2, extents, strides, box);
}

// Launches a block for each tile of each group, and each class of outputs along the first two axes, where TMA takes
// the operands. `codes` has a kernel of `launch_tiles` of single elements, and two that store elements and vectors.
template <class Op, int kCodes>
int launch_planes(Call const& c, char const* stage, Code (&codes)[kCodes], Op op, Extents<Op::kRank> extents, bool vector,
                  Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  using Of = typename Op::Planes;
  constexpr int kOthers = 1;
  static_assert(kCodes == kOthers + 2, "the kernels that the compiler emits for it");
  static_assert(!Op::kVectorX && !Op::kVectorW, "`launch_tiles` has one kernel");
  if (check<W>(c, stage, problem)) return 1;
  if (!planes_fit(problem) || !w_maps<W>(problem)) return launch_tiles(c, stage, codes, op, extents, false, problem);
  PlaneMaps maps{};
  if (map_planes<Op>(c, maps.x, problem) || map_weights<Op, Of::kN>(c, maps.w, problem)) return 1;
  problem.column_tiles = blocks_of(problem.outputs, Of::kN);
  int64_t blocks = problem.column_tiles * problem.groups * problem.batch;
  for (int a = 0; a < 3; ++a) {
    int64_t const outs = W::kTransposed ? blocks_of(problem.out[a], W::stride(a)) : problem.out[a];
    blocks *= blocks_of(outs, Of::tile(a)) * (W::kTransposed && a < 2 ? W::stride(a) : 1);
  }
  vector = vector && (Of::kAlongChannels ? problem.outputs : problem.out[2]) % Op::kVector == 0;
  int const shared = PlaneShape<W, Of>::kShared;
  return launch_blocks(c, stage, codes[kOthers + vector], blocks, Of::kThreads, shared, 1, op, problem, maps);
}

// Whether x can be read four neighbours along the last axis at a time.
template <class T>
bool lines_fit(Problem<T> const& p) {
  bool fits = reinterpret_cast<uintptr_t>(p.x) % (4 * sizeof(T)) == 0 && p.x_at[2] == 1 && p.low[2] == 0 && p.count[2] % 4 == 0;
  fits = fits && (p.batch == 1 || p.x_batch % 4 == 0) && (p.channels * p.groups == 1 || p.x_channel % 4 == 0);
  for (int a = 0; a < 2; ++a) fits = fits && (p.low[a] + p.count[a] == 1 || p.x_at[a] % 4 == 0);
  return fits;
}

// Launches as many blocks as run at the same time, of which each computes every so many tiles. `codes` has a kernel of single
// elements, with kVectorX one that reads vectors of x, and last the best one that stores vectors.
template <class Op>
int launch_patches(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                   Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  using Of = typename Op::Patches;
  using Shape = PatchShape<W, Of>;
  if (check<W>(c, stage, problem)) return 1;
  problem.column_tiles = blocks_of(problem.outputs, Of::kN);
  int64_t const alike = problem.column_tiles * problem.groups;  // tiles with the same positions
  int64_t& tiles = problem.row_tiles;
  tiles = alike * problem.batch;
  for (int a = 0; a < 3; ++a)
    tiles *= blocks_of(W::kTransposed ? blocks_of(problem.out[a], W::stride(a)) : problem.out[a], Of::tile(a));
  int64_t weights = (problem.outputs - 1) * std::abs(problem.w_output) + (problem.channels - 1) * std::abs(problem.w_channel);
  for (int a = 0; a < 3; ++a) weights += (W::size(a) - 1) * std::abs(problem.w_at[a]);
  if (tiles > INT32_MAX || weights > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results or weights for one launch", c.kernel->name, stage);
  bool const reads = Op::kVectorX && lines_fit(problem);
  vector = vector && reads == Op::kVectorX &&
           (Of::kAlongChannels ? problem.outputs % Op::kVector == 0 : problem.out[2] % Op::kVector == 0);
  int64_t blocks = int64_t(c.sm_count) * Op::kTogether;
  // A block keeps its weights where its tiles have the same columns.
  if (blocks > alike) blocks -= blocks % alike;
  int const shared = Shape::kShared + Op::kPooledBytes;
  return launch_blocks(c, stage, codes[reads + vector], at_most(tiles, blocks), Of::kThreads, shared, 1, op, problem);
}

// Launches a thread for each run of outputs. `codes` has a kernel of single elements, and where results and x are adjacent
// along channels one of vectors, and with kStrips one of strips; with kLines two that read x by vectors along the last axis, and
// store elements and vectors.
template <class Op>
int launch_direct(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                  Problem<typename Op::Element> problem) {
  using W = typename Op::Windows;
  if (check<W>(c, stage, problem)) return 1;
  int64_t const outputs = problem.groups * problem.outputs;
  bool const wide = Op::kVectors && vector && outputs % Op::kVector == 0 && vectors_fit<W>(problem, Op::kVector);
  int64_t const along = Op::kAlongChannels && wide ? outputs / Op::kVector : outputs;
  int64_t& items = problem.row_tiles;
  if (Op::kLines && lines_fit(problem)) {
    items = problem.batch * outputs * problem.out[0] * blocks_of(problem.out[1], Op::kLineRun) * blocks_of(problem.out[2], 4);
    int64_t const blocks = blocks_of(items, Op::kThreads);
    Code& code = codes[1 + (vector && problem.out[2] % Op::kVector == 0)];
    return launch_blocks(c, stage, code, blocks, Op::kThreads, 0, 1, op, problem);
  }
  if constexpr (Op::kStrips) {
    using Of = typename Op::Strips;
    int64_t const strips = problem.batch * blocks_of(problem.out[1], Of::kRows) * blocks_of(problem.out[2], Of::kRun);
    if (vector && x_fits(problem) && strips <= 0x7fffffff - Of::kBeside) {
      int64_t const blocks = blocks_of(strips, Of::kBeside) * blocks_of(problem.groups, Of::kChannels);
      int const shared = StripShape<W, Of>::kShared;
      return launch_blocks(c, stage, codes[1 + Op::kVectors], blocks, Of::kThreads, shared, 1, op, problem);
    }
  }
  items = problem.batch * along * problem.out[0] * blocks_of(problem.out[1], Op::kRun) * problem.out[2];
  int64_t const blocks = blocks_of(items, Op::kThreads);
  return launch_blocks(c, stage, codes[wide], blocks, Op::kThreads, 0, 1, op, problem);
}

}  // namespace mucc::conv
