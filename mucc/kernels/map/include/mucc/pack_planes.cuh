// Kernels that interleave a few planes to pixels, as images from channels first to channels last, or take pixels apart to planes.
// A thread has the pixels of 16 bytes of each plane, which are as many pieces of neighbouring bytes where they are interleaved: it
// exchanges their elements in registers.
//
// The compiler writes `Op`: the tensors over a space whose last two axes are the planes and the pixels; Op::kInto says that the
// planes are the last one, so that they are interleaved. A pixel has kPlanes elements in kPitch, and is padded by zeros.
#pragma once

#include <mucc/pack.cuh>

namespace mucc {

// A word of elements that lie in pieces, from the one numbered `at(i)` for i = 0, 1, ...; a number below 0 stands for a zero.
template <class Bits, class At>
MUCC_DEVICE uint32_t gathered_word(Piece<Bits> const* pieces, At at) {
  constexpr int kTogether = 4 / int(sizeof(Bits)), kCount = Piece<Bits>::kCount, kBytes = int(sizeof(Bits));
  uint32_t word[kTogether];
#pragma unroll
  for (int i = 0; i < kTogether; ++i) word[i] = at(i) < 0 ? 0u : pieces[at(i) / kCount].words[at(i) % kCount / kTogether];
  if constexpr (kBytes == 4) {
    return word[0];
  } else if constexpr (kBytes == 2) {
    return __byte_perm(word[0], word[1], (at(0) & 1 ? 0x32 : 0x10) | (at(1) & 1 ? 0x7600 : 0x5400));
  } else {
    uint32_t const low = __byte_perm(word[0], word[1], unsigned(at(0) & 3) | unsigned(at(1) & 3) << 4 | 0x40);
    uint32_t const high = __byte_perm(word[2], word[3], unsigned(at(2) & 3) | unsigned(at(3) & 3) << 4 | 0x40);
    return __byte_perm(low, high, 0x5410);
  }
}

// How many pixels before the first one of a line a whole group begins whose pieces are aligned, for each place of the line in 16
// bytes, as digits of 16. 0 where there are no such pixels.
template <int kCount>
MUCC_DEVICE constexpr uint64_t pixels_before(int pitch) {
  uint64_t digits = 0;
  for (int place = 0; place < kCount; ++place)
    for (int before = kCount - 1; before >= 0; --before)
      if ((place + kCount * pitch - before * pitch) % kCount == 0)
        digits = (digits & ~(uint64_t(15) << 4 * place)) | uint64_t(before) << 4 * place;
  return digits;
}

// Copies `many` groups of pixels, `across` of each line of pixels.
template <class Op, class Index>
MUCC_DEVICE void pack_planes(Op const& op, Extents<Op::kRank> const& extents, Index many, Index across) {
  using Bits = typename Op::Bits;
  constexpr int kCount = Piece<Bits>::kCount, kTogether = 4 / int(sizeof(Bits)), kRank = Op::kRank;
  constexpr int kPlanes = Op::kPlanes, kPitch = Op::kPitch, kPlane = Op::kInto ? kRank - 1 : kRank - 2, kLine = 2 * kRank - 3 - kPlane;
  constexpr int kRead = Op::kInto ? kPlanes : kPitch, kWritten = Op::kInto ? kPitch : kPlanes;
  constexpr uint64_t kBefore = pixels_before<kCount>(Op::kInto ? kPitch : 1);
  auto const pixels = int64_t(extents.of[kLine]);
  int64_t const from_step = Op::kInto ? op.from_stride[kPlane] : kCount, to_step = Op::kInto ? kCount : op.to_stride[kPlane];
  Index const step = Index(gridDim.x) * Op::kThreads;
  for (Index i = Index(blockIdx.x) * Op::kThreads + threadIdx.x; i < many; i += step) {
    Index const outer = i / across;
    Position<kRank, Index> p;
    if constexpr (kRank > 2) p.template split<0, kRank - 2>(outer, extents.of);
    Bits const* from = op.from;
    Bits* to = op.to;
#pragma unroll
    for (int a = 0; a < kRank - 2; ++a) {
      from += int64_t(p.at[a]) * op.from_stride[a];
      to += int64_t(p.at[a]) * op.to_stride[a];
    }
    int const place = int(reinterpret_cast<uint64_t>(to) / sizeof(Bits) % kCount);
    int64_t const first = int64_t(i - outer * across) * kCount - int(kBefore >> 4 * place & 15);
    if (first >= pixels) continue;
    from += first * (Op::kInto ? 1 : kPitch);
    to += first * (Op::kInto ? kPitch : 1);
    bool const aligned = (reinterpret_cast<uint64_t>(to) & 15) == 0;
    if (first < 0 || first + kCount > pixels || !(aligned || !Op::kInto)) {
      int const begin = first < 0 ? int(-first) : 0, end = pixels - first < kCount ? int(pixels - first) : kCount;
#pragma unroll 1
      for (int pixel = begin; pixel < end; ++pixel)
#pragma unroll 1
        for (int c = 0; c < kWritten; ++c)
          if constexpr (Op::kInto)
            to[pixel * kPitch + c] = c < kPlanes ? from[c * from_step + pixel] : Bits(0);
          else
            to[c * to_step + pixel] = from[pixel * kPitch + c];
      continue;
    }
    Piece<Bits> pieces[kRead];
    auto const places = reinterpret_cast<uint64_t>(from) | uint64_t(from_step) * sizeof(Bits);
    if (places % 16 == 0 && (Op::kInto || from + kRead * kCount <= op.end)) {
#pragma unroll
      for (int r = 0; r < kRead; ++r) read_aligned(reinterpret_cast<uint32_t const*>(from + r * from_step), pieces[r].words);
    } else {
#pragma unroll
      for (int r = 0; r < kRead; ++r) {
        // Behind the last pixel of a line there may be no elements.
        int64_t const left = Op::kInto ? kCount : (pixels - first - 1) * kPitch + kPlanes - r * kCount;
        pieces[r] = read_piece(op.from, op.end, from + r * from_step, left);
      }
    }
#pragma unroll
    for (int w = 0; w < kWritten; ++w) {
      Piece<Bits> piece;
#pragma unroll
      for (int v = 0; v < 4; ++v)
        piece.words[v] = gathered_word(pieces, [=](int i) {
          int const e = v * kTogether + i;
          if constexpr (Op::kInto) {
            int const at = w * kCount + e, plane = at % kPitch;
            return plane < kPlanes ? plane * kCount + at / kPitch : -1;
          } else {
            return e * kPitch + w;
          }
        });
      Bits* const out = to + w * to_step;
      if (Op::kInto || (reinterpret_cast<uint64_t>(out) & 15) == 0) {
        write_words(reinterpret_cast<Piece<Bits>*>(out), piece);
      } else {
#pragma unroll
        for (int v = 0; v < kCount; ++v) out[v] = piece.of[v];
      }
    }
  }
}

}  // namespace mucc
