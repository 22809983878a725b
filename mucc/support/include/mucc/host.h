// The host side of a kernel library: what stands behind the doors of program.h.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <mucc/check.h>
#include <mucc/program.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

// ---- tvm-ffi's C ABI, as far as it is needed. Weak: the library also loads where there is no tvm-ffi ----------

extern "C" {
__attribute__((weak)) void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
__attribute__((weak)) void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);
}

namespace mucc {
namespace ffi {

enum : int32_t { kNone = 0, kInt = 1, kBool = 2, kFloat = 3, kDLTensorPtr = 7, kObject = 64, kTensor = 70 };

// TVMFFIObject is a 24-byte header; a tensor object holds its DLTensor right after it.
inline constexpr int kObjectHeader = 24;

inline const MuccTensor* tensor(const Any& a) {
  if (a.type == kDLTensorPtr) return static_cast<const MuccTensor*>(a.as_pointer);
  if (a.type != kTensor) return nullptr;
  return reinterpret_cast<const MuccTensor*>(static_cast<const char*>(a.as_pointer) + kObjectHeader);
}

inline const char* describe(const Any& a) {
  switch (a.type) {
    case kNone: return "None";
    case kInt: return "an int";
    case kBool: return "a bool";
    case kFloat: return "a float";
    case kDLTensorPtr:
    case kTensor: return "a tensor";
    case 8:
    case 11:
    case 65: return "a string";
    case 71:
    case 75: return "a list";
    default: return "an object of another type";
  }
}

// The weak symbols are bound when the library is loaded. It may have been loaded before tvm-ffi was (through
// the C door), and then they are null for good: ask again by name. An unset error would crash Python.
template <class F>
F* resolve(F* weak, const char* name) {
  return weak ? weak : reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

inline int raise() {
  if (auto* set = resolve(&TVMFFIErrorSetRaisedFromCStr, "TVMFFIErrorSetRaisedFromCStr"))
    set(last_error.kind, last_error.text);
  return -1;
}

inline void* current_stream(int device) {
  static std::atomic<decltype(&TVMFFIEnvGetStream)> found{nullptr};
  auto* get = found.load(std::memory_order_relaxed);
  if (!get) {
    get = resolve(&TVMFFIEnvGetStream, "TVMFFIEnvGetStream");
    found.store(get, std::memory_order_relaxed);
  }
  return get ? get(MUCC_DEVICE_CUDA, device) : nullptr;
}

}  // namespace ffi

// ---- CUDA -----------------------------------------------------------------------------------------------

// 0 for success; otherwise sets an error that says what was being done, and clears CUDA's own error slot, so
// that a failure which is reported here does not come up again in an unrelated call.
inline int check_cuda(cudaError_t err, const char* what) {
  if (err == cudaSuccess) return 0;
  (void)cudaGetLastError();
  switch (err) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
      return fail("MU6017", "%s: this library holds no code for this GPU (%s)", what, cudaGetErrorName(err));
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
      return fail("MU6018", "%s: no usable NVIDIA GPU or driver: %s", what, cudaGetErrorString(err));
    default:
      return fail("MU6016", "%s: %s: %s", what, cudaGetErrorName(err), cudaGetErrorString(err));
  }
}

// Makes a device current for the life of the object; touches nothing when it is so already.
class DeviceScope {
 public:
  int enter(int device) {
    int current = -1;
    if (check_cuda(cudaGetDevice(&current), "reading the current device")) return 1;
    if (current == device) return 0;
    if (check_cuda(cudaSetDevice(device), "making the tensors' device current")) return 1;
    previous_ = current;
    return 0;
  }
  ~DeviceScope() {
    if (previous_ >= 0) (void)cudaSetDevice(previous_);
  }

 private:
  int previous_ = -1;
};

// An attribute of a device that is never 0, asked once per device. 0 and an error where it cannot be told.
template <cudaDeviceAttr kAttribute>
int attribute_of(int device) {
  constexpr int kDevices = 64;
  static std::atomic<int> known[kDevices];
  if (device < kDevices)
    if (int value = known[device].load(std::memory_order_relaxed)) return value;
  int value = 0;
  if (check_cuda(cudaDeviceGetAttribute(&value, kAttribute, device), "reading the device")) return 0;
  if (device < kDevices) known[device].store(value, std::memory_order_relaxed);
  return value;
}

// ---- workspace of the tvm-ffi door, where the caller brings none ----------------------------------------------

struct Buffer {
  int device;
  void* stream;
  void* data;
  size_t bytes;
};

// Finds or grows the buffer of (device, stream). A buffer that was outgrown is kept: a captured CUDA graph may
// still use it. Sizes double, so that all kept ones together are smaller than the one in use.
inline int cached_workspace(Call& c, size_t bytes) {
  static std::mutex mutex;
  static auto& buffers = *new std::vector<Buffer>;  // never destroyed: calls may come while the process ends
  std::lock_guard<std::mutex> lock(mutex);
  Buffer* mine = nullptr;
  for (Buffer& b : buffers)
    if (b.stream == c.stream && b.device == c.device) mine = &b;
  if (!mine || mine->bytes < bytes) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (check_cuda(cudaStreamIsCapturing(static_cast<cudaStream_t>(c.stream), &status), "querying the stream"))
      return 1;
    if (status != cudaStreamCaptureStatusNone)
      return fail("MU6014",
                  "%s needs a workspace of %zu bytes, which cannot be allocated while the stream is captured: "
                  "pass a workspace, or run once before the capture",
                  c.kernel->name, bytes);
    size_t size = mine && mine->bytes * 2 > bytes ? mine->bytes * 2 : bytes;
    void* data = nullptr;
    // Another thread may be capturing in the strict mode, in which an allocation would break its capture.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t err = cudaMalloc(&data, size);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (err == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return fail("MU6020", "%s: no device memory for a workspace of %zu bytes", c.kernel->name, size);
    }
    if (check_cuda(err, "allocating the workspace")) return 1;
    if (!mine) mine = &buffers.emplace_back(Buffer{c.device, c.stream, nullptr, 0});
    mine->data = data;
    mine->bytes = size;
  }
  c.workspace = mine->data;
  c.workspace_bytes = mine->bytes;
  return 0;
}

// ---- doors ----------------------------------------------------------------------------------------------

// What the caller brought. `cached`: where nothing was brought, the library's own buffer may serve.
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
  bool cached = false;
};

inline int give_workspace(Call& c, size_t need, const Workspace& given) {
  if (!given.data && given.cached) return cached_workspace(c, need);
  if (!given.data || given.bytes < need)
    return fail("MU6012", "%s needs a workspace of %zu bytes, got %zu", c.kernel->name, need,
                given.data ? given.bytes : size_t(0));
  if (reinterpret_cast<uintptr_t>(given.data) % MUCC_WORKSPACE_ALIGNMENT != 0)
    return fail("MU6013", "%s: the workspace must be %d-byte aligned, got %p", c.kernel->name,
                MUCC_WORKSPACE_ALIGNMENT, given.data);
  c.workspace = given.data;
  c.workspace_bytes = given.bytes;
  return 0;
}

// The bytes that a checked call needs; negative with an error set.
inline int64_t need_of(Call& c) {
  if (!(c.sm_count = attribute_of<cudaDevAttrMultiProcessorCount>(c.device))) return -1;
  if (!(c.sm_shared = attribute_of<cudaDevAttrMaxSharedMemoryPerMultiprocessor>(c.device))) return -1;
  return c.kernel->workspace(c);
}

// Runs a checked call on its device.
inline int run(Call& c, const Workspace& given) {
  DeviceScope scope;
  if (scope.enter(c.device)) return 1;
  int64_t need = need_of(c);
  if (need < 0) return 1;
  if (need > 0 && give_workspace(c, size_t(need), given)) return 1;
  c.key.push(reinterpret_cast<intptr_t>(c.workspace));
  return c.kernel->launch(c);
}

inline int check_c(Call& c, const MuccTensor* args, int n) {
  const Kernel& k = *c.kernel;
  if (n != k.args.size || !args) return fail_count(k, args ? n : 0);
  start_dims(c);
  int first = -1;
  for (int i = 0; i < n; ++i) {
    if (args[i].ndim > 0 && !args[i].shape) return fail_kind(k, i, "a MuccTensor whose shape is NULL");
    if (is_tensor(k.args[i]) ? check_tensor(c, i, args[i], first) : check_scalar(c, i, args[i])) return 1;
  }
  return check_dims(c);
}

inline int check_ffi(Call& c, const ffi::Any* args, int n) {
  const Kernel& k = *c.kernel;
  start_dims(c);
  int first = -1;
  for (int i = 0; i < n; ++i) {
    const ffi::Any& a = args[i];
    const MuccTensor* t = ffi::tensor(a);
    if (is_tensor(k.args[i])) {
      if (!t) return fail_kind(k, i, ffi::describe(a));
      if (check_tensor(c, i, *t, first)) return 1;
    } else if (t) {
      if (check_scalar(c, i, *t)) return 1;
    } else if (a.type == ffi::kFloat) {
      set_scalar(c, i, a.as_float);
    } else if (a.type == ffi::kInt || a.type == ffi::kBool) {
      set_scalar(c, i, double(a.as_int));
    } else {
      return fail_kind(k, i, ffi::describe(a));
    }
  }
  return check_dims(c);
}

// The calls of a kernel for lists: the arguments of one problem after the other. `check` reads those of one.
template <class Arg, class Check>
int check_each(const Kernel& k, const Arg* args, int n, Check check, std::vector<Call>& calls) {
  int const own = k.args.size, count = n / own;
  if (!args || count < 1 || n % own != 0) return fail_count(k, args ? n : 0);
  calls.reserve(size_t(count));
  for (int p = 0; p < count; ++p) {
    Call& c = calls.emplace_back(k);
    if (check(c, args + p * own, own) || check_device(calls[0], c)) return fail_problem(p, count);
  }
  return count > 1 ? check_apart(calls) : 0;
}

// The bytes that they need: problems that are not launched together run one after the other in the same workspace.
inline int64_t need_of(std::vector<Call>& calls) {
  int64_t most = 0;
  for (size_t p = 0; p < calls.size(); ++p) {
    int64_t const need = need_of(calls[p]);
    if (need < 0) return fail_problem(int(p), int(calls.size())), -1;
    most = at_least(most, need);
  }
  return most;
}

inline int run(std::vector<Call>& calls, void* stream, const Workspace& given) {
  DeviceScope scope;
  Call& first = calls[0];
  first.stream = stream;
  if (scope.enter(first.device)) return 1;
  int64_t const need = need_of(calls);
  if (need < 0) return 1;
  if (need > 0 && give_workspace(first, size_t(need), given)) return 1;
  for (Call& c : calls) {
    c.stream = stream;
    c.workspace = first.workspace;
    c.workspace_bytes = first.workspace_bytes;
    c.key.push(reinterpret_cast<intptr_t>(c.workspace));
  }
  const Kernel& k = *first.kernel;
  if (k.launch_each) return k.launch_each(calls.data(), int(calls.size()));
  for (size_t p = 0; p < calls.size(); ++p)
    if (k.launch(calls[p])) return fail_problem(int(p), int(calls.size()));
  return 0;
}

// The trailing workspace tensor of the tvm-ffi door, or None.
inline int read_workspace(const Call& c, const ffi::Any& a, Workspace& out) {
  if (a.type == ffi::kNone) return 0;
  const MuccTensor* t = ffi::tensor(a);
  bool good = t && t->ndim == 1 && same_dtype(t->dtype, DType{MUCC_UINT, 8, "u8"}) &&
              (t->device.type == MUCC_DEVICE_CUDA || t->device.type == MUCC_DEVICE_CUDA_MANAGED) &&
              t->device.id == c.device && (!t->strides || t->strides[0] == 1 || t->shape[0] <= 1);
  if (!good) {
    Message("TypeError", "MU6019")
        .add("the workspace of %s must be a contiguous u8 vector on cuda:%d, got %s", c.kernel->name, c.device,
             t ? "another tensor" : ffi::describe(a));
    return 1;
  }
  out.data = static_cast<char*>(t->data) + t->byte_offset;
  out.bytes = size_t(t->shape[0]);
  return 0;
}

// No C++ exception leaves a door.
template <class F>
auto guarded(const Kernel& k, F&& body, decltype(body()) failed) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {
    fail("MU6021", "%s: unexpected C++ exception: %s", k.name, e.what());
  } catch (...) {
    fail("MU6021", "%s: unexpected C++ exception", k.name);
  }
  return failed;
}

MUCC_SHARED int call_c(const Kernel& k, const MuccTensor* args, int n, void* workspace, size_t bytes,
                  void* stream) noexcept {
  auto body = [&]() -> int {
    if (k.each) {
      std::vector<Call> calls;
      return check_each(k, args, n, check_c, calls) || run(calls, stream, {workspace, bytes, false});
    }
    Call c(k);
    if (check_c(c, args, n)) return 1;
    c.stream = stream;
    return run(c, {workspace, bytes, false});
  };
  return guarded(k, body, 1);
}

MUCC_SHARED int64_t workspace_c(const Kernel& k, const MuccTensor* args, int n) noexcept {
  auto body = [&]() -> int64_t {
    if (k.each) {
      std::vector<Call> calls;
      return check_each(k, args, n, check_c, calls) ? -1 : need_of(calls);
    }
    Call c(k);
    return check_c(c, args, n) ? -1 : need_of(c);
  };
  return guarded(k, body, -1);
}

inline int call_each_ffi(const Kernel& k, const ffi::Any* args, int n) {
  std::vector<Call> calls;
  int const own = k.args.size, extra = n % own;  // a workspace after all problems
  if (extra > 1) return fail_count(k, n);
  if (check_each(k, args, n - extra, check_ffi, calls)) return 1;
  Workspace given;
  if (extra > 0 && read_workspace(calls[0], args[n - 1], given)) return 1;
  given.cached = !given.data;
  return run(calls, ffi::current_stream(calls[0].device), given);
}

MUCC_SHARED int call_ffi(const Kernel& k, const ffi::Any* args, int n, ffi::Any* ret) noexcept {
  auto body = [&]() -> int {
    if (k.each) return call_each_ffi(k, args, n);
    Call c(k);
    int own = k.args.size;
    if (n != own && n != own + 1) return fail_count(k, n);
    if (check_ffi(c, args, own)) return 1;
    Workspace given;
    if (n > own && read_workspace(c, args[own], given)) return 1;
    given.cached = !given.data;
    c.stream = ffi::current_stream(c.device);
    return run(c, given);
  };
  if (guarded(k, body, 1)) return ffi::raise();
  *ret = ffi::Any{ffi::kNone, 0, {0}};
  return 0;
}

MUCC_SHARED int workspace_ffi(const Kernel& k, const ffi::Any* args, int n, ffi::Any* ret) noexcept {
  auto body = [&]() -> int64_t {
    if (k.each) {
      std::vector<Call> calls;
      return check_each(k, args, n, check_ffi, calls) ? -1 : need_of(calls);
    }
    Call c(k);
    if (n != k.args.size) return fail_count(k, n), -1;
    return check_ffi(c, args, n) ? -1 : need_of(c);
  };
  int64_t bytes = guarded(k, body, -1);
  if (bytes < 0) return ffi::raise();
  *ret = ffi::Any{ffi::kInt, 0, {bytes}};
  return 0;
}

// The number of the entry that computes a call, of a kernel with several schedules.
MUCC_SHARED int entry_c(const Kernel& k, Entry entry, const MuccTensor* args, int n) noexcept {
  auto body = [&]() -> int {
    Call c(k);
    return check_c(c, args, n) ? -1 : entry(c.dims);
  };
  return guarded(k, body, -1);
}

MUCC_SHARED int entry_ffi(const Kernel& k, Entry entry, const ffi::Any* args, int n, ffi::Any* ret) noexcept {
  auto body = [&]() -> int {
    Call c(k);
    if (n != k.args.size) return fail_count(k, n), -1;
    return check_ffi(c, args, n) ? -1 : entry(c.dims);
  };
  int const found = guarded(k, body, -1);
  if (found < 0) return ffi::raise();
  *ret = ffi::Any{ffi::kInt, 0, {found}};
  return 0;
}

// What a profiler wants to be called before each launch, with the name of the stage and the stream; null for nothing.
using LaunchHook = void (*)(char const* stage, void* stream);
inline std::atomic<LaunchHook> launch_hook{nullptr};

}  // namespace mucc

// The manifest has an ELF section to itself, so that a loader can read it before it runs any code of the file.
#define MUCC_MODULE(...)                                                                                            \
  namespace {                                                                                                       \
  __attribute__((section(".mucc_manifest"), used)) constexpr char mucc_manifest_text[] = __VA_ARGS__;               \
  }                                                                                                                 \
  MUCC_DOOR const char* mucc_manifest(void) { return mucc_manifest_text; }                                          \
  MUCC_DOOR void mucc_on_launch(::mucc::LaunchHook hook) { ::mucc::launch_hook = hook; }                            \
  MUCC_DOOR const char* mucc_last_error(void) { return ::mucc::last_error.text; }
