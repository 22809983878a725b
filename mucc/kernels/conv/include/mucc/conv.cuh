// Convolution as a product of matrices that nothing lays out in memory (implicit GEMM). Rows are positions of the
// result, columns its channels, and along K lie the taps of the window and the channels of x. A block computes one tile:
// pieces of 16 bytes along K go to shared memory, by cp.async where they are contiguous in memory and element by element
// where they are not, warps multiply them by mma.sync or by multiply-adds, and the tile passes through shared memory once
// more to the pointwise work behind it.
//
// The compiler writes `Op`, views of tensors with the constants of the convolution, and `Work` upon it:
// `store<V>(position, convolved)` computes and stores V neighbouring elements of the results.
#pragma once

#include <mucc/conv_load.cuh>
#include <mucc/conv_store.cuh>
#include <mucc/conv_sums.cuh>

namespace mucc::conv {

// The body of a kernel: a block computes and stores one tile. `kVectorX` and `kVectorW`: pieces of x and of the weights are
// contiguous in memory; V: neighbours of a result that are stored together.
template <bool kVectorX, bool kVectorW, int V, class Work>
MUCC_DEVICE void tiles(Work const& work, Problem<typename Work::Element> const& problem) {
  using Of = Tile<Work>;
  using W = typename Work::Windows;
#if defined(__CUDACC__)
  extern __shared__ __align__(128) char memory[];
#else
  alignas(16) __shared__ char memory[Of::kShared];
#endif
  Line* const lines = reinterpret_cast<Line*>(memory + Of::kShared - Of::kRows);
  Row* const rows = reinterpret_cast<Row*>(lines + Of::kM);
  Part const at = part<Work>(problem, blockIdx.x);  // there are not more blocks than that
  Walk<Work> walk;
  walk.channels = int(problem.channels);
#pragma unroll
  for (int a = 0; a < 3; ++a) walk.axes[a] = axis<W>(a, at.residue[a], problem.out[a]);
  if (W::kTransposed && is_empty(walk.axes)) return measure_nothing<Of, Work>(problem, at);
  walk.depth = walk.taps(0) * walk.taps(1) * walk.taps(2) * walk.count();
  for (int i = int(threadIdx.x); i < Of::kM; i += Of::kThreads) {
    rows[i] = row_at<Work>(problem, walk.axes, at.row + i);
    lines[i] = line_at<Work>(problem, walk.axes, rows[i], at.group);
  }
  __syncthreads();
  if (rows[0].batch < 0) return measure_nothing<Of, Work>(problem, at);
  Sums<Work> sums;
  sums.clear();
  int const steps = (walk.depth + Of::kK - 1) / Of::kK;
  {
    // Elements that pass through registers are held while a stage is multiplied, unless the kernel is made for other calls:
    // its sums leave too few registers, or it is to be small.
    static constexpr bool kHeld = kVectorX || Work::kHolds;
    LoadX<Work, kVectorX> x(problem, walk, lines);
    LoadW<Work, kVectorW, kHeld> w(problem, walk, at.column, at.group);
    auto stage = [&](int step) { return memory + step % Of::kStages * Of::kStage; };
    auto begin = [&](int step) {
      if constexpr (kHeld) x.begin(stage(step));
      if constexpr (kHeld) w.begin(stage(step) + Of::kM * 16 * Of::kPieces);
    };
    auto end = [&](int step) {
      if constexpr (!kHeld) {
        x.pass(stage(step));
      } else {
        x.end(stage(step));
      }
      if constexpr (!kHeld) w.begin(stage(step) + Of::kM * 16 * Of::kPieces);
      w.end(stage(step) + Of::kM * 16 * Of::kPieces);
    };
#pragma unroll(kHeld ? Of::kStages - 1 : 1)
    for (int step = 0; step < Of::kStages - 1; ++step) {
      if (step < steps) {
        begin(step);
        end(step);
      }
      commit();
    }
    for (int step = 0; step < steps; ++step) {
      wait<Of::kStages - 2>();
      __syncthreads();
      int const next = step + Of::kStages - 1;
      if (next < steps) begin(next);
      commit();
      sums.add(stage(step), stage(step) + Of::kM * 16 * Of::kPieces);
      if (next < steps) end(next);
    }
  }
  wait<0>();
  __syncthreads();
  auto* const tile = reinterpret_cast<float*>(memory);
  sums.spread(tile);
  __syncthreads();
  finish<V, Of>(work, problem, walk.axes, at, rows, WholeSums{tile}, [] { __syncthreads(); });
}

}  // namespace mucc::conv
