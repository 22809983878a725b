// What a block of attention with few queries reads, and where: positions of keys and of rows of queries, steps of keys in
// shared memory, numbers of e4m3 as f16, and parts that other blocks wrote.
#pragma once

#include <mucc/attention_mma.cuh>
#include <mucc/warpgroup.cuh>

namespace mucc::attention {

// Four numbers that another block wrote.
MUCC_DEVICE Pack<float, 4> read_part(float const* at) {
  Pack<float, 4> x;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.of[0]), "=f"(x.of[1]), "=f"(x.of[2]), "=f"(x.of[3])
               : "l"(at)
               : "memory");
#else
  x = *reinterpret_cast<Pack<float, 4> const*>(at);
#endif
  return x;
}

// A tile's position without its row: the leading indices along which keys differ.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int> position_of_keys(Extents<Work::kRank> const& extents, unsigned index) {
  Position<Work::kRank, int> p{};
#pragma unroll
  for (int a = Work::kBatch - 1; a >= 0; --a) {
    if (is_shared<Work>(a)) continue;
    unsigned const extent = unsigned(extents.of[a]), rest = index / extent;
    p.at[a] = int(index - rest * extent);
    index = rest;
  }
  return p;
}

// The position of a row of the queries that share keys: those of one head lie next to each other.
template <class Work>
MUCC_DEVICE void set_row(Position<Work::kRank, int>& p, Extents<Work::kRank> const& extents, int row) {
  int const queries = int(extents.of[Work::kRank - 2]);
  int head = row / queries;
  p.at[Work::kRank - 2] = row - head * queries;
#pragma unroll
  for (int a = Work::kBatch - 1; a >= 0; --a) {
    if (!is_shared<Work>(a)) continue;
    int const rest = head / int(extents.of[a]);
    p.at[a] = head - rest * int(extents.of[a]);
    head = rest;
  }
}

// A relative weight: of what was added up relative to the score `own`, where the largest one is `most`.
template <class Work>
MUCC_DEVICE float relative(float own, float most) {
  if constexpr (!Work::kSoftmax) return 1.0f;
  return power_of_two((own - most) * kFactor<Work>);
}

// Two numbers of e4m3 as the halves of a word of f16.
MUCC_DEVICE uint32_t to_halves(uint32_t pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t both;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"(uint16_t(pair)));
  return both;
#else
  f16 low, high;
  narrow(widen(e4m3{uint8_t(pair)}), low), narrow(widen(e4m3{uint8_t(pair >> 8)}), high);
  return uint32_t(high.bits) << 16 | low.bits;
#endif
}

// Copies a step's rows of a matrix to shared memory by one warp; `from` is the first of them, zeros from row `count` on.
template <bool kWhole, int kWidth, class T, class From>
MUCC_DEVICE void copy_keys(T* to, From const* from, int64_t row, int64_t step, int count) {
  constexpr int kPadded = rounded(kWidth, 16), kPitch = kPadded + 8, kPieces = kPadded / 8;
  int const lane = threadIdx.x % 32;
  if constexpr (kWhole && kPadded == kWidth && 32 % kPieces == 0) {
    // Each lane has the same piece of every so many rows, so that addresses are one sum each.
    if (count >= kDecodeKeys) {
      constexpr int kRows = 32 / kPieces;
      From const* at = from + lane / kPieces * row + lane % kPieces * 8;
      to += lane / kPieces * kPitch + lane % kPieces * 8;
#pragma unroll
      for (int r = 0; r < kDecodeKeys; r += kRows, at += kRows * row) copy_piece(to + r * kPitch, at, true);
      return;
    }
  }
#pragma unroll 1
  for (int i = lane; i < kDecodeKeys * kPieces; i += 32) {
    int const r = i / kPieces, e = i % kPieces * 8;
    copy_row_piece<kWhole, kWidth>(to + r * kPitch + e, r < count ? from + r * row : from, step, e, r < count);
  }
}

// The leading indices of an operand as TMA takes them.
template <class T, int kBatch, class P>
MUCC_DEVICE void leading_of(int (&to)[3], Operand<T, kBatch> const& operand, P const& p) {
  if constexpr (kBatch > 0) {
#pragma unroll
    for (int a = 0; a < kBatch; ++a) to[a] = operand.leading[a].extent == 1 ? 0 : p.at[a];
  }
}

// Steps that TMA loads: those of all warps of a block come together, as chunks of 128 bytes of each row,
// swizzled.
template <class Work>
struct DecodeSteps {
  static constexpr int kStages = Work::kDecodeStages, kRows = kDecodeKeys * Work::kDecodeWarps, kChunkBytes = 128 * kRows;
  static constexpr int kChunks = chunks_of<Work>(Work::kWidth), kResultChunks = chunks_of<Work>(Work::kResultWidth);
  static constexpr int kBytes = (kChunks + kResultChunks) * kChunkBytes;

  char* base;  // aligned to 1024 bytes

  MUCC_DEVICE DecodeSteps() {
    uint32_t const at = shared_address(dynamic_shared());
    base = dynamic_shared() + (rounded(int(at), 1024) - int(at));
  }
  MUCC_DEVICE char* keys(int place) const { return base + place * kBytes; }
  MUCC_DEVICE char* values(int place) const { return keys(place) + kChunks * kChunkBytes; }
  MUCC_DEVICE char* behind() const { return base + step_bytes<Work>(); }
};

}  // namespace mucc::attention
