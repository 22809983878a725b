// Argument checks of a mucc kernel: from what a caller passed to a valid `Call`, or a coded message.
//
// The good path does no string work and no allocation. Everything that formats is out of line.
#pragma once

#include <mucc/call.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace mucc {

// ---- errors: one message per thread, kept until the next failing call --------------------------------------

struct Error {
  const char* kind = "RuntimeError";  // the Python exception that the tvm-ffi door raises
  char text[1024] = "";
};
inline thread_local Error last_error;

// Writes a message piece by piece and cuts it at the end of the buffer.
class Message {
 public:
  MUCC_COLD Message(const char* kind, const char* code) {
    last_error.kind = kind;
    last_error.text[0] = '\0';
    add("%s: ", code);
  }
  MUCC_COLD MUCC_FORMAT(2, 3) Message& add(const char* format, ...) {
    va_list list;
    va_start(list, format);
    vadd(format, list);
    va_end(list);
    return *this;
  }
  void vadd(const char* format, va_list list) {
    constexpr int size = sizeof(last_error.text);
    int n = std::vsnprintf(last_error.text + used_, size_t(size - used_), format, list);
    used_ = n < 0 ? used_ : (used_ + n < size ? used_ + n : size - 1);
  }

 private:
  int used_ = 0;
};

MUCC_SHARED int fail(const char* code, const char* format, ...) {
  Message message("RuntimeError", code);
  va_list list;
  va_start(list, format);
  message.vadd(format, list);
  va_end(list);
  return 1;
}

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

// ---- messages -------------------------------------------------------------------------------------------

MUCC_COLD inline void add_dtype(Message& m, const MuccDType& dtype) {
  const char* prefix = dtype.code == MUCC_INT      ? "s"
                       : dtype.code == MUCC_UINT   ? "u"
                       : dtype.code == MUCC_FLOAT  ? "f"
                       : dtype.code == MUCC_BFLOAT ? "bf"
                                                   : nullptr;
  if (dtype.code == MUCC_BOOL) {
    m.add("bool");
  } else if (dtype.code == MUCC_E4M3 || dtype.code == MUCC_E5M2) {
    m.add(dtype.code == MUCC_E4M3 ? "e4m3" : "e5m2");
  } else if (prefix) {
    m.add("%s%d", prefix, dtype.bits);
  } else {
    m.add("dtype(code=%d, bits=%d)", dtype.code, dtype.bits);
  }
  if (dtype.lanes != 1) m.add("x%d", dtype.lanes);
}

MUCC_COLD inline void add_list(Message& m, const int64_t* items, int n) {
  m.add("[");
  for (int i = 0; i < n; ++i) m.add("%s%lld", i ? ", " : "", static_cast<long long>(items[i]));
  m.add("]");
}

MUCC_COLD inline void add_tensor(Message& m, const MuccTensor& t) {
  add_dtype(m, t.dtype);
  add_list(m, t.shape, t.shape ? t.ndim : 0);
}

MUCC_COLD inline void add_spec(Message& m, const Kernel& k, const ArgSpec& spec) {
  m.add("%s", spec.dtype.name);
  if (!is_tensor(spec)) return;
  m.add("[");
  for (int a = 0; a < spec.ndim; ++a) {
    const Extent& e = spec.extents[a];
    if (a) m.add(", ");
    if (e.dim >= 0) {
      m.add("%s", k.dims[e.dim].name);
    } else if (e.of) {
      m.add("%s", e.text);
    } else {
      m.add("%lld", static_cast<long long>(e.value));
    }
  }
  m.add("]");
}

MUCC_COLD inline void add_device(Message& m, const MuccDevice& device) {
  if (device.type == MUCC_DEVICE_CPU) {
    m.add("the CPU");
  } else if (device.type == MUCC_DEVICE_CUDA || device.type == MUCC_DEVICE_CUDA_MANAGED) {
    m.add("cuda:%d", device.id);
  } else {
    m.add("DLPack device type %d", device.type);
  }
}

// Starts "CODE: argument 'x' of kernel: ".
MUCC_COLD inline Message about(const Kernel& k, int i, const char* kind, const char* code) {
  Message m(kind, code);
  m.add("argument '%s' of %s: ", k.args[i].name, k.name);
  return m;
}

MUCC_COLD inline int fail_kind(const Kernel& k, int i, const char* got) {
  Message m = about(k, i, "TypeError", "MU6002");
  m.add("expected a %s", is_tensor(k.args[i]) ? "tensor " : "number (passed by value, ");
  add_spec(m, k, k.args[i]);
  m.add("%s, got %s", is_tensor(k.args[i]) ? "" : ")", got);
  return 1;
}

MUCC_COLD inline int fail_dtype(const Kernel& k, int i, const MuccTensor& t) {
  Message m = about(k, i, "TypeError", "MU6003");
  m.add("expected dtype ");
  const char* dtype = k.args[i].dtype.name;
  m.add(is_packed(k.args[i].dtype) ? "u8 or s8 (two %s to a byte), got " : is_tensor(k.args[i]) ? "%s, got " : "%s or f64, got ",
        dtype);
  add_tensor(m, t);
  return 1;
}

MUCC_COLD inline int fail_rank(const Kernel& k, int i, const MuccTensor& t) {
  Message m = about(k, i, "ValueError", "MU6004");
  m.add("expected rank %d, ", k.args[i].ndim);
  add_spec(m, k, k.args[i]);
  m.add(", got rank %d", t.ndim);
  if (t.shape && t.ndim >= 0 && t.ndim <= kMaxRank) {
    m.add(", ");
    add_tensor(m, t);
  }
  return 1;
}

MUCC_COLD inline int fail_device(const Kernel& k, int i, const MuccTensor& t, int first, int device) {
  Message m = about(k, i, "ValueError", "MU6005");
  if (first < 0) {
    m.add("expected a tensor on a CUDA device, got one on ");
  } else {
    m.add("expected a tensor on cuda:%d (where '%s' is), got one on ", device, k.args[first].name);
  }
  add_device(m, t.device);
  return 1;
}

// `axis` is where the shape went wrong; a dim bound by an earlier argument names that argument.
MUCC_COLD inline int fail_shape(const Kernel& k, int i, const MuccTensor& t, int axis, int64_t want) {
  Message m = about(k, i, "ValueError", "MU6006");
  m.add("expected ");
  add_spec(m, k, k.args[i]);
  const Extent& e = k.args[i].extents[axis];
  if (e.dim >= 0) {
    m.add(" with %s = %lld", k.dims[e.dim].name, static_cast<long long>(want));
    if (k.dims[e.dim].value >= 0) {
      m.add(" (fixed when compiled)");
    } else {
      for (int j = 0; j <= i; ++j) {
        int a = 0;
        while (a < k.args[j].ndim && (k.args[j].extents[a].dim != e.dim || (j == i && a == axis))) ++a;
        if (a == k.args[j].ndim) continue;
        m.add(" (from '%s')", k.args[j].name);
        break;
      }
    }
  } else if (e.of) {
    m.add(" with %s = %lld", e.text, static_cast<long long>(want));
  }
  m.add(", got ");
  add_tensor(m, t);
  if (is_packed(k.args[i].dtype)) m.add(", two %s to a byte", k.args[i].dtype.name);
  return 1;
}

// Dim `d`, which is solved for in an extent, would be no extent.
MUCC_COLD inline int fail_solved(const Kernel& k, int d, const MuccTensor& t) {
  Message m = about(k, k.dims[d].arg, "ValueError", "MU6006");
  m.add("expected ");
  add_spec(m, k, k.args[k.dims[d].arg]);
  m.add(" with %s from 1 to 2147483647, got ", k.dims[d].name);
  add_tensor(m, t);
  return 1;
}

MUCC_COLD inline int fail_extent(const Kernel& k, int i, const MuccTensor& t, int axis) {
  Message m = about(k, i, "ValueError", "MU6007");
  m.add("expected extents from 1 to 2147483647 in ");
  add_spec(m, k, k.args[i]);
  m.add(", got ");
  add_tensor(m, t);
  if (t.shape[axis] == 0) m.add(", an empty tensor");
  return 1;
}

MUCC_COLD inline int fail_strides(const Kernel& k, int i, const MuccTensor& t) {
  const ArgSpec& spec = k.args[i];
  Message m = about(k, i, "ValueError", "MU6008");
  int64_t want[kMaxRank];
  packed_strides(spec.layout.kind, t.shape, t.ndim, want);
  m.add("expected ");
  if (spec.layout.kind == LayoutKind::kStrides) {
    add_spec(m, k, spec);
    m.add(" with strides (");
    for (int a = 0; a < spec.ndim; ++a) {
      if (a) m.add(", ");
      if (spec.layout.strides[a] < 0) {
        m.add("_");
      } else {
        m.add("%lld", static_cast<long long>(spec.layout.strides[a]));
      }
    }
    m.add("), free ones at least 1");
  } else {
    bool const sparse = spec.layout.kind == LayoutKind::kSparse;
    m.add("%s ", sparse ? "packed (mucc.sparsify)" : spec.layout.kind == LayoutKind::kRowMajor ? "row-major" : "column-major");
    add_spec(m, k, spec);
    m.add(" with strides ");
    add_list(m, want, t.ndim);
  }
  m.add(", got strides ");
  int64_t got[kMaxRank];
  for (int a = 0; a < t.ndim; ++a) got[a] = actual_stride(t, a);
  add_list(m, got, t.ndim);
  m.add(" of shape ");
  add_list(m, t.shape, t.ndim);
  return 1;
}

MUCC_COLD inline int fail_alignment(const Kernel& k, int i, const char* what, unsigned long long got) {
  Message m = about(k, i, "ValueError", "MU6009");
  m.add("expected a %s that is a multiple of %d bytes, got ", what, k.args[i].align);
  m.add(what[0] == 'd' ? "0x%llx" : "%llu bytes", got);
  return 1;
}

MUCC_COLD inline int fail_promise(const Kernel& k, const Promise& p, const int64_t* dims) {
  Message m("ValueError", "MU6011");
  m.add("%s needs %s (%s), got ", k.name, p.text, p.why);
  for (int d = 0; d < k.dims.size; ++d)
    m.add("%s%s = %lld", d ? ", " : "", k.dims[d].name, static_cast<long long>(dims[d]));
  return 1;
}

MUCC_COLD inline int fail_count(const Kernel& k, int got) {
  Message m("TypeError", "MU6001");
  m.add("%s takes %d arguments (", k.name, k.args.size);
  for (int i = 0; i < k.args.size; ++i) m.add("%s%s", i ? ", " : "", k.args[i].name);
  m.add(")%s, got %d", k.each ? " for each problem" : "", got);
  return 1;
}

// Says of an error which problem of a list it is in.
MUCC_COLD inline int fail_problem(int problem, int count) {
  if (count == 1) return 1;
  size_t const used = std::strlen(last_error.text);
  std::snprintf(last_error.text + used, sizeof(last_error.text) - used, " (problem %d of %d)", problem + 1, count);
  return 1;
}

// ---- checks ---------------------------------------------------------------------------------------------

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
