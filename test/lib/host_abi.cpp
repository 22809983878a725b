// A kernel library without a GPU: its launches record what they got, and CUDA is faked right here.
#include <mucc/host.h>
#include <mucc/memo.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

// What the launches saw, and how the fake CUDA is to behave. Read and written by test_host_abi.py (ctypes).
struct State {
  int64_t launches;
  int64_t dims[4];
  void* pointers[4];
  int64_t strides[4][3];
  double alpha;
  int64_t sm_count;
  int64_t device;
  void* stream;
  void* workspace;
  uint64_t workspace_bytes;
  int64_t memo_hit;
  // knobs
  int64_t need;            // workspace bytes
  int64_t mode;            // launch: 0 good, 1 fails with MU6010, 2 throws, 3 throws an int, 4 a long message, else a CUDA error
  int64_t current_device;
  int64_t capturing;
  int64_t out_of_memory;
  int64_t no_gpu;
  int64_t set_device_calls;
  int64_t mallocs;
};
MUCC_DOOR State state;
State state;

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  if (state.no_gpu) return cudaErrorNoDevice;
  *device = int(state.current_device);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  state.current_device = device;
  ++state.set_device_calls;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) {
  *value = 132 + device;
  return state.no_gpu ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorName"; }
const char* cudaGetErrorString(cudaError_t) { return "what went wrong"; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = state.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (state.out_of_memory) return cudaErrorMemoryAllocation;
  ++state.mallocs;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
}

namespace {

int record(const mucc::Call& c) {
  ++state.launches;
  for (int d = 0; d < c.kernel->dims.size; ++d) state.dims[d] = c.dims[d];
  int tensor = 0;
  for (int i = 0; i < c.kernel->args.size; ++i) {
    const mucc::ArgSpec& spec = c.kernel->args[i];
    if (!mucc::is_tensor(spec)) {
      state.alpha = c.scalar(i);
      continue;
    }
    state.pointers[tensor] = c.data(i);
    for (int a = 0; a < spec.ndim; ++a) state.strides[tensor][a] = c.stride(i, a);
    ++tensor;
  }
  state.sm_count = c.sm_count;
  state.device = c.device;
  state.stream = c.stream;
  state.workspace = c.workspace;
  state.workspace_bytes = c.workspace_bytes;
  static thread_local mucc::Memo<int64_t> memo;
  state.memo_hit = memo.find(c) != nullptr;
  if (!state.memo_hit) memo.store(c, state.launches);
  switch (state.mode) {
    case 0: return 0;
    case 1: return mucc::fail("MU6010", "cannot run %s", "this");
    case 2: throw std::runtime_error("boom");
    case 3: throw 7;
    case 4: return mucc::fail("MU6010", "%s", std::string(5000, 'x').c_str());
    default: return mucc::check_cuda(cudaError_t(state.mode), "launching");
  }
}

// All problems at once: a launch, and the pointers of the last problem.
int record_all(const mucc::Call* calls, int count) {
  int const launches = int(state.launches);
  int const failed = record(calls[count - 1]);
  state.launches = launches + 100 * count;
  return failed;
}

int64_t workspace(const mucc::Call& c) { return c.sm_count > 0 ? state.need : -1; }

namespace linear {
constexpr mucc::ArgSpec args[] = {
    mucc::tensor_in("x", mucc::kBF16, {mucc::dim(0), mucc::dim(2)}, mucc::row_major(), 16),
    mucc::tensor_in("w", mucc::kBF16, {mucc::dim(1), mucc::dim(2)}, mucc::row_major(), 16),
    mucc::scalar_in("alpha", mucc::kF32),
    mucc::tensor_out("y", mucc::kF32, {mucc::dim(0), mucc::dim(1)}, mucc::row_major(), 16)};
constexpr mucc::DimSpec dims[] = {{"M", -1}, {"N", -1}, {"K", -1}};
bool p0(const int64_t* d) { return d[2] % 8 == 0; }
constexpr mucc::Promise promises[] = {{"K % 8 == 0", p0, "TMA needs 16-byte rows of x"}};
}  // namespace linear

// Bound dims, fixed extents, column-major and free strides, a 0-d tensor.
namespace laid {
constexpr mucc::ArgSpec args[] = {
    mucc::tensor_in("c", mucc::kF16, {mucc::dim(0), mucc::dim(1), mucc::fixed(8)}, mucc::col_major(), 16),
    mucc::tensor_in("s", mucc::kF32, {}, mucc::row_major(), 4),
    mucc::tensor_in("v", mucc::kF16, {mucc::dim(0), mucc::dim(1)}, mucc::strides({-1, 1}), 16),
    mucc::tensor_out("y", mucc::kF16, {mucc::dim(0), mucc::dim(1)}, mucc::row_major(), 2)};
constexpr mucc::DimSpec dims[] = {{"B", -1}, {"K", 64}};
}  // namespace laid

namespace thinned {
constexpr mucc::ArgSpec args[] = {
    mucc::tensor_in("w", mucc::kBF16, {mucc::dim(0), mucc::dim(1)}, mucc::sparse(), 16),
    mucc::tensor_out("y", mucc::kBF16, {mucc::dim(0)}, mucc::row_major(), 2)};
constexpr mucc::DimSpec dims[] = {{"N", -1}, {"K", -1}};
}  // namespace thinned

}  // namespace

MUCC_KERNEL(linear, linear::args, linear::dims, linear::promises, record, workspace)
MUCC_KERNEL(laid, laid::args, laid::dims, mucc::none, record, workspace)
MUCC_KERNEL(each_linear, linear::args, linear::dims, linear::promises, record, workspace, true, record_all)
MUCC_KERNEL(each_alone, linear::args, linear::dims, linear::promises, record, workspace, true, nullptr)
MUCC_KERNEL(thinned, thinned::args, thinned::dims, mucc::none, record, workspace)
MUCC_MODULE(MANIFEST)
