// The instructions of PTX that one thread runs alone, by their names without what the parser leaves out (ptx_text.py).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ptx_numbers.h"
#include "ptx_thread.h"

namespace ptx {

using Run = void (*)(Thread&, Operands);

inline std::map<std::string, Run>& instructions() {
  static std::map<std::string, Run> all;
  return all;
}

template <class T>
std::vector<std::string> suffixes() {
  std::string const size = std::to_string(sizeof(T) * 8);
  if constexpr (std::is_same_v<T, bool>) return {".pred"};
  else if constexpr (std::is_floating_point_v<T>) return {".f" + size};
  else if constexpr (std::is_signed_v<T>) return {".s" + size};
  else return {".u" + size, ".b" + size};
}
template <class T>
void define(std::string const& name, Run run) {
  for (auto const& suffix : suffixes<T>()) instructions()[name + suffix] = run;
}

template <class T, class F>
void unary(std::string const& name, F) {
  define<T>(name, [](Thread& t, Operands o) { put<T>(t, o[0], T(F{}(get<T>(t, o[1])))); });
}
template <class T, class F>
void binary(std::string const& name, F) {
  define<T>(name, [](Thread& t, Operands o) { put<T>(t, o[0], T(F{}(get<T>(t, o[1]), get<T>(t, o[2])))); });
}
template <class T, class F>
void ternary(std::string const& name, F) {
  define<T>(name, [](Thread& t, Operands o) {
    put<T>(t, o[0], T(F{}(get<T>(t, o[1]), get<T>(t, o[2]), get<T>(t, o[3]))));
  });
}
template <class T, class F>
void shift(std::string const& name, F) {
  define<T>(name, [](Thread& t, Operands o) { put<T>(t, o[0], T(F{}(get<T>(t, o[1]), get<uint32_t>(t, o[2])))); });
}
template <class T, class F>
void compare(std::string const& name, F) {
  define<T>("setp." + name, [](Thread& t, Operands o) { put<bool>(t, o[0], F{}(get<T>(t, o[1]), get<T>(t, o[2]))); });
  auto combined = [](auto combine) {
    return [](Thread& t, Operands o) {
      put<bool>(t, o[0], decltype(combine){}(F{}(get<T>(t, o[1]), get<T>(t, o[2])), get<bool>(t, o[3])));
    };
  };
  define<T>("setp." + name + ".and", combined([](bool a, bool b) { return a && b; }));
  define<T>("setp." + name + ".or", combined([](bool a, bool b) { return a || b; }));
  define<T>("setp." + name + ".xor", combined([](bool a, bool b) { return a != b; }));
}

template <class T>
void define_moves() {
  unary<T>("mov", [](T a) { return a; });
  define<T>("selp", [](Thread& t, Operands o) { put<T>(t, o[0], get<bool>(t, o[3]) ? get<T>(t, o[1]) : get<T>(t, o[2])); });
}
template <class T>
void define_comparisons() {
  compare<T>("eq", [](T a, T b) { return a == b; });
  compare<T>("ne", [](T a, T b) { return std::is_floating_point_v<T> ? (a < b || a > b) : a != b; });
  compare<T>("lt", [](T a, T b) { return a < b; });
  compare<T>("le", [](T a, T b) { return a <= b; });
  compare<T>("gt", [](T a, T b) { return a > b; });
  compare<T>("ge", [](T a, T b) { return a >= b; });
  if constexpr (std::is_unsigned_v<T>) {
    compare<T>("lo", [](T a, T b) { return a < b; });
    compare<T>("ls", [](T a, T b) { return a <= b; });
    compare<T>("hi", [](T a, T b) { return a > b; });
    compare<T>("hs", [](T a, T b) { return a >= b; });
  }
  if constexpr (std::is_floating_point_v<T>) {
    compare<T>("equ", [](T a, T b) { return !(a < b || a > b); });
    compare<T>("neu", [](T a, T b) { return !(a == b); });
    compare<T>("ltu", [](T a, T b) { return !(a >= b); });
    compare<T>("leu", [](T a, T b) { return !(a > b); });
    compare<T>("gtu", [](T a, T b) { return !(a <= b); });
    compare<T>("geu", [](T a, T b) { return !(a < b); });
    compare<T>("num", [](T a, T b) { return a == a && b == b; });
    compare<T>("nan", [](T a, T b) { return a != a || b != b; });
  }
}
template <class T>
void define_logic() {
  binary<T>("and", [](T a, T b) { return a & b; });
  binary<T>("or", [](T a, T b) { return a | b; });
  binary<T>("xor", [](T a, T b) { return a ^ b; });
  unary<T>("not", [](T a) { return T(a ^ (std::is_same_v<T, bool> ? T(1) : T(-1))); });
}

template <class T>
void define_integers() {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = sizeof(T) * 8;
  using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  using Double = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
  define_moves<T>();
  define_comparisons<T>();
  define_logic<T>();
  binary<T>("add", [](T a, T b) { return T(U(a) + U(b)); });
  binary<T>("sub", [](T a, T b) { return T(U(a) - U(b)); });
  binary<T>("min", [](T a, T b) { return least(a, b); });
  binary<T>("max", [](T a, T b) { return most(a, b); });
  binary<T>("mul.lo", [](T a, T b) { return T(Wide(a) * Wide(b)); });
  binary<T>("mul.hi", [](T a, T b) { return T(Wide(a) * Wide(b) >> kBits); });
  ternary<T>("mad.lo", [](T a, T b, T c) { return T(U(T(Wide(a) * Wide(b))) + U(c)); });
  ternary<T>("mad.hi", [](T a, T b, T c) { return T(U(T(Wide(a) * Wide(b) >> kBits)) + U(c)); });
  if constexpr (sizeof(T) < 8) {
    define<T>("mul.wide", [](Thread& t, Operands o) {
      put<Double>(t, o[0], Double(get<T>(t, o[1])) * Double(get<T>(t, o[2])));
    });
    define<T>("mad.wide", [](Thread& t, Operands o) {
      using Sum = std::make_unsigned_t<Double>;
      put<Double>(t, o[0], Double(Sum(Double(get<T>(t, o[1])) * Double(get<T>(t, o[2]))) + Sum(get<Double>(t, o[3]))));
    });
  }
  binary<T>("div", [](T a, T b) { return b == 0 ? T(-1) : T(Wide(a) / Wide(b)); });
  binary<T>("rem", [](T a, T b) { return b == 0 ? a : T(Wide(a) % Wide(b)); });
  unary<T>("neg", [](T a) { return T(U(0) - U(a)); });
  unary<T>("abs", [](T a) { return T(a < 0 ? U(0) - U(a) : U(a)); });
  shift<T>("shl", [](T a, uint32_t n) { return n < kBits ? T(U(a) << n) : T(0); });
  shift<T>("shr", [](T a, uint32_t n) { return n < kBits ? T(a >> n) : T(a < 0 ? -1 : 0); });
  if constexpr (sizeof(T) >= 4) {
    define<T>("bfe", [](Thread& t, Operands o) {
      put<T>(t, o[0], field(get<T>(t, o[1]), get<uint32_t>(t, o[2]), get<uint32_t>(t, o[3])));
    });
    define<T>("bfi", [](Thread& t, Operands o) {
      U const a = get<U>(t, o[1]), b = get<U>(t, o[2]);
      put<T>(t, o[0], T(inserted<U>(a, b, get<uint32_t>(t, o[3]), get<uint32_t>(t, o[4]))));
    });
  }
}

template <class T>
void define_floats() {
  define_moves<T>();
  define_comparisons<T>();
  for (std::string const round : {"", ".rn"}) {
    binary<T>("add" + round, [](T a, T b) { return a + b; });
    binary<T>("sub" + round, [](T a, T b) { return a - b; });
    binary<T>("mul" + round, [](T a, T b) { return a * b; });
    ternary<T>("fma" + round, [](T a, T b, T c) { return std::fma(a, b, c); });
  }
  for (std::string const kind : {".rn", ".full", ".approx"}) {
    binary<T>("div" + kind, [](T a, T b) { return a / b; });
    unary<T>("rcp" + kind, [](T a) { return T(1) / a; });
    unary<T>("sqrt" + kind, [](T a) { return std::sqrt(a); });
    unary<T>("rsqrt" + kind, [](T a) { return T(1 / std::sqrt(double(a))); });
  }
  binary<T>("min", [](T a, T b) { return least(a, b); });
  binary<T>("max", [](T a, T b) { return most(a, b); });
  binary<T>("copysign", [](T a, T b) { return std::copysign(b, a); });
  unary<T>("neg", [](T a) { return -a; });
  unary<T>("abs", [](T a) { return std::fabs(a); });
}

inline void define_singles() {
  binary<float>("min.NaN", [](float a, float b) { return a != a || b != b ? not_a_number() : least(a, b); });
  binary<float>("max.NaN", [](float a, float b) { return a != a || b != b ? not_a_number() : most(a, b); });
  unary<float>("ex2.approx", [](float a) { return std::exp2(a); });
  unary<float>("ex2.approx.ftz", [](float a) { return flush(std::exp2(flush(a))); });
  unary<float>("rcp.approx.ftz", [](float a) { return flush(1 / flush(a)); });
  unary<float>("rsqrt.approx.ftz", [](float a) { return float(1 / std::sqrt(double(flush(a)))); });
  unary<float>("sqrt.approx.ftz", [](float a) { return std::sqrt(flush(a)); });
  unary<float>("lg2.approx", [](float a) { return std::log2(a); });
  unary<float>("lg2.approx.ftz", [](float a) { return std::log2(flush(a)); });
  unary<float>("sin.approx", [](float a) { return std::sin(a); });
  unary<float>("cos.approx", [](float a) { return std::cos(a); });
  unary<float>("tanh.approx", [](float a) { return std::tanh(a); });
  ternary<float>("fma.rm", [](float a, float b, float c) { return fma_toward(FE_DOWNWARD, a, b, c); });
  ternary<float>("fma.rp", [](float a, float b, float c) { return fma_toward(FE_UPWARD, a, b, c); });
  ternary<float>("fma.rz", [](float a, float b, float c) { return fma_toward(FE_TOWARDZERO, a, b, c); });
  binary<float>("add.rz", [](float a, float b) { return toward(FE_TOWARDZERO, Step::kAdd, a, b); });
  binary<float>("add.rm", [](float a, float b) { return toward(FE_DOWNWARD, Step::kAdd, a, b); });
  binary<float>("add.rp", [](float a, float b) { return toward(FE_UPWARD, Step::kAdd, a, b); });
  binary<float>("sub.rz", [](float a, float b) { return toward(FE_TOWARDZERO, Step::kSub, a, b); });
  binary<float>("mul.rz", [](float a, float b) { return toward(FE_TOWARDZERO, Step::kMul, a, b); });
  unary<float>("cvt.sat.f32", [](float a) { return a > 0 ? std::fmin(a, 1.0f) : 0.0f; });
  binary<float>("add.sat", [](float a, float b) { return a + b > 0 ? std::fmin(a + b, 1.0f) : 0.0f; });
  ternary<float>("fma.rn.sat", [](float a, float b, float c) {
    float const x = std::fma(a, b, c);
    return x > 0 ? std::fmin(x, 1.0f) : 0.0f;
  });
}

inline void define_bits() {
  ternary<uint32_t>("prmt", [](uint32_t a, uint32_t b, uint32_t c) { return permuted(a, b, c); });
  instructions()["lop3.b32"] = [](Thread& t, Operands o) {
    auto const a = get<uint32_t>(t, o[1]), b = get<uint32_t>(t, o[2]), c = get<uint32_t>(t, o[3]);
    put(t, o[0], logic(a, b, c, get<uint32_t>(t, o[4])));
  };
  unary<uint32_t>("popc", [](uint32_t a) { return __builtin_popcount(a); });
  unary<uint32_t>("clz", [](uint32_t a) { return a ? __builtin_clz(a) : 32; });
  unary<uint32_t>("bfind", [](uint32_t a) { return a ? 31 - __builtin_clz(a) : ~0u; });
  unary<uint32_t>("brev", [](uint32_t a) {
    uint32_t r = 0;
    for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
    return r;
  });
  auto funnel = [](auto pick) {
    return [](Thread& t, Operands o) {
      uint64_t const both = uint64_t(get<uint32_t>(t, o[2])) << 32 | get<uint32_t>(t, o[1]);
      put(t, o[0], uint32_t(decltype(pick){}(both, get<uint32_t>(t, o[3]))));
    };
  };
  instructions()["shf.l.wrap.b32"] = funnel([](uint64_t x, uint32_t n) { return x << (n & 31) >> 32; });
  instructions()["shf.r.wrap.b32"] = funnel([](uint64_t x, uint32_t n) { return x >> (n & 31); });
  instructions()["shf.l.clamp.b32"] = funnel([](uint64_t x, uint32_t n) { return n < 32 ? x << n >> 32 : x & ~0u; });
  instructions()["shf.r.clamp.b32"] = funnel([](uint64_t x, uint32_t n) { return x >> (n < 32 ? n : 32); });
}

// Halves of a register, `mov.b32 {a, b}, c` and its inverse, by the number of elements that the parser puts first.
template <class Whole, class Part>
void define_packing() {
  constexpr int kCount = sizeof(Whole) / sizeof(Part);
  std::string const whole = ".b" + std::to_string(sizeof(Whole) * 8), count = std::to_string(kCount);
  instructions()["pack" + whole + "." + count] = [](Thread& t, Operands o) {
    Whole x = 0;
    for (int i = 0; i < kCount; ++i) x |= Whole(get<Part>(t, o[1 + i])) << 8 * sizeof(Part) * i;
    put(t, o[0], x);
  };
  instructions()["unpack" + whole + "." + count] = [](Thread& t, Operands o) {
    Whole const x = get<Whole>(t, o[kCount]);
    for (int i = 0; i < kCount; ++i) put(t, o[i], Part(x >> 8 * sizeof(Part) * i));
  };
}

}  // namespace ptx
