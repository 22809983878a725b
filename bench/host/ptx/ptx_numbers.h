// Conversions and functions of PTX on numbers. Approximations are those of the host's maths library, so that results agree
// with a GPU's to a few units of the last place.
#pragma once

#include "../include/gpu_bits.h"

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ptx {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

inline float widen(Half x) {
  _Float16 y;
  std::memcpy(&y, &x.bits, 2);
  return float(y);
}
inline float widen(Brain x) { return __uint_as_float(uint32_t(x.bits) << 16); }
inline Half to_half(float x) {
  if (x != x) return {0x7fff};
  _Float16 const y = _Float16(x);
  Half result;
  std::memcpy(&result.bits, &y, 2);
  return result;
}
inline Brain to_brain(float x) {
  uint32_t const u = __float_as_uint(x);
  if (x != x) return {0x7fff};
  return {uint16_t((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}

// A float of 8 bits, rounded to nearest even; what is too large becomes the largest number.
inline uint8_t to_eight(float x, int mantissa, int bias, float most) {
  uint8_t const sign = std::signbit(x) ? 0x80 : 0;
  if (x != x) return 0x7f;
  float const size = std::fmin(std::fabs(x), most);
  int const exponent = size < std::ldexp(1.0f, 1 - bias) ? 1 - bias : std::ilogb(size);
  int const units = int(std::nearbyint(std::ldexp(size, mantissa - exponent)));
  return uint8_t(sign | (((exponent + bias - 1) << mantissa) + units));
}
inline float from_eight(uint8_t bits, int mantissa, int bias, bool infinite) {
  int const exponent = bits >> mantissa & (127 >> mantissa), fraction = bits & ((1 << mantissa) - 1);
  float x = exponent ? std::ldexp(float(fraction + (1 << mantissa)), exponent - bias - mantissa)
                     : std::ldexp(float(fraction), 1 - bias - mantissa);
  if (infinite && exponent == 31) x = fraction ? NAN : INFINITY;
  if (!infinite && (bits & 127) == 127) x = NAN;
  return bits >> 7 ? -x : x;
}

inline float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// PTX returns the operand that is a number, and takes -0 for less than +0.
template <class T>
T least(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class T>
T most(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}
inline float not_a_number() { return __uint_as_float(0x7fffffff); }

// Saturates; not-a-number is 0.
template <class T>
T to_integer(double x) {
  if (x != x) return sizeof(T) == 8 ? T(uint64_t(1) << 63) : T(0);
  if (x <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (x >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return T(x);
}

__attribute__((noinline, optimize("rounding-math"))) inline float fma_toward(int mode, float a, float b, float c) {
  int const before = std::fegetround();
  std::fesetround(mode);
  float volatile const result = std::fma(a, b, c);
  std::fesetround(before);
  return result;
}
enum class Step { kAdd, kSub, kMul };
__attribute__((noinline, optimize("rounding-math"))) inline float toward(int mode, Step step, float a, float b) {
  int const before = std::fegetround();
  std::fesetround(mode);
  float volatile x = a, y = b;
  float volatile const result = step == Step::kAdd ? x + y : step == Step::kSub ? x - y : x * y;
  std::fesetround(before);
  return result;
}

inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t const bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t const pick = selector >> 4 * i & 15;
    uint32_t byte = uint32_t(bytes >> 8 * (pick & 7)) & 255;
    if (pick & 8) byte = byte >> 7 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}
inline uint32_t logic(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (int i = 0; i < 32; ++i) {
    uint32_t const row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
    result |= (table >> row & 1) << i;
  }
  return result;
}
template <class T>
T field(T a, uint32_t at, uint32_t count) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = sizeof(T) * 8;
  at &= 255, count &= 255;
  if (count == 0) return 0;
  bool const sign = std::is_signed_v<T> && (U(a) >> (at + count - 1 < kBits ? at + count - 1 : kBits - 1) & 1);
  U const low = at < kBits ? U(a) >> at : 0;
  if (count >= kBits || at + count > kBits) {
    U const kept = at < kBits ? kBits - at : 0;
    return T(sign && kept < kBits ? low | ~U(0) << kept : low);
  }
  U const mask = (U(1) << count) - 1;
  return T(sign ? low | ~mask : low & mask);
}
template <class T>
T inserted(T a, T b, uint32_t at, uint32_t count) {
  constexpr uint32_t kBits = sizeof(T) * 8;
  at &= 255, count &= 255;
  if (at >= kBits || count == 0) return b;
  T const mask = (count >= kBits ? ~T(0) : (T(1) << count) - 1) << at;
  return T((b & ~mask) | ((a << at) & mask));
}

}  // namespace ptx
