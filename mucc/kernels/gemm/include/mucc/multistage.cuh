// Contraction kernels around CUTLASS 2.x mainloops (mma.sync or plain multiply-adds; cp.async or plain loads), which
// run on every GPU from Ampere on. One thread block computes one tile, or a part of it along K, or (stream-K) as many
// steps along K as any other, of one tile after the other. The tile then passes
// through shared memory, where a Visitor does the rest on vectors of neighbours: whatever the alignment and the layout
// of what it reads and writes, and with few copies of its bodies, so that it compiles fast.
#pragma once

#include <cutlass/gemm/threadblock/default_mma.h>
#include <mucc/gemm_code.cuh>
#include <mucc/vectors.cuh>

namespace mucc::multistage {

// ---- mainloops ------------------------------------------------------------------------------------------------

using Tensor = cutlass::arch::OpClassTensorOp;
using Simt = cutlass::arch::OpClassSimt;
using Exact = cutlass::arch::OpMultiplyAdd;
using Split3 = cutlass::arch::OpMultiplyAddFastF32;
template <int M, int N, int K>
using Tile = cutlass::gemm::GemmShape<M, N, K>;

template <class T, class LayoutA, int kAlignA, class LayoutB, int kAlignB, class Class, class Block, class Warp,
          class Instruction, int kStages, class Operator>
using Mainloop = typename cutlass::gemm::threadblock::DefaultMma<
    T, LayoutA, kAlignA, T, LayoutB, kAlignB, float, cutlass::layout::RowMajor, Class, cutlass::arch::Sm80, Block,
    Warp, Instruction, kStages, Operator>::ThreadblockMma;

// ---- where a warp's accumulators lie ----------------------------------------------------------------------------
//
// Runs of `kRun` accumulators are neighbours in a row. Run r starts at (row(r), col(r)), plus the lane's own offset.
// Over `kRows` rows, or `kCols` columns, lanes and runs repeat themselves.

template <class Operator, class Class>
struct Fragment;

template <class Operator>
struct Fragment<Operator, Tensor> {
  static constexpr int kRun = 2, kRows = 16, kCols = 8;
  static constexpr int kAlongM = Operator::Shape::kM / 16;

  CUTLASS_HOST_DEVICE static constexpr int row(int r) { return r / 2 % kAlongM * 16 + r % 2 * 8; }
  CUTLASS_HOST_DEVICE static constexpr int col(int r) { return r / 2 / kAlongM * 8; }
  CUTLASS_DEVICE static int lane_row(int lane) { return lane / 4; }
  CUTLASS_DEVICE static int lane_col(int lane) { return lane % 4 * 2; }
};

template <class Operator>
struct Fragment<Operator, Simt> {
  using Policy = typename Operator::Policy;
  using Lane = typename Policy::LaneMmaShape;
  static constexpr int kRun = Lane::kN, kRows = Policy::WarpShape::kRow * Lane::kM,
                       kCols = Policy::WarpShape::kColumn * Lane::kN;
  static constexpr int kAlongN = Operator::Shape::kN / kCols;

  CUTLASS_HOST_DEVICE static constexpr int row(int r) {
    return r / kAlongN / Lane::kM * kRows + r / kAlongN % Lane::kM;
  }
  CUTLASS_HOST_DEVICE static constexpr int col(int r) { return r % kAlongN * kCols; }
  CUTLASS_DEVICE static int lane_row(int lane) { return Policy::get_lane_layout().inverse(lane).row() * Lane::kM; }
  CUTLASS_DEVICE static int lane_col(int lane) { return Policy::get_lane_layout().inverse(lane).column() * Lane::kN; }
};

// ---- the kernel -----------------------------------------------------------------------------------------------

// `Visitor_` does what comes after the product: see `types` in kernels/gemm/emission/sm80.py.
template <class Mma_, class Class, class Visitor_, bool kSplits_, bool kStreams_ = false>
struct Kernel {
  using Mma = Mma_;
  using Visitor = Visitor_;
  using Block = typename Mma::Shape;
  using Warp = typename Mma::Base::WarpGemm;
  using WarpCount = typename Mma::Base::WarpCount;
  using Lanes = Fragment<typename Mma::Operator, Class>;
  using IteratorA = typename Mma::IteratorA;
  using IteratorB = typename Mma::IteratorB;
  static constexpr bool kSplits = kSplits_;    // K is divided among blocks,
  static constexpr bool kStreams = kStreams_;  // the first `streamed` tiles' anywhere
  static constexpr int kThreads = 32 * WarpCount::kCount;
  static constexpr int MaxThreadsPerBlock = kThreads, MinBlocksPerMultiprocessor = 1;

  // The tile in shared memory, whole or in pieces: from each warp kPieceLines of its lines at a time.
  static constexpr bool kColumns = Visitor::kColumns;  // lines are columns
  static constexpr int kWidth = Visitor::kWidth;
  static constexpr int kLines = kColumns ? Block::kN : Block::kM, kAlong = kColumns ? Block::kM : Block::kN;
  static constexpr int kWarpLines = kColumns ? Warp::kN : Warp::kM;
  static constexpr int kLeastLines = kColumns ? Lanes::kCols : Lanes::kRows;
  static constexpr int kPitch = kAlong + (kColumns ? 4 : 8);
  static constexpr int piece_lines(int lines = kWarpLines) {
    int const bytes = kLines / kWarpLines * lines * kPitch * int(sizeof(float));
    return bytes <= int(sizeof(typename Mma::Base::SharedStorage)) || lines / 2 < kLeastLines ? lines
                                                                                          : piece_lines(lines / 2);
  }
  static constexpr int kPieceLines = piece_lines(), kPieces = kWarpLines / kPieceLines;
  static constexpr int kBufferLines = kLines / kWarpLines * kPieceLines;
  static constexpr int kLineThreads = kAlong / kWidth;
  static_assert(kAlong % kWidth == 0 && kThreads % kLineThreads == 0, "a thread needs one place in all of its lines");

  union Shared {
    typename Mma::Base::SharedStorage mainloop;
    alignas(16) float tile[kBufferLines * kPitch];
  };
  static constexpr int kShared = int(sizeof(Shared));

  struct Params {
    int m, n, k, tiles_m, tiles_n, swizzle;
    bool along_m;
    int splits, k_part;
    typename IteratorA::Params a;
    typename IteratorB::Params b;
    typename IteratorA::Element* data_a;
    typename IteratorB::Element* data_b;
    int64_t batch_a, batch_b;
    float* partials;
    unsigned* arrived;
    int blocks;                // of stream-K, those that work,
    int64_t tiles, streamed;   // how many tiles there are, and how many of them blocks share
    typename Visitor::Params visitor;
  };

  // Stream-K: the steps of the first `streamed` tiles, one after the other, are divided evenly among the blocks.
  CUTLASS_HOST_DEVICE static int64_t steps(Params const& p) { return (p.k + Block::kK - 1) / Block::kK; }
  CUTLASS_HOST_DEVICE static int64_t first_step(Params const& p, int block) {
    return p.streamed * steps(p) * block / p.blocks;
  }
  CUTLASS_HOST_DEVICE static int block_of(Params const& p, int64_t step) {
    return int(((step + 1) * p.blocks - 1) / (p.streamed * steps(p)));
  }

  // What a thread block computes.
  struct Part {
    int m, n, split, batch;
    int64_t tile;
  };
  CUTLASS_DEVICE static Part part(Params const& p, int index, int split) {
    int const tiles = p.tiles_m * p.tiles_n;
    Part part{0, 0, split, 0, index};
    part.batch = index / tiles;
    index %= tiles;
    // Bands of `swizzle` tiles across; in a band, tile after tile across and then along.
    int const across = p.along_m ? p.tiles_n : p.tiles_m, along = p.along_m ? p.tiles_m : p.tiles_n;
    int const band = index / (p.swizzle * along);
    int const width = cutlass::const_min(p.swizzle, across - band * p.swizzle);
    index -= band * p.swizzle * along;
    int const first = band * p.swizzle + index % width, second = index / width;
    part.m = p.along_m ? second : first, part.n = p.along_m ? first : second;
    return part;
  }

  CUTLASS_DEVICE void operator()(Params const& p, char* memory) {
    auto& shared = *reinterpret_cast<Shared*>(memory);
    if constexpr (kStreams) {
      int64_t step = first_step(p, blockIdx.x);
      int64_t const end = first_step(p, blockIdx.x + 1), depth = steps(p);
      while (step < end) {
        int64_t const tile = step / depth, last = cutlass::const_min(end, (tile + 1) * depth);
        int const from = int(step - tile * depth) * Block::kK, to = int(last - tile * depth) * Block::kK;
        compute(p, part(p, int(tile), 0), from, cutlass::const_min(p.k, to), shared);
        step = last;
      }
      for (int64_t tile = p.streamed + blockIdx.x; tile < p.tiles; tile += p.blocks)
        compute(p, part(p, int(tile), 0), 0, p.k, shared);
    } else {
      int const split = kSplits ? blockIdx.x % p.splits : 0;
      int const from = kSplits ? split * p.k_part : 0;
      int const to = kSplits ? cutlass::const_min(p.k, from + p.k_part) : p.k;
      compute(p, part(p, kSplits ? blockIdx.x / p.splits : blockIdx.x, split), from, to, shared);
    }
  }

  // Columns `from` to `to` of a tile's K.
  CUTLASS_DEVICE static void compute(Params const& p, Part const& at, int from, int to, Shared& shared) {
    int const thread = threadIdx.x, lane = thread % 32, warp = __shfl_sync(~0u, thread / 32, 0);
    if constexpr (kStreams) __syncthreads();  // others may still read the tile before
    IteratorA a(p.a, p.data_a + at.batch * p.batch_a, {p.m, to}, thread, {at.m * Block::kM, from});
    IteratorB b(p.b, p.data_b + at.batch * p.batch_b, {to, p.n}, thread, {from, at.n * Block::kN});
    typename Mma::FragmentC sums;
    sums.clear();
    {
      Mma mma(shared.mainloop, thread, warp, lane);
      mma((to - from + Block::kK - 1) / Block::kK, sums, a, b, sums);
    }
    if constexpr (kStreams) {
      if ((from > 0 || to < p.k) && !is_last_of_stream(p, at, thread, shared, sums)) return;
    } else if constexpr (kSplits) {
      float* const own = p.partials + at.tile * p.splits * kPartial;
      auto slot = [&](int split) { return own + split * kPartial; };
      if (p.splits > 1 && !is_last(p.arrived + at.tile, p.splits, at.split, slot, thread, shared, sums)) return;
    }
    epilogue(p, at, thread, lane, warp, shared, sums);
  }

  // The blocks that share a tile are those that its steps belong to. Each leaves sums of its first tile, or of its last one.
  CUTLASS_DEVICE static bool is_last_of_stream(Params const& p, Part const& at, int thread, Shared& shared,
                                               typename Mma::FragmentC& sums) {
    int64_t const depth = steps(p);
    int const first = block_of(p, at.tile * depth), last = block_of(p, (at.tile + 1) * depth - 1);
    auto slot = [&](int i) {
      int const block = first + i;
      bool const is_first = first_step(p, block) / depth == at.tile;
      return p.partials + (int64_t(block) * 2 + !is_first) * kPartial;
    };
    return is_last(p.arrived + at.tile, last - first + 1, int(blockIdx.x) - first, slot, thread, shared, sums);
  }

  static constexpr int64_t kPartial = int64_t(Mma::FragmentC::kElements) * kThreads;  // floats of a block's sums

  // Leaves the partial sums in memory. In the block that comes last, adds up those of all, in order: those of the i-th
  // are at `slot(i)`.
  template <class Slot>
  CUTLASS_DEVICE static bool is_last(unsigned* arrived, int count, int own, Slot const& slot, int thread, Shared& shared,
                                     typename Mma::FragmentC& sums) {
    static constexpr int kCount = Mma::FragmentC::kElements;
    float* const mine = slot(own) + thread;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) __stcg(mine + i * kThreads, sums[i]);
    __threadfence();
    __syncthreads();
    auto& ticket = *reinterpret_cast<unsigned*>(&shared);
    if (thread == 0) ticket = atomicAdd(arrived, 1u);
    __syncthreads();
    bool const last = ticket == unsigned(count - 1);
    __syncthreads();
    if (!last) return false;
    __threadfence();
    sums.clear();
    for (int other = 0; other < count; ++other) {
      float const* const theirs = slot(other) + thread;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kCount; ++i) sums[i] += __ldcg(theirs + i * kThreads);
    }
    return true;
  }

  CUTLASS_DEVICE static void epilogue(Params const& p, Part const& part, int thread, int lane, int warp, Shared& shared,
                                      typename Mma::FragmentC const& sums) {
    int const warp_m = warp % WarpCount::kM, warp_n = warp / WarpCount::kM;
    int const row = Lanes::lane_row(lane), col = warp_n * Warp::kN + Lanes::lane_col(lane);
    int const lines = kColumns ? p.n : p.m, extent = kColumns ? p.m : p.n;
    int const first_line = (kColumns ? part.n : part.m) * kLines;
    At at{0, (kColumns ? part.m : part.n) * kAlong + thread % kLineThreads * kWidth, 0, part.batch};
    int const inside = extent - at.first;
    typename Visitor::State state(p.visitor, at, extent);

    CUTLASS_PRAGMA_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      __syncthreads();
      CUTLASS_PRAGMA_UNROLL
      for (int r = 0; r < Mma::FragmentC::kElements / Lanes::kRun; ++r) {
        int const line = (kColumns ? Lanes::col(r) : Lanes::row(r)) - piece * kPieceLines;
        if (line < 0 || line >= kPieceLines) continue;
        float const* const run = sums.data() + r * Lanes::kRun;
        if constexpr (kColumns) {
          float* const to = shared.tile + (warp_n * kPieceLines + line + Lanes::lane_col(lane)) * kPitch +
                            warp_m * Warp::kM + Lanes::row(r) + row;
          CUTLASS_PRAGMA_UNROLL
          for (int i = 0; i < Lanes::kRun; ++i) to[i * kPitch] = run[i];
        } else {
          float* const to = shared.tile + (warp_m * kPieceLines + line + row) * kPitch + Lanes::col(r) + col;
          if constexpr (Lanes::kRun == 4) {
            *reinterpret_cast<float4*>(to) = {run[0], run[1], run[2], run[3]};
          } else {
            static_assert(Lanes::kRun == 2, "runs of two or four");
            *reinterpret_cast<float2*>(to) = {run[0], run[1]};
          }
        }
      }
      __syncthreads();
      // Few lines at a time: more would need more copies of the bodies.
#pragma unroll(kWidth >= 8 ? 2 : kWidth >= 4 ? 4 : 8)
      for (int line = thread / kLineThreads; line < kBufferLines; line += kThreads / kLineThreads) {
        at.line = first_line + line / kPieceLines * kWarpLines + piece * kPieceLines + line % kPieceLines;
        at.valid = at.line < lines ? inside : 0;
        Vector<kWidth> acc;
        float const* const source = shared.tile + line * kPitch + thread % kLineThreads * kWidth;
        static constexpr int kGroup = kWidth < 4 ? kWidth : 4;
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < kWidth; i += kGroup) {
          auto const group = *reinterpret_cast<cutlass::AlignedArray<float, kGroup> const*>(source + i);
          CUTLASS_PRAGMA_UNROLL
          for (int j = 0; j < kGroup; ++j) acc[i + j] = group[j];
        }
        state.visit(p.visitor, at, acc);
      }
    }
    state.end(p.visitor, at, extent);
  }
};

}  // namespace mucc::multistage
