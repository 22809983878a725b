// Kernels that write a tensor once more, in another order or with other distances between its rows: what TMA and
// tensor cores cannot read where it lies. They only move memory, so all of it is about whole accesses: 16 bytes at a
// time wherever the tensor begins, and through shared memory where rows become columns.
//
// The compiler writes `Op`: where the tensors are, over a space whose last axis is contiguous in the output.
#pragma once

#include <mucc/view.cuh>

namespace mucc {

// 16 bytes of elements.
template <class Bits>
struct alignas(16) Piece {
  static constexpr int kCount = 16 / int(sizeof(Bits));
  union {
    Bits of[kCount];
    uint32_t words[4];
  };
};

MUCC_DEVICE void read_aligned(uint32_t const* from, uint32_t* to) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from));
}

// 16 bytes from any address: two aligned accesses, of which the bytes in between are taken.
template <class Bits>
MUCC_DEVICE Piece<Bits> read_anywhere(Bits const* from) {
  auto const address = reinterpret_cast<uint64_t>(from);
  int const ahead = int(address & 15);
  auto const* const aligned = reinterpret_cast<uint32_t const*>(address - ahead);
  uint32_t w[8];
  read_aligned(aligned, w);
  Piece<Bits> piece;
  if (ahead == 0) {
#pragma unroll
    for (int i = 0; i < 4; ++i) piece.words[i] = w[i];
    return piece;
  }
  read_aligned(aligned + 4, w + 4);
  if (ahead & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = w[i + 2];
  }
  if (ahead & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = w[i + 1];
  }
  int const bits = 8 * (ahead & 3);
#pragma unroll
  for (int i = 0; i < 4; ++i) piece.words[i] = __funnelshift_r(w[i], w[i + 1], bits);
  return piece;
}

// What tf32 holds of an f32, to nearest, ties to even.
MUCC_DEVICE float high_part(float x) {
  uint32_t const u = __float_as_uint(x);
  return __uint_as_float((u + 0xFFFu + (u >> 13 & 1u)) & ~0x1FFFu);
}

// Stores a piece: all of it, and where the output has parts, each of them.
template <class Op, class Bits>
MUCC_DEVICE void write_piece(Op const& op, Bits* to, Piece<Bits> const& piece) {
  if constexpr (Op::kParts == 0) {
    write_words(reinterpret_cast<Piece<Bits>*>(to), piece);
  } else {
    Piece<Bits> high, low;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float const x = __uint_as_float(piece.words[i]), h = high_part(x);
      high.words[i] = __float_as_uint(h);
      low.words[i] = __float_as_uint(high_part(x - h));
    }
#pragma unroll
    for (int part = 0; part < Op::kParts; ++part)
      write_words(reinterpret_cast<Piece<Bits>*>(to + part * op.part), Op::kLow >> part & 1 ? low : high);
  }
}

// Copies rows. The pieces of a row are counted from the last 16-byte boundary before its place in the output; rows that
// are padded get zeros behind their end.
template <class Op, class Index>
MUCC_DEVICE void pack_rows(Op const& op, Extents<Op::kRank> const& extents, Index rows, Index pieces) {
  using Bits = typename Op::Bits;
  constexpr int kCount = Piece<Bits>::kCount;
  Index const total = rows * pieces, step = Index(gridDim.x) * Op::kThreads;
  auto const columns = int64_t(extents.of[Op::kRank - 1]);
  for (Index i = Index(blockIdx.x) * Op::kThreads + threadIdx.x; i < total; i += step) {
    Index const row = i / pieces;
    Position<Op::kRank, Index> p;
    p.template split<0, Op::kRank - 1>(row, extents.of);
    Bits const* from = op.from;
    Bits* to = op.to;
#pragma unroll
    for (int a = 0; a < Op::kRank - 1; ++a) {
      from += int64_t(p.at[a]) * op.from_stride[a];
      to += int64_t(p.at[a]) * op.to_stride[a];
    }
    int const before = Op::kPadded ? 0 : int((reinterpret_cast<uint64_t>(to) & 15) / sizeof(Bits));
    int64_t const first = int64_t(i - row * pieces) * kCount - before;
    if (first >= columns) continue;
    bool const whole = first >= 0 && first + kCount <= columns;
    Piece<Bits> piece;
    if (whole && op.from_stride[Op::kRank - 1] == 1 && from + first >= op.from + kCount &&
        from + first + 2 * kCount <= op.end) {
      piece = read_anywhere(from + first);
    } else {
#pragma unroll
      for (int v = 0; v < kCount; ++v) {
        int64_t const at = first + v;
        piece.of[v] = at >= 0 && at < columns ? from[at * op.from_stride[Op::kRank - 1]] : Bits(0);
      }
    }
    if (Op::kPadded || whole) {
      write_piece(op, to + first, piece);
    } else {
#pragma unroll
      for (int v = 0; v < kCount; ++v)
        if (first + v >= 0 && first + v < columns) to[first + v] = piece.of[v];
    }
  }
}

// Reads 16 bytes of which `count` elements are wanted, the rest zeros. The tensor has elements from `lowest` to before `end`.
template <class Bits>
MUCC_DEVICE Piece<Bits> read_piece(Bits const* lowest, Bits const* end, Bits const* from, int64_t count) {
  constexpr int kCount = Piece<Bits>::kCount;
  bool const has_around = from >= lowest + kCount && from + 2 * kCount <= end;
  if (count >= kCount && (has_around || (reinterpret_cast<uint64_t>(from) & 15) == 0)) return read_anywhere(from);
  Piece<Bits> piece{};
#pragma unroll
  for (int v = 0; v < kCount; ++v)
    if (v < count) piece.of[v] = from[v];
  return piece;
}

// A tile of a matrix in shared memory: read from columns, to be taken by rows. A word holds neighbouring columns. Where tiles
// are tall, a word lies between pieces, so that threads that fill pieces of the same columns write to different banks.
template <class Bits, int kDown, int kAcross>
struct Tile {
  static constexpr int kCount = Piece<Bits>::kCount, kTogether = 4 / int(sizeof(Bits)), kPieces = kDown / kCount;
  static constexpr bool kTall = kDown > kAcross;
  static_assert(kDown % kCount == 0 && kAcross % kCount == 0, "whole pieces each way");

  uint32_t words[kAcross / kTogether][kDown + (kTall ? kPieces : 1)];

  MUCC_DEVICE static int place(int row) { return kTall ? row + row / kCount : row; }

  // Fills the tile by all threads of a block, 16 bytes at a time, from a matrix that has `rows` and `columns` from here on and
  // whose columns are contiguous, `step` elements apart. A thread turns as many columns as a word holds.
  template <int kThreads>
  MUCC_DEVICE void fill(Bits const* lowest, Bits const* end, Bits const* from, int64_t step, int64_t rows, int64_t columns) {
    constexpr int kUnits = kAcross / kTogether * kPieces, kHeld = (kUnits + kThreads - 1) / kThreads;
    Piece<Bits> held[kHeld][kTogether];
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        int const unit = int(threadIdx.x) + k * kThreads;
        int const r = unit % kPieces * kCount, c = unit / kPieces * kTogether + u;
        held[k][u] = {};
        if (r < rows && c < columns) held[k][u] = read_piece(lowest, end, from + r + c * step, rows - r);
      }
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      int const unit = int(threadIdx.x) + k * kThreads;
      if (kUnits % kThreads != 0 && unit >= kUnits) break;
#pragma unroll
      for (int v = 0; v < kCount; ++v) {
        uint32_t word = 0;
#pragma unroll
        for (int u = 0; u < kTogether; ++u) word |= uint32_t(held[k][u].of[v]) << 8 * int(sizeof(Bits)) * u;
        words[unit / kPieces][place(unit % kPieces * kCount + v)] = word;
      }
    }
  }
};

// Copies a matrix whose columns are contiguous, those of the last axis but one, to rows: by tiles of Op::kDown rows and
// Op::kAcross columns, 16 bytes at a time each way.
template <class Op, class Index>
MUCC_DEVICE void pack_turned(Op const& op, Extents<Op::kRank> const& extents, Index tiles, Index across) {
  using Bits = typename Op::Bits;
  using Of = Tile<Bits, Op::kDown, Op::kAcross>;
  constexpr int kCount = Of::kCount, kPieces = Op::kAcross / kCount, kRank = Op::kRank;
  __shared__ Of tile;
  auto const columns = int64_t(extents.of[kRank - 1]), rows = int64_t(extents.of[kRank - 2]);
  int64_t const from_step = op.from_stride[kRank - 1], to_step = op.to_stride[kRank - 2];
  Index const down = Index((rows + Op::kDown - 1) / Op::kDown);
  for (Index i = blockIdx.x; i < tiles; i += gridDim.x) {
    Index const outer = i / across / down;
    int64_t const r0 = int64_t(i / across % down) * Op::kDown, c0 = int64_t(i % across) * Op::kAcross;
    Position<kRank, Index> p;
    if constexpr (kRank > 2) p.template split<0, kRank - 2>(outer, extents.of);
    Bits const* from = op.from + r0 + c0 * from_step;
    Bits* to = op.to + r0 * to_step + c0;
#pragma unroll
    for (int a = 0; a < kRank - 2; ++a) {
      from += int64_t(p.at[a]) * op.from_stride[a];
      to += int64_t(p.at[a]) * op.to_stride[a];
    }
    tile.template fill<Op::kThreads>(op.from, op.end, from, from_step, rows - r0, columns - c0);
    __syncthreads();
#pragma unroll 4
    for (int k = int(threadIdx.x); k < Op::kDown * kPieces; k += Op::kThreads) {
      int const row = k / kPieces, c = k % kPieces * kCount;
      if (r0 + row >= rows || c0 + c >= columns) continue;
      Piece<Bits> piece;
#pragma unroll
      for (int v = 0; v < 4; ++v) piece.words[v] = tile.words[c / Of::kTogether + v][Of::place(row)];
      Bits* const out = to + row * to_step + c;
      if (Op::kPadded || (c0 + c + kCount <= columns && (reinterpret_cast<uint64_t>(out) & 15) == 0)) {
        write_piece(op, out, piece);
      } else {
#pragma unroll
        for (int v = 0; v < kCount; ++v)
          if (c0 + c + v < columns) out[v] = piece.of[v];
      }
    }
    __syncthreads();
  }
}

}  // namespace mucc
