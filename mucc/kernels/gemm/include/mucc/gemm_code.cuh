// The entry of a contraction kernel on the device.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>

// The code of a kernel for the device. `NAME` is what it is called in profilers, and what a library finds it by.
#define MUCC_GEMM_CODE(NAME, KERNEL)                                                                                \
  extern "C" __global__ void __launch_bounds__(KERNEL::MaxThreadsPerBlock, KERNEL::MinBlocksPerMultiprocessor)      \
      NAME(CUTLASS_GRID_CONSTANT typename KERNEL::Params const params) {                                            \
    extern __shared__ char mucc_shared[];                                                                           \
    KERNEL kernel;                                                                                                  \
    kernel(params, mucc_shared);                                                                                    \
  }
