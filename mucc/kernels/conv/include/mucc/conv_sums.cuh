// Accumulators of a tile: products of a stage are added up by tensor cores or by multiply-adds, and sums go to shared
// memory.
#pragma once

#include <mucc/conv_mma.cuh>
#include <mucc/conv_tile.cuh>

namespace mucc::conv {

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

}  // namespace mucc::conv
