// Dtypes and strides of arguments: those that a tensor has, and those that its specification asks for.
#pragma once

#include <mucc/call.h>

#include <cstdint>

namespace mucc {

inline bool is_tensor(const ArgSpec& spec) { return spec.role != Role::kScalar; }

inline bool same_dtype(const MuccDType& got, const DType& want) {
  if (is_packed(want)) return (got.code == MUCC_INT || got.code == MUCC_UINT) && got.bits == 8 && got.lanes == 1;
  return got.code == want.code && got.bits == want.bits && got.lanes == 1;
}

// Strides of a shape in a layout that fixes them (row-major, but for kColMajor and kSparse). Products wrap rather than
// overflow: an absurd shape then fails its comparison with the strides that came.
inline void packed_strides(LayoutKind kind, const int64_t* shape, int ndim, int64_t* out) {
  uint64_t product = 1;
  int last = ndim - 1;
  if (kind == LayoutKind::kColMajor && ndim >= 2) {
    out[ndim - 2] = 1;
    out[ndim - 1] = shape[ndim - 2];
    product = uint64_t(shape[ndim - 2]) * uint64_t(shape[ndim - 1]);
    last = ndim - 3;
  }
  if (kind == LayoutKind::kSparse && ndim == 2) {
    out[0] = shape[1] / 2;
    out[1] = 1;
    return;
  }
  for (int axis = last; axis >= 0; --axis) {
    out[axis] = int64_t(product);
    product *= uint64_t(shape[axis]);
  }
}

inline int64_t actual_stride(const MuccTensor& t, int axis) {
  if (t.strides) return t.strides[axis];
  int64_t packed[kMaxRank];
  packed_strides(LayoutKind::kRowMajor, t.shape, t.ndim, packed);
  return packed[axis];
}

MUCC_SHARED int64_t Call::stride(int i, int axis) const {
  const ArgSpec& spec = kernel->args[i];
  const MuccTensor& t = *args[i];
  if (spec.layout.kind != LayoutKind::kStrides) {
    int64_t packed[kMaxRank];
    packed_strides(spec.layout.kind, t.shape, spec.ndim, packed);
    return packed[axis];
  }
  if (spec.layout.strides[axis] >= 0) return spec.layout.strides[axis];
  if (t.shape[axis] > 1) return actual_stride(t, axis);
  int64_t span = 1;
  for (int a = 0; a < spec.ndim; ++a) {
    int64_t s = a == axis ? 1 : spec.layout.strides[a] >= 0 ? spec.layout.strides[a] : actual_stride(t, a);
    if (t.shape[a] > 1 && s * t.shape[a] > span) span = s * t.shape[a];
  }
  int64_t unit = spec.align * 8 / spec.dtype.bits;
  return unit > 1 ? (span + unit - 1) / unit * unit : span;
}

}  // namespace mucc
