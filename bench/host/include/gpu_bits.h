// Functions of CUDA on the bits of numbers, for the host.
#pragma once

#include <cstdint>
#include <cstring>

inline uint32_t __float_as_uint(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
inline float __uint_as_float(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, int shift) {
  return uint32_t((uint64_t(high) << 32 | low) >> (shift & 31));
}
// The selectors of bytes have three bits here: none copies a sign.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t const bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= (uint32_t(bytes >> 8 * (selector >> 4 * i & 7)) & 255) << 8 * i;
  return result;
}
