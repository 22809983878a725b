// Prints the parameter block of a skeleton in hexadecimal, without a GPU: what CUTLASS asks of CUDA is answered here.
//
// Bytes that nobody sets (padding) come out as "..": the block is made twice, over memory filled in different ways.
#include <mucc/problem.h>

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" mucc::gemm::Skeleton const SKELETON;

namespace {

// Stands for cuTensorMapEncodeTiled: every byte of the map depends on every argument.
CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, cuuint64_t const* dims,
                cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const* steps,
                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                CUtensorMapFloatOOBfill fill) {
  uint64_t state = 0xcbf29ce484222325;
  auto take = [&](uint64_t x) { state = (state ^ x) * 0x100000001b3; };
  take(type), take(rank), take(reinterpret_cast<uint64_t>(address));
  for (unsigned i = 0; i < rank; ++i) take(dims[i]), take(box[i]), take(steps[i]);
  for (unsigned i = 0; i + 1 < rank; ++i) take(strides[i]);
  take(interleave), take(swizzle), take(promotion), take(fill);
  for (auto& word : map->opaque) take(1), word = state;
  return CUDA_SUCCESS;
}

int describe(mucc::Call const&, mucc::gemm::Problem& p) {
  auto at = [](uintptr_t address) { return reinterpret_cast<void*>(address << 20); };
  p.m = 1000, p.n = 2048, p.k = 512, p.batch = BATCH;
  p.batched = BATCH > 1;
  p.a = {at(1), {8192, 4096, 1 << 20}};
  p.b = {at(2), {8448, 4352, 1 << 21}};
  p.c = {at(3), {8704, 4608, 1 << 22}};
  p.d = {at(4), {8960, 4864, 1 << 23}};
  for (int i = 0; i < 16; ++i) p.extra[i] = {at(5 + i), {9216 + 16 * i, 5120 + 16 * i, 1 << 22}, 0.5f + i};
  p.swizzle = 2, p.raster = mucc::gemm::Raster::kAlongN, p.splits = 3;
  return 0;
}

__attribute__((noinline)) void dirty(int byte) {
  volatile char stack[1 << 16];
  for (char volatile& c : stack) c = char(byte);
}

}  // namespace

// What the rest of a library would define.
namespace mucc {
int fail(char const* code, char const* format, ...) {
  va_list list;
  va_start(list, format);
  std::printf("%s: ", code), std::vprintf(format, list);
  va_end(list);
  return 1;
}
Loaded const* load(Code&, int, Geometry const&) {
  static Loaded const loaded{nullptr, 66};
  return &loaded;
}
int start(Call const&, char const*, Code&, Geometry const&, void**) { return 1; }
}  // namespace mucc

// And CUDA.
extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(char const*, void** entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *entry = reinterpret_cast<void*>(encode);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 132, cudaSuccess; }
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
char const* cudaGetErrorString(cudaError_t) { return ""; }
// An object of nvcc's registers its device code, of which there is none here.
void** __cudaRegisterFatBinary(void*) { return nullptr; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, char const*, int, size_t, int, int) {}
void __cudaInitModule(void**) {}
}

int main() {
  static constexpr mucc::Kernel kernel{"test", mucc::none, mucc::none, mucc::none, nullptr, nullptr};
  mucc::Call call(kernel);
  call.device = 0, call.sm_count = 132;
  mucc::Code code{};
  mucc::gemm::Stage const stage{"out", &SKELETON, &code, describe};
  auto* workspace = reinterpret_cast<void*>(uintptr_t(99) << 20);
  std::vector<unsigned char> blocks[2];
  for (int i = 0; i < 2; ++i) {
    blocks[i].resize(SKELETON.parameter_bytes);
    dirty(i ? 0x55 : 0xaa);
    if (SKELETON.parameters(call, stage, workspace, blocks[i].data())) return 1;
  }
  for (size_t i = 0; i < blocks[0].size(); ++i)
    blocks[0][i] == blocks[1][i] ? std::printf("%02x", blocks[0][i]) : std::printf("..");
}
