// Products of warps and of warpgroups.
#pragma once

#include "on_host_copies.h"
#include "on_host_numbers.h"

namespace on_host {

// ---- a warp's matrices --------------------------------------------------------------------------------------


// ldmatrix.x4: lane 8 * m + r names row r of matrix m.
inline void matrices(uint32_t (&x)[4], void const* row, bool turned) {
  int const self = on_host::self(), parity = rounds[self] & 1, lane = self % 32;
  passed[parity][self] = reinterpret_cast<uint64_t>(row);
  wait();
  for (int m = 0; m < 4; ++m) {
    auto element = [&](int r, int c) {
      uint16_t bits;
      std::memcpy(&bits, reinterpret_cast<char const*>(passed[parity][self - lane + 8 * m + r]) + 2 * c, 2);
      return uint32_t(bits);
    };
    int const r = lane / 4, c = lane % 4 * 2;
    x[m] = turned ? element(c, r) | element(c + 1, r) << 16 : element(r, c) | element(r, c + 1) << 16;
  }
}

// mma.sync m16n8k16, of which a lane has four words of the left operand and two of the right one.
inline uint32_t words[2][kMost][6];
inline void multiply(float (*number)(uint16_t), float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  int const self = on_host::self(), parity = rounds[self] & 1, lane = self % 32;
  uint32_t const own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  std::memcpy(words[parity][self], own, sizeof(own));
  wait();
  auto half = [&](int from, int word, int k) {
    return number(uint16_t(words[parity][self - lane + from][word] >> 16 * (k % 2)));
  };
  for (int i = 0; i < 4; ++i) {
    int const row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      c[i] += half(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k) * half(column * 4 + k % 8 / 2, 4 + k / 8, k);
  }
}

// mma.sync m16n8k8 of tf32.
inline void multiply_single(float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  int const self = on_host::self(), parity = rounds[self] & 1, lane = self % 32;
  uint32_t const own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  std::memcpy(words[parity][self], own, sizeof(own));
  wait();
  auto single = [&](int from, int word) {
    uint32_t const bits = words[parity][self - lane + from][word] & ~0x1fffu;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  };
  for (int i = 0; i < 4; ++i) {
    int const row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8; ++k)
      c[i] += single(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2) * single(column * 4 + k % 4, 4 + k / 4);
  }
}

// ---- a warpgroup's matrices --------------------------------------------------------------------------------

// What a product reads of the rows from `first` on of an operand that a descriptor names: 32 bytes of each.
ON_HOST_QUIET inline void read_operand(uint64_t d, int first, int rows, bool turned) {
  if (threadIdx.x % 32) return;  // one lane stands for a warp
  uint32_t const start = uint32_t(d & 0x3fff) << 4, next = uint32_t(d >> 16 & 0x3fff) << 4,
                 step = uint32_t(d >> 32 & 0x3fff) << 4;
  auto read = [](uint32_t at) { read_by_products(dynamic[block] + swizzled(at), 16); };
  for (int row = first; !turned && row < first + rows; ++row)
    for (int piece = 0; piece < 2; ++piece) read(start + row / 8 * step + row % 8 * 128 + 16 * piece);
  for (int row = first; turned && row < first + rows; row += 8)
    for (int k = 0; k < 16; ++k) read(start + row / 64 * next + k / 8 * step + k % 8 * 128 + row % 64 * 2);
}
inline void read_left(uint64_t d, bool turned = false) { read_operand(d, int(threadIdx.x) % 128 / 32 * 16, 16, turned); }

// Element (row, k) of an operand of wgmma that a descriptor names.
ON_HOST_QUIET __attribute__((optimize("O2"))) inline uint16_t operand(uint64_t d, int row, int k, bool turned) {
  uint32_t const start = uint32_t(d & 0x3fff) << 4, next = uint32_t(d >> 16 & 0x3fff) << 4,
                 step = uint32_t(d >> 32 & 0x3fff) << 4;
  uint32_t const at = turned ? start + row / 64 * next + k / 8 * step + k % 8 * 128 + row % 64 * 2
                             : start + row / 8 * step + row % 8 * 128 + k * 2;
  uint16_t bits;
  std::memcpy(&bits, dynamic[block] + swizzled(at), 2);
  return bits;
}
template <int kCount, class Left>
__attribute__((optimize("O2"))) void add_products(float (*number)(uint16_t), float (&sum)[kCount], Left left, uint64_t b,
                                                  int keeps, bool turned) {
  read_operand(b, 0, 2 * kCount, turned);
  int const thread = int(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  float a[2][16];
  for (int k = 0; k < 16; ++k)
    for (int h = 0; h < 2; ++h) a[h][k] = number(left(row + 8 * h, k));
  for (int i = 0; i < kCount; ++i)
    if (!keeps) sum[i] = 0;
  for (int i = 0; i < kCount; i += 4)
    for (int c = 0; c < 2; ++c)
      for (int k = 0; k < 16; ++k) {
        float const x = number(operand(b, i * 2 + column + c, k, turned));
        sum[i + c] += a[0][k] * x;
        sum[i + 2 + c] += a[1][k] * x;
      }
}
template <int kCount>
void wgmma(float (*number)(uint16_t), float (&sum)[kCount], uint64_t a, uint64_t b, int keeps, bool turned,
           bool left_turned) {
  auto left = [a, left_turned](int row, int k) { return operand(a, row, k, left_turned); };
  read_left(a, left_turned);
  add_products(number, sum, left, b, keeps, turned);
}
template <int kCount>
void wgmma(float (*number)(uint16_t), float (&sum)[kCount], uint32_t const (&a)[4], uint64_t b, int keeps, bool turned,
           bool) {
  int const self = on_host::self(), lane = self % 32;
  std::memcpy(words[0][self], a, sizeof(a));
  align();
  auto left = [&](int row, int k) {
    return uint16_t(words[0][self - lane + row % 8 * 4 + k % 8 / 2][row % 16 / 8 + k / 8 * 2] >> 16 * (k % 2));
  };
  add_products(number, sum, left, b, keeps, turned);
  align();
}

// The same of tf32, whose rows have eight elements.
ON_HOST_QUIET __attribute__((optimize("O2"))) inline float number_at(uint64_t d, int row, int k) {
  uint32_t const start = uint32_t(d & 0x3fff) << 4, step = uint32_t(d >> 32 & 0x3fff) << 4;
  float x;
  std::memcpy(&x, dynamic[block] + swizzled(start + row / 8 * step + row % 8 * 128 + k * 4), 4);
  return x;
}
template <int kCount, class Left>
__attribute__((optimize("O2"))) void add_tf32(float (&sum)[kCount], Left left, uint64_t b, int keeps) {
  read_operand(b, 0, 2 * kCount, false);
  int const thread = int(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  float a[2][8];
  for (int k = 0; k < 8; ++k)
    for (int h = 0; h < 2; ++h) a[h][k] = left(row + 8 * h, k);
  for (int i = 0; i < kCount; ++i) {
    if (!keeps) sum[i] = 0;
    for (int k = 0; k < 8; ++k) sum[i] += a[i / 2 % 2][k] * number_at(b, i / 4 * 8 + column + i % 2, k);
  }
}
template <int kCount>
void wgmma_tf32(float (&sum)[kCount], uint64_t a, uint64_t b, int keeps) {
  read_left(a);
  add_tf32(sum, [a](int row, int k) { return number_at(a, row, k); }, b, keeps);
}
template <int kCount>
void wgmma_tf32(float (&sum)[kCount], uint32_t const (&a)[4], uint64_t b, int keeps) {
  int const self = on_host::self(), lane = self % 32;
  std::memcpy(words[0][self], a, sizeof(a));
  align();
  auto left = [&](int row, int k) {
    return __uint_as_float(words[0][self - lane + row % 8 * 4 + k % 4][row % 16 / 8 + k / 4 * 2]);
  };
  add_tf32(sum, left, b, keeps);
  align();
}

// The same of e4m3, whose rows have 32 elements.
ON_HOST_QUIET __attribute__((optimize("O2"))) inline uint8_t byte_at(uint64_t d, int row, int k) {
  uint32_t const start = uint32_t(d & 0x3fff) << 4, step = uint32_t(d >> 32 & 0x3fff) << 4;
  return uint8_t(dynamic[block][swizzled(start + row / 8 * step + row % 8 * 128 + k)]);
}
inline float e4m3_at(uint64_t d, int row, int k) { return from_e4m3(byte_at(d, row, k)); }
inline float s8_at(uint64_t d, int row, int k) { return float(int8_t(byte_at(d, row, k))); }
template <int kCount, class Left, class Right>
__attribute__((optimize("O2"))) void add_bytes(float (&sum)[kCount], Left left, Right right, int keeps) {
  int const thread = int(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  float a[2][32];
  for (int k = 0; k < 32; ++k)
    for (int h = 0; h < 2; ++h) a[h][k] = left(row + 8 * h, k);
  for (int i = 0; i < kCount; ++i) {
    if (!keeps) sum[i] = 0;
    for (int k = 0; k < 32; ++k) sum[i] += a[i / 2 % 2][k] * right(i / 4 * 8 + column + i % 2, k);
  }
}
template <int kCount>
void wgmma_e4m3(float (&sum)[kCount], uint64_t a, uint64_t b, int keeps) {
  read_left(a), read_operand(b, 0, 2 * kCount, false);
  add_bytes(
      sum, [a](int row, int k) { return e4m3_at(a, row, k); }, [b](int row, int k) { return e4m3_at(b, row, k); }, keeps);
}
// Sums are s32 on a GPU, whose bits are those of an f32: here they are f32.
template <int kCount>
void wgmma_s8(float (&sum)[kCount], uint64_t a, uint64_t b, int keeps) {
  read_left(a), read_operand(b, 0, 2 * kCount, false);
  add_bytes(sum, [a](int row, int k) { return s8_at(a, row, k); }, [b](int row, int k) { return s8_at(b, row, k); }, keeps);
}
template <int kCount>
void wgmma_e4m3(float (&sum)[kCount], uint32_t const (&a)[4], uint64_t b, int keeps) {
  int const self = on_host::self(), lane = self % 32;
  std::memcpy(words[0][self], a, sizeof(a));
  align();
  auto left = [&](int row, int k) {
    uint32_t const word = words[0][self - lane + row % 8 * 4 + k % 16 / 4][row % 16 / 8 + k / 16 * 2];
    return from_e4m3(uint8_t(word >> 8 * (k % 4)));
  };
  read_operand(b, 0, 2 * kCount, false);
  add_bytes(sum, left, [b](int row, int k) { return e4m3_at(b, row, k); }, keeps);
  align();
}

// All but the last `left` groups of products have ended.
inline void await_products(int left) {
  retire_products(left);
  align();
  see_products();
}

}  // namespace on_host
