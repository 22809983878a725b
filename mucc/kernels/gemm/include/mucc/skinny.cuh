// Contractions with few rows or columns, bound by reading the large operand (the weights) from memory once.
//
// A block makes a tile of the result: kMany rows of weights by kFew rows of the small operand. Its warps divide K among
// them, and where tiles are few the blocks of a cluster do so too. Each warp has a ring of kStages steps in shared memory,
// which it fills and empties alone, with asynchronous copies of 16 bytes: enough of them are under way to keep memory
// busy. Lanes lie over the weights as mma.sync wants its operands, under an order of K (and of rows) that suits the
// copies, so what a lane has copied it multiplies. Partial results meet in shared memory, always in the same order.
//
// The compiler writes `Op`, the operands, and `Work` upon it, whose `finish(position, inside, acc)` is the epilogue of an
// element.
#pragma once

#include <mucc/narrow.cuh>
#include <mucc/skinny.h>
#include <mucc/skinny_instructions.cuh>

namespace mucc::skinny {

// One step of a warp: pieces of the operands, each with a place for every lane. Lane (g, t) of 8 x 4 has rows g of the
// atoms, of the small operand too, and a quarter of each atom's K.
template <class Op>
struct Step {
  using T = typename Op::Element;
  using FewT = typename Op::FewElement;
  using Unit = Atom<T, Op::kAlongK>;
  static_assert((sizeof(T) == sizeof(FewT) || Op::kMixed) && (sizeof(T) > 1 || Op::kAlongK));
  static constexpr int kPiece = Unit::kPiece, kLaneK = Unit::kLaneK;
  static constexpr int kRows = Op::kMany / Unit::kMany;    // atoms along the weights' rows
  static constexpr int kAtoms = Op::kStep / Unit::kK;      // atoms along K
  static constexpr int kLoads = Op::kAlongK ? 2 : kLaneK;  // pieces of weights in an atom
  static constexpr int kOwn = Op::kAlongK ? 2 : kPiece;    // rows of weights of an atom in a lane
  static constexpr int kGroups = (Op::kFew + 7) / 8;       // of eight rows of the small operand
  static constexpr int kFewBytes = kLaneK * int(sizeof(FewT));           // of a lane
  static constexpr int kPartBytes = kFewBytes < 16 ? kFewBytes : 16;     // of one copy of them
  static constexpr int kParts = kFewBytes / kPartBytes;
  static_assert(kRows >= 1 && kAtoms >= 1 && Op::kMany % Unit::kMany == 0 && Op::kStep % Unit::kK == 0);

  struct alignas(kPartBytes) Few {
    FewT of[kLaneK / kParts];
  };
  Words weights[kAtoms][kRows][kLoads][32];
  Few few[kAtoms][kGroups * kParts][32];  // a lane's parts are 32 places apart

  // Where lane (g, t) finds its pieces. Where K is not the contiguous axis eight neighbouring lanes copy 128 bytes of a
  // row, though those are the pieces of lanes four apart: memory is slow to answer for pieces of many rows at a time. The
  // places are exchanged such that neither copies nor reads meet in a bank.
  static MUCC_DEVICE int slot(int g, int t) { return Op::kAlongK ? 4 * g + t : 8 * t + (g ^ 2 * t); }

  // The row of weights, within the tile, that a lane's row `i` of atom `r` is.
  static MUCC_DEVICE int row(int g, int r, int i) {
    return r * Unit::kMany + (Op::kAlongK ? g + 8 * i : g * kPiece + i);
  }

  // Starts to copy what lies from `k0` on; zeros past the end of K.
  template <Access kAccess>
  MUCC_DEVICE void fill(Op const& op, Extents const& e, T const* many_data, FewT const* few_data, int many0, int few0,
                        uint32_t k0) {
    constexpr int kUnroll = kAccess == kPieces ? 64 : 1;  // reading single elements is long enough
    int const lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int const row_g = Op::kAlongK ? g : lane % 8, row_t = Op::kAlongK ? t : lane / 8;  // whose weights it copies
#pragma unroll kUnroll
    for (int a = 0; a < kAtoms; ++a) {
      uint32_t const k = k0 + a * Unit::kK + row_t * kLaneK;
      int const left = int(uint32_t(e.k) - k);  // of K; not above 0 where that ends before
#pragma unroll kUnroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll kUnroll
        for (int i = 0; i < kLoads; ++i) {
          Words* const to = &weights[a][r][i][slot(row_g, row_t)];
          int const n = many0 + row(row_g, r, Op::kAlongK ? i : 0);
          int64_t const at = Op::kAlongK ? n * op.weights.row + k : (k + i) * op.weights.k + n;
          T const* const from = many_data + (shares_bytes<T> ? at / 2 : at);
          if constexpr (kAccess != kElements) {
            copy_once(to, from, Op::kAlongK ? left > 0 && n < e.many : i < left && n < e.many);
          } else if constexpr (Op::kAlongK) {
            gather<16 / int(sizeof(T))>(to, from, 1, n < e.many ? (shares_bytes<T> ? left / 2 : left) : 0);
          } else {
            gather<kPiece>(to, from, 1, i < left ? e.many - n : 0);
          }
        }
      }
#pragma unroll kUnroll
      for (int c = 0; c < kGroups; ++c) {
        int const m = few0 + 8 * c + g;
        uint32_t const k_few = k0 + a * Unit::kK + t * kLaneK;
        int const left_few = int(uint32_t(e.k) - k_few);
        FewT const* const from = few_data + m * op.few.row + k_few * op.few.k;
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          constexpr int kPart = kLaneK / kParts;
          Few* const to = &few[a][c * kParts + p][lane];
          int const left_part = left_few - p * kPart;
          if constexpr (kAccess == kPieces) {
            copy_often<kPartBytes>(to, from + p * kPart, m < e.few && left_part > 0);
          } else {
            gather<kPart>(to, from + p * kPart * op.few.k, op.few.k, m < e.few ? left_part : 0);
          }
        }
      }
    }
  }
};

// The accumulators of a lane on tensor cores: those of mma.sync.
template <class Op>
struct TensorCores {
  using S = Step<Op>;
  using T = typename Op::Element;
  using FewT = typename Op::FewElement;
  using Sum = typename SumOf<T>::Type;
  static constexpr int kPairs = S::kOwn / 2;
  Sum acc[S::kRows][kPairs][S::kGroups][4] = {};

  MUCC_DEVICE void add(S const& step) {
    int const lane = threadIdx.x % 32, slot = S::slot(lane / 4, lane % 4);
#pragma unroll
    for (int a = 0; a < S::kAtoms; ++a) {
      uint32_t x[S::kGroups][S::kFewBytes / 4];
#pragma unroll
      for (int c = 0; c < S::kGroups; ++c) {
        auto const* words = reinterpret_cast<uint32_t const*>(&step.few[a][c][lane]);
#pragma unroll
        for (int i = 0; i < S::kFewBytes / 4; ++i) x[c][i] = words[i];
      }
#pragma unroll
      for (int r = 0; r < S::kRows; ++r) {
        Words w[S::kLoads];
#pragma unroll
        for (int i = 0; i < S::kLoads; ++i) w[i] = step.weights[a][r][i][slot];
#pragma unroll
        for (int c = 0; c < S::kGroups; ++c) {
          if constexpr (Op::kAlongK) {
#pragma unroll
            for (int h = 0; h < 4; h += 2)
              multiply(T{}, FewT{}, acc[r][0][c], w[0].of[h], w[1].of[h], w[0].of[h + 1], w[1].of[h + 1], x[c][h],
                       x[c][h + 1]);
          } else if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int p = 0; p < kPairs; ++p)
              multiply(T{}, FewT{}, acc[r][p][c], w[0].of[2 * p], w[0].of[2 * p + 1], w[1].of[2 * p], w[1].of[2 * p + 1],
                       x[c][0], x[c][1]);
          } else {
#pragma unroll
            for (int p = 0; p < kPairs; ++p)
              multiply(T{}, FewT{}, acc[r][p][c], turned(w[0].of[p], w[1].of[p], 0), turned(w[0].of[p], w[1].of[p], 1),
                       turned(w[2].of[p], w[3].of[p], 0), turned(w[2].of[p], w[3].of[p], 1), x[c][0], x[c][1]);
          }
        }
      }
    }
  }

  // Writes the tile's columns 8 * c ... to `to`, kPitch floats for each.
  template <int kPitch>
  MUCC_DEVICE void write(int c, Sum* to) const {
    int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r)
#pragma unroll
      for (int p = 0; p < kPairs; ++p)
#pragma unroll
        for (int i = 0; i < 4; ++i) to[(2 * t + i % 2) * kPitch + S::row(g, r, 2 * p + i / 2)] = acc[r][p][c][i];
  }
};

// The same for weights of 4 or 8 bits, which become numbers of the small operand's kind in registers: minus zeros, times
// scales. A lane reads those of its rows a step ahead.
template <class Op>
struct MixedCores {
  using S = Step<Op>;
  using T = typename Op::Element;
  using Wide = typename Op::FewElement;
  using Sum = float;
  static constexpr int kGroup = Op::kGroup ? Op::kGroup : S::kLaneK;
  static constexpr int kPer = kGroup < S::kLaneK ? S::kLaneK / kGroup : 1;  // groups of a lane
  static constexpr bool kScaled = Op::kGroup != 0, kShifted = Op::kShifted;
  static_assert(kGroup % S::kLaneK == 0 || S::kLaneK % kGroup == 0);

  struct Factors {
    uint32_t scale[S::kAtoms][S::kRows][2][kPer], zero[S::kAtoms][S::kRows][2][kShifted ? kPer : 1];
  };
  Sum acc[S::kRows][1][S::kGroups][4] = {};
  Factors now, next;

  // Reads the scales of the step that begins at k.
  MUCC_DEVICE void look_up(Op const& op, Extents const& e, int many0, int64_t k) {
    if constexpr (kScaled) {
      int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
      for (int a = 0; a < S::kAtoms; ++a)
#pragma unroll
        for (int r = 0; r < S::kRows; ++r)
#pragma unroll
          for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < kPer; ++j) {
              int64_t const first = k + a * S::Unit::kK + t * S::kLaneK + j * kGroup;
              int const n = many0 + S::row(g, r, i);
              bool const inside = first < e.k && n < e.many;
              int64_t const group = first / kGroup;
              next.scale[a][r][i][j] = 0;
              if (inside) next.scale[a][r][i][j] = both<Wide>(op.scales.data[n * op.scales.row + group * op.scales.group]);
              if constexpr (kShifted) {
                next.zero[a][r][i][j] = 0;
                if (inside) next.zero[a][r][i][j] = both<Wide>(op.zeros.data[n * op.zeros.row + group * op.zeros.group]);
              }
            }
    }
  }
  MUCC_DEVICE void turn() { now = next; }

  // Pair `p` of a lane's numbers.
  MUCC_DEVICE uint32_t pair(Words const& w, int p, int a, int r, int i) const {
    constexpr int kBits = 2 * bits_of<T>, kMask = (1 << kBits) - 1;
    uint32_t x = Widen<T, Wide>::pair(w.of[p * kBits / 32] >> p * kBits % 32 & kMask);
    int const group = kPer > 1 ? 2 * p / kGroup : 0;
    if constexpr (kShifted) x = minus<Wide>(x, now.zero[a][r][i][group]);
    if constexpr (kScaled) x = times<Wide>(x, now.scale[a][r][i][group]);
    return x;
  }

  MUCC_DEVICE void add(S const& step) {
    int const lane = threadIdx.x % 32;
#pragma unroll
    for (int a = 0; a < S::kAtoms; ++a)
#pragma unroll
      for (int r = 0; r < S::kRows; ++r) {
        Words const first = step.weights[a][r][0][lane], second = step.weights[a][r][1][lane];
#pragma unroll
        for (int part = 0; part < S::kParts; ++part) {
          Words x[S::kGroups];
#pragma unroll
          for (int c = 0; c < S::kGroups; ++c)
            x[c] = *reinterpret_cast<Words const*>(&step.few[a][c * S::kParts + part][lane]);
#pragma unroll
          for (int h = 0; h < 4; h += 2) {
            int const p = 4 * part + h;
            uint32_t const a0 = pair(first, p, a, r, 0), a1 = pair(second, p, a, r, 1);
            uint32_t const a2 = pair(first, p + 1, a, r, 0), a3 = pair(second, p + 1, a, r, 1);
#pragma unroll
            for (int c = 0; c < S::kGroups; ++c)
              multiply(Wide{}, Wide{}, acc[r][0][c], a0, a1, a2, a3, x[c].of[h], x[c].of[h + 1]);
          }
        }
      }
  }

  template <int kPitch>
  MUCC_DEVICE void write(int c, Sum* to) const {
    int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) to[(2 * t + i % 2) * kPitch + S::row(g, r, i / 2)] = acc[r][0][c][i];
  }
};

// The accumulators of a lane in f32: its rows by all columns, over a quarter of K.
template <class Op>
struct Exact {
  using S = Step<Op>;
  using T = typename Op::Element;
  using Sum = float;
  float acc[S::kRows][S::kOwn][Op::kFew] = {};

  MUCC_DEVICE void add(S const& step) {
    int const t = threadIdx.x % 4, slot = S::slot(threadIdx.x % 32 / 4, t);
#pragma unroll
    for (int a = 0; a < S::kAtoms; ++a) {
      typename S::Few x[Op::kFew];
#pragma unroll
      for (int c = 0; c < Op::kFew; ++c) x[c] = step.few[a][c / 8][c % 8 * 4 + t];
#pragma unroll
      for (int r = 0; r < S::kRows; ++r)
#pragma unroll
        for (int l = 0; l < S::kLoads; ++l) {
          auto const w = *reinterpret_cast<Pack<T, S::kPiece> const*>(&step.weights[a][r][l][slot]);
#pragma unroll
          for (int j = 0; j < S::kPiece; ++j) {
            int const row = Op::kAlongK ? l : j, k = Op::kAlongK ? j : l;
            float const weight = widen(w.of[j]);
#pragma unroll
            for (int c = 0; c < Op::kFew; ++c) acc[r][row][c] = fmaf(weight, widen(x[c].of[k]), acc[r][row][c]);
          }
        }
    }
  }

  template <int kPitch>
  MUCC_DEVICE void write(int c, float* to) const {
    int const g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < S::kRows; ++r)
#pragma unroll
      for (int i = 0; i < S::kOwn; ++i)
#pragma unroll
        for (int j = 0; j < 8 && j < Op::kFew; ++j) {
          float const sum = over_lanes(acc[r][i][8 * c + j]);
          if (j % 4 == t) to[j * kPitch + S::row(g, r, i)] = sum;
        }
  }
};

template <bool kExact, bool kMixed, class Op>
struct ArithmeticOf {
  using Type = TensorCores<Op>;
};
template <class Op>
struct ArithmeticOf<true, false, Op> {
  using Type = Exact<Op>;
};
template <class Op>
struct ArithmeticOf<false, true, Op> {
  using Type = MixedCores<Op>;
};

// ---- several blocks -------------------------------------------------------------------------------------

// Waits for all blocks of the cluster; what they wrote to shared memory is there then.
MUCC_DEVICE void meet() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// What another block of the cluster has in shared memory at the place where this block has `*own`.
template <class Sum>
MUCC_DEVICE Sum of_block([[maybe_unused]] int rank, Sum const* own) {
#if __CUDA_ARCH__ >= 900
  uint32_t address = shared_address(own), bits;
  asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
  asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
  return __builtin_bit_cast(Sum, bits);
#else
  return *own;
#endif
}

// ---- reductions of the result ---------------------------------------------------------------------------

// Combines a value of each lane into a tensor of f32. Lanes that are not `inside` have none. With `kAcross`, groups of 16
// lanes share an element of the tensor, and one of them writes.
template <class Reduction, bool kAcross, class View, class P>
MUCC_DEVICE void combine(View const& view, P const& p, bool inside, float value) {
  value = inside ? Reduction::first(value) : Reduction::identity;
  if constexpr (kAcross) {
#pragma unroll
    for (int lanes = 8; lanes > 0; lanes /= 2) value = Reduction::combine(value, __shfl_xor_sync(~0u, value, lanes));
    inside = inside && threadIdx.x % 16 == 0;  // the first of a group is inside if any is
  }
  if (inside) Reduction::atomic(place(view, p), value);
}

// ---- the kernel -----------------------------------------------------------------------------------------

// Blocks along x are tiles of weights, `splits` neighbours for each; along y tiles of the small operand; along z batches.
template <Access kAccess, class Work>
MUCC_DEVICE void run(Work const& op, Extents const& e, int splits) {
  using Op = typename Work::Op;
  using T = typename Op::Element;
  using FewT = typename Op::FewElement;
  using S = Step<Op>;
  using Arithmetic = typename ArithmeticOf<Op::kExact, Op::kMixed, Op>::Type;
  using Sum = typename Arithmetic::Sum;
  using Memory = Shared<Op, step_bytes<Op>()>;
  static_assert(sizeof(S) == step_bytes<Op>());
  extern __shared__ char mucc_shared[];
  int const warp = threadIdx.x / 32, warps = blockDim.x / 32;
  S* const ring = reinterpret_cast<S*>(mucc_shared) + warp * Op::kStages;
  Sum* const parts = reinterpret_cast<Sum*>(mucc_shared);  // in the place of the rings
  Sum* const total = reinterpret_cast<Sum*>(mucc_shared + Memory::reused(warps));
  int const rank = int(blockIdx.x) % splits;
  int const many0 = int(blockIdx.x) / splits * Op::kMany;
  int64_t const stride = int64_t(warps) * splits * Op::kStep;
  for (int batch = int(blockIdx.z); batch < e.batch; batch += int(gridDim.z)) {
    for (int few0 = int(blockIdx.y) * Op::kFew; few0 < e.few; few0 += int(gridDim.y) * Op::kFew) {
      T const* const many_data =
          static_cast<T const*>(op.weights.data) + batch * op.weights.batch / (shares_bytes<T> ? 2 : 1);
      FewT const* const few_data = static_cast<FewT const*>(op.few.data) + batch * op.few.batch;
      Arithmetic arithmetic;
      int64_t next = int64_t(rank * warps + warp) * Op::kStep;  // where the next step begins that is copied
      int filled = 0, used = 0;                                // steps of the ring
      auto fill = [&] {
        if (next < e.k)
          ring[filled].template fill<kAccess>(op, e, many_data, few_data, many0, few0, uint32_t(next));
        commit();
        next += stride;
        filled = filled + 1 == Op::kStages ? 0 : filled + 1;
      };
#pragma unroll
      for (int s = 0; s < Op::kStages - 1; ++s) fill();
      if constexpr (Op::kMixed) arithmetic.look_up(op, e, many0, int64_t(rank * warps + warp) * Op::kStep);
      for (int64_t k = int64_t(rank * warps + warp) * Op::kStep; k < e.k; k += stride) {
        if constexpr (Op::kMixed) {
          arithmetic.turn();
          arithmetic.look_up(op, e, many0, k + stride);
        }
        wait<Op::kStages - 2>();
        __syncwarp();  // the step is there for all lanes, and all have used the one that is overwritten now
        fill();
        arithmetic.add(ring[used]);
        used = used + 1 == Op::kStages ? 0 : used + 1;
      }
      // The warps' shares, eight columns at a time.
#pragma unroll
      for (int c = 0; c < S::kGroups; ++c) {
        __syncthreads();
        arithmetic.template write<Memory::kPitch>(c, parts + warp * Memory::kPart);
        __syncthreads();
        for (int i = threadIdx.x; i < 8 * Op::kMany; i += blockDim.x) {
          Sum const* const part = parts + i / Op::kMany * Memory::kPitch + i % Op::kMany;
          Sum sum = part[0];
          for (int w = 1; w < warps; ++w) sum += part[w * Memory::kPart];
          total[8 * c * Op::kMany + i] = sum;
        }
      }
      // The blocks' shares; each block finishes a part of the tile. All lanes of a warp make the same steps.
      splits > 1 ? meet() : __syncthreads();
      for (int i = rank * int(blockDim.x) + int(threadIdx.x); i < 8 * S::kGroups * Op::kMany;
           i += splits * int(blockDim.x)) {
        Sum acc = total[i];
        if (splits > 1) {
          acc = of_block(0, total + i);
          for (int r = 1; r < splits; ++r) acc += of_block(r, total + i);
        }
        int const m = i / Op::kMany;
        Position<3, int64_t> p;
        p.at[0] = batch, p.at[1] = few0 + m, p.at[2] = many0 + i % Op::kMany;
        op.finish(p, m < Op::kFew && p.at[1] < e.few && p.at[2] < e.many, acc);
      }
      splits > 1 ? meet() : __syncthreads();
    }
  }
}

}  // namespace mucc::skinny
