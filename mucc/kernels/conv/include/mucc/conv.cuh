// Convolution as a product of matrices that nothing lays out in memory (implicit GEMM). Rows are positions of the
// result, columns its channels, and along K lie the taps of the window and the channels of x. A block computes one tile:
// pieces of 16 bytes along K go to shared memory, by cp.async where they are contiguous in memory and element by element
// where they are not, warps multiply them by mma.sync or by multiply-adds, and the tile passes through shared memory once
// more to the pointwise work behind it.
//
// The compiler writes `Op`, views of tensors with the constants of the convolution, and `Work` upon it:
// `store<V>(position, convolved)` computes and stores V neighbouring elements of the results.
#pragma once

#include <mucc/conv_place.cuh>

namespace mucc::conv {

// ---- instructions -------------------------------------------------------------------------------------------

#if defined(__CUDA_ARCH__)
MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], Bf16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], F16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], Tf32) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

MUCC_DEVICE uint32_t to_tf32(float x) {
  uint32_t y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
// The parts of factors as the tensor cores take them.
template <class Format, int kCount>
MUCC_DEVICE void split(uint32_t (&x)[Format::kParts][kCount]) {
  if constexpr (Format::kRounds) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float const whole = __uint_as_float(x[0][i]);
      x[0][i] = to_tf32(whole);
      if constexpr (Format::kParts == 2) x[1][i] = to_tf32(whole - __uint_as_float(x[0][i]));
    }
  }
}

// Four 8 x 16-byte matrices: lane l names row l % 8 of matrix l / 8.
MUCC_DEVICE void load_matrices(uint32_t (&to)[4], char const* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(uint32_t(__cvta_generic_to_shared(row))));
}
#endif

// Copies 16 bytes to shared memory, or zeros. `commit` ends a group of copies; `wait` returns when all but the last
// kPending groups have arrived.
MUCC_DEVICE void copy_piece(char* to, void const* from, bool present) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
#else
  for (int i = 0; i < 16; ++i) to[i] = present ? static_cast<char const*>(from)[i] : 0;
#endif
}
MUCC_DEVICE void commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kPending>
MUCC_DEVICE void wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// ---- a tile ---------------------------------------------------------------------------------------------------

// Position of a row of a tile in the result, counted within its class of outputs; `batch` is -1 past the last one.
struct Row {
  int batch, at[3];
};

template <class T>
struct Piece {
  static constexpr int kCount = 16 / sizeof(T);
  Pack<T, kCount> of;
};

template <class Work>
struct Tile : Work::Shape {
  using T = typename Work::Element;
  using Format = typename Work::Format;
  using Of = typename Work::Shape;
  static constexpr int kPieces = Of::kPieces, kPiece = Piece<T>::kCount, kK = kPieces * kPiece;
  static constexpr int kWarpsN = Of::kN >= 128 ? 4 : Of::kN >= 64 ? 2 : 1, kWarpsM = Of::kThreads / 32 / kWarpsN;
  static constexpr int kWarpM = Of::kM / kWarpsM, kWarpN = Of::kN / kWarpsN;
  static constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "whole matrices");
  static_assert(sizeof(Row) * Of::kM == Of::kRows, "as much as the shape counts");

  // Where a piece of a row of a stage lies: rows that would meet in the banks exchange their pieces.
  MUCC_DEVICE static int place(int row, int piece) { return (row * kPieces + (piece ^ (row / 2 % kPieces))) * 16; }
};

// A place along K: the taps, and the channel of the first element of a piece.
struct Depth {
  int tap[3];
  int64_t channel;
};

template <class Work>
struct Walk {
  using W = typename Work::Windows;
  Axis axes[3];
  int64_t channels;

  MUCC_DEVICE int taps(int a) const { return W::kTransposed ? axes[a].taps : W::size(a); }
  MUCC_DEVICE int taps() const { return taps(0) * taps(1) * taps(2); }
  MUCC_DEVICE int64_t depth() const { return taps() * (Work::kChannels ? Work::kChannels : channels); }

  MUCC_DEVICE Depth at(int64_t k) const {
    Depth d;
    int tap;
    if constexpr (Work::kChannelsInner) {
      int64_t const count = Work::kChannels ? Work::kChannels : channels;
      if (k >> 31 == 0) {
        tap = int(unsigned(k) / unsigned(count));
      } else {
        tap = int(k / count);
      }
      d.channel = k - tap * count;
    } else {
      unsigned const count = taps();
      d.channel = k >> 31 == 0 ? int64_t(unsigned(k) / count) : k / count;
      tap = int(k - d.channel * count);
    }
    int const last = taps(2), middle = taps(1);
    d.tap[2] = tap % last;
    d.tap[1] = tap / last % middle;
    d.tap[0] = tap / last / middle;
    return d;
  }
};

// Loads the pieces of one operand that a thread has in each stage. `kRowsFast` says that neighbouring threads have
// neighbouring rows, instead of neighbouring pieces of a row.
template <int kLines, int kThreads, bool kRowsFast>
struct Share {
  static constexpr int kPieces = 4, kAll = kLines * kPieces, kCount = (kAll + kThreads - 1) / kThreads;
  static constexpr int kDistinct = kRowsFast && kLines <= kThreads ? 1 : kCount;  // rows of a thread
  MUCC_DEVICE static bool has(int i) { return kAll % kThreads == 0 || int(threadIdx.x) + i * kThreads < kAll; }
  MUCC_DEVICE static int row(int i) {
    int const t = int(threadIdx.x) + i * kThreads;
    return kRowsFast ? t % kLines : t / kPieces;
  }
  MUCC_DEVICE static int piece(int i) {
    int const t = int(threadIdx.x) + i * kThreads;
    return kRowsFast ? t / kLines : t % kPieces;
  }
};

template <class Work, bool kVector>
struct LoadX {
  using T = typename Work::Element;
  using Lines = Share<Work::Shape::kM, Work::Shape::kThreads, !kVector>;
  static constexpr int kCount = Lines::kCount, kDistinct = Lines::kDistinct, kPiece = Piece<T>::kCount;
  T const* at[kDistinct];
  int in[kDistinct][3];
  Piece<T> held[kVector ? 1 : kCount];

  MUCC_DEVICE LoadX(Problem<T> const& problem, Walk<Work> const& walk, Row const* rows, int64_t group) {
#pragma unroll
    for (int i = 0; i < kDistinct; ++i) {
      Row const row = rows[Lines::row(i)];
      at[i] = problem.x + row.batch * problem.x_batch + group * problem.channels * problem.x_channel;
#pragma unroll
      for (int a = 0; a < 3; ++a) {
        in[i][a] = row.at[a] * walk.axes[a].in_step + walk.axes[a].first_in;
        at[i] += in[i][a] * problem.x_at[a];
        if (row.batch < 0) in[i][a] = -(1 << 30);  // reads nothing
      }
    }
  }

  MUCC_DEVICE bool present(Problem<T> const& problem, Walk<Work> const& walk, Depth const& d, int i) const {
    bool inside = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      int const index = in[i][a] + d.tap[a] * walk.axes[a].in_move - int(problem.low[a]);
      inside = inside && unsigned(index) < unsigned(problem.count[a]);
    }
    return inside;
  }
  MUCC_DEVICE static int64_t offset(Problem<T> const& problem, Walk<Work> const& walk, Depth const& d) {
    int64_t offset = d.channel * problem.x_channel;
#pragma unroll
    for (int a = 0; a < 3; ++a) offset += d.tap[a] * walk.axes[a].in_move * problem.x_at[a];
    return offset;
  }

  // Starts to load a stage, from place `first` along K on.
  MUCC_DEVICE void begin(Problem<T> const& problem, Walk<Work> const& walk, int64_t first, int64_t depth, char* stage) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (!Lines::has(i)) break;
      int const piece = Lines::piece(i), r = i % kDistinct;
      int64_t const k = first + piece * kPiece;
      if constexpr (kVector) {
        Depth const d = walk.at(k);
        bool const inside = k < depth && present(problem, walk, d, r);
        T const* from = inside ? at[r] + offset(problem, walk, d) : problem.x;
        copy_piece(stage + Tile<Work>::place(Lines::row(i), piece), from, inside);
      } else {
#pragma unroll
        for (int e = 0; e < kPiece; ++e) {
          Depth const d = walk.at(k + e);
          bool const inside = k + e < depth && present(problem, walk, d, r);
          held[i].of.of[e] = inside ? at[r][offset(problem, walk, d)] : T{};
        }
      }
    }
  }
  MUCC_DEVICE void end(char* stage) const {
    if constexpr (!kVector) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (Lines::has(i))
          *reinterpret_cast<Piece<T>*>(stage + Tile<Work>::place(Lines::row(i), Lines::piece(i))) = held[i];
    }
  }
};

template <class Work, bool kVector>
struct LoadW {
  using T = typename Work::Element;
  using Lines = Share<Work::Shape::kN, Work::Shape::kThreads, false>;
  static constexpr int kCount = Lines::kCount, kPiece = Piece<T>::kCount;
  T const* at[kCount];
  bool present[kCount];
  Piece<T> held[kVector ? 1 : kCount];

  MUCC_DEVICE LoadW(Problem<T> const& problem, Walk<Work> const& walk, int64_t column, int64_t group) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      int64_t const output = column + Lines::row(i);
      present[i] = output < problem.outputs;
      at[i] = problem.w + group * problem.w_group + output * problem.w_output;
#pragma unroll
      for (int a = 0; a < 3; ++a) at[i] += walk.axes[a].first_tap * problem.w_at[a];
    }
  }

  MUCC_DEVICE static int64_t offset(Problem<T> const& problem, Walk<Work> const& walk, Depth const& d) {
    int64_t offset = d.channel * problem.w_channel;
#pragma unroll
    for (int a = 0; a < 3; ++a) offset += d.tap[a] * walk.axes[a].tap_step * problem.w_at[a];
    return offset;
  }
  MUCC_DEVICE void begin(Problem<T> const& problem, Walk<Work> const& walk, int64_t first, int64_t depth, char* stage) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (!Lines::has(i)) break;
      int const piece = Lines::piece(i);
      int64_t const k = first + piece * kPiece;
      if constexpr (kVector) {
        bool const inside = present[i] && k < depth;
        T const* from = inside ? at[i] + (Work::kChannelsInner ? offset(problem, walk, walk.at(k)) : k) : problem.w;
        copy_piece(stage + Tile<Work>::place(Lines::row(i), piece), from, inside);
      } else {
#pragma unroll
        for (int e = 0; e < kPiece; ++e) {
          bool const inside = present[i] && k + e < depth;
          held[i].of.of[e] = inside ? at[i][offset(problem, walk, walk.at(k + e))] : T{};
        }
      }
    }
  }
  MUCC_DEVICE void end(char* stage) const {
    if constexpr (!kVector) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (Lines::has(i))
          *reinterpret_cast<Piece<T>*>(stage + Tile<Work>::place(Lines::row(i), Lines::piece(i))) = held[i];
    }
  }
};

// The accumulators of a thread: of each 16 x 8 block of the warp's part of the tile pairs of neighbours in rows
// lane / 4 and 8 below, at column lane % 4 * 2.
template <class Work>
struct Sums {
  using At = Tile<Work>;
  using T = typename Work::Element;
  using Format = typename Work::Format;
  float of[At::kBlocksM][At::kBlocksN][4];

  MUCC_DEVICE static int warp() { return int(threadIdx.x) / 32; }
  MUCC_DEVICE static int lane() { return int(threadIdx.x) % 32; }
  MUCC_DEVICE static int row() { return warp() / At::kWarpsN * At::kWarpM; }
  MUCC_DEVICE static int column() { return warp() % At::kWarpsN * At::kWarpN; }

  MUCC_DEVICE void clear() {
#pragma unroll
    for (int m = 0; m < At::kBlocksM; ++m)
#pragma unroll
      for (int n = 0; n < At::kBlocksN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) of[m][n][i] = 0.0f;
  }

  MUCC_DEVICE void add(char const* x, char const* w) {
#if defined(__CUDA_ARCH__)
    if constexpr (Format::kTensor) return add_blocks(x, w);
#endif
    add_elements(x, w);
  }

 private:
#if defined(__CUDA_ARCH__)
  MUCC_DEVICE void add_blocks(char const* x, char const* w) {
    static constexpr int kParts = Format::kParts;
#pragma unroll
    for (int piece = 0; piece < At::kPieces; piece += 2) {
      uint32_t a[At::kBlocksM][kParts][4], b[At::kBlocksN / 2][kParts][4];
#pragma unroll
      for (int m = 0; m < At::kBlocksM; ++m) {
        load_matrices(a[m][0], x + At::place(row() + m * 16 + lane() % 16, piece + lane() / 16));
        split<Format>(a[m]);
      }
#pragma unroll
      for (int n = 0; n < At::kBlocksN / 2; ++n) {
        int const line = column() + n * 16 + lane() / 16 * 8 + lane() % 8;
        load_matrices(b[n][0], w + At::place(line, piece + lane() / 8 % 2));
        split<Format>(b[n]);
      }
#pragma unroll
      for (int m = 0; m < At::kBlocksM; ++m)
#pragma unroll
        for (int n = 0; n < At::kBlocksN; ++n) {
          auto right = [&](int part, uint32_t(&to)[2]) {
            to[0] = b[n / 2][part][n % 2 * 2], to[1] = b[n / 2][part][n % 2 * 2 + 1];
          };
          uint32_t high[2], low[2];
          right(0, high);
          if constexpr (kParts == 2) {
            right(1, low);
            multiply(of[m][n], a[m][1], high, Tf32{});
            multiply(of[m][n], a[m][0], low, Tf32{});
            multiply(of[m][n], a[m][0], high, Tf32{});
          } else {
            multiply(of[m][n], a[m][0], high, Format{});
          }
        }
    }
  }
#endif

  MUCC_DEVICE void add_elements(char const* x, char const* w) {
    static constexpr int kPiece = At::kPiece;
#pragma unroll
    for (int piece = 0; piece < At::kPieces; ++piece) {
      Piece<T> right[At::kBlocksN][2];
#pragma unroll
      for (int n = 0; n < At::kBlocksN; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          right[n][i] = *reinterpret_cast<Piece<T> const*>(w + At::place(column() + n * 8 + lane() % 4 * 2 + i, piece));
#pragma unroll
      for (int m = 0; m < At::kBlocksM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          auto const left =
              *reinterpret_cast<Piece<T> const*>(x + At::place(row() + m * 16 + half * 8 + lane() / 4, piece));
#pragma unroll
          for (int e = 0; e < kPiece; ++e)
#pragma unroll
            for (int n = 0; n < At::kBlocksN; ++n)
#pragma unroll
              for (int i = 0; i < 2; ++i)
                of[m][n][half * 2 + i] += widen(left.of.of[e]) * widen(right[n][i].of.of[e]);
        }
    }
  }

 public:
  // Writes the tile to shared memory, channels or rows next to each other.
  MUCC_DEVICE void spread(float* to) const {
#pragma unroll
    for (int m = 0; m < At::kBlocksM; ++m)
#pragma unroll
      for (int n = 0; n < At::kBlocksN; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int const r = row() + m * 16 + half * 8 + lane() / 4, c = column() + n * 8 + lane() % 4 * 2;
          float const first = of[m][n][half * 2], second = of[m][n][half * 2 + 1];
          if constexpr (At::kAlongChannels) {
            *reinterpret_cast<Pack<float, 2>*>(to + r * At::kPitch + c) = {first, second};
          } else {
            to[c * At::kPitch + r] = first;
            to[(c + 1) * At::kPitch + r] = second;
          }
        }
  }
};

// ---- the kernel -----------------------------------------------------------------------------------------------

// Which tile a block computes.
struct Part {
  int64_t row, column, group;
  int residue[3];
};

template <class Work>
MUCC_DEVICE Part part(Problem<typename Work::Element> const& problem) {
  using W = typename Work::Windows;
  int64_t index = blockIdx.x;
  Part part;
  part.column = index % problem.column_tiles * Work::Shape::kN;
  index /= problem.column_tiles;
  part.row = index % problem.row_tiles * Work::Shape::kM;
  index /= problem.row_tiles;
  part.group = index % problem.groups;
  int rest = int(index / problem.groups);
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int const count = W::kTransposed ? W::stride(a) : 1;
    part.residue[a] = rest % count;
    rest /= count;
  }
  return part;
}

// The position of a row of a class of outputs.
template <class Work>
MUCC_DEVICE Row row_at(Problem<typename Work::Element> const& problem, Axis const (&axes)[3], int64_t index) {
  Row row;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int64_t const rest = axes[a].outs ? index / axes[a].outs : problem.batch;
    row.at[a] = int(index - rest * axes[a].outs);
    index = rest;
  }
  row.batch = index < problem.batch ? int(index) : -1;
  return row;
}

// Whether a class of outputs is empty: of a transposed convolution with few outputs.
MUCC_DEVICE bool is_empty(Axis const (&axes)[3]) { return axes[0].outs == 0 || axes[1].outs == 0 || axes[2].outs == 0; }

// The position of an output in the space of the results.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int64_t> position(Axis const (&axes)[3], Row const& row, int64_t output) {
  int64_t at[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) at[a] = axes[a].first_out + int64_t(row.at[a]) * axes[a].out_step;
  return place_of<Work>(row.batch, output, at);
}

// Computes and stores the results of a tile, V neighbours at a time.
template <int V, class Work>
MUCC_DEVICE void finish(Work const& work, Problem<typename Work::Element> const& problem, Axis const (&axes)[3],
                        Part const& at, Row const* rows, float const* tile) {
  using Of = Tile<Work>;
  static constexpr int kAlong = Of::kAlongChannels ? Of::kN : Of::kM, kLines = Of::kAlongChannels ? Of::kM : Of::kN;
  static constexpr int kSteps = kAlong / V;
  for (int i = int(threadIdx.x); i < kSteps * kLines; i += Of::kThreads) {
    int const line = i / kSteps, first = i % kSteps * V;
    int const r = Of::kAlongChannels ? line : first;
    int64_t const output = at.column + (Of::kAlongChannels ? first : line);
    Row const row = rows[r];
    if (row.batch < 0 || output >= problem.outputs) continue;
    Lanes<V> value;
#pragma unroll
    for (int v = 0; v < V; v += V < 4 ? V : 4) {
      auto const some = *reinterpret_cast<Pack<float, V < 4 ? V : 4> const*>(tile + line * Of::kPitch + first + v);
#pragma unroll
      for (int u = 0; u < (V < 4 ? V : 4); ++u) value.of[v + u] = some.of[u];
    }
    work.store(position<Work>(axes, row, at.group * problem.outputs + output), value);
  }
}

template <bool kVectorX, bool kVectorW, int V, class Work>
MUCC_DEVICE void tiles(Work const& work, Problem<typename Work::Element> const& problem) {
  using Of = Tile<Work>;
  using W = typename Work::Windows;
#if defined(__CUDACC__)
  extern __shared__ __align__(128) char memory[];
#else
  alignas(16) static char memory[Of::kShared];
#endif
  Row* const rows = reinterpret_cast<Row*>(memory + Of::kShared - Of::kRows);
  Part const at = part<Work>(problem);
  Walk<Work> walk;
  walk.channels = problem.channels;
#pragma unroll
  for (int a = 0; a < 3; ++a) walk.axes[a] = axis<W>(a, at.residue[a], problem.out[a]);
  if (W::kTransposed && is_empty(walk.axes)) return;
  for (int i = int(threadIdx.x); i < Of::kM; i += Of::kThreads) rows[i] = row_at<Work>(problem, walk.axes, at.row + i);
  __syncthreads();
  if (rows[0].batch < 0) return;
  Sums<Work> sums;
  sums.clear();
  int64_t const depth = walk.depth();
  int const steps = int((depth + Of::kK - 1) / Of::kK);
  {
    LoadX<Work, kVectorX> x(problem, walk, rows, at.group);
    LoadW<Work, kVectorW> w(problem, walk, at.column, at.group);
    auto stage = [&](int step) { return memory + step % Of::kStages * Of::kStage; };
    auto begin = [&](int step) {
      x.begin(problem, walk, int64_t(step) * Of::kK, depth, stage(step));
      w.begin(problem, walk, int64_t(step) * Of::kK, depth, stage(step) + Of::kM * 16 * Of::kPieces);
    };
    auto end = [&](int step) {
      x.end(stage(step));
      w.end(stage(step) + Of::kM * 16 * Of::kPieces);
    };
#pragma unroll
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
  finish<V>(work, problem, walk.axes, at, rows, tile);
}

}  // namespace mucc::conv
