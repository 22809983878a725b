// Loads, stores, atomics and conversions of PTX.
#pragma once

#include "ptx_instructions.h"
#include "ptx_traffic.h"

namespace ptx {

// ---- conversions: `cvt`, then rounding and saturation, the type of the result, that of the operand -------------------------

template <class To, class From>
void convert_integers(std::string const& to, std::string const& from) {
  instructions()["cvt" + to + from] = [](Thread& t, Operands o) { put<To>(t, o[0], To(get<From>(t, o[1]))); };
  instructions()["cvt.sat" + to + from] = [](Thread& t, Operands o) {
    __int128 x = get<From>(t, o[1]);
    x = std::max<__int128>(x, std::numeric_limits<To>::min());
    put<To>(t, o[0], To(std::min<__int128>(x, std::numeric_limits<To>::max())));
  };
}
template <class Float, class Int>
void convert_float(std::string const& single, std::string const& whole) {
  instructions()["cvt.rn" + single + whole] = [](Thread& t, Operands o) { put<Float>(t, o[0], Float(get<Int>(t, o[1]))); };
  auto rounding = [](auto round) {
    return [](Thread& t, Operands o) {
      put<Int>(t, o[0], to_integer<Int>(decltype(round){}(double(get<Float>(t, o[1])))));
    };
  };
  instructions()["cvt.rni" + whole + single] = rounding([](double x) { return std::nearbyint(x); });
  instructions()["cvt.rzi" + whole + single] = rounding([](double x) { return std::trunc(x); });
  instructions()["cvt.rmi" + whole + single] = rounding([](double x) { return std::floor(x); });
  instructions()["cvt.rpi" + whole + single] = rounding([](double x) { return std::ceil(x); });
}
template <class To>
void convert_to(std::string const& to) {
  convert_integers<To, uint8_t>(to, ".u8"), convert_integers<To, int8_t>(to, ".s8");
  convert_integers<To, uint16_t>(to, ".u16"), convert_integers<To, int16_t>(to, ".s16");
  convert_integers<To, uint32_t>(to, ".u32"), convert_integers<To, int32_t>(to, ".s32");
  convert_integers<To, uint64_t>(to, ".u64"), convert_integers<To, int64_t>(to, ".s64");
  convert_float<float, To>(".f32", to), convert_float<double, To>(".f64", to);
}

inline void define_conversions() {
  convert_to<uint8_t>(".u8"), convert_to<int8_t>(".s8"), convert_to<uint16_t>(".u16"), convert_to<int16_t>(".s16");
  convert_to<uint32_t>(".u32"), convert_to<int32_t>(".s32"), convert_to<uint64_t>(".u64"), convert_to<int64_t>(".s64");
  auto& all = instructions();
  all["cvt.rn.f32.f64"] = [](Thread& t, Operands o) { put(t, o[0], float(get<double>(t, o[1]))); };
  all["cvt.f64.f32"] = [](Thread& t, Operands o) { put(t, o[0], double(get<float>(t, o[1]))); };
  all["cvt.f32.f16"] = [](Thread& t, Operands o) { put(t, o[0], widen(get<Half>(t, o[1]))); };
  all["cvt.f32.bf16"] = [](Thread& t, Operands o) { put(t, o[0], widen(get<Brain>(t, o[1]))); };
  all["cvt.rn.f16.f32"] = [](Thread& t, Operands o) { put(t, o[0], to_half(get<float>(t, o[1])).bits); };
  all["cvt.rn.bf16.f32"] = [](Thread& t, Operands o) { put(t, o[0], to_brain(get<float>(t, o[1])).bits); };
  all["cvt.rn.f16x2.f32"] = [](Thread& t, Operands o) {
    put(t, o[0], uint32_t(to_half(get<float>(t, o[1])).bits) << 16 | to_half(get<float>(t, o[2])).bits);
  };
  all["cvt.rn.bf16x2.f32"] = [](Thread& t, Operands o) {
    put(t, o[0], uint32_t(to_brain(get<float>(t, o[1])).bits) << 16 | to_brain(get<float>(t, o[2])).bits);
  };
  all["cvt.rn.satfinite.e4m3x2.f32"] = [](Thread& t, Operands o) {
    put(t, o[0], uint16_t(to_eight(get<float>(t, o[1]), 3, 7, 448) << 8 | to_eight(get<float>(t, o[2]), 3, 7, 448)));
  };
  all["cvt.rn.satfinite.e5m2x2.f32"] = [](Thread& t, Operands o) {
    put(t, o[0], uint16_t(to_eight(get<float>(t, o[1]), 2, 15, 57344) << 8 | to_eight(get<float>(t, o[2]), 2, 15, 57344)));
  };
  auto pair = [](auto widened) {
    return [](Thread& t, Operands o) {
      uint16_t const x = get<uint16_t>(t, o[1]);
      put(t, o[0], uint32_t(to_half(decltype(widened){}(x >> 8)).bits) << 16 | to_half(decltype(widened){}(x & 255)).bits);
    };
  };
  all["cvt.rn.f16x2.e4m3x2"] = pair([](int x) { return from_eight(uint8_t(x), 3, 7, false); });
  all["cvt.rn.f16x2.e5m2x2"] = pair([](int x) { return from_eight(uint8_t(x), 2, 15, true); });
  all["cvt.rna.tf32.f32"] = [](Thread& t, Operands o) { put(t, o[0], (get<uint32_t>(t, o[1]) + 0x1000u) & ~0x1fffu); };
  for (std::string const type : {".f32", ".f64"}) {
    auto& from = all["mov" + type];
    all["cvt" + type + type] = from, all["cvt.rn" + type + type] = from;
  }
  unary<float>("cvt.rni.f32", [](float x) { return std::nearbyint(x); });
  unary<float>("cvt.rzi.f32", [](float x) { return std::trunc(x); });
  unary<float>("cvt.rmi.f32", [](float x) { return std::floor(x); });
  unary<float>("cvt.rpi.f32", [](float x) { return std::ceil(x); });
}

// ---- memory -----------------------------------------------------------------------------------------------------------

// Where an access goes, which the meter counts. Memory that only a thread or a launch has is left out.
template <Space kSpace, bool kWrites>
char* accessed(Thread& t, uint64_t address, uint32_t bytes) {
  char* const at = place<kSpace>(t, address, bytes);
  if (!meter.on) return at;
  char const* const shared = t.blocks[0].shared;
  bool const in_shared = size_t(at - shared) < size_t(kWindow) * size_t(t.block_count);
  if (in_shared || !t.own_memory->has(at)) 
    meter.access(t, reinterpret_cast<uint64_t>(at) - (in_shared ? uint64_t(shared) : 0), bytes, in_shared, kWrites);
  return at;
}

// Operands of a load are the number of elements, the elements, the address and a distance; of a store, the address first.
template <class T, Space kSpace>
void define_accesses(std::string const& space) {
  define<T>("ld" + space, [](Thread& t, Operands o) {
    int const count = o[0];
    uint64_t const address = get<uint64_t>(t, o[count + 1]) + get<uint64_t>(t, o[count + 2]);
    char const* from = accessed<kSpace, false>(t, address, uint32_t(sizeof(T) * count));
    T x[8];
    std::memcpy(x, from, sizeof(T) * count);
    for (int i = 0; i < count; ++i) put<T>(t, o[1 + i], x[i]);
  });
  define<T>("st" + space, [](Thread& t, Operands o) {
    int const count = o[0];
    uint64_t const address = get<uint64_t>(t, o[1]) + get<uint64_t>(t, o[2]);
    char* to = accessed<kSpace, true>(t, address, uint32_t(sizeof(T) * count));
    for (int i = 0; i < count; ++i) {
      T const x = get<T>(t, o[3 + i]);
      std::memcpy(to + sizeof(T) * i, &x, sizeof(T));
    }
  });
}

// Operands of an atomic are the register of what was there, the address and a distance, and the number.
template <class T, Space kSpace, class F>
void atomic(std::string const& space, std::string const& operation, F) {
  define<T>("atom" + space + operation, [](Thread& t, Operands o) {
    char* at = accessed<kSpace, true>(t, get<uint64_t>(t, o[1]) + get<uint64_t>(t, o[2]), sizeof(T));
    T before;
    std::memcpy(&before, at, sizeof(T));
    T const after = F{}(before, get<T>(t, o[3]));
    std::memcpy(at, &after, sizeof(T));
    put<T>(t, o[0], before);
  });
}
template <class T, Space kSpace>
void define_atomics(std::string const& space) {
  atomic<T, kSpace>(space, ".add", [](T a, T b) { return T(a + b); });
  atomic<T, kSpace>(space, ".exch", [](T, T b) { return b; });
  atomic<T, kSpace>(space, ".min", [](T a, T b) { return least(a, b); });
  atomic<T, kSpace>(space, ".max", [](T a, T b) { return most(a, b); });
  if constexpr (std::is_unsigned_v<T>) {
    atomic<T, kSpace>(space, ".inc", [](T a, T b) { return a >= b ? T(0) : T(a + 1); });
    atomic<T, kSpace>(space, ".and", [](T a, T b) { return T(a & b); });
    atomic<T, kSpace>(space, ".or", [](T a, T b) { return T(a | b); });
    define<T>("atom" + space + ".cas", [](Thread& t, Operands o) {
      char* at = accessed<kSpace, true>(t, get<uint64_t>(t, o[1]) + get<uint64_t>(t, o[2]), sizeof(T));
      T before;
      std::memcpy(&before, at, sizeof(T));
      T const wanted = get<T>(t, o[3]), after = get<T>(t, o[4]);
      if (before == wanted) std::memcpy(at, &after, sizeof(T));
      put<T>(t, o[0], before);
    });
  }
}
template <Space kSpace>
void define_space(std::string const& space) {
  define_accesses<uint8_t, kSpace>(space), define_accesses<int8_t, kSpace>(space);
  define_accesses<uint16_t, kSpace>(space), define_accesses<int16_t, kSpace>(space);
  define_accesses<uint32_t, kSpace>(space), define_accesses<int32_t, kSpace>(space);
  define_accesses<uint64_t, kSpace>(space), define_accesses<int64_t, kSpace>(space);
  define_accesses<float, kSpace>(space), define_accesses<double, kSpace>(space);
  define_atomics<uint32_t, kSpace>(space), define_atomics<int32_t, kSpace>(space);
  define_atomics<uint64_t, kSpace>(space), define_atomics<float, kSpace>(space);
}

inline void define_addresses() {
  auto& all = instructions();
  all["cvta.shared.u64"] = [](Thread& t, Operands o) {
    put(t, o[0], uint64_t(reinterpret_cast<uintptr_t>(t.blocks[t.block].shared)) + get<uint32_t>(t, o[1]));
  };
  all["cvta.to.shared.u64"] = [](Thread& t, Operands o) {
    put(t, o[0], get<uint64_t>(t, o[1]) - uint64_t(reinterpret_cast<uintptr_t>(t.blocks[t.block].shared)));
  };
  all["mapa.shared::cluster.u32"] = [](Thread& t, Operands o) {
    put(t, o[0], get<uint32_t>(t, o[2]) << 24 | get<uint32_t>(t, o[1]));
  };
  for (std::string const name : {"cvta.global", "cvta.local", "cvta.param", "cvta.const", "cvta.to.global", "cvta.to.local",
                                 "cvta.to.param", "cvta.to.const"})
    all[name + ".u64"] = all["mov.u64"];
}

inline void define_all() {
  static bool const once = [] {
    define_moves<bool>(), define_logic<bool>();
    define_integers<uint16_t>(), define_integers<int16_t>(), define_integers<uint32_t>();
    define_integers<int32_t>(), define_integers<uint64_t>(), define_integers<int64_t>();
    define_floats<float>(), define_floats<double>();
    define_singles(), define_bits(), define_conversions(), define_addresses();
    define_packing<uint32_t, uint16_t>(), define_packing<uint64_t, uint32_t>(), define_packing<uint64_t, uint16_t>();
    define_space<Space::kPointer>(""), define_space<Space::kShared>(".shared"), define_space<Space::kCluster>(".cluster");
    return true;
  }();
  (void)once;
}

}  // namespace ptx
