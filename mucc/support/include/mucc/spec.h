// What a kernel promises about its arguments: constexpr tables that the compiler writes and check.h enforces.
#pragma once

#include <mucc/abi.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace mucc {

inline constexpr int kMaxRank = 8;
inline constexpr int kMaxDims = 32;
inline constexpr int kMaxArgs = 64;

// Stands for an empty table, since C++ has no empty arrays: `constexpr auto promises = mucc::none;`.
struct None {};
inline constexpr None none{};

// A view of a constant table.
template <class T>
struct Table {
  const T* items = nullptr;
  int size = 0;
  constexpr Table() = default;
  constexpr Table(None) {}
  template <std::size_t N>
  constexpr Table(const T (&array)[N]) : items(array), size(int(N)) {}
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + size; }
  constexpr const T& operator[](int i) const { return items[i]; }
};

struct DType {
  uint8_t code;
  uint8_t bits;
  const char* name;
};
inline constexpr DType kBF16{MUCC_BFLOAT, 16, "bf16"};
inline constexpr DType kF16{MUCC_FLOAT, 16, "f16"};
inline constexpr DType kF32{MUCC_FLOAT, 32, "f32"};
inline constexpr DType kF64{MUCC_FLOAT, 64, "f64"};
inline constexpr DType kE4M3{MUCC_E4M3, 8, "e4m3"};
inline constexpr DType kE5M2{MUCC_E5M2, 8, "e5m2"};
inline constexpr DType kS8{MUCC_INT, 8, "s8"};
inline constexpr DType kU8{MUCC_UINT, 8, "u8"};
inline constexpr DType kS4{MUCC_INT, 4, "s4"};  // two to a byte along the last axis, passed as bytes
inline constexpr DType kU4{MUCC_UINT, 4, "u4"};
inline constexpr DType kS32{MUCC_INT, 32, "s32"};

constexpr bool is_packed(DType const& dtype) { return dtype.bits < 8; }

// One extent of a shape: dim number `dim` of the kernel, or, where `dim` is negative, the number `value`, or what `of`
// computes from all dims, written as `text`.
struct Extent {
  int32_t dim = -1;
  int64_t value = 1;
  int64_t (*of)(const int64_t* dims) = nullptr;
  const char* text = nullptr;
};
constexpr Extent dim(int index) { return {index, 0}; }
constexpr Extent fixed(int64_t value) { return {-1, value}; }
constexpr Extent derived(const char* text, int64_t (*of)(const int64_t* dims)) { return {-1, 0, of, text}; }

enum class LayoutKind : uint8_t { kRowMajor, kColMajor, kStrides, kSparse };

// How a tensor lies in memory. `strides` (in elements, -1: any) counts for kStrides only.
struct Layout {
  LayoutKind kind = LayoutKind::kRowMajor;
  int64_t strides[kMaxRank] = {};
};
constexpr Layout row_major() { return {}; }
// Contiguous with the last two axes swapped: column-major matrices, one after the other.
constexpr Layout col_major() { return {LayoutKind::kColMajor, {}}; }
// A matrix of which half of each row is stored, and metadata after all rows: the rows begin every half of their extent.
constexpr Layout sparse() { return {LayoutKind::kSparse, {}}; }
constexpr Layout strides(std::initializer_list<int64_t> list) {
  Layout layout{LayoutKind::kStrides, {}};
  int axis = 0;
  for (int64_t s : list) layout.strides[axis++] = s;
  return layout;
}

enum class Role : uint8_t { kInput, kScalar, kOutput };

// One argument. `align` is what the data pointer, and every free stride, must be a multiple of, in bytes.
struct ArgSpec {
  const char* name;
  Role role;
  DType dtype;
  int32_t ndim = 0;
  Extent extents[kMaxRank] = {};
  Layout layout = {};
  int32_t align = 1;
};

constexpr ArgSpec make_tensor(Role role, const char* name, DType dtype, std::initializer_list<Extent> extents,
                              Layout layout, int align) {
  ArgSpec spec{name, role, dtype, 0, {}, layout, align};
  for (const Extent& e : extents) spec.extents[spec.ndim++] = e;
  return spec;
}
constexpr ArgSpec tensor_in(const char* name, DType dtype, std::initializer_list<Extent> extents, Layout layout,
                            int align) {
  return make_tensor(Role::kInput, name, dtype, extents, layout, align);
}
constexpr ArgSpec tensor_out(const char* name, DType dtype, std::initializer_list<Extent> extents, Layout layout,
                             int align) {
  return make_tensor(Role::kOutput, name, dtype, extents, layout, align);
}
// A number passed by value: a Python number, or a 0-d f32 or f64 tensor on the CPU.
constexpr ArgSpec scalar_in(const char* name, DType dtype) { return {name, Role::kScalar, dtype}; }

// A dim of the kernel; `value` is what it is bound to in the source, or -1 where each call binds it. Where no argument
// has it as an extent, it is computed in step `step`, from 1 on: `solve` takes the extent of axis `axis` of argument `arg`,
// and the dims of earlier steps.
struct DimSpec {
  const char* name;
  int64_t value;
  int32_t step = 0;
  int32_t arg = -1;
  int32_t axis = 0;
  int64_t (*solve)(const int64_t* dims, int64_t extent) = nullptr;
};

// A condition on the dims, checked at every call.
struct Promise {
  const char* text;                  // as written: "K % 8 == 0"
  bool (*holds)(const int64_t* dims);
  const char* why;                   // who asks for it: "declared in where", "TMA needs 16-byte rows of x"
};

}  // namespace mucc
