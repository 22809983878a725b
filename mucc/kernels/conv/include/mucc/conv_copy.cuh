// Copies to shared memory that threads do not wait for.
#pragma once

#include <mucc/view.cuh>

namespace mucc::conv {

// Copies 16 bytes to shared memory, or zeros. `commit` ends a group of copies; `wait` returns when all but the last
// kPending groups have arrived.
MUCC_DEVICE void copy_piece(char* to, void const* from, bool present) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(uint32_t(__cvta_generic_to_shared(to))), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
#else
  for (int i = 0; i < 16; ++i) to[i] = present ? static_cast<char const*>(from)[i] : 0;
#endif
}
MUCC_DEVICE void commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kPending>
MUCC_DEVICE void wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace mucc::conv
