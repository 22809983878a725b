// Lets plain g++ compile the host half of CUTLASS kernels. Included before everything else, in place of what nvcc adds.
//
// A host half makes parameter blocks: it never runs device code, but CUTLASS's headers hold device functions beside the
// host's, and g++ must parse them. So the names that nvcc provides are declared here, and defined nowhere: were device
// code used on the host, the library would not link.
//
// What it takes besides: -D__CUDACC_VER_MAJOR__ and -D__CUDACC_VER_MINOR__ as nvcc has them, since CUTLASS decides by them
// which types exist (the parameter block must be laid out as in the device half), -fpermissive, and this directory first
// on the include path: cutlass/arch/wmma.h, which wants types of nvcc's own, is replaced by an empty file.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Special registers.
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;

// Barriers and fences.
void __syncthreads();
int __syncthreads_and(int);
int __syncthreads_or(int);
void __syncwarp(unsigned = 0);
void __threadfence();
void __threadfence_block();

// Exchange between the lanes of a warp.
template <class T>
T __shfl_sync(unsigned, T, int, int = 32);
template <class T>
T __shfl_up_sync(unsigned, T, int, int = 32);
template <class T>
T __shfl_down_sync(unsigned, T, int, int = 32);
template <class T>
T __shfl_xor_sync(unsigned, T, int, int = 32);

// Arithmetic.
unsigned __byte_perm(unsigned, unsigned, unsigned);
int __dp4a(int, int, int);
__half2 __hfma2(__half2, __half2, __half2);

// CUTLASS defines these for device compilations only, but uses them in functions that g++ sees.
namespace cutlass::arch {
inline int LaneId() { return 0; }
inline int SmId() { return 0; }
}  // namespace cutlass::arch
