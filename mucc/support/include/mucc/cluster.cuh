// Blocks of a cluster, which read each other's shared memory.
#pragma once

#include <mucc/view.cuh>

namespace mucc {

// All threads of all blocks of a cluster meet, and see what the others wrote to shared memory.
MUCC_DEVICE void sync_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// The address in the cluster of what lies at `at` in the shared memory of a block, and a number there.
MUCC_DEVICE uint32_t shared_of(uint32_t at, int block) {
  uint32_t found;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(at), "r"(block));
  return found;
}
template <int kCount>
MUCC_DEVICE void load_shared_of(float (&x)[kCount], uint32_t at) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4, "whole vectors");
  if constexpr (kCount == 4)
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "r"(at));
  else if constexpr (kCount == 2)
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(at));
  else
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x[0]) : "r"(at));
}

}  // namespace mucc
