// Runs the kernels of mucc/pack.cuh on the host, a thread after the other, or all at once where they meet: every
// alignment of the tensors, every length of rows. What they read and write is bounded by what the tensors hold.
//
// PACK is the header with the one access replaced that only a GPU has, and PLANES the one that includes it.
#include <mucc/view.h>

#include "gpu_bits.h"

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define MUCC_DEVICE inline
#define __shared__ static
struct Index3 {
  unsigned x;
};
static thread_local Index3 threadIdx;
static Index3 blockIdx, gridDim;
static std::barrier<> together(256);
inline void __syncthreads() { together.arrive_and_wait(); }
static char const *lowest, *highest;  // of the source

namespace mucc {
template <int R, class Index>
struct Position {
  Index at[R];
  template <int First, int Last>
  void split(Index linear, int64_t const* extents) {
    for (int a = Last - 1; a > First; --a) {
      at[a] = linear % Index(extents[a]);
      linear /= Index(extents[a]);
    }
    at[First] = linear;
  }
};
inline void read_aligned(uint32_t const* from, uint32_t* to) {
  auto const* at = reinterpret_cast<char const*>(from);
  if (uint64_t(at) % 16 != 0 || at < lowest || at + 16 > highest) {
    std::puts("a read that is not aligned, or out of bounds");
    std::exit(1);
  }
  std::memcpy(to, from, 16);
}
template <class T>
void write_words(T* to, T const& pack) {
  if (uint64_t(to) % sizeof(T) != 0) {
    std::puts("a write that is not aligned");
    std::exit(1);
  }
  *to = pack;
}
}  // namespace mucc

#include PACK
#include PLANES

using namespace mucc;

template <int kSize, bool kPad, int kPieces, int kColumns>
struct Op {
  static constexpr int kRank = 3, kThreads = 256, kParts = kPieces;
  static constexpr int kAcross = kColumns, kDown = (kSize == 1 ? 128 * 128 : 64 * 64) / kAcross;
  static constexpr unsigned kLow = 1;
  static constexpr bool kPadded = kPad;
  using Bits = typename BitsOf<kSize>::Type;
  Bits const *from, *end;
  int64_t from_stride[3];
  Bits* to;
  int64_t to_stride[3], part;
};

static int below(int n) { return std::rand() % n; }
static char* aligned(std::vector<char>& bytes) { return bytes.data() + (16 - uint64_t(bytes.data()) % 16) % 16; }

// A tensor of B x R x C elements, in rows or (turned) in columns, and its copy; `kParts` copies beside each other. Tiles of
// transposes have `kColumns` columns.
template <int kSize, bool kPad, bool kTurned, int kParts = 0, int kColumns = kSize == 1 ? 128 : 64>
void check(int B, int R, int C) {
  using O = Op<kSize, kPad, kParts, kColumns>;
  using T = typename O::Bits;
  int64_t const count = 16 / kSize, copies = kParts ? kParts : 1;
  int64_t const pitch = kTurned ? R : C + below(2) * below(9), room = kPad ? (C + count - 1) / count * count : C;
  int64_t const held = kTurned ? int64_t(B) * R * C : (int64_t(B) * R - 1) * pitch + C;
  std::vector<char> source(held * kSize + 64), target(B * R * room * copies * kSize + 64, char(0x5A));
  auto* from = reinterpret_cast<T*>(aligned(source)) + below(int(count));
  auto* to = reinterpret_cast<T*>(aligned(target)) + (kPad ? 0 : below(int(count)));
  for (int64_t i = 0; i < held; ++i) from[i] = kParts ? T(__float_as_uint(float(std::rand()) / 1e5f)) : T(std::rand());
  lowest = reinterpret_cast<char const*>(from), highest = reinterpret_cast<char const*>(from + held);
  O op{from, from + held, {R * pitch, pitch, 1}, to, {R * room * copies, room * copies, 1}, room};
  if (kTurned) op.from_stride[0] = int64_t(R) * C, op.from_stride[1] = 1, op.from_stride[2] = R;
  Extents<3> const extents{{B, R, C}};
  uint32_t const across = kTurned ? (C + O::kAcross - 1) / O::kAcross : (C + count - 1) / count + !kPad;
  uint32_t const many = kTurned ? B * ((R + O::kDown - 1) / O::kDown) * across : B * R;
  gridDim.x = kTurned ? many : 2;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 256; ++t) {
      if constexpr (kTurned)
        threads.emplace_back([&, t] {
          threadIdx.x = t;
          pack_turned(op, extents, many, across);
        });
      else
        threadIdx.x = t, pack_rows(op, extents, many, across);
    }
    for (auto& thread : threads) thread.join();
  }
  auto fail = [&](char const* what) {
    std::printf("%s: %d bytes, padded %d, turned %d, parts %d, %dx%dx%d\n", what, kSize, kPad, kTurned, kParts, B, R, C);
    std::exit(1);
  };
  for (int b = 0; b < B; ++b)
    for (int r = 0; r < R; ++r)
      for (int part = 0; part < copies; ++part)
        for (int c = 0; c < room; ++c) {
          T want = c >= C ? T(0) : kTurned ? from[(int64_t(b) * C + c) * R + r] : from[(int64_t(b) * R + r) * pitch + c];
          if (kParts) {
            float const x = __uint_as_float(want), high = high_part(x);
            want = T(__float_as_uint(O::kLow >> part & 1 ? high_part(x - high) : high));
          }
          if (to[((int64_t(b) * R + r) * copies + part) * room + c] != want) fail("a wrong element");
        }
  for (auto* p = target.data(); p != target.data() + target.size(); ++p)
    if ((p < reinterpret_cast<char*>(to) || p >= reinterpret_cast<char*>(to + B * R * room * copies)) && *p != char(0x5A))
      fail("written out of bounds");
}

template <int kSize, int kOf, int kStep, bool kMerges, bool kPad>
struct PlanesOp : Op<kSize, kPad, 0, kOf> {
  static constexpr int kPlanes = kOf, kPitch = kStep;
  static constexpr bool kInto = kMerges;
};

// B images of `pixels` of kPlanes elements in kPitch, from planes to pixels (`kInto`) or back. Planes are `apart` more elements
// apart than they have.
template <int kSize, int kPlanes, int kPitch, bool kInto>
void check_planes(int B, int pixels, int apart) {
  constexpr bool kPad = kInto && kPitch > kPlanes;
  using O = PlanesOp<kSize, kPlanes, kPitch, kInto, kPad>;
  using T = typename O::Bits;
  constexpr int kCount = 16 / kSize;
  int64_t const plane = pixels + apart, image = kPlanes * plane;
  int64_t const planes = B * image - apart, merged = int64_t(B) * pixels * kPitch - (kPad ? 0 : kPitch - kPlanes);
  int64_t const held = kInto ? planes : merged, written = kInto ? merged : planes;
  std::vector<char> source(held * kSize + 64), target(written * kSize + 64, char(0x5A));
  auto* from = reinterpret_cast<T*>(aligned(source)) + below(kCount);
  auto* to = reinterpret_cast<T*>(aligned(target)) + (kPad ? 0 : below(kCount));
  for (int64_t i = 0; i < held; ++i) from[i] = T(std::rand());
  lowest = reinterpret_cast<char const*>(from), highest = reinterpret_cast<char const*>(from + held);
  // The axes of the kernel: the image, rows and columns of the target.
  int64_t const apart_strides[] = {image, kInto ? 1 : plane, kInto ? plane : 1};
  int64_t const merged_strides[] = {pixels * int64_t(kPitch), kInto ? kPitch : 1, kInto ? 1 : kPitch};
  O op;
  op.from = from, op.end = from + held, op.to = to, op.part = 0;
  for (int a = 0; a < 3; ++a) {
    op.from_stride[a] = (kInto ? apart_strides : merged_strides)[a];
    op.to_stride[a] = (kInto ? merged_strides : apart_strides)[a];
  }
  Extents<3> const extents{{B, kInto ? pixels : kPlanes, kInto ? kPlanes : pixels}};
  uint32_t const across = (pixels + kCount - 1) / kCount + !kPad;
  gridDim.x = 1;
  blockIdx.x = 0;
  for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) pack_planes(op, extents, B * across, across);
  auto fail = [&](char const* what) {
    std::printf("%s: %d bytes, %d in %d, into %d, %d images of %d\n", what, kSize, kPlanes, kPitch, kInto, B, pixels);
    std::exit(1);
  };
  std::vector<char> wanted(written * kSize, char(0x5A));
  auto* want = reinterpret_cast<T*>(wanted.data());
  for (int b = 0; b < B; ++b)
    for (int p = 0; p < pixels; ++p)
      for (int c = 0; c < (kPad ? kPitch : kPlanes); ++c) {
        int64_t const in_planes = b * image + c * plane + p, in_pixels = (int64_t(b) * pixels + p) * kPitch + c;
        want[kInto ? in_pixels : in_planes] = c < kPlanes ? from[kInto ? in_planes : in_pixels] : T(0);
      }
  if (std::memcmp(to, want, written * kSize)) fail("a wrong element");
  for (auto* p = target.data(); p != target.data() + target.size(); ++p)
    if ((p < reinterpret_cast<char*>(to) || p >= reinterpret_cast<char*>(to + written)) && *p != char(0x5A))
      fail("written out of bounds");
}

template <int kSize>
void check_planes_of() {
  for (int i = 0; i < 60; ++i) {
    int const B = 1 + below(3), pixels = 1 + below(i % 2 ? 40 : 400), apart = below(2) * below(9);
    check_planes<kSize, 3, 3, true>(B, pixels, apart), check_planes<kSize, 3, 3, false>(B, pixels, apart);
    check_planes<kSize, 2, 2, true>(B, pixels, apart), check_planes<kSize, 4, 4, false>(B, pixels, apart);
    check_planes<kSize, 12, 12, true>(B, pixels, apart), check_planes<kSize, 5, 5, false>(B, pixels, apart);
    check_planes<kSize, 3, 16 / kSize, true>(B, pixels, apart), check_planes<kSize, 3, 4, false>(B, pixels, apart);
    check_planes<kSize, 1, 7, false>(B, pixels, apart);
  }
}

int main() {
  check_planes_of<1>(), check_planes_of<2>(), check_planes_of<4>();
  for (int i = 0; i < 300; ++i) {
    int const B = 1 + below(3), R = 1 + below(9), C = 1 + below(70);
    check<1, true, false>(B, R, C), check<1, false, false>(B, R, C);
    check<2, true, false>(B, R, C), check<2, false, false>(B, R, C);
    check<4, true, false>(B, R, C), check<4, false, false>(B, R, C);
    check<4, true, false, 3>(B, R, C);
  }
  for (int i = 0; i < 3; ++i) {
    int const B = 1 + below(2), R = 1 + below(80), C = 1 + below(150);
    check<1, true, true>(B, R, C), check<2, false, true>(B, R, C), check<4, false, true>(B, R, C);
    check<2, true, true>(B, R, C), check<4, true, true, 3>(B, R, C);
    // narrow tiles, a multiple of the matrix's width and less than that
    int const few = 1 + below(20), many = 1 + below(1500);
    check<1, false, true, 0, 16>(B, many, few), check<1, true, true, 0, 1024>(B, few, many);
    check<2, true, true, 0, 8>(B, many, few), check<2, false, true, 0, 512>(B, few, many);
    check<4, false, true, 0, 4>(B, many, few), check<4, true, true, 3, 1024>(B, few, many);
  }
}
