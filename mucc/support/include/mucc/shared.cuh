// Shared memory of a block whose size the launch decides.
#pragma once

#include <mucc/view.cuh>

namespace mucc {

MUCC_DEVICE char* dynamic_shared() {
  extern __shared__ __align__(1024) char dynamic_bytes[];
  return dynamic_bytes;
}

MUCC_DEVICE uint32_t shared_address(void const* at) { return uint32_t(__cvta_generic_to_shared(at)); }

}  // namespace mucc
