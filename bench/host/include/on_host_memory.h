// The memory of a launch, and checks of what device threads access in it.
//
// A library that is compiled with ON_HOST_CHECKS and g++'s -fsanitize=thread,bounds,alignment, whose functions are defined in
// on_host_checks.h, reports accesses outside of tensors, of the workspace and of the shared memory of a block, misaligned ones,
// and races. Any library fills shared memory with 0xFF before a block starts, which are NaN.
#pragma once

#include <link.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define ON_HOST_QUIET __attribute__((no_sanitize("thread", "bounds", "alignment")))
#define __shared__ static thread_local  // so that what blocks share lies in one place: a thread of the host runs them all

struct Index3 {
  unsigned x, y, z;
};
static Index3 threadIdx, blockIdx, gridDim;

namespace on_host {

constexpr int kMost = 4096, kStack = 1 << 16;

// The blocks of a launch run together, or one by one: the threads of each follow those of the one before.
constexpr int kTogether = 8;
inline int present = 0, block = 0;  // threads of a block, the block that goes on
ON_HOST_QUIET inline int self() { return block * present + int(threadIdx.x); }

inline std::unique_ptr<char[]> const memory_of_stacks{new char[size_t(kMost) * kStack]};
inline char* const stacks = memory_of_stacks.get();
inline char* stack(int t) { return stacks + size_t(t) * kStack; }

// Shared memory that a launch asks for is named by the distance from its start.
constexpr size_t kShared = 1 << 18;
alignas(1024) inline char dynamic[kTogether][kShared];

inline bool on_device = false;  // a device thread is running, and not the code around it

// ---- shared memory that a kernel declares -----------------------------------------------------------------------

inline char* statics = nullptr;
inline size_t statics_bytes = 0;
inline std::vector<char> kept_statics[kTogether];
inline int statics_of = 0;  // the block whose they are

inline char* image = nullptr;  // this library, with its variables and constants
inline size_t image_bytes = 0;

inline int find_statics(dl_phdr_info* info, size_t, void* anchor) {
  char* const data = static_cast<char*>(info->dlpi_tls_data);
  for (int i = 0; data && i < info->dlpi_phnum; ++i) {
    size_t const bytes = info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type != PT_TLS || size_t(static_cast<char*>(anchor) - data) >= bytes) continue;
    statics = data, statics_bytes = bytes;
    image = reinterpret_cast<char*>(info->dlpi_addr);
    for (int k = 0; k < info->dlpi_phnum; ++k)
      if (info->dlpi_phdr[k].p_type == PT_LOAD)
        image_bytes = std::max(image_bytes, size_t(info->dlpi_phdr[k].p_vaddr + info->dlpi_phdr[k].p_memsz));
    return 1;
  }
  return 0;
}

// Gives a block its own shared memory where several blocks run together.
inline void take_statics(int next) {
  if (next == statics_of) return;
  std::memcpy(kept_statics[statics_of].data(), statics, statics_bytes);
  std::memcpy(statics, kept_statics[next].data(), statics_bytes);
  statics_of = next;
}
inline void begin_statics(int blocks) {
  static thread_local char anchor;
  if (!statics) dl_iterate_phdr(find_statics, &anchor);
  if (!statics) std::abort();
  std::memset(statics, 0xFF, statics_bytes);
  statics_of = 0;
  for (int b = 0; blocks > 1 && b < blocks; ++b) kept_statics[b].assign(statics_bytes, char(0xFF));
}

}  // namespace on_host

#if defined(ON_HOST_CHECKS)
#include "on_host_checks.h"
#else
namespace on_host {

// Where threads meet: what each has done before is seen by all behind it.
struct Meeting {};
inline Meeting of_cluster, of_block[kTogether], of_warp[kMost / 32], of_named[kTogether][16];
inline Meeting& of_barrier(uint32_t) { return of_cluster; }
inline void release(Meeting&, int) {}
inline void acquire(Meeting&, int) {}
inline void add_region(void const*, size_t, int) {}
inline void drop_regions() {}
inline void begin_checks(int, unsigned) {}
inline void end_checks(int) {}
inline void name_launch(char const*, void const*) {}
inline void report(void const*, char const*) {}
inline void touch(void const*, size_t, bool) {}
inline void intend_to_write(void const*, size_t) {}
inline void copied_by_engine(uint32_t, int, void const*, size_t) {}
inline void read_by_products(void const*, size_t) {}
inline void commit_products() {}
inline void retire_products(int) {}
inline void see_products() {}
struct Quiet {
  ~Quiet() {}
};

}  // namespace on_host
#endif
