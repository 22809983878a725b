// Numbers of 16 bits, and of e4m3, as floats.
#pragma once

#include "gpu_bits.h"

#include <cmath>

namespace on_host {

inline uint16_t to_bf16(float x) {
  uint32_t const u = __float_as_uint(x);
  if (x != x) return 0x7FFF;
  return uint16_t((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}
inline float computed_f16(uint16_t bits) {
  int const exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float const x = exponent == 31  ? (mantissa ? NAN : INFINITY)
                  : exponent == 0 ? std::ldexp(float(mantissa), -24)
                                  : std::ldexp(float(mantissa + 1024), exponent - 25);
  return bits >> 15 ? -x : x;
}
inline float from_f16(uint16_t bits) {
  static float table[1 << 16];
  static bool const filled = [] {
    for (int i = 0; i < 1 << 16; ++i) table[i] = computed_f16(uint16_t(i));
    return true;
  }();
  return filled ? table[bits] : 0.0f;
}
inline uint16_t to_f16(float x) {
  uint16_t best = 0x7e00;
  if (x != x) return best;
  float const size = std::fabs(x);
  int const exponent = size < 0x1p-14f ? -14 : std::ilogb(size);
  float const rounded = std::ldexp(std::nearbyint(std::ldexp(size, 10 - exponent)), exponent - 10);
  if (rounded > 65504.0f) {
    best = 0x7c00;
  } else if (rounded < 0x1p-14f) {
    best = uint16_t(std::ldexp(rounded, 24));
  } else {
    int const e = std::ilogb(rounded);
    best = uint16_t((e + 15) << 10 | (int(std::ldexp(rounded, 10 - e)) - 1024));
  }
  return std::signbit(x) ? best | 0x8000 : best;
}
inline float from_bf16(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }
inline float from_e4m3(uint8_t bits) {
  int const exponent = bits >> 3 & 15, mantissa = bits & 7;
  float const x = exponent == 15 && mantissa == 7 ? NAN
                  : exponent == 0                 ? std::ldexp(float(mantissa), -9)
                                                  : std::ldexp(float(mantissa + 8), exponent - 10);
  return bits >> 7 ? -x : x;
}

}  // namespace on_host
