// Numbers of 4 and 8 bits as pairs of 16-bit floats, exactly, and arithmetic on such pairs: what contractions of narrow
// weights with 16-bit activations do in registers.
#pragma once

#include <mucc/view.cuh>

namespace mucc {

// Bytes of so many neighbours.
template <class T>
MUCC_BOTH constexpr int bytes_of(int count) {
  return shares_bytes<T> ? count / 2 : count * int(sizeof(T));
}

// ---- pairs of 16-bit floats, the first one in the low half of a word -----------------------------------------------

template <class T>
struct Pairs;
template <>
struct Pairs<bf16> {
  static constexpr uint32_t kMinusOne = 0xbf80bf80;
  // a * b + c, rounded once.
  static MUCC_DEVICE uint32_t fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
  }
  static MUCC_DEVICE uint32_t of(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};
template <>
struct Pairs<f16> {
  static constexpr uint32_t kMinusOne = 0xbc00bc00;
  static MUCC_DEVICE uint32_t fma(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
  }
  static MUCC_DEVICE uint32_t of(float low, float high) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};

template <class T>
MUCC_DEVICE uint32_t minus(uint32_t a, uint32_t b) {
  return Pairs<T>::fma(b, Pairs<T>::kMinusOne, a);
}
template <class T>
MUCC_DEVICE uint32_t times(uint32_t a, uint32_t b) {
  return Pairs<T>::fma(a, b, 0x80008000u);  // plus -0, which changes nothing
}

// ---- from narrow numbers -----------------------------------------------------------------------------------------
//
// `Widen<From, To>::pair(x)` converts the two numbers in the low bits of x, of which all above are zero. Integers
// are put into the mantissa of a power of two, which is then taken away: 128 or more in bf16, 1024 in f16.

template <class From, class To>
struct Widen;

template <>
struct Widen<s4, bf16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    return minus<bf16>(((x | x << 12) & 0x000f000fu) ^ 0x43084308u, 0x43084308u);
  }
};
template <>
struct Widen<s4, f16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    return minus<f16>(((x | x << 12) & 0x000f000fu) ^ 0x64086408u, 0x64086408u);
  }
};

template <>
struct Widen<u4, bf16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    return minus<bf16>(((x | x << 12) & 0x000f000fu) | 0x43004300u, 0x43004300u);
  }
};
template <>
struct Widen<u4, f16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    return minus<f16>(((x | x << 12) & 0x000f000fu) | 0x64006400u, 0x64006400u);
  }
};

// The two bytes in the low half of x, each in the low byte of a half.
MUCC_DEVICE uint32_t spread(uint32_t x) { return __byte_perm(x, 0, 0x4140); }

template <>
struct Widen<int8_t, bf16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    uint32_t const y = spread(x);  // a mantissa has room for seven bits: the eighth decides what is taken away
    return minus<bf16>((y & 0x007f007fu) | 0x43004300u, (y & 0x00800080u) | 0x43004300u);
  }
};
template <>
struct Widen<int8_t, f16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) { return minus<f16>(spread(x) ^ 0x64806480u, 0x64806480u); }
};
template <>
struct Widen<uint8_t, bf16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    uint32_t const y = spread(x);
    uint32_t const least = 0x43004300u - (y >> 7 & 0x00010001u) * 0x4300u;  // 128, or 0 where the eighth bit counts
    return minus<bf16>((y & 0x007f007fu) | 0x43004300u, least);
  }
};
template <>
struct Widen<uint8_t, f16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) { return minus<f16>(spread(x) | 0x64006400u, 0x64006400u); }
};

template <>
struct Widen<e4m3, f16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
#if __CUDA_ARCH__ >= 890
    uint32_t r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(uint16_t(x)));
    return r;
#else
    return Pairs<f16>::of(from_e4m3((unsigned char)x), from_e4m3((unsigned char)(x >> 8)));
#endif
  }
};
template <>
struct Widen<e4m3, bf16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
#if __CUDA_ARCH__ >= 890
    uint32_t const y = Widen<e4m3, f16>::pair(x);
    float low, high;
    asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(low), "=f"(high) : "r"(y));
    return Pairs<bf16>::of(low, high);
#else
    return Pairs<bf16>::of(from_e4m3((unsigned char)x), from_e4m3((unsigned char)(x >> 8)));
#endif
  }
};
template <>
struct Widen<e5m2, f16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) { return __byte_perm(x, 0, 0x1404); }
};
template <>
struct Widen<e5m2, bf16> {
  static MUCC_DEVICE uint32_t pair(uint32_t x) {
    return Pairs<bf16>::of(from_e5m2((unsigned char)x), from_e5m2((unsigned char)(x >> 8)));
  }
};

// One number twice, as 16-bit floats that hold it.
template <class To, class From>
MUCC_DEVICE uint32_t both(From x) {
  if constexpr (sizeof(From) == 2) {
    // cudafe++ 13.0 ends with an internal error in __builtin_bit_cast of a 16-bit float here.
    uint32_t const bits = reinterpret_cast<uint16_t const&>(x);
    return bits | bits << 16;
  } else {
    float const value = widen(x);
    return Pairs<To>::of(value, value);
  }
}

}  // namespace mucc
