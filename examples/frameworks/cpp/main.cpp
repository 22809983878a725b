// A C++ program that calls a mucc kernel through the header that `mucc --emit=header` made.
//
// Memory comes from the CUDA driver, which the program opens itself: it needs no toolkit.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "rms_norm.h"

namespace {

template <typename Function>
Function driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

void check(int status, const char* what) {
  if (status != 0) {
    std::fprintf(stderr, "%s failed with CUDA's error %d\n", what, status);
    std::exit(1);
  }
}

// An array on the GPU, with a copy of its contents.
class Array {
 public:
  explicit Array(std::vector<float>& host) : host_(host) {
    static auto allocate = driver<int (*)(unsigned long long*, size_t)>("cuMemAlloc_v2");
    static auto copy = driver<int (*)(unsigned long long, const void*, size_t)>("cuMemcpyHtoD_v2");
    check(allocate(&address_, bytes()), "cuMemAlloc");
    check(copy(address_, host.data(), bytes()), "cuMemcpyHtoD");
  }
  void fetch() {
    static auto copy = driver<int (*)(void*, unsigned long long, size_t)>("cuMemcpyDtoH_v2");
    check(copy(host_.data(), address_, bytes()), "cuMemcpyDtoH");
  }
  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  size_t bytes() const { return host_.size() * sizeof(float); }
  std::vector<float>& host_;
  unsigned long long address_ = 0;
};

bool start_gpu() {
  auto init = driver<int (*)(unsigned)>("cuInit");
  if (!init || init(0) != 0) return false;
  void* context = nullptr;
  auto retain = driver<int (*)(void**, int)>("cuDevicePrimaryCtxRetain");
  auto use = driver<int (*)(void*)>("cuCtxSetCurrent");
  return retain(&context, 0) == 0 && use(context) == 0;
}

}  // namespace

int main() {
  const int64_t rows = 37, columns = 1000;
  std::vector<float> x(rows * columns), gain(columns), y(rows * columns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < gain.size(); ++i) gain[i] = 1.0f + 0.001f * static_cast<float>(i);
  int64_t matrix[] = {rows, columns}, vector[] = {columns};

  if (!start_gpu()) {
    // Nothing can run here; what the library says of memory that is not the GPU's shows that it was reached.
    MuccTensor args[] = {mucc_tensor(x.data(), MUCC_FLOAT, 32, 2, matrix, 0),
                         mucc_tensor(gain.data(), MUCC_FLOAT, 32, 1, vector, 0),
                         mucc_tensor(y.data(), MUCC_FLOAT, 32, 2, matrix, 0)};
    args[0].device.type = MUCC_DEVICE_CPU;
    const int status = mucc_rms_norm_gain(args, 3, nullptr, 0, nullptr);
    std::printf("no GPU; the library answers %d: %s\n", status, mucc_last_error());
    return 0;
  }
  Array on_x(x), on_gain(gain), on_y(y);
  MuccTensor args[] = {mucc_tensor(on_x.data(), MUCC_FLOAT, 32, 2, matrix, 0),
                       mucc_tensor(on_gain.data(), MUCC_FLOAT, 32, 1, vector, 0),
                       mucc_tensor(on_y.data(), MUCC_FLOAT, 32, 2, matrix, 0)};
  if (mucc_rms_norm_gain(args, 3, nullptr, 0, nullptr) != 0) {
    std::fprintf(stderr, "%s\n", mucc_last_error());
    return 1;
  }
  on_y.fetch();  // waits for the default stream
  double worst = 0;
  for (int64_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < columns; ++j) squares += double(x[i * columns + j]) * x[i * columns + j];
    const double scale = 1 / std::sqrt(squares / columns + 1e-5);
    for (int64_t j = 0; j < columns; ++j)
      worst = std::fmax(worst, std::fabs(y[i * columns + j] - x[i * columns + j] * scale * gain[j]));
  }
  std::printf("%s: largest error %.1e\n", worst < 1e-4 ? "right" : "WRONG", worst);
  return worst < 1e-4 ? 0 : 1;
}
