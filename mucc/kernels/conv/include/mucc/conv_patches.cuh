// Convolution as a product of matrices whose left factor is read from a patch of x. Rows, columns and K are those of conv.cuh.
// A block stages the window of x that its tile of outputs sees once in shared memory, as f32 rounded to tf32, in any order of
// axes, and reads every tap from there: of row m and place k along K lies the element at base(m) + offset(k). Weights are staged
// with it, and stay where all of them fit. Blocks are persistent.
//
// Of a transposed convolution a block computes all classes of outputs of its positions: those that differ along the last axis at
// the same time, so that neighbours in memory are stored together.
//
// The compiler writes `Op`, views of tensors with the constants of the convolution, and `Work` upon it:
// `store<V>(position, convolved)` computes and stores V neighbouring elements of the results.
#pragma once

#include <mucc/conv.cuh>
#include <mucc/conv_finish.cuh>

namespace mucc::conv {

template <class Work>
struct Patch : PatchShape<typename Work::Windows, typename Work::Patches> {
  using Of = typename Work::Patches;
  using Shape = PatchShape<typename Work::Windows, Of>;
  static constexpr bool kAlongChannels = Work::kAlongChannels;
  static constexpr int kWarpsM = Of::kThreads / 32 / Of::kWarpsN;
  static constexpr int kWarpM = Of::kM / kWarpsM, kWarpN = Of::kN / Of::kWarpsN;
  static constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 8 == 0, "whole matrices");
};

// What a place along K reads: an element of the patch, and one of the weights.
struct Tap {
  int x, w;
};

// Where places along K of a class of outputs begin among those of all, and its taps.
struct TapClass {
  int first, taps;
};

// Shared memory: the patch, where results lie later; weights; what places along K read.
template <class Work>
struct PatchMemory {
  using At = typename Patch<Work>::Shape;
  float* patch;
  float* weights;
  Tap* taps;
  TapClass* classes;

  MUCC_DEVICE explicit PatchMemory(char* memory)
      : patch(reinterpret_cast<float*>(memory)),
        weights(reinterpret_cast<float*>(memory + At::kFront)),
        taps(reinterpret_cast<Tap*>(memory + At::kFront + At::kWeightBytes)),
        classes(reinterpret_cast<TapClass*>(taps + At::kDepths)) {}
};

MUCC_DEVICE float rounded(float x) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(to_tf32(x));
#else
  return x;
#endif
}

// The tile that a block computes: the first position of its outputs within their class, and its columns.
struct PatchPart {
  int64_t batch, group, column;
  int at[3];
};

template <class Work>
MUCC_DEVICE PatchPart patch_part(Problem<typename Work::Element> const& problem, int64_t tile) {
  using W = typename Work::Windows;
  using Of = typename Work::Patches;
  unsigned index = unsigned(tile);
  auto next = [&](int64_t count) {
    unsigned const whole = index / unsigned(count), rest = index - whole * unsigned(count);
    index = whole;
    return rest;
  };
  PatchPart part;
  part.column = int64_t(next(problem.column_tiles)) * Of::kN;
  part.group = next(problem.groups);
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int64_t const outs = W::kTransposed ? (problem.out[a] + W::stride(a) - 1) / W::stride(a) : problem.out[a];
    part.at[a] = int(next((outs + Of::tile(a) - 1) / Of::tile(a))) * Of::tile(a);
  }
  part.batch = index;
  return part;
}

// Fills in what places along K read, of all classes of outputs.
template <class Work>
MUCC_DEVICE void find_taps(Problem<typename Work::Element> const& problem, Tap* to, TapClass* classes) {
  using W = typename Work::Windows;
  using At = typename Patch<Work>::Shape;
  for (int index = 0; index < W::kClasses; ++index) {
    int const taps = At::taps(index), depth = taps * Work::Patches::kChunk, begin = At::first(index);
    if (threadIdx.x == 0) classes[index] = {begin, taps};
    Axis const axes[3] = {At::axis_of(0, index), At::axis_of(1, index), At::axis_of(2, index)};
    for (int k = int(threadIdx.x); k < depth; k += Work::Patches::kThreads) {
      int const channel = k / taps;
      int rest = k - channel * taps;
      Tap tap{channel * At::kPitch, channel * int(problem.w_channel)};
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        int const i = rest % axes[a].taps;
        rest /= axes[a].taps;
        tap.x += (axes[a].first_in + i * axes[a].in_move - At::lowest(a)) * At::pitch(a);
        tap.w += (axes[a].first_tap + i * axes[a].tap_step) * int(problem.w_at[a]);
      }
      to[begin + k] = tap;
    }
  }
}

// Stages the channels of a chunk, zeros where x has no elements. With kVector x is read four neighbours along the last axis at a
// time.
template <bool kVector, class Work>
MUCC_DEVICE void stage_patch(Problem<typename Work::Element> const& problem, PatchPart const& at, int chunk, float* to) {
  using T = typename Work::Element;
  using W = typename Work::Windows;
  using Of = typename Work::Patches;
  using At = typename Patch<Work>::Shape;
  static constexpr int V = kVector ? 4 : 1, kLine = kVector ? At::kLine : At::extent(2);
  static constexpr int kSteps = kLine / V, kEach = At::extent(0) * At::extent(1) * kSteps, kCount = Of::kChunk * kEach;
  static constexpr int kHeld = kVector || Work::kTogether > 2 ? 4 : 8;
  static constexpr bool kChannelsFirst = kVector || !Work::kChannelsInner;
  int const channels = int(problem.channels) - chunk * Of::kChunk;
  int first[3];
  T const* x = problem.x + at.batch * problem.x_batch +
               (at.group * problem.channels + int64_t(chunk) * Of::kChunk) * problem.x_channel;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    first[a] = at.at[a] * (W::kTransposed ? 1 : W::stride(a)) + At::lowest(a) - (kVector && a == 2 ? At::kShift : 0);
    x += first[a] * problem.x_at[a];
    first[a] -= int(problem.low[a]);
  }
  to += kVector ? 0 : At::kShift;
  int const w_step = kVector ? 1 : 0;
  for (int start = int(threadIdx.x); start < kCount; start += Of::kThreads * kHeld) {
    Pack<T, V> held[kHeld];
    int places[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      int const e = start + i * Of::kThreads;
      int const channel = kChannelsFirst ? e / kEach : e % Of::kChunk;
      int const rest = kChannelsFirst ? e % kEach : e / Of::kChunk;
      int const w = rest % kSteps * V, line = rest / kSteps;
      int const h = line % At::extent(1), d = line / At::extent(1);
      bool const inside = e < kCount && channel < channels && unsigned(first[0] + d) < unsigned(problem.count[0]) &&
                          unsigned(first[1] + h) < unsigned(problem.count[1]) &&
                          unsigned(first[2] + w) < unsigned(problem.count[2]);
      places[i] = e < kCount ? channel * At::kPitch + d * At::pitch(0) + h * At::pitch(1) + w : -1;
      held[i] = {};
      if (inside) {
        int64_t const offset = channel * problem.x_channel + d * problem.x_at[0] + h * problem.x_at[1] +
                               w * (kVector ? w_step : problem.x_at[2]);
        held[i] = *reinterpret_cast<Pack<T, V> const*>(x + offset);
      }
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (places[i] < 0) continue;
      Pack<float, V> words;
#pragma unroll
      for (int v = 0; v < V; ++v) words.of[v] = rounded(widen(held[i].of[v]));
      *reinterpret_cast<Pack<float, V>*>(to + places[i]) = words;
    }
  }
}

// Stages weights of some places along K, zeros behind the last one and beyond the last column.
template <class Work>
MUCC_DEVICE void stage_weights(Problem<typename Work::Element> const& problem, PatchPart const& at, int chunk, Tap const* taps,
                               int count, int present, float* to) {
  using T = typename Work::Element;
  using Of = typename Work::Patches;
  using At = typename Patch<Work>::Shape;
  static constexpr int kHeld = 4;
  T const* const w = problem.w + at.group * problem.w_group + at.column * problem.w_output +
                     int64_t(chunk) * Of::kChunk * problem.w_channel;
  int const columns = int(problem.outputs - at.column), total = (count + 7) / 8 * 8 * Of::kN;
  for (int start = int(threadIdx.x); start < total; start += Of::kThreads * kHeld) {
    float held[kHeld];
    int places[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      int const e = start + i * Of::kThreads, high = e / 32;
      int const n = high % (Of::kN / 8) * 8 + e % 8, k = high / (Of::kN / 8) * 4 + e / 8 % 4;
      places[i] = e < total ? k * At::kWeightPitch + n : -1;
      held[i] = 0.0f;
      if (e < total && k < present && n < columns) held[i] = widen(w[n * problem.w_output + taps[k].w]);
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (places[i] >= 0) to[places[i]] = rounded(held[i]);
  }
}

template <class Work>
using PatchSums = float[Patch<Work>::kBlocksM][Patch<Work>::kBlocksN][4];

// The rows and columns of a thread's sums: those of `Sums` of conv.cuh.
template <class Work>
struct PatchPlace {
  using Of = Patch<Work>;
  MUCC_DEVICE static int warp() { return int(threadIdx.x) / 32; }
  MUCC_DEVICE static int lane() { return int(threadIdx.x) % 32; }
  MUCC_DEVICE static int row() { return warp() / Work::Patches::kWarpsN * Of::kWarpM + lane() / 4; }
  MUCC_DEVICE static int column() { return warp() % Work::Patches::kWarpsN * Of::kWarpN; }
};

// Adds the products of eight places along K; with kLast of those before `count`.
template <bool kLast, class Work>
MUCC_DEVICE void add_step(float const* patch, int const (&base)[Patch<Work>::kBlocksM][2], Tap const* taps, int count,
                          float const* weights, PatchSums<Work>& sums) {
  using Of = Patch<Work>;
  static constexpr int kPitch = Of::Shape::kWeightPitch;
  int const column = PatchPlace<Work>::column(), lane = PatchPlace<Work>::lane();
#if defined(__CUDA_ARCH__)
  int const k = lane % 4;
  bool const has[2] = {!kLast || k < count, !kLast || k + 4 < count};
  int const offset[2] = {has[0] ? taps[k].x : 0, has[1] ? taps[k + 4].x : 0};
  uint32_t a[Of::kBlocksM][4], b[Of::kBlocksN][2];
#pragma unroll
  for (int m = 0; m < Of::kBlocksM; ++m)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      a[m][i] = has[i / 2] ? __float_as_uint(patch[base[m][i % 2] + offset[i / 2]]) : 0;
#pragma unroll
  for (int n = 0; n < Of::kBlocksN; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      b[n][i] = __float_as_uint(weights[(k + i * 4) * kPitch + column + n * 8 + lane / 4]);
#pragma unroll
  for (int m = 0; m < Of::kBlocksM; ++m)
#pragma unroll
    for (int n = 0; n < Of::kBlocksN; ++n) multiply(sums[m][n], a[m], b[n], Tf32{});
#else
  for (int k = 0; k < (kLast ? count : 8); ++k)
    for (int m = 0; m < Of::kBlocksM; ++m)
      for (int n = 0; n < Of::kBlocksN; ++n)
        for (int i = 0; i < 4; ++i)
          sums[m][n][i] += patch[base[m][i / 2] + taps[k].x] * weights[k * kPitch + column + n * 8 + lane % 4 * 2 + i % 2];
#endif
}

template <bool kVector, int V, class Work>
MUCC_DEVICE void patches(Work const& work, Problem<typename Work::Element> const& problem) {
  using Of = typename Work::Patches;
  using W = typename Work::Windows;
  using At = typename Patch<Work>::Shape;
  using Block = Patch<Work>;
#if defined(__CUDACC__)
  extern __shared__ __align__(128) char memory[];
#else
  alignas(16) __shared__ char memory[At::kShared + Work::kPooledBytes];
#endif
  PatchMemory<Work> const shared(memory);
  find_taps<Work>(problem, shared.taps, shared.classes);
  int base[Block::kBlocksM][2];
  int const row = PatchPlace<Work>::row(), column = PatchPlace<Work>::column(), lane = PatchPlace<Work>::lane();
#pragma unroll
  for (int m = 0; m < Block::kBlocksM; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int const at = row + m * 16 + i * 8, w = at % Of::kW, h = at / Of::kW % Of::kH, d = at / Of::kW / Of::kH;
      base[m][i] = d * At::step(0) * At::pitch(0) + h * At::step(1) * At::pitch(1) + w * At::step(2) + At::kShift;
    }
  int const chunks = At::kWhole ? 1 : (int(problem.channels) + Of::kChunk - 1) / Of::kChunk;
  int64_t held_group = -1, held_column = -1;
  __syncthreads();
  for (int64_t tile = blockIdx.x; tile < problem.row_tiles; tile += gridDim.x) {
    PatchPart const at = patch_part<Work>(problem, tile);
    if (Of::kResident && (held_group != at.group || held_column != at.column)) {
      for (int index = 0; index < W::kClasses; ++index) {
        TapClass const own = shared.classes[index];
        int const depth = own.taps * Of::kChunk;
        stage_weights<Work>(problem, at, 0, shared.taps + own.first, depth, depth,
                            shared.weights + own.first * At::kWeightPitch);
      }
      held_group = at.group, held_column = at.column;
    }
    for (int outer = 0; outer < W::kClasses / At::kLast; ++outer) {
      PatchSums<Work> sums[At::kLast];
#pragma unroll
      for (int r = 0; r < At::kLast; ++r)
#pragma unroll
        for (int m = 0; m < Block::kBlocksM; ++m)
#pragma unroll
          for (int n = 0; n < Block::kBlocksN; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[r][m][n][i] = 0.0f;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        stage_patch<kVector, Work>(problem, at, chunk, shared.patch);
        int const left = int(problem.channels) - chunk * Of::kChunk;
        if (Of::kResident) __syncthreads();
#pragma unroll
        for (int r = 0; r < At::kLast; ++r) {
          TapClass const own = shared.classes[outer * At::kLast + r];
          int const depth = own.taps * (left < Of::kChunk ? left : Of::kChunk);
          Tap const* const taps = shared.taps + own.first;
          static constexpr int kPanel = Of::kResident ? 1 << 30 : Of::kPanel;
          for (int panel = 0; panel < depth; panel += kPanel) {
            int const count = depth - panel < kPanel ? depth - panel : kPanel;
            float const* weights = shared.weights;
            if constexpr (Of::kResident) {
              weights += own.first * At::kWeightPitch;
            } else {
              stage_weights<Work>(problem, at, chunk, taps + panel, count, count, shared.weights);
              __syncthreads();
            }
            int k = 0;
#pragma unroll 2
            for (; k + 8 <= count; k += 8)
              add_step<false, Work>(shared.patch, base, taps + panel + k, 8, weights + k * At::kWeightPitch, sums[r]);
            if (k < count)
              add_step<true, Work>(shared.patch, base, taps + panel + k, count - k, weights + k * At::kWeightPitch, sums[r]);
            if (!Of::kResident) __syncthreads();
          }
        }
        if (Of::kResident || chunk + 1 == chunks) __syncthreads();
      }
      float* const to = shared.patch;
#pragma unroll
      for (int r = 0; r < At::kLast; ++r)
#pragma unroll
        for (int m = 0; m < Block::kBlocksM; ++m)
#pragma unroll
          for (int n = 0; n < Block::kBlocksN; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              int const place = (row + m * 16 + half * 8) * At::kLast + r, c = column + n * 8 + lane % 4 * 2;
              float const one = sums[r][m][n][half * 2], two = sums[r][m][n][half * 2 + 1];
              if constexpr (Of::kAlongChannels) {
                *reinterpret_cast<Pack<float, 2>*>(to + place * At::kOutPitch + c) = {one, two};
              } else {
                to[c * At::kOutPitch + place] = one;
                to[(c + 1) * At::kOutPitch + place] = two;
              }
            }
      __syncthreads();
      int const residue[2] = {outer / (W::kTransposed ? W::stride(1) : 1), outer % (W::kTransposed ? W::stride(1) : 1)};
      Partly const partly{reinterpret_cast<float*>(memory + At::kShared), outer == 0, outer + 1 == W::kClasses / At::kLast};
      finish_patch<V, Of, At>(work, problem, at, residue, to, partly);
      __syncthreads();
    }
  }
}

}  // namespace mucc::conv
