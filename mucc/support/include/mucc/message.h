// The message of a call that failed: one for each thread, kept until the next one fails. What formats is out of
// line: the good path does no string work.
#pragma once

#include <mucc/argument.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace mucc {

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

}  // namespace mucc
