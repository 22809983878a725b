// Runs what the compiler writes for a program on the host: its host entry and its light kernels as they are, each thread
// of a block as a coroutine. Contractions are stand-ins that on_host's user writes from the problem that a program describes.
#pragma once

#include <cmath>
#include <cstdint>

#define __global__
#define __launch_bounds__(...)
#define __grid_constant__

inline int __float2int_rn(float x) {
  // What is too large becomes the largest integer, and NaN becomes 0: `cvt.rni.s32.f32` of the PTX ISA.
  if (x != x) return 0;
  if (x >= 2147483648.0f) return INT32_MAX;
  return x <= -2147483648.0f ? INT32_MIN : int(std::nearbyint(x));
}

#include "on_host_library.h"
