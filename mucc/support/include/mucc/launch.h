// What the launches of all kinds of device kernels share: places in the workspace, fills.
#pragma once

#include <cuda.h>
#include <mucc/host.h>

#include <cstring>

namespace mucc {

// Bytes of workspace rounded up, so that what follows is aligned too.
constexpr int64_t aligned(int64_t bytes) {
  return (bytes + MUCC_WORKSPACE_ALIGNMENT - 1) / MUCC_WORKSPACE_ALIGNMENT * MUCC_WORKSPACE_ALIGNMENT;
}

// A place in the workspace, `offset` bytes from its start.
template <class T = void>
T* at(Call const& c, int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(c.workspace) + offset);
}

inline cudaStream_t stream_of(Call const& c) { return static_cast<cudaStream_t>(c.stream); }

// A function of the CUDA driver by name, as CUDA `version` has it, so that the library needs no -lcuda. Null and an
// error where there is none.
template <class F>
F* driver_function(char const* name, unsigned version, std::atomic<void*>& known) {
  void* entry = known.load(std::memory_order_relaxed);
  if (entry) return reinterpret_cast<F*>(entry);
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  if (check_cuda(cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &status), name))
    return nullptr;
  if (!entry) return fail("MU6018", "the driver has no %s", name), nullptr;
  known.store(entry, std::memory_order_relaxed);
  return reinterpret_cast<F*>(entry);
}

// Sets `rows` vectors of `count` floats, `pitch` floats apart, to one value, in stream order and without a kernel.
inline int fill(Call const& c, float* data, float value, int64_t count, int64_t rows = 1, int64_t pitch = 0) {
  using Fill = CUresult(CUdeviceptr, unsigned, size_t, CUstream);
  using Fill2D = CUresult(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
  static std::atomic<void*> flat{nullptr}, pitched{nullptr};
  unsigned word;
  std::memcpy(&word, &value, sizeof(word));
  CUdeviceptr to = reinterpret_cast<CUdeviceptr>(data);
  CUresult result;
  if (rows == 1 || pitch == count) {
    auto* set = driver_function<Fill>("cuMemsetD32Async", 3020, flat);
    if (!set) return 1;
    result = set(to, word, size_t(count * rows), stream_of(c));
  } else {
    auto* set = driver_function<Fill2D>("cuMemsetD2D32Async", 3020, pitched);
    if (!set) return 1;
    result = set(to, size_t(pitch) * sizeof(float), word, size_t(count), size_t(rows), stream_of(c));
  }
  if (result == CUDA_SUCCESS) return 0;
  return fail("MU6016", "%s: starting a reduction: the CUDA driver refused to fill its output, error %d",
              c.kernel->name, int(result));
}

}  // namespace mucc
