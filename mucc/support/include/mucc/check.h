// Argument checks of a mucc kernel: from what a caller passed to a valid `Call`, or a coded message.
//
// The good path does no string work and no allocation. Messages are in mucc/message.h.
#pragma once

#include <mucc/message.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mucc {

// Checks the strides of a tensor whose shape is good, and adds the free ones to the key.
inline int check_strides(Call& c, int i, const MuccTensor& t) {
  const Kernel& k = *c.kernel;
  const ArgSpec& spec = k.args[i];
  int64_t want[kMaxRank];
  packed_strides(spec.layout.kind, t.shape, spec.ndim, want);
  if (spec.layout.kind != LayoutKind::kStrides) {
    if (!t.strides && spec.layout.kind == LayoutKind::kRowMajor) return 0;
    // What is packed has more memory than its shape says: even of one row the strides must say so.
    bool const sparse = spec.layout.kind == LayoutKind::kSparse;
    for (int a = 0; a < spec.ndim; ++a)
      if ((sparse || t.shape[a] != 1) && actual_stride(t, a) != want[a]) return fail_strides(k, i, t);
    return 0;
  }
  for (int a = 0; a < spec.ndim; ++a) {
    if (t.shape[a] == 1) continue;
    int64_t got = t.strides ? t.strides[a] : want[a];
    int64_t need = spec.layout.strides[a];
    if (need >= 0 ? got != need : got < 1) return fail_strides(k, i, t);
    if (need >= 0) continue;
    int64_t bytes = got * spec.dtype.bits / 8;
    if (bytes % spec.align != 0) return fail_alignment(k, i, "stride", static_cast<unsigned long long>(bytes));
    c.key.push(got);
  }
  return 0;
}

// The extent of an axis in elements.
inline int64_t extent_of(const ArgSpec& spec, const MuccTensor& t, int axis) {
  return is_packed(spec.dtype) && axis == spec.ndim - 1 ? t.shape[axis] * 2 : t.shape[axis];
}

inline int check_tensor(Call& c, int i, const MuccTensor& t, int& first) {
  const Kernel& k = *c.kernel;
  const ArgSpec& spec = k.args[i];
  if (!same_dtype(t.dtype, spec.dtype)) return fail_dtype(k, i, t);
  if (t.ndim != spec.ndim) return fail_rank(k, i, t);
  bool on_cuda = t.device.type == MUCC_DEVICE_CUDA || t.device.type == MUCC_DEVICE_CUDA_MANAGED;
  if (!on_cuda || t.device.id < 0 || (first >= 0 && t.device.id != c.device))
    return fail_device(k, i, t, first, c.device);
  if (first < 0) {
    first = i;
    c.device = t.device.id;
    c.key.push(c.device);
  }
  for (int a = 0; a < spec.ndim; ++a) {
    int64_t got = extent_of(spec, t, a);
    const Extent& e = spec.extents[a];
    int64_t want = e.dim < 0 ? e.value : c.dims[e.dim];
    if (!e.of && want >= 0 && got != want) return fail_shape(k, i, t, a, want);
    if (got < 1 || got > INT32_MAX) return fail_extent(k, i, t, a);
    if (!e.of && want < 0) {
      c.dims[e.dim] = got;
      c.key.push(got);
    }
  }
  if (check_strides(c, i, t)) return 1;
  if (!t.data) {
    about(k, i, "ValueError", "MU6015").add("the data pointer is NULL");
    return 1;
  }
  uintptr_t address = reinterpret_cast<uintptr_t>(t.data) + t.byte_offset;
  if (address % uintptr_t(spec.align) != 0) return fail_alignment(k, i, "data pointer", address);
  c.args[i] = &t;
  c.pointers[i] = reinterpret_cast<void*>(address);
  c.key.push(int64_t(address));
  return 0;
}

inline void set_scalar(Call& c, int i, double value) {
  int64_t word;
  std::memcpy(&word, &value, sizeof(word));
  c.args[i] = nullptr;
  c.pointers[i] = nullptr;
  c.scalars[i] = value;
  c.key.push(word);
}

// A scalar in the C convention: a 0-d tensor of f32 or f64 on the CPU.
inline int check_scalar(Call& c, int i, const MuccTensor& t) {
  const Kernel& k = *c.kernel;
  if (t.ndim != 0) return fail_kind(k, i, "a tensor that is not 0-d");
  if (t.device.type != MUCC_DEVICE_CPU) return fail_kind(k, i, "a tensor that is not on the CPU");
  bool f32 = same_dtype(t.dtype, kF32);
  if (!f32 && !same_dtype(t.dtype, kF64)) return fail_dtype(k, i, t);
  if (!t.data) return fail_kind(k, i, "a NULL data pointer");
  const char* at = static_cast<const char*>(t.data) + t.byte_offset;
  float narrow;
  double wide;
  if (f32) {
    std::memcpy(&narrow, at, sizeof(narrow));
  } else {
    std::memcpy(&wide, at, sizeof(wide));
  }
  set_scalar(c, i, f32 ? double(narrow) : wide);
  return 0;
}

inline void start_dims(Call& c) {
  for (int d = 0; d < c.kernel->dims.size; ++d) c.dims[d] = c.kernel->dims[d].value;
}

// ---- lists of problems ------------------------------------------------------------------------------------

// Results of different problems share no memory, or one problem's would overwrite another's.
inline int check_apart(const std::vector<Call>& calls) {
  struct Range {
    uintptr_t begin, end;
    int problem, argument;
  };
  const Kernel& k = *calls[0].kernel;
  std::vector<Range> ranges;
  for (size_t p = 0; p < calls.size(); ++p) {
    for (int i = 0; i < k.args.size; ++i) {
      if (k.args[i].role != Role::kOutput) continue;
      uint64_t bytes = k.args[i].dtype.bits / 8;
      for (int a = 0; a < k.args[i].ndim; ++a) bytes *= uint64_t(calls[p].extent(i, a));
      auto const begin = reinterpret_cast<uintptr_t>(calls[p].pointers[i]);
      ranges.push_back({begin, begin + bytes, int(p), i});
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t r = 1; r < ranges.size(); ++r) {
    const Range &a = ranges[r - 1], &b = ranges[r];
    if (a.end <= b.begin) continue;
    about(k, b.argument, "ValueError", "MU6026")
        .add("in problem %d it overlaps '%s' in problem %d", b.problem + 1, k.args[a.argument].name, a.problem + 1);
    return 1;
  }
  return 0;
}

// All problems are on the device of the first one.
inline int check_device(const Call& first, const Call& c) {
  if (first.device == c.device) return 0;
  Message("ValueError", "MU6005")
      .add("%s: the tensors are on cuda:%d, those of the first problem on cuda:%d", c.kernel->name, c.device,
           first.device);
  return 1;
}

// ---- indices: what a call reads on the device is checked on request only, for it means to wait for the device ------

// The ends of groups of rows: they never decrease, and the last one is `rows`.
inline int check_ends(const Kernel& k, int i, const int32_t* ends, int64_t count, int64_t rows) {
  int64_t before = 0;
  for (int64_t g = 0; g < count; ++g) {
    if (ends[g] < before) {
      about(k, i, "ValueError", "MU6022")
          .add("[%lld] = %d is less than the end before it, %lld", static_cast<long long>(g), ends[g],
               static_cast<long long>(before));
      return 1;
    }
    before = ends[g];
  }
  if (before == rows) return 0;
  about(k, i, "ValueError", "MU6023")
      .add("the groups end at %lld, but there are %lld rows", static_cast<long long>(before),
           static_cast<long long>(rows));
  return 1;
}

// Numbers of rows: from 0 to `rows` - 1, and each only once where `once`. `seen` has room for `rows` of them then.
inline int check_rows(const Kernel& k, int i, const int32_t* numbers, int64_t count, int64_t rows, bool once,
                      char* seen) {
  for (int64_t n = 0; n < count; ++n) {
    bool const good = 0 <= numbers[n] && numbers[n] < rows;
    if (good && !(once && seen[numbers[n]]++)) continue;
    about(k, i, "ValueError", good ? "MU6025" : "MU6024")
        .add(good ? "element %lld names row %d again" : "element %lld is %d, which is none of the %lld rows",
             static_cast<long long>(n), numbers[n], static_cast<long long>(rows));
    return 1;
  }
  return 0;
}

// Computes the dims that no argument has as an extent, in the order of their steps.
inline int solve_dims(Call& c) {
  const Kernel& k = *c.kernel;
  for (int step = 1, d = 0; d < k.dims.size; ++d) {
    const DimSpec& spec = k.dims[d];
    if (spec.step != step) continue;
    const MuccTensor& t = *c.args[spec.arg];
    int64_t const found = spec.solve(c.dims, extent_of(k.args[spec.arg], t, spec.axis));
    if (found < 1 || found > INT32_MAX) return fail_solved(k, d, t);
    c.dims[d] = found;
    c.key.push(found);
    ++step;
    d = -1;
  }
  return 0;
}

// Holds the extents that follow from dims against the arguments.
inline int check_derived(const Call& c) {
  const Kernel& k = *c.kernel;
  for (int i = 0; i < k.args.size; ++i) {
    const ArgSpec& spec = k.args[i];
    for (int a = 0; a < spec.ndim; ++a) {
      if (!spec.extents[a].of) continue;
      int64_t const want = spec.extents[a].of(c.dims);
      if (extent_of(spec, *c.args[i], a) != want) return fail_shape(k, i, *c.args[i], a, want);
    }
  }
  return 0;
}

// Checks what is left when all arguments were looked at: dims that follow from others, promises, extents.
inline int check_dims(Call& c) {
  if (solve_dims(c)) return 1;
  for (const Promise& p : c.kernel->promises)
    if (!p.holds(c.dims)) return fail_promise(*c.kernel, p, c.dims);
  return check_derived(c);
}

}  // namespace mucc
