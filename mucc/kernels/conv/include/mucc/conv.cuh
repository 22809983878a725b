// Convolution as a product of matrices that nothing lays out in memory (implicit GEMM). Rows are positions of the
// result, columns its channels, and along K lie the taps of the window and the channels of x. A block computes one tile:
// pieces of 16 bytes along K go to shared memory, by cp.async where they are contiguous in memory and element by element
// where they are not, warps multiply them by mma.sync or by multiply-adds, and the tile passes through shared memory once
// more to the pointwise work behind it.
//
// The compiler writes `Op`, views of tensors with the constants of the convolution, and `Work` upon it:
// `store<V>(position, convolved)` computes and stores V neighbouring elements of the results.
#pragma once

#include <mucc/conv_copy.cuh>
#include <mucc/conv_moments.cuh>

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

MUCC_DEVICE void multiply(float (&c)[4], uint32_t const (&a)[4], uint32_t const (&b)[2], S8) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(reinterpret_cast<int&>(c[0])), "+r"(reinterpret_cast<int&>(c[1])), "+r"(reinterpret_cast<int&>(c[2])),
        "+r"(reinterpret_cast<int&>(c[3]))
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four e4m3 as two words of f16, which holds them.
MUCC_DEVICE void to_halves(uint32_t four, uint32_t (&to)[2]) {
#if __CUDA_ARCH__ >= 890
  asm volatile("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(to[0]), "=r"(to[1])
      : "r"(four));
#else
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float const low = from_e4m3((unsigned char)(four >> 16 * i)), high = from_e4m3((unsigned char)(four >> (16 * i + 8)));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to[i]) : "f"(high), "f"(low));
  }
#endif
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

// A sum of products as f32.
template <class Format>
MUCC_DEVICE float sum_of(float sum) {
#if defined(__CUDA_ARCH__)
  if constexpr (Format::kIntegers) return float(__float_as_int(sum));
#endif
  return sum;
}

// ---- a tile ---------------------------------------------------------------------------------------------------

// Position of a row of a tile in the result, counted within its class of outputs; `batch` is -1 past the last one.
struct Row {
  int batch, at[3];
};

// What the first tap of a row reads: its place in x, and its indices along the axes of x, small past the last row.
struct Line {
  int64_t offset;
  int in[3];
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
  static constexpr int kWarps = Of::kThreads / 32, kWarpsN = Of::kN >= 64 && kWarps > 1 ? 2 : 1;
  static constexpr int kWarpsM = kWarps / kWarpsN;
  static constexpr int kWarpM = Of::kM / kWarpsM, kWarpN = Of::kN / kWarpsN;
  static constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "whole matrices");
  static_assert((sizeof(Row) + sizeof(Line)) * Of::kM <= Of::kRows, "as much as the shape counts");

  // Where a piece of a row of a stage lies: rows that would meet in the banks exchange their pieces.
  MUCC_DEVICE static int place(int row, int piece) { return (row * kPieces + (piece ^ (row % kPieces))) * 16; }
};

// The outputs of a class along each axis, and the extent of K.
template <class Work>
struct Walk {
  using W = typename Work::Windows;
  Axis axes[3];
  int channels, depth;

  MUCC_DEVICE int taps(int a) const { return W::kTransposed ? axes[a].taps : W::size(a); }
  MUCC_DEVICE int count() const { return Work::kChannels ? Work::kChannels : channels; }
};

// A place along K that moves on.
template <class Work>
struct Cursor {
  using W = typename Work::Windows;
  static constexpr bool kDivides = !W::kTransposed && Work::kChannels > 0;  // by numbers that are compiled in
  Walk<Work> const& walk;
  int tap[3], channel, left;  // `left` elements of K from here on

  MUCC_DEVICE Cursor(Walk<Work> const& walk, int k) : walk(walk), left(walk.depth - k) {
    if (walk.depth == 0) return;
    int const count = walk.count(), taps = walk.taps(0) * walk.taps(1) * walk.taps(2);
    int const linear = Work::kChannelsInner ? k / count : k % taps;
    channel = Work::kChannelsInner ? k % count : k / taps;
    decode(linear);
  }

  MUCC_DEVICE void decode(int linear) {
    int const last = walk.taps(2), middle = walk.taps(1);
    tap[2] = linear % last;
    tap[1] = linear / last % middle;
    tap[0] = linear / last / middle;
  }
  // Moves to the next tap; whether that is the first one again.
  MUCC_DEVICE bool next_tap() {
    if (++tap[2] < walk.taps(2)) return false;
    tap[2] = 0;
    if (++tap[1] < walk.taps(1)) return false;
    tap[1] = 0;
    if (++tap[0] < walk.taps(0) || Work::kChannelsInner) return false;
    tap[0] = 0;
    return true;
  }
  // Moves on by kBy elements; whether to other taps.
  template <int kBy>
  MUCC_DEVICE bool advance() {
    left -= kBy;
    if constexpr (Work::kChannelsInner) {
      channel += kBy;
      bool moved = false;
      while (channel >= walk.count() && left > 0) {
        channel -= walk.count();
        next_tap();
        moved = true;
      }
      return moved;
    } else {
      static constexpr int kTaps = W::kTaps;
      if constexpr (kBy % kTaps == 1 || kTaps == 1) {
        channel += kBy / kTaps;
        if (kTaps > 1 && next_tap()) ++channel;
      } else {
        int linear = (tap[0] * W::size(1) + tap[1]) * W::size(2) + tap[2] + kBy % kTaps;
        channel += kBy / kTaps;
        if (linear >= kTaps) linear -= kTaps, ++channel;
        decode(linear);
      }
      return true;
    }
  }

  template <class T>
  MUCC_DEVICE int64_t x_offset(Problem<T> const& problem) const {
    int64_t offset = 0;
#pragma unroll
    for (int a = 0; a < 3; ++a) offset += tap[a] * walk.axes[a].in_move * problem.x_at[a];
    return offset;
  }
  template <class T>
  MUCC_DEVICE int64_t w_offset(Problem<T> const& problem) const {
    int64_t offset = 0;
#pragma unroll
    for (int a = 0; a < 3; ++a)
      offset += (walk.axes[a].first_tap + tap[a] * walk.axes[a].tap_step) * problem.w_at[a];
    return offset;
  }
  // Whether x has the element that the tap reads from indices `in` of the first one.
  template <class T>
  MUCC_DEVICE bool present(Problem<T> const& problem, int const (&in)[3]) const {
    bool inside = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      int const index = in[a] + tap[a] * walk.axes[a].in_move - int(problem.low[a]);
      inside = inside && unsigned(index) < unsigned(problem.count[a]);
    }
    return inside;
  }
};

// The pieces of kLines rows that a thread has: always the same piece of some rows.
template <class Work, int kLines>
struct Share {
  static constexpr int kPieces = Work::Shape::kPieces, kStep = Work::Shape::kThreads / kPieces;
  static constexpr int kCount = kLines / kStep;
  static_assert(kLines % kStep == 0, "equal shares");
  MUCC_DEVICE static int row(int i) { return int(threadIdx.x) / kPieces + i * kStep; }
  MUCC_DEVICE static int piece() { return int(threadIdx.x) % kPieces; }
};

// Loads x for the rows of a tile, stage by stage. Where `kVector`, whole pieces are copied; else each thread has the
// elements of one row, so that neighbouring threads read neighbouring positions.
template <class Work, bool kVector>
struct LoadX;

template <class Work>
struct LoadX<Work, true> {
  using T = typename Work::Element;
  using At = Tile<Work>;
  using Own = Share<Work, At::kM>;
  Problem<T> const& problem;
  Line const* lines;
  Cursor<Work> cursor;
  T const* from[Own::kCount];  // null where there is nothing to read

  MUCC_DEVICE LoadX(Problem<T> const& problem, Walk<Work> const& walk, Line const* lines)
      : problem(problem), lines(lines), cursor(walk, Own::piece() * At::kPiece) {
    aim();
  }
  MUCC_DEVICE void aim() {
    int64_t const offset = cursor.x_offset(problem);
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      Line const line = lines[Own::row(i)];
      from[i] = cursor.left > 0 && cursor.present(problem, line.in) ? problem.x + (line.offset + offset) : nullptr;
    }
  }
  MUCC_DEVICE void begin(char* stage) {
    bool const inside = cursor.left > 0;
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      bool const present = inside && from[i] != nullptr;
      copy_piece(stage + At::place(Own::row(i), Own::piece()), present ? from[i] + cursor.channel : problem.x, present);
    }
    if (cursor.template advance<At::kK>()) aim();
  }
  MUCC_DEVICE void end(char*) const {}
  MUCC_DEVICE void pass(char*) const {}
};

template <class Work>
struct LoadX<Work, false> {
  using T = typename Work::Element;
  using At = Tile<Work>;
  static constexpr int kThreads = At::kThreads, kEach = kThreads / At::kM > 1 ? kThreads / At::kM : 1;
  static constexpr int kCount = At::kPieces / kEach;
  static_assert(kThreads % At::kM == 0, "each row has threads of its own");
  Problem<T> const& problem;
  Line const line;
  Cursor<Work> cursor;
  Piece<T> held[kCount];

  MUCC_DEVICE static int row() { return int(threadIdx.x) % At::kM; }
  MUCC_DEVICE static int piece(int i) { return int(threadIdx.x) / At::kM * kCount + i; }
  MUCC_DEVICE LoadX(Problem<T> const& problem, Walk<Work> const& walk, Line const* lines)
      : problem(problem), line(lines[row()]), cursor(walk, piece(0) * At::kPiece) {}

  MUCC_DEVICE T element(Cursor<Work> const& at) const {
    bool const inside = at.left > 0 && at.present(problem, line.in);
    return inside ? problem.x[line.offset + at.x_offset(problem) + at.channel * problem.x_channel] : T{};
  }
  // The next piece, the `i`-th of a stage.
  MUCC_DEVICE Piece<T> fetch(int i) {
    Piece<T> found;
#pragma unroll
    for (int e = 0; e < At::kPiece; ++e) {
      if constexpr (Cursor<Work>::kDivides) {
        // Elements do not wait for the one before.
        found.of.of[e] = element({cursor.walk, cursor.walk.depth - cursor.left + i * At::kPiece + e});
      } else {
        found.of.of[e] = element(cursor);
        cursor.template advance<1>();
      }
    }
    return found;
  }
  MUCC_DEVICE void next_stage() {
    if constexpr (Cursor<Work>::kDivides) {
      cursor.left -= At::kK;
    } else if constexpr (kEach > 1) {
      cursor.template advance<At::kK - At::kK / kEach>();
    }
  }
  MUCC_DEVICE void put(char* stage, int i, Piece<T> const& value) const {
    *reinterpret_cast<Piece<T>*>(stage + At::place(row(), piece(i))) = value;
  }
  MUCC_DEVICE void begin(char*) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) held[i] = fetch(i);
    next_stage();
  }
  MUCC_DEVICE void end(char* stage) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) put(stage, i, held[i]);
  }
  // Both at once, with few registers.
  MUCC_DEVICE void pass(char* stage) {
#pragma unroll 1
    for (int i = 0; i < kCount; ++i) put(stage, i, fetch(i));
    next_stage();
  }
};

// Loads the weights of the columns of a tile, stage by stage: whole pieces, or element by element.
template <class Work, bool kVector>
struct LoadW {
  using T = typename Work::Element;
  using At = Tile<Work>;
  using Own = Share<Work, At::kN>;
  Problem<T> const& problem;
  Cursor<Work> cursor;
  T const* w;  // of the thread's first column
  int columns;
  int64_t offset;
  // Single bytes are stored at once: each that is held takes a register.
  static constexpr bool kHeld = !kVector && sizeof(T) > 1;
  Piece<T> held[kHeld ? Own::kCount : 1];

  MUCC_DEVICE LoadW(Problem<T> const& problem, Walk<Work> const& walk, int64_t column, int64_t group)
      : problem(problem), cursor(walk, Own::piece() * At::kPiece) {
    int64_t const first = column + Own::row(0);
    w = problem.w + group * problem.w_group + first * problem.w_output;
    columns = int(problem.outputs - first < At::kN ? problem.outputs - first : At::kN);
    offset = cursor.w_offset(problem);
  }
  MUCC_DEVICE void begin(char* stage) {
    if constexpr (kVector) {
      T const* const from = w + (Work::kChannelsInner ? offset + cursor.channel : int64_t(cursor.walk.depth - cursor.left));
#pragma unroll
      for (int i = 0; i < Own::kCount; ++i) {
        bool const present = cursor.left > 0 && i * Own::kStep < columns;
        T const* const source = present ? from + i * Own::kStep * problem.w_output : problem.w;
        copy_piece(stage + At::place(Own::row(i), Own::piece()), source, present);
      }
      if (!Work::kChannelsInner) {
        cursor.left -= At::kK;
      } else if (cursor.template advance<At::kK>()) {
        offset = cursor.w_offset(problem);
      }
    } else if constexpr (!kHeld) {
#pragma unroll 1
      for (int e = 0; e < At::kPiece; ++e) {
        T const* const from = w + cursor.w_offset(problem) + cursor.channel * problem.w_channel;
#pragma unroll
        for (int i = 0; i < Own::kCount; ++i) {
          bool const present = cursor.left > 0 && i * Own::kStep < columns;
          reinterpret_cast<T*>(stage + At::place(Own::row(i), Own::piece()))[e] =
              present ? from[i * Own::kStep * problem.w_output] : T{};
        }
        cursor.template advance<1>();
      }
      cursor.template advance<At::kK - At::kPiece>();
    } else {
#pragma unroll
      for (int e = 0; e < At::kPiece; ++e) {
        T const* const from = w + cursor.w_offset(problem) + cursor.channel * problem.w_channel;
#pragma unroll
        for (int i = 0; i < Own::kCount; ++i) {
          bool const present = cursor.left > 0 && i * Own::kStep < columns;
          held[i].of.of[e] = present ? from[i * Own::kStep * problem.w_output] : T{};
        }
        cursor.template advance<1>();
      }
      cursor.template advance<At::kK - At::kPiece>();
    }
  }
  MUCC_DEVICE void end(char* stage) const {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < Own::kCount; ++i)
        *reinterpret_cast<Piece<T>*>(stage + At::place(Own::row(i), Own::piece())) = held[i];
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
    if constexpr (Format::kByStep) return add_halves(x, w);
    else if constexpr (Format::kTensor) return add_blocks(x, w);
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
            // Tensor cores cut off what a sum has no bits for, so only these products are added there.
            float part[4] = {};
            right(1, low);
            multiply(part, a[m][1], high, Tf32{});
            multiply(part, a[m][0], low, Tf32{});
            multiply(part, a[m][0], high, Tf32{});
#pragma unroll
            for (int i = 0; i < 4; ++i) of[m][n][i] += part[i];
          } else {
            multiply(of[m][n], a[m][0], high, Format{});
          }
        }
    }
  }

  // Multiplies e4m3 as f16, whose products tensor cores add up with as many bits as f32 has. Words of both factors have four
  // neighbours along K, of which the first two and the last two are words of f16.
  MUCC_DEVICE void add_halves(char const* x, char const* w) {
#pragma unroll 1
    for (int piece = 0; piece < At::kPieces; piece += 2) {
      uint32_t right[At::kBlocksN][2][2];
#pragma unroll
      for (int n = 0; n < At::kBlocksN; n += 2) {
        uint32_t b[4];
        int const line = column() + n * 8 + lane() / 16 * 8 + lane() % 8;
        load_matrices(b, w + At::place(line, piece + lane() / 8 % 2));
#pragma unroll
        for (int i = 0; i < 4; ++i) to_halves(b[i], right[n + i / 2][i % 2]);
      }
#pragma unroll
      for (int m = 0; m < At::kBlocksM; ++m) {
        uint32_t a[4], left[4][2];
        load_matrices(a, x + At::place(row() + m * 16 + lane() % 16, piece + lane() / 16));
#pragma unroll
        for (int i = 0; i < 4; ++i) to_halves(a[i], left[i]);
#pragma unroll
        for (int n = 0; n < At::kBlocksN; ++n)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            uint32_t const both[4] = {left[2 * half][0], left[2 * half + 1][0], left[2 * half][1], left[2 * half + 1][1]};
            multiply(of[m][n], both, right[n][half], F16{});
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
          float const first = sum_of<Format>(of[m][n][half * 2]), second = sum_of<Format>(of[m][n][half * 2 + 1]);
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

template <class Work, class Shape = typename Work::Shape>
MUCC_DEVICE Part part(Problem<typename Work::Element> const& problem, unsigned index) {
  using W = typename Work::Windows;
  auto next = [&](int64_t count) {
    unsigned const whole = index / unsigned(count), rest = index - whole * unsigned(count);
    index = whole;
    return int64_t(rest);
  };
  Part part;
  part.column = next(problem.column_tiles) * Shape::kN;
  // Classes lie between each other in memory: L2 puts together what blocks of the same time store.
  int rest = int(next(W::kClasses));
  part.row = next(problem.row_tiles) * Shape::kM;
  part.group = index;
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
  int64_t batch = 0;
  if constexpr (Work::kMoments == Moments::kEach) {
    batch = index / problem.batch_rows;
    index -= batch * problem.batch_rows;
  }
  if constexpr (Work::Pool::kVolume > 1) {  // positions of a window follow each other
    using Pool = typename Work::Pool;
    int const t = int(index % Pool::kVolume);
    index /= Pool::kVolume;
#pragma unroll
    for (int a = 2; a >= 0; --a) {
      int64_t const windows = problem.out[a] / Pool::size(a);
      row.at[a] = int(index % windows) * Pool::size(a) + Pool::at(a, t);
      index /= windows;
    }
    row.batch = index < problem.batch ? int(index) : -1;
    return row;
  }
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int64_t const rest = index >> 31 ? index / axes[a].outs : unsigned(index) / unsigned(axes[a].outs);
    row.at[a] = int(index - rest * axes[a].outs);
    index = rest;
  }
  if constexpr (Work::kMoments == Moments::kEach) index = index > 0 ? problem.batch : batch;
  row.batch = index < problem.batch ? int(index) : -1;
  return row;
}

// What the first tap of a row reads.
template <class Work>
MUCC_DEVICE Line line_at(Problem<typename Work::Element> const& problem, Axis const (&axes)[3], Row const& row,
                         int64_t group) {
  Line line;
  line.offset = row.batch * problem.x_batch + group * problem.channels * problem.x_channel;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    int const in = row.at[a] * axes[a].in_step + axes[a].first_in;
    line.offset += in * problem.x_at[a];
    line.in[a] = row.batch < 0 ? -(1 << 30) : in;
  }
  return line;
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

// Sums of a tile in shared memory.
struct WholeSums {
  static constexpr int kShares = 1;
  float* tile;
  MUCC_DEVICE int share() const { return 0; }
  template <int kCount>
  MUCC_DEVICE Pack<float, kCount> read(int at) const {
    return *reinterpret_cast<Pack<float, kCount> const*>(tile + at);
  }
};

// Computes and stores the results of a tile, V neighbours at a time; where several blocks have parts of the sums each of them
// stores an equal share.
template <int V, class Of, class Work, class Sums>
MUCC_DEVICE void store_tile(Work const& work, Problem<typename Work::Element> const& problem, Axis const (&axes)[3],
                        Part const& at, Row const* rows, Sums const& sums) {
  static constexpr int kShares = Sums::kShares;
  static constexpr int kAlong = Of::kAlongChannels ? Of::kN : Of::kM, kLines = Of::kAlongChannels ? Of::kM : Of::kN;
  static constexpr int kSteps = kAlong / V;
  auto sums_of = [&](int line, int first) {
    Lanes<V> value;
#pragma unroll
    for (int v = 0; v < V; v += V < 4 ? V : 4) {
      auto const some = sums.template read<V < 4 ? V : 4>(line * Of::kPitch + first + v);
#pragma unroll
      for (int u = 0; u < (V < 4 ? V : 4); ++u) value.of[v + u] = some.of[u];
    }
    return value;
  };
  auto place_of_sums = [&](int line, int first) -> float* {
    if constexpr (kShares == 1) return sums.tile + line * Of::kPitch + first;
    return nullptr;
  };
  auto finish_one = [&](Row const& row, int line, int first, int64_t output) {
    auto const p = position<Work>(axes, row, at.group * problem.outputs + output);
    write_kept<V>(work, p, work.template results<V>(p, sums_of(line, first)), place_of_sums(line, first));
  };
  if constexpr (Of::kAlongChannels) {
    // A thread stays at its channels where rows are whole numbers of threads' steps, and all positions are there.
    static constexpr bool kEven = kSteps <= Of::kThreads && Of::kThreads % kSteps == 0;
    if (kEven && kShares == 1 && rows[kLines - 1].batch >= 0) {
      int const first = int(threadIdx.x) % kSteps * V;
      if (at.column + first >= problem.outputs) return;
      int64_t const channel = at.group * problem.outputs + at.column + first;
      auto place = [&](int i) { return position<Work>(axes, rows[i], channel); };
      auto value = [&](int i) { return sums_of(i, first); };
      auto from = [&](int i) { return place_of_sums(i, first); };
      store_lines<V, kLines, kEven ? Of::kThreads / kSteps : 1>(work, int(threadIdx.x) / kSteps, kLines, place, value, from);
      return;
    }
    for (int i = int(threadIdx.x) + sums.share() * Of::kThreads; i < kSteps * kLines; i += Of::kThreads * kShares) {
      int const line = i / kSteps, first = i % kSteps * V;
      Row const row = rows[line];
      if (row.batch >= 0 && at.column + first < problem.outputs) finish_one(row, line, first, at.column + first);
    }
  } else {
    // A thread stays at its positions, whose places are found once, and goes from channel to channel.
    static constexpr int kTogether = kSteps < Of::kThreads ? kSteps : Of::kThreads, kStep = Of::kThreads / kTogether * kShares;
    static_assert(kSteps % kTogether == 0 && Of::kThreads % kTogether == 0, "equal shares");
    int64_t const left = problem.outputs - at.column, channel = at.group * problem.outputs + at.column;
    for (int step = int(threadIdx.x) % kTogether; step < kSteps; step += kTogether) {
      Row const row = rows[step * V];
      if (row.batch < 0) continue;
      int const line = int(threadIdx.x) / kTogether + sums.share() * (Of::kThreads / kTogether);
      auto place = [&](int i) { return position<Work>(axes, row, channel + i); };
      auto value = [&](int i) { return sums_of(i, step * V); };
      auto from = [&](int i) { return place_of_sums(i, step * V); };
      store_lines<V, kLines, kStep>(work, line, left, place, value, from);
    }
  }
}

// Returns where a tile stores moments.
template <class Of, class Work>
MUCC_DEVICE Cells cells_at(Problem<typename Work::Element> const& problem, Part const& at) {
  using W = typename Work::Windows;
  int64_t const tile = at.row / Of::kM, tiles = problem.row_tiles / problem.batch;
  int64_t const first = at.group * problem.outputs + at.column, columns = problem.outputs - at.column;
  int index = 0;
#pragma unroll
  for (int a = 0; a < 3; ++a) index = index * (W::kTransposed ? W::stride(a) : 1) + at.residue[a];
  if (Work::kMoments == Moments::kEach)
    return {tile / tiles, first, columns, tile % tiles * W::kClasses + index, tiles * W::kClasses};
  return {0, first, columns, tile * W::kClasses + index, problem.row_tiles * W::kClasses};
}

// Stores the moments of a tile without positions.
template <class Of, class Work>
MUCC_DEVICE void measure_nothing(Problem<typename Work::Element> const& problem, Part const& at) {
  if constexpr (Work::kMoments != Moments::kNone) {
    Cells const own = cells_at<Of, Work>(problem, at);
    for (int column = int(threadIdx.x); column < Of::kN && column < own.columns; column += Of::kThreads)
      store_moments<Work>(problem, own, column, {0.0f, 0.0f, 0.0f});
  }
}

// Computes and stores the results of a tile, or reduces the channels of its positions. `sync` is a barrier of the threads that
// do so.
template <int V, class Of, class Work, class Sums, class Sync>
MUCC_DEVICE void finish(Work const& work, Problem<typename Work::Element> const& problem, Axis const (&axes)[3],
                        Part const& at, Row const* rows, Sums const& sums, Sync const& sync) {
  if constexpr (Work::kReduces) {
    static_assert(!Of::kAlongChannels && Sums::kShares == 1, "a block has all sums, and neighbours are positions");
    auto find = [&](int place, Position<Work::kRank, int64_t>& p) {
      Row const row = rows[place];
      p = position<Work>(axes, row, 0);
      return row.batch >= 0;
    };
    reduce_places<Of::kM, Of::kThreads>(work, problem.outputs, sums.tile, Of::kPitch, find);
  } else if constexpr (Work::Pool::kVolume > 1) {
    using Pool = typename Work::Pool;
    static_assert(!Of::kAlongChannels && Sums::kShares == 1, "a block has all sums, and neighbours are positions");
    auto first = [](int window) { return window * Pool::kVolume; };
    auto find = [&](int window, Position<Work::kRank, int64_t>& p) {
      Row const row = rows[first(window)];
      p = position<Work>(axes, row, at.group * problem.outputs + at.column);
      return row.batch >= 0;
    };
    Partly const all{nullptr, true, true};
    pool_places<Of::kM, Of::kN, Of::kThreads>(work, problem.outputs - at.column, sums.tile, Of::kPitch, all, find, first,
                                              [](int t) { return t; });
  } else {
    store_tile<V, Of>(work, problem, axes, at, rows, sums);
  }
  if constexpr (Work::kMoments != Moments::kNone) {
    static_assert(Sums::kShares == 1, "a block has all sums");
    Cells const own = cells_at<Of, Work>(problem, at);
    sync();
    measure<Of, Of::kM, Of::kPitch, Work>(problem, own, sums.tile, [&](int place) { return rows[place].batch >= 0; }, sync);
  }
}

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
    LoadX<Work, kVectorX> x(problem, walk, lines);
    LoadW<Work, kVectorW> w(problem, walk, at.column, at.group);
    auto stage = [&](int step) { return memory + step % Of::kStages * Of::kStage; };
    // Elements that pass through registers are held while a stage is multiplied, unless the kernel is made for other calls:
    // its sums leave too few registers, or it is to be small.
    static constexpr bool kHeld = kVectorX || Work::kHolds;
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
  finish<V, Of>(work, problem, walk.axes, at, rows, WholeSums{tile}, [] { __syncthreads(); });
}

}  // namespace mucc::conv
