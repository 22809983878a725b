// Scalar functions of the language on the device, in f32.
//
// Unless said otherwise the relative error is below 1e-6. NaN goes in, NaN comes out, in `min` and `max` too.
// Compiled for the host (tests do that) the same formulas run on the host's functions. NVRTC compiles this header
// with every new body, has the mathematical functions built in, and finds no others.
#pragma once

#include <mucc/identity.h>

#if defined(__CUDACC_RTC__)
#define INFINITY MUCC_INFINITY
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#endif

#if defined(__CUDACC__)
#define MUCC_DEVICE __device__ __forceinline__
#else
#define MUCC_DEVICE inline
#endif

namespace mucc {

// ---- what the hardware does in one or two instructions -------------------------------------------------------

// fminf and fmaxf drop a NaN operand; these keep it.
MUCC_DEVICE float min(float a, float b) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a != a || a < b ? a : b;
#endif
}
MUCC_DEVICE float max(float a, float b) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a != a || a > b ? a : b;
#endif
}

// Within 2 ulp over the full range. The IEEE quotient would call a subroutine for each element.
MUCC_DEVICE float div(float a, float b) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a / b;
#endif
}

// Within 1 ulp.
MUCC_DEVICE float sqrt(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return sqrtf(x);
#endif
}

// Within 2 ulp.
MUCC_DEVICE float rsqrt(float x) {
#if defined(__CUDA_ARCH__)
  return ::rsqrtf(x);
#else
  return 1.0f / sqrtf(x);
#endif
}

// 2^x within 2 ulp; 0 where that is below 2^-126.
MUCC_DEVICE float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return exp2f(x);
#endif
}

// exp(x) with a relative error of 2^-22 + |x| 2^-24, for arguments that do not grow large; 0 where that is below 2^-126.
MUCC_DEVICE float fast_exp(float x) { return fast_exp2(1.44269504f * x); }

// a / b within 2 ulp for b below 2^126, and 0 from there on.
MUCC_DEVICE float fast_div(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

// 1 / x within 1 ulp; 0 where that is below 2^-126.
MUCC_DEVICE float fast_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return 1.0f / x;
#endif
}

// tanh(x) with an absolute error of 3e-7; the relative one is large where x is small.
MUCC_DEVICE float fast_tanh(float x) {
  float const e = fast_exp2(2.88539008f * x);
  return 1.0f - 2.0f * fast_reciprocal(1.0f + e);
}

// ---- rounding to a storage dtype and back ----------------------------------------------------------------

// To nearest, ties to even. CUDA's own functions for it (__float2bfloat16_rn and the like) are these instructions,
// but their headers take longer to compile than most bodies.
#if defined(__CUDA_ARCH__)
MUCC_DEVICE float round_bf16(float x) {
  // As the upper half of a pair it is an f32: one instruction, and one of full rate.
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x), "f"(0.0f));
  return __uint_as_float(pair);
}
MUCC_DEVICE float round_f16(float x) {
  unsigned short bits;
  float r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}
#else
// x without its last `bits` bits of mantissa.
MUCC_DEVICE float round_mantissa(float x, int bits) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof(u));
  u = (u + (1u << (bits - 1)) - 1 + (u >> bits & 1)) & (~0u << bits);
  std::memcpy(&x, &u, sizeof(u));
  return x;
}
MUCC_DEVICE float round_bf16(float x) { return x != x ? x : round_mantissa(x, 16); }
MUCC_DEVICE float round_f16(float x) {
  float const size = std::fabs(x);
  if (x != x || size == INFINITY) return x;
  // Below 2^-14 f16 has steps of 2^-24, as f32 has from 0.5 to 1.
  float const r = size < 0x1p-14f ? (size + 0.5f) - 0.5f : round_mantissa(size, 13);
  return std::copysign(r < 65536.0f ? r : INFINITY, x);
}
#endif

// 8-bit floats, to nearest, ties to even; what is too large becomes the largest finite number, NaN stays NaN. From
// sm_89 on there are instructions for it. They convert pairs: the second of each is 0 here.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
MUCC_DEVICE unsigned char to_e4m3(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (unsigned char)pair;
}
MUCC_DEVICE unsigned char to_e5m2(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (unsigned char)pair;
}
#else
MUCC_DEVICE unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }
// kMantissa bits of mantissa, numbers below 2^kExponent in steps as in there, `kNan` after the largest number.
template <int kMantissa, int kExponent, unsigned kLargest, unsigned kNan>
MUCC_DEVICE unsigned char to_narrow_float(float x) {
  unsigned const all = bits_of(x), sign = all >> 24 & 0x80u, size = all & 0x7fffffffu;
  if (size > 0x7f800000u) return (unsigned char)(sign | kNan);
  constexpr int kGone = 23 - kMantissa;
  unsigned bits;
  if (size < unsigned(127 + kExponent) << 23) {
    // In these binades f32 has steps of 2^(kExponent - kMantissa).
    constexpr float kMagic = __builtin_bit_cast(float, unsigned(127 + kExponent + kGone) << 23);
    bits = bits_of(__builtin_bit_cast(float, size) + kMagic) - bits_of(kMagic);
  } else {
    bits = (size + (1u << (kGone - 1)) - 1 + (size >> kGone & 1)) >> kGone;
    bits -= unsigned(127 + kExponent - 1) << kMantissa;
  }
  return (unsigned char)(sign | (bits < kLargest ? bits : kLargest));
}
MUCC_DEVICE unsigned char to_e4m3(float x) { return to_narrow_float<3, -6, 0x7e, 0x7f>(x); }
MUCC_DEVICE unsigned char to_e5m2(float x) { return to_narrow_float<2, -14, 0x7b, 0x7f>(x); }
#endif
// The exponent is moved from a bias of 7 to one of 127 by a multiplication, which is exact for subnormal numbers too.
MUCC_DEVICE float from_e4m3(unsigned char bits) {
  unsigned const size = bits & 0x7fu, sign = unsigned(bits & 0x80) << 24;
  float const x = __builtin_bit_cast(float, size << 20) * 0x1p120f;
  return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, size == 0x7f ? NAN : x) | sign);
}
MUCC_DEVICE float from_e5m2(unsigned char bits) {
  unsigned const size = bits & 0x7fu, sign = unsigned(bits & 0x80) << 24;
  float const x = __builtin_bit_cast(float, size << 21) * 0x1p112f;
  float const finite = size == 0x7c ? INFINITY : x;
  return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, size > 0x7c ? NAN : finite) | sign);
}
MUCC_DEVICE float round_e4m3(float x) { return from_e4m3(to_e4m3(x)); }
MUCC_DEVICE float round_e5m2(float x) { return from_e5m2(to_e5m2(x)); }

// Integers, to nearest, ties to even; what is too large becomes the largest or smallest one, NaN becomes 0.
MUCC_DEVICE float round_integer(float x, float least, float most) {
  return x != x ? 0.0f : fminf(fmaxf(rintf(x), least), most) + 0.0f;  // no integer is -0
}
MUCC_DEVICE float round_s8(float x) { return round_integer(x, -128.0f, 127.0f); }
MUCC_DEVICE float round_u8(float x) { return round_integer(x, 0.0f, 255.0f); }
MUCC_DEVICE float round_s32(float x) { return round_integer(x, -0x1p31f, 0x1p31f); }
MUCC_DEVICE float from_bool(bool x) { return x ? 1.0f : 0.0f; }

// ---- integers -------------------------------------------------------------------------------------------------

// An s32 is loaded, moved and stored as the bits of an f32.
MUCC_DEVICE int to_bits(float x) { return __builtin_bit_cast(int, x); }
MUCC_DEVICE float from_bits(int x) { return __builtin_bit_cast(float, x); }
// The nearest integer, ties to even; the largest or smallest one for what lies beyond, 0 for NaN.
MUCC_DEVICE int to_s32(float x) {
  float const r = rintf(x);
  return x != x ? 0 : r >= 0x1p31f ? 2147483647 : r < -0x1p31f ? -2147483647 - 1 : int(r);
}
// Sums, differences and products wrap around.
MUCC_DEVICE int add(int a, int b) { return int(unsigned(a) + unsigned(b)); }
MUCC_DEVICE int sub(int a, int b) { return int(unsigned(a) - unsigned(b)); }
MUCC_DEVICE int mul(int a, int b) { return int(unsigned(a) * unsigned(b)); }
MUCC_DEVICE int neg(int a) { return int(0u - unsigned(a)); }
MUCC_DEVICE int abs(int a) { return a < 0 ? neg(a) : a; }
MUCC_DEVICE int sign(int a) { return (a > 0) - (a < 0); }

// Quotients and remainders by zero are 0, and the quotient of the least integer by -1, which C++ leaves open, wraps
// around. `fmod` has the sign of `a`, `remainder` that of `b`; the quotient of the latter is rounded down.
MUCC_DEVICE int fmod(int a, int b) { return b == 0 || b == -1 ? 0 : a % b; }
MUCC_DEVICE int remainder(int a, int b) {
  int const r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
MUCC_DEVICE int floor_divide(int a, int b) {
  if (b == 0) return 0;
  if (b == -1) return neg(a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
// Shifts by fewer than 0 or more than 31 places leave nothing of `a`, or its sign.
MUCC_DEVICE int left_shift(int a, int b) { return unsigned(b) < 32u ? int(unsigned(a) << b) : 0; }
MUCC_DEVICE int right_shift(int a, int b) { return a >> (unsigned(b) < 32u ? b : 31); }

// Adds 2^31, mod 2^32: unsigned integers then compare as the signed ones did.
MUCC_DEVICE unsigned shifted(int a) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned result;
  asm("xor.b32 %0, %1, 0x80000000;" : "=r"(result) : "r"(a));  // asm, or NVVM would undo it
  return result;
#else
  return unsigned(a) ^ 0x80000000u;
#endif
}

// From sm_90 on, ptxas 13.0 loses the sign of `b` in max(max(a, -b), c), where it forms VIMNMX3 of three signed
// operands. Operands of unsigned minima and maxima are never negated.
MUCC_DEVICE int min(int a, int b) {
  unsigned const x = shifted(a), y = shifted(b);
  return int(shifted(int(x < y ? x : y)));
}
MUCC_DEVICE int max(int a, int b) {
  unsigned const x = shifted(a), y = shifted(b);
  return int(shifted(int(x > y ? x : y)));
}

// The same number, of which the compiler no longer knows where it came from: a product is not fused with a sum that
// follows, and nothing is moved to the other side.
MUCC_DEVICE float fenced(float x) {
#if defined(__CUDA_ARCH__)
  asm("" : "+f"(x));
#endif
  return x;
}

// ---- functions of the language --------------------------------------------------------------------------

// x to an integer power that the program spells out.
template <int N>
MUCC_DEVICE float powi(float x) {
  if constexpr (N < 0) {
    return div(1.0f, powi<-N>(x));
  } else if constexpr (N == 0) {
    return 1.0f;
  } else if constexpr (N == 1) {
    return x;
  } else {
    float const half = powi<N / 2>(x);
    return N % 2 ? half * half * x : half * half;
  }
}
MUCC_DEVICE float pow(float x, float y) { return ::powf(x, y); }
MUCC_DEVICE float exp(float x) { return ::expf(x); }
MUCC_DEVICE float expm1(float x) { return ::expm1f(x); }
MUCC_DEVICE float log(float x) { return ::logf(x); }
MUCC_DEVICE float log1p(float x) { return ::log1pf(x); }
MUCC_DEVICE float tanh(float x) { return ::tanhf(x); }
MUCC_DEVICE float erf(float x) { return ::erff(x); }
MUCC_DEVICE float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }

// a - b floor(a / b), with the sign of `b`; a zero has the sign of `a`, as PyTorch's.
MUCC_DEVICE float remainder(float a, float b) {
  float const r = fmodf(a, b);
  return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

// The quotient of which `remainder` is the remainder. a - r is a multiple of b, so that the IEEE quotient is off an
// integer by rounding alone.
MUCC_DEVICE float floor_divide(float a, float b) {
  float const quotient = a / b;
  if (b == 0.0f) return quotient;
  float const r = fmodf(a, b);
  float const whole = rintf((a - r) / b) - (r != 0.0f && (r < 0.0f) != (b < 0.0f) ? 1.0f : 0.0f);
  return whole != 0.0f ? whole : copysignf(0.0f, quotient);
}

// 1 / (1 + exp(-x)). For very negative x exp(-x) is infinite, and the quotient is 0 as it should be.
MUCC_DEVICE float sigmoid(float x) { return fast_div(1.0f, 1.0f + fast_exp(-x)); }

// x times the normal distribution function P: max(x, 0) - |x| P(-|x|). log2 P(-a) is nearly a parabola; the polynomial
// was fitted on [0, 10] so that the absolute error is below 2.5e-7 |x|, and the relative one below 1e-3 where x is
// negative. Past 10 P(-a) is below 1e-23. max(x, 0) is a product with 0 or 1: at -inf that is NaN, as in PyTorch.
MUCC_DEVICE float gelu_erf(float x) {
  float const a = fminf(fabsf(x), 10.0f);
  float log2_p = 1.79501480e-8f;
  log2_p = fmaf(log2_p, a, -6.26062899e-7f);
  log2_p = fmaf(log2_p, a, 7.37406481e-6f);
  log2_p = fmaf(log2_p, a, -1.03192160e-5f);
  log2_p = fmaf(log2_p, a, -6.16636127e-4f);
  log2_p = fmaf(log2_p, a, 7.75213307e-3f);
  log2_p = fmaf(log2_p, a, -5.30040972e-2f);
  log2_p = fmaf(log2_p, a, -4.59034711e-1f);
  log2_p = fmaf(log2_p, a, -1.15112650f);
  log2_p = fmaf(log2_p, a, -0.999999583f);
  float const step = x > 0.0f ? 1.0f : 0.0f;
  return fmaf(-a, fast_exp2(log2_p), x * step);
}

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), written as x sigmoid(2u): one exponential, no
// cancellation.
MUCC_DEVICE float gelu_tanh(float x) {
  float const twice_u = x * fmaf(0.0713548163f, x * x, 1.59576912f);
  return x * sigmoid(twice_u);
}

// log(1 + x) for x from 0 to 1, with the bits of CUDA's log1pf, which has branches for other numbers: bodies with
// branches are compiled with their kernels. From 0.5 on it is log((1 + x) / 2) + log(2).
MUCC_DEVICE float log1p_up_to_one(float x) {
  bool const is_halved = x >= 0.5f;
  float const r = fmaf(is_halved ? 0.5f : 1.0f, x, is_halved ? -0.5f : 0.0f);  // NVVM makes branches of selected sums
  float p = -0.0453486145f;
  p = fmaf(p, r, 0.105468884f);
  p = fmaf(p, r, -0.132297039f);
  p = fmaf(p, r, 0.144914463f);
  p = fmaf(p, r, -0.166415647f);
  p = fmaf(p, r, 0.199888676f);
  p = fmaf(p, r, -0.250001967f);
  p = fmaf(p, r, 0.333335102f);
  p = fmaf(p, r, -0.5f);
  return fmaf(r * p, r, r) + (is_halved ? 0.693147182f : 0.0f);
}

// log(1 + exp(beta x)) / beta. Where beta x overflows, the exponential vanishes.
MUCC_DEVICE float softplus(float x) { return fmaxf(x, 0.0f) + log1p_up_to_one(fast_exp(-fabsf(x))); }
MUCC_DEVICE float softplus(float x, float beta) {
  float const line = beta > 0.0f ? fmaxf(x, 0.0f) : fminf(x, 0.0f);
  return line + log1p_up_to_one(fast_exp(-fabsf(beta * x))) * (1.0f / beta);
}

// tanh(log(1 + e)) with e = exp(x) is (e^2 + 2e) / (e^2 + 2e + 2): mish costs one exponential. Past x = 20 it is 1.
MUCC_DEVICE float tanh_softplus(float x) {
  float const e = fast_exp(min(x, 20.0f));
  float const n = e * (e + 2.0f);
  return fast_div(n, n + 2.0f);
}

// ---- reductions -----------------------------------------------------------------------------------------

// How to reduce: `first` maps an element before it is reduced, `combine` is associative with `identity`, and
// `atomic`, of those that epilogues use, combines with memory.
struct Sum {
  static constexpr float identity = ::mucc::identity::kSum;
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return a + b; }
  static MUCC_DEVICE void atomic([[maybe_unused]] float* p, [[maybe_unused]] float x) {
#if defined(__CUDA_ARCH__)
    atomicAdd(p, x);
#endif
  }
};

struct Product {
  static constexpr float identity = ::mucc::identity::kProd;
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return a * b; }
};

// Floats of one sign are ordered as their bits are, upwards as signed integers where positive and downwards as
// unsigned ones where negative. A NaN is given the bits that win whatever comes after.
struct Max {
  static constexpr float identity = ::mucc::identity::kMax;
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return max(a, b); }
  static MUCC_DEVICE void atomic([[maybe_unused]] float* p, [[maybe_unused]] float x) {
#if defined(__CUDA_ARCH__)
    int const bits = x != x ? 0x7fffffff : __float_as_int(x);
    if (bits >= 0) {
      atomicMax(reinterpret_cast<int*>(p), bits);
    } else {
      atomicMin(reinterpret_cast<unsigned*>(p), unsigned(bits));
    }
#endif
  }
};

struct Min {
  static constexpr float identity = ::mucc::identity::kMin;
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return min(a, b); }
  static MUCC_DEVICE void atomic([[maybe_unused]] float* p, [[maybe_unused]] float x) {
#if defined(__CUDA_ARCH__)
    int const bits = x != x ? -1 : __float_as_int(x);
    if (bits >= 0) {
      atomicMin(reinterpret_cast<int*>(p), bits);
    } else {
      atomicMax(reinterpret_cast<unsigned*>(p), unsigned(bits));
    }
#endif
  }
};

// The largest absolute value; of no elements it is 0.
struct Amax : Max {
  static constexpr float identity = ::mucc::identity::kAmax;
  static MUCC_DEVICE float first(float x) { return fabsf(x); }
};

// The same of integers, each the bits of an f32.
struct IntegerSum {
  static constexpr float identity = 0.0f;
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return from_bits(add(to_bits(a), to_bits(b))); }
  static MUCC_DEVICE void atomic([[maybe_unused]] float* p, [[maybe_unused]] float x) {
#if defined(__CUDA_ARCH__)
    atomicAdd(reinterpret_cast<int*>(p), to_bits(x));
#endif
  }
};

struct IntegerProduct {
  static constexpr float identity = __builtin_bit_cast(float, 1);
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return from_bits(mul(to_bits(a), to_bits(b))); }
};

struct IntegerMax {
  static constexpr float identity = __builtin_bit_cast(float, 0x80000000u);
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return from_bits(max(to_bits(a), to_bits(b))); }
  static MUCC_DEVICE void atomic([[maybe_unused]] float* p, [[maybe_unused]] float x) {
#if defined(__CUDA_ARCH__)
    atomicMax(reinterpret_cast<int*>(p), to_bits(x));
#endif
  }
};

struct IntegerMin {
  static constexpr float identity = __builtin_bit_cast(float, 0x7fffffffu);
  static MUCC_DEVICE float first(float x) { return x; }
  static MUCC_DEVICE float combine(float a, float b) { return from_bits(min(to_bits(a), to_bits(b))); }
  static MUCC_DEVICE void atomic([[maybe_unused]] float* p, [[maybe_unused]] float x) {
#if defined(__CUDA_ARCH__)
    atomicMin(reinterpret_cast<int*>(p), to_bits(x));
#endif
  }
};

struct IntegerAmax : IntegerMax {
  static constexpr float identity = 0.0f;
  static MUCC_DEVICE float first(float x) { return from_bits(abs(to_bits(x))); }
};

}  // namespace mucc
