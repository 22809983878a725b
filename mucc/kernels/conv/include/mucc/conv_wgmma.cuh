// Convolution as a product of matrices by Hopper's warpgroups.
//
// Rows, columns and K are those of conv.cuh; along K lie the taps, and of each the channels in pieces of 128 bytes. A step is
// such a piece of the rows of x and of weights, swizzled in shared memory. One thread has TMA fill the steps: of x
// by positions (im2col), which puts zeros where x has no elements, so that no row is looked at one by one. The warpgroups
// multiply one step while they wait for the products of the step before, and let that be filled again.
//
// With kPositionsInner windows have one element and the positions of a channel of x are adjacent, as in NCHW: TMA copies tiles of
// 64 positions by the channels of a step, and wgmma reads them with rows innermost.
//
// The tile then passes through shared memory to the pointwise work behind it, as in conv.cuh, while other blocks of the
// multiprocessor multiply.
//
// Of `Work` it wants, besides what conv.cuh says, `Wide`, and `multiply`: a single wgmma instruction.
#pragma once

#include <mucc/conv.cuh>
#include <mucc/warpgroup.cuh>

namespace mucc::conv {

// Barriers and steps in shared memory, by address.
template <class Work>
struct Steps {
  using Of = typename Work::Wide;
  static constexpr int kStages = Of::kStages;
  uint32_t base;
  char* memory;  // at base

  MUCC_DEVICE Steps() {
    uint32_t const first = shared_address(dynamic_shared());
    base = (first + Of::kAlignment - 1) / Of::kAlignment * Of::kAlignment;
    memory = dynamic_shared() + (base - first);
  }
  MUCC_DEVICE uint32_t x(int s) const { return base + s * Of::kStage; }
  MUCC_DEVICE uint32_t w(int s) const { return x(s) + Of::kX; }
  MUCC_DEVICE float* tile() const { return reinterpret_cast<float*>(memory + Of::kSums); }
  MUCC_DEVICE Row* rows() const { return reinterpret_cast<Row*>(memory + Of::kTiles); }
  MUCC_DEVICE uint32_t full(int s) const { return base + Of::kTiles + Of::kRows + 8 * s; }
  MUCC_DEVICE uint32_t empty(int s) const { return full(kStages + s); }
};

// Sums of which each block of a cluster has those of its part of K: they are added up in the order of the blocks.
template <int kShares_>
struct SharedSums {
  static constexpr int kShares = kShares_;
  uint32_t tile;
  int own;
  MUCC_DEVICE int share() const { return own; }
  template <int kCount>
  MUCC_DEVICE Pack<float, kCount> read(int at) const {
    Pack<float, kCount> sum = read_from<kCount>(0, at);
#pragma unroll
    for (int s = 1; s < kShares; ++s) {
      Pack<float, kCount> const part = read_from<kCount>(s, at);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum.of[i] += part.of[i];
    }
    return sum;
  }
  template <int kCount>
  MUCC_DEVICE Pack<float, kCount> read_from(int share, int at) const {
    Pack<float, kCount> part;
    load_shared_of(part.of, shared_of(tile + 4 * at, share));
    return part;
  }
};

// The steps of a share of K: those from `first` on before `last`.
struct Span {
  int first, last;
};

// The position of a row of a class of outputs.
template <class Work>
MUCC_DEVICE Row wide_row(Problem<typename Work::Element> const& problem, Axis const (&axes)[3], int64_t index) {
  if constexpr (!Work::Wide::kPositionsInner) {
    return row_at<Work>(problem, axes, index);
  } else {
    static_assert(Work::kMoments == Moments::kNone, "rows are padded already");
    unsigned const batch = unsigned(index) / unsigned(problem.batch_rows);
    Row row = row_at<Work>(problem, axes, index - int64_t(batch) * problem.batch_rows);
    row.batch = row.batch == 0 && batch < problem.batch ? int(batch) : -1;
    return row;
  }
}

// Copies chunks of 64 positions of x, whose rows of shared memory are channels.
template <class Work>
MUCC_DEVICE void copy_chunks(Problem<typename Work::Element> const& problem, TensorMap const& x, int64_t row, int channel,
                             uint32_t to, uint32_t full) {
#pragma unroll
  for (int i = 0; i < Work::Wide::kM / 64; ++i) {
    unsigned const index = unsigned(row) + i * 64, batch = index / unsigned(problem.batch_rows);
    int const element[3] = {int(batch)};
    copy_tile<3>(to + i * 64 * kMappedRow, x, full, int(index - batch * unsigned(problem.batch_rows)), channel, element);
  }
}

// Copies the steps of a tile, as one thread.
template <class Work>
MUCC_DEVICE void copy_steps(Problem<typename Work::Element> const& problem, TensorMap const& x, TensorMap const& w,
                            Walk<Work> const& walk, Part const& at, Span const& span, Steps<Work> const& to,
                            Ring<Work::Wide::kStages>& ring) {
  using W = typename Work::Windows;
  using Of = typename Work::Wide;
  static constexpr int kAxes = Work::kRank - 2, kPiece = kMappedRow / int(sizeof(typename Work::Element));
  if (walk.depth == 0) return;
  prefetch(x);
  prefetch(w);
  Row const row = wide_row<Work>(problem, walk.axes, at.row);
  int const batch = row.batch < 0 ? int(problem.batch) : row.batch;
  int first[3] = {}, tap[3];
  Course walks[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    walks[a] = course(walk.axes[a]);
    if (a >= 3 - kAxes)
      first[2 - a] = row.at[a] * walk.axes[a].in_step + walks[a].lowest - int(problem.low[a]);
  }
  int const group = int(at.group), channels = walk.count();
  int const x_channel = group * channels, w_channel = W::kTransposed ? x_channel : 0;
  int const column = (W::kTransposed ? 0 : group * int(problem.outputs)) + int(at.column);
  int step = 0;
  for (tap[0] = 0; tap[0] < walk.taps(0); ++tap[0])
    for (tap[1] = 0; tap[1] < walk.taps(1); ++tap[1])
      for (tap[2] = 0; tap[2] < walk.taps(2); ++tap[2]) {
        uint16_t moved[3] = {};
        int weight[3] = {};
#pragma unroll
        for (int i = 0; i < kAxes; ++i) {
          int const a = 2 - i;
          moved[i] = uint16_t(walks[a].first + tap[a] * walks[a].move);
          weight[i] = walk.axes[a].first_tap + tap[a] * walk.axes[a].tap_step;
        }
        for (int channel = 0; channel < channels; channel += kPiece, ++step) {
          if (Of::kShares > 1 && (step < span.first || step >= span.last)) continue;
          int const s = ring.place;
          await(to.empty(s), ring.parity ^ 1);
          arrive_and_expect(to.full(s), Of::kStage);
          if constexpr (Of::kPositionsInner)
            copy_chunks<Work>(problem, x, at.row, x_channel + channel, to.x(s), to.full(s));
          else
            copy_positions<kAxes>(to.x(s), x, to.full(s), x_channel + channel, first, batch, moved);
          copy_tile<Work::kRank>(to.w(s), w, to.full(s), w_channel + channel, column, weight);
          ring.advance();
        }
      }
}

template <int kBlocks, int kSums>
MUCC_DEVICE void clear(float (&sums)[kBlocks][kSums]) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m)
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[m][i] = 0.0f;
}

// Multiplies the steps of a tile, as one warpgroup. Of block m a thread has the sums of wgmma.
template <class Work>
MUCC_DEVICE void multiply_steps(int steps, Steps<Work> const& from, float (&sums)[Work::Wide::kBlocks][Work::Wide::kN / 2],
                                Ring<Work::Wide::kStages>& ring) {
  using Of = typename Work::Wide;
  static constexpr int kBlock = 64 * kMappedRow;
  // From one instruction to the next: 16 rows of one chunk, or 32 bytes of each row.
  static constexpr int kNext = Of::kPositionsInner ? 16 * kMappedRow : 32;
  int const group = int(threadIdx.x) / 128, lane = int(threadIdx.x) % 32;
  clear(sums);
  auto release = [&](int s) {
    if (lane == 0) arrive(from.empty(s));
  };
  if constexpr (Work::Format::kByStep) {
    // The other warpgroup multiplies while this one adds.
    for (int step = 0; step < steps; ++step) {
      int const s = ring.place;
      await(from.full(s), ring.parity);
      uint64_t const x = described(from.x(s) + group * Of::kBlocks * kBlock, 16), w = described(from.w(s), 16);
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m) {
        float part[Of::kN / 2];
        hold(part);
        begin_products();
#pragma unroll
        for (int i = 0; i < kMappedRow / 32; ++i)
          Work::multiply(part, x + (m * kBlock + i * 32) / 16, w + i * 32 / 16, i > 0);
        end_products();
        wait_products<0>();
        hold(part);
        if (m == Of::kBlocks - 1) release(s);
#pragma unroll
        for (int i = 0; i < Of::kN / 2; ++i) sums[m][i] += part[i];
      }
      ring.advance();
    }
    return;
  }
  int before = 0;
#pragma unroll
  for (int m = 0; m < Of::kBlocks; ++m) hold(sums[m]);
  for (int step = 0; step < steps; ++step) {
    int const s = ring.place;
    await(from.full(s), ring.parity);
    uint64_t const x = described(from.x(s) + group * Of::kBlocks * kBlock, Of::kPositionsInner ? kBlock : 16);
    uint64_t const w = described(from.w(s), 16);
    begin_products();
#pragma unroll
    for (int i = 0; i < kMappedRow / 32; ++i)
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m)
        Work::multiply(sums[m], x + (m * kBlock + i * kNext) / 16, w + i * 32 / 16, 1);
    end_products();
    // A stage alone is filled again only once it has been multiplied.
    wait_products<(Of::kStages > 1 ? 1 : 0)>();
    if (Of::kStages == 1 || step > 0) release(Of::kStages == 1 ? s : before);
    before = s;
    ring.advance();
  }
  wait_products<0>();
#pragma unroll
  for (int m = 0; m < Of::kBlocks; ++m) hold(sums[m]);
  if (Of::kPersistent && Of::kStages > 1 && steps > 0) release(before);
}

// Writes the sums of a warpgroup to the tile in shared memory, channels or rows next to each other.
template <class Of, class Format>
MUCC_DEVICE void spread(float const (&sums)[Of::kBlocks][Of::kN / 2], float* to) {
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  int const first = warp / 4 * Of::kBlocks * 64 + warp % 4 * 16 + lane / 4;
#pragma unroll
  for (int m = 0; m < Of::kBlocks; ++m)
#pragma unroll
    for (int i = 0; i < Of::kN / 2; i += 2) {
      int const r = first + m * 64 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2;
      if constexpr (Of::kAlongChannels) {
        *reinterpret_cast<Pack<float, 2>*>(to + r * Of::kPitch + c) = {sum_of<Format>(sums[m][i]),
                                                                       sum_of<Format>(sums[m][i + 1])};
      } else {
        to[c * Of::kPitch + r] = sum_of<Format>(sums[m][i]);
        to[(c + 1) * Of::kPitch + r] = sum_of<Format>(sums[m][i + 1]);
      }
    }
}

// What a block computes: a tile of one class of outputs.
template <class Work>
struct Job {
  Part at;
  Walk<Work> walk;
  int map = 0, taps;  // the class, and the taps that its outputs see
  bool is_empty;
  MUCC_DEVICE Job(Problem<typename Work::Element> const& problem, unsigned index)
      : at(part<Work, typename Work::Wide>(problem, index)) {
    using W = typename Work::Windows;
    walk.channels = int(problem.channels);
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      walk.axes[a] = axis<W>(a, at.residue[a], problem.out[a]);
      map = map * (W::kTransposed ? W::stride(a) : 1) + at.residue[a];
    }
    taps = walk.taps(0) * walk.taps(1) * walk.taps(2);
    walk.depth = taps * walk.count();
    is_empty = W::kTransposed && (conv::is_empty(walk.axes) || wide_row<Work>(problem, walk.axes, at.row).batch < 0);
  }
  MUCC_DEVICE int steps() const {
    static constexpr int kPiece = kMappedRow / int(sizeof(typename Work::Element));
    return taps * ((walk.count() + kPiece - 1) / kPiece);
  }
};

// Whether the pointwise work of a kernel reads something for each result, channels side by side. Kernels that reduce channels
// have no such work.
template <class Work>
MUCC_DEVICE constexpr bool fetches() {
  if constexpr (Work::Wide::kAlongChannels) return Work::kFetches;
  return false;
}

// Has L2 fetch that, as one warp: what every kShares-th row of a tile reads.
template <int V, class Work>
MUCC_DEVICE void fetch_tile(Work const& work, Problem<typename Work::Element> const& problem, Job<Work> const& job, int own) {
  using Of = typename Work::Wide;
  static constexpr int kWidth = 32;  // channels, of at most 128 bytes
  if constexpr (fetches<Work>()) {
    int64_t const left = problem.outputs - job.at.column, channel = job.at.group * problem.outputs + job.at.column;
    for (int i = int(threadIdx.x) % 32 * Of::kShares + own; i < Of::kM; i += 32 * Of::kShares) {
      Row const row = wide_row<Work>(problem, job.walk.axes, job.at.row + i);
      if (row.batch < 0) continue;
#pragma unroll
      for (int first = 0; first < Of::kN; first += kWidth)
        if (first < left) work.template fetch<V>(position<Work>(job.walk.axes, row, channel + first), uint32_t(first / V));
    }
  }
}

// The rows of a tile in the result.
template <class Work>
MUCC_DEVICE void find_rows(Problem<typename Work::Element> const& problem, Job<Work> const& job, Row* rows) {
  using Of = typename Work::Wide;
  for (int i = int(threadIdx.x); i < Of::kM; i += Of::kThreads) rows[i] = wide_row<Work>(problem, job.walk.axes, job.at.row + i);
}

template <class Work>
MUCC_DEVICE void start_barriers(Steps<Work> const& memory) {
  using Of = typename Work::Wide;
  if (threadIdx.x == 0) {
    for (int s = 0; s < Of::kStages; ++s) {
      start_barrier(memory.full(s), 1);
      start_barrier(memory.empty(s), Of::kThreads / 32);
    }
    publish_barriers();
  }
  __syncthreads();
}

// A block computes every so many tiles. While two warpgroups store one tile, the copying warp loads the next one.
template <int V, class Work>
MUCC_DEVICE void many_tiles(Work const& work, Problem<typename Work::Element> const& problem,
                            Maps<Work::Windows::kClasses> const& maps) {
  using Of = typename Work::Wide;
  Steps<Work> const memory;
  start_barriers<Work>(memory);
  unsigned const tiles = unsigned(problem.row_tiles * problem.column_tiles * problem.groups) * Work::Windows::kClasses;
  Ring<Of::kStages> ring;
  if (threadIdx.x >= Of::kThreads) {
    for (unsigned index = blockIdx.x; index < tiles; index += gridDim.x) {
      Job<Work> const job(problem, index);
      if (job.is_empty) continue;
      if (threadIdx.x == Of::kThreads)
        copy_steps<Work>(problem, maps.x[job.map], maps.w, job.walk, job.at, {0, job.steps()}, memory, ring);
      __syncwarp();
      fetch_tile<V>(work, problem, job, 0);
    }
    return;
  }
  for (unsigned index = blockIdx.x; index < tiles; index += gridDim.x) {
    Job<Work> const job(problem, index);
    if (job.is_empty) {
      measure_nothing<Of, Work>(problem, job.at);
      continue;
    }
    sync_groups(1);  // the tile before has been stored
    find_rows(problem, job, memory.rows());
    float sums[Of::kBlocks][Of::kN / 2];
    multiply_steps<Work>(job.steps(), memory, sums, ring);
    spread<Of, typename Work::Format>(sums, memory.tile());
    sync_groups(1);
    finish<V, Of>(work, problem, job.walk.axes, job.at, memory.rows(), WholeSums{memory.tile()}, [] { sync_groups(1); });
  }
}

template <int V, class Work>
MUCC_DEVICE void warpgroups(Work const& work, Problem<typename Work::Element> const& problem,
                            Maps<Work::Windows::kClasses> const& maps) {
  using Of = typename Work::Wide;
  static_assert(sizeof(Row) * Of::kM <= Of::kRows, "as much as the shape counts");
  if constexpr (Of::kPersistent) {
    many_tiles<V>(work, problem, maps);
  } else {
    Steps<Work> const memory;
    int const own = Of::kShares > 1 ? int(blockIdx.x % Of::kShares) : 0;
    Job<Work> const job(problem, blockIdx.x / Of::kShares);
    if (job.is_empty) return measure_nothing<Of, Work>(problem, job.at);
    start_barriers<Work>(memory);
    Span const span{job.steps() * own / Of::kShares, job.steps() * (own + 1) / Of::kShares};
    Ring<Of::kStages> ring;
    if (threadIdx.x >= Of::kThreads) {
      if (threadIdx.x == Of::kThreads)
        copy_steps<Work>(problem, maps.x[job.map], maps.w, job.walk, job.at, span, memory, ring);
      __syncwarp();
      fetch_tile<V>(work, problem, job, own);
      if constexpr (Of::kShares > 1) {
        __syncwarp();
        sync_cluster();
        sync_cluster();
      }
      return;
    }
    find_rows(problem, job, memory.rows());
    float sums[Of::kBlocks][Of::kN / 2];
    multiply_steps<Work>(span.last - span.first, memory, sums, ring);
    sync_groups(1);  // all products have read their steps
    spread<Of, typename Work::Format>(sums, memory.tile());
    if constexpr (Of::kShares > 1) {
      sync_cluster();
      finish<V, Of>(work, problem, job.walk.axes, job.at, memory.rows(), SharedSums<Of::kShares>{memory.base, own},
                    [] { sync_groups(1); });
      sync_cluster();  // no block ends while others read its sums
    } else {
      sync_groups(1);
      finish<V, Of>(work, problem, job.walk.axes, job.at, memory.rows(), WholeSums{memory.tile()}, [] { sync_groups(1); });
    }
  }
}

}  // namespace mucc::conv
