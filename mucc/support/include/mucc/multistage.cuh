// Contraction kernels around CUTLASS 2.x mainloops (mma.sync or plain multiply-adds; cp.async or plain loads), which
// run on every GPU from Ampere on. One thread block computes one tile, or a part of it along K. The tile then passes
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

// `Visitor_` does what comes after the product: see `types` in target/cuda/sm80_gemm.py.
template <class Mma_, class Class, class Visitor_, bool kSplits_>
struct Kernel {
  using Mma = Mma_;
  using Visitor = Visitor_;
  using Block = typename Mma::Shape;
  using Warp = typename Mma::Base::WarpGemm;
  using WarpCount = typename Mma::Base::WarpCount;
  using Lanes = Fragment<typename Mma::Operator, Class>;
  using IteratorA = typename Mma::IteratorA;
  using IteratorB = typename Mma::IteratorB;
  static constexpr bool kSplits = kSplits_;
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
    typename Visitor::Params visitor;
  };

  // What a thread block computes.
  struct Part {
    int m, n, split, batch;
    int64_t tile;
  };
  CUTLASS_DEVICE static Part part(Params const& p) {
    int const tiles = p.tiles_m * p.tiles_n;
    int index = blockIdx.x;
    Part part{0, 0, 0, 0, 0};
    part.split = kSplits ? index % p.splits : 0;
    if constexpr (kSplits) index /= p.splits;
    part.tile = index;
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
    int const thread = threadIdx.x, lane = thread % 32, warp = __shfl_sync(~0u, thread / 32, 0);
    Part const at = part(p);

    int const from = kSplits ? at.split * p.k_part : 0, to = kSplits ? cutlass::const_min(p.k, from + p.k_part) : p.k;
    IteratorA a(p.a, p.data_a + at.batch * p.batch_a, {p.m, to}, thread, {at.m * Block::kM, from});
    IteratorB b(p.b, p.data_b + at.batch * p.batch_b, {to, p.n}, thread, {from, at.n * Block::kN});
    typename Mma::FragmentC sums;
    sums.clear();
    {
      Mma mma(shared.mainloop, thread, warp, lane);
      mma((to - from + Block::kK - 1) / Block::kK, sums, a, b, sums);
    }
    if constexpr (kSplits) {
      if (p.splits > 1 && !is_last(p, at, thread, shared, sums)) return;
    }
    epilogue(p, at, thread, lane, warp, shared, sums);
  }

  // Leaves the partial sums in memory. In the block that comes last, adds up those of all, in order.
  CUTLASS_DEVICE static bool is_last(Params const& p, Part const& at, int thread, Shared& shared,
                                     typename Mma::FragmentC& sums) {
    static constexpr int kCount = Mma::FragmentC::kElements;
    float* const own = p.partials + at.tile * p.splits * int64_t(kCount * kThreads) + thread;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) __stcg(own + (int64_t(at.split) * kCount + i) * kThreads, sums[i]);
    __threadfence();
    __syncthreads();
    auto& ticket = *reinterpret_cast<unsigned*>(&shared);
    if (thread == 0) ticket = atomicAdd(p.arrived + at.tile, 1u);
    __syncthreads();
    bool const last = ticket == unsigned(p.splits - 1);
    __syncthreads();
    if (!last) return false;
    __threadfence();
    sums.clear();
    for (int split = 0; split < p.splits; ++split) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kCount; ++i) sums[i] += __ldcg(own + (int64_t(split) * kCount + i) * kThreads);
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
