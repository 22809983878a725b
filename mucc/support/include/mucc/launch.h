// Loads device kernels and launches them, and fills memory: the definitions of what call.h declares.
#pragma once

#include <cuda.h>
#include <mucc/host.h>
#include <mucc/tensor_map.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace mucc {

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

// Calls a function of the CUDA driver by name; 0 for success, otherwise an error is set that says what was being done.
template <class F, class... Arguments>
int call_driver(char const* name, unsigned version, char const* what, Arguments... arguments) {
  static std::atomic<void*> known{nullptr};  // one for each F
  auto* function = driver_function<F>(name, version, known);
  if (!function) return 1;
  CUresult const result = function(arguments...);
  switch (result) {
    case CUDA_SUCCESS: return 0;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
      return fail("MU6017", "%s: this library holds no code for this GPU (driver error %d)", what, int(result));
    default: return fail("MU6016", "%s: the CUDA driver refused with error %d", what, int(result));
  }
}

// The types of the functions in use. They differ, as they must: `call_driver` keeps one address for each type.
struct Driver {
  using LibraryLoadData = CUresult(CUlibrary*, void const*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                                   unsigned);
  using LibraryGetKernel = CUresult(CUkernel*, CUlibrary, char const*);
  using KernelGetFunction = CUresult(CUfunction*, CUkernel);
  using FuncSetAttribute = CUresult(CUfunction, CUfunction_attribute, int);
  using OccupancyMaxActiveClusters = CUresult(int*, CUfunction, CUlaunchConfig const*);
  using TensorMapEncodeTiled = CUresult(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*,
                                        cuuint64_t const*, cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave,
                                        CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  using TensorMapEncodeIm2col = CUresult(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*,
                                         cuuint64_t const*, int const*, int const*, cuuint32_t, cuuint32_t,
                                         cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                         CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  using LaunchKernelEx = CUresult(CUlaunchConfig const*, CUfunction, void**, void**);
};

// The function of a kernel in the current context. The image is loaded once for the process, and finds its way to each
// device when a kernel of it is first asked for there.
inline int find_function(Code& code, CUfunction& function) {
  if (!code.image) {
    cudaFunction_t found = nullptr;
    if (check_cuda(cudaGetFuncBySymbol(&found, code.symbol), "loading the kernel")) return 1;
    function = found;
    return 0;
  }
  static std::mutex mutex;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!code.image->library) {
      CUlibrary library = nullptr;
      if (call_driver<Driver::LibraryLoadData>("cuLibraryLoadData", 12000, "loading the kernel", &library,
                                               code.image->data, nullptr, nullptr, 0u, nullptr, nullptr, 0u))
        return 1;
      code.image->library = library;
    }
  }
  CUkernel kernel = nullptr;
  auto library = static_cast<CUlibrary>(code.image->library);
  return call_driver<Driver::LibraryGetKernel>("cuLibraryGetKernel", 12000, "finding the kernel", &kernel, library,
                                               code.name) ||
         call_driver<Driver::KernelGetFunction>("cuKernelGetFunction", 12000, "loading the kernel", &function, kernel);
}

// The attributes of launches: clusters, programmatic dependent launch, and blocks that run together.
struct LaunchAttributes {
  CUlaunchAttribute all[3] = {};
  unsigned count = 0;

  explicit LaunchAttributes(Geometry const& g) {
    if (g.cluster[0]) {
      auto& cluster = all[count++];
      cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster.value.clusterDim = {g.cluster[0], g.cluster[1], g.cluster[2]};
    }
    if (g.dependent) {
      auto& dependent = all[count++];
      dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      dependent.value.programmaticStreamSerializationAllowed = 1;
    }
    if (g.together) {
      auto& together = all[count++];
      together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      together.value.cooperative = 1;
    }
  }
};

inline CUlaunchConfig launch_config(Geometry const& g, LaunchAttributes& attributes) {
  CUlaunchConfig config{};
  config.gridDimX = g.grid[0], config.gridDimY = g.grid[1], config.gridDimZ = g.grid[2];
  config.blockDimX = g.block, config.blockDimY = 1, config.blockDimZ = 1;
  config.sharedMemBytes = g.shared;
  config.attrs = attributes.all;
  config.numAttrs = attributes.count;
  return config;
}

MUCC_SHARED Loaded const* load(Code& code, int device, Geometry const& geometry) {
  if (device >= kMaxDevices) return fail("MU6018", "device %d: at most %d are known", device, kMaxDevices), nullptr;
  if (auto* ready = __atomic_load_n(&code.known[device], __ATOMIC_ACQUIRE)) return ready;
  DeviceScope scope;
  // The driver's functions want a current context, which the runtime makes when a device is set.
  if (scope.enter(device) || check_cuda(cudaSetDevice(device), "making the tensors' device current")) return nullptr;
  CUfunction function = nullptr;
  if (find_function(code, function)) return nullptr;
  int clusters = 0;
  if (geometry.shared && call_driver<Driver::FuncSetAttribute>(
                             "cuFuncSetAttribute", 9000, "reserving shared memory", function,
                             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(geometry.shared)))
    return nullptr;
  if (geometry.cluster[0]) {
    LaunchAttributes attributes(geometry);
    CUlaunchConfig config = launch_config(geometry, attributes);
    config.gridDimX = geometry.cluster[0], config.gridDimY = geometry.cluster[1], config.gridDimZ = 1;
    if (call_driver<Driver::OccupancyMaxActiveClusters>("cuOccupancyMaxActiveClusters", 11080,
                                                        "counting the clusters that fit", &clusters, function,
                                                        static_cast<CUlaunchConfig const*>(&config)))
      return nullptr;
    if (clusters < 1) return fail("MU6010", "a cluster of this kernel does not fit the device"), nullptr;
  }
  auto* made = new Loaded{function, clusters};  // kept: calls may come while the process ends
  Loaded const* none = nullptr;
  if (!__atomic_compare_exchange_n(&code.known[device], &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    delete made;
    return none;
  }
  return made;
}

// Launches through the driver: the runtime's cudaLaunchKernelExC takes 1.5 us longer for kernels with clusters.
MUCC_SHARED int start(Call const& c, char const* stage, Code& code, Geometry const& geometry, void** parameters) {
  static std::atomic<void*> known{nullptr};
  auto* launch = driver_function<Driver::LaunchKernelEx>("cuLaunchKernelEx", 11060, known);
  Loaded const* loaded = launch ? load(code, c.device, geometry) : nullptr;
  if (!loaded) return 1;
  if (LaunchHook hook = launch_hook.load(std::memory_order_relaxed)) hook(stage, c.stream);
  LaunchAttributes attributes(geometry);
  CUlaunchConfig config = launch_config(geometry, attributes);
  config.hStream = stream_of(c);
  auto function = static_cast<CUfunction>(loaded->function);
  CUresult result = launch(&config, function, parameters, nullptr);
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    // A thread that has not used CUDA yet has no context until a device is set.
    if (check_cuda(cudaSetDevice(c.device), "making the tensors' device current")) return 1;
    result = launch(&config, function, parameters, nullptr);
  }
  if (result == CUDA_SUCCESS) return 0;
  return fail("MU6016", "stage %s: the CUDA driver refused the launch, error %d", stage, int(result));
}

// An index argument as the host sees it: packed, in the order of its axes. Empty where nothing is to be checked.
inline int read_indices(Call const& c, int argument, std::vector<int32_t>& to) {
  char const* wanted = std::getenv("MUCC_CHECK_INDICES");
  if (!wanted || !*wanted || std::strcmp(wanted, "0") == 0) return 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (check_cuda(cudaStreamIsCapturing(stream_of(c), &status), "querying the stream")) return 1;
  if (status != cudaStreamCaptureStatusNone) return 0;
  ArgSpec const& spec = c.kernel->args[argument];
  int64_t count = 1, span = 1, strides[kMaxRank];
  for (int a = 0; a < spec.ndim; ++a) {
    strides[a] = c.stride(argument, a);
    count *= c.extent(argument, a);
    span += (c.extent(argument, a) - 1) * strides[a];
  }
  std::vector<int32_t> all(size_t(span), 0);
  if (check_cuda(cudaMemcpyAsync(all.data(), c.data(argument), size_t(span) * sizeof(int32_t), cudaMemcpyDeviceToHost,
                                 stream_of(c)),
                 "reading indices") ||
      check_cuda(cudaStreamSynchronize(stream_of(c)), "reading indices"))
    return 1;
  to.resize(size_t(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (int a = spec.ndim - 1; a >= 0; --a) {
      at += rest % c.extent(argument, a) * strides[a];
      rest /= c.extent(argument, a);
    }
    to[size_t(i)] = all[size_t(at)];
  }
  return 0;
}

MUCC_SHARED int check_ends(Call const& c, int argument, int64_t rows) {
  std::vector<int32_t> ends;
  if (read_indices(c, argument, ends)) return 1;
  return ends.empty() ? 0 : check_ends(*c.kernel, argument, ends.data(), int64_t(ends.size()), rows);
}

MUCC_SHARED int check_rows(Call const& c, int argument, int64_t rows, bool once) {
  std::vector<int32_t> numbers;
  if (read_indices(c, argument, numbers)) return 1;
  std::vector<char> seen(numbers.empty() || !once ? 0 : size_t(rows), 0);
  return check_rows(*c.kernel, argument, numbers.data(), int64_t(numbers.size()), rows, once, seen.data());
}

// The most axes of a tensor map.
constexpr int kMapped = 5;

inline CUtensorMapDataType data_type(Mapped element) {
  switch (element) {
    case Mapped::kF16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case Mapped::kBf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case Mapped::kByte: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    default: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  }
}

// The extents of a tensor, and its strides in bytes.
struct MappedTensor {
  cuuint64_t sizes[kMapped], bytes[kMapped];

  MappedTensor(Mapped element, int rank, int64_t const* extents, int64_t const* strides) {
    for (int a = 0; a < rank; ++a) {
      sizes[a] = cuuint64_t(extents[a]);
      if (a > 0) bytes[a - 1] = cuuint64_t(strides[a]) * bytes_of(element);
    }
  }
};

inline int map_boxes(void* map, void const* data, Mapped element, int rank, MappedTensor const& tensor,
                     cuuint32_t const* box, CUtensorMapSwizzle swizzle) {
  cuuint32_t const steps[kMapped] = {1, 1, 1, 1, 1};
  return call_driver<Driver::TensorMapEncodeTiled>(
      "cuTensorMapEncodeTiled", 12000, "describing a tensor to TMA", static_cast<CUtensorMap*>(map),
      data_type(element), cuuint32_t(rank), const_cast<void*>(data), tensor.sizes, tensor.bytes, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

MUCC_SHARED int map_tiles(Call const&, void* map, void const* data, Mapped element, int rank, int64_t const* extents,
                          int64_t const* strides, int columns, int rows) {
  cuuint32_t const box[kMapped] = {unsigned(columns), unsigned(rows), 1, 1, 1};
  return map_boxes(map, data, element, rank, {element, rank, extents, strides}, box, CU_TENSOR_MAP_SWIZZLE_128B);
}

MUCC_SHARED int map_boxes(Call const&, void* map, void const* data, Mapped element, int rank, int64_t const* extents,
                          int64_t const* strides, int const* box) {
  cuuint32_t sizes[kMapped];
  for (int a = 0; a < rank; ++a) sizes[a] = unsigned(box[a]);
  return map_boxes(map, data, element, rank, {element, rank, extents, strides}, sizes, CU_TENSOR_MAP_SWIZZLE_NONE);
}

MUCC_SHARED int map_positions(Call const&, void* map, void const* data, Mapped element, int rank, int64_t const* extents,
                              int64_t const* strides, int const* lower, int const* upper, int const* steps, int columns,
                              int rows) {
  MappedTensor const tensor(element, rank, extents, strides);
  cuuint32_t moves[kMapped];
  for (int a = 0; a < rank; ++a) moves[a] = a == 0 || a == rank - 1 ? 1 : unsigned(steps[a - 1]);
  return call_driver<Driver::TensorMapEncodeIm2col>(
      "cuTensorMapEncodeIm2col", 12000, "describing a tensor to TMA", static_cast<CUtensorMap*>(map),
      data_type(element), cuuint32_t(rank), const_cast<void*>(data), tensor.sizes, tensor.bytes, lower, upper,
      cuuint32_t(columns), cuuint32_t(rows), moves, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

MUCC_SHARED int fill(Call const& c, float* data, float value, int64_t count, int64_t rows, int64_t pitch) {
  using Fill = CUresult(CUdeviceptr, unsigned, size_t, CUstream);
  using Fill2D = CUresult(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
  unsigned word;
  std::memcpy(&word, &value, sizeof(word));
  auto to = reinterpret_cast<CUdeviceptr>(data);
  char const* what = "filling the output of a reduction";
  if (rows == 1 || pitch == count)
    return call_driver<Fill>("cuMemsetD32Async", 3020, what, to, word, size_t(count * rows), stream_of(c));
  return call_driver<Fill2D>("cuMemsetD2D32Async", 3020, what, to, size_t(pitch) * sizeof(float), word, size_t(count),
                             size_t(rows), stream_of(c));
}

}  // namespace mucc
