/* The C types of a mucc kernel library. Plain C99, also valid C++; needs no other mucc header.
 *
 * MuccTensor has the memory layout of DLPack's DLTensor, so a DLTensor* may be passed as it is. */
#ifndef MUCC_ABI_H_
#define MUCC_ABI_H_

#include <stddef.h>
#include <stdint.h>

#define MUCC_ABI_VERSION 1

/* Workspace pointers must be aligned to this many bytes (cudaMalloc's are). */
#define MUCC_WORKSPACE_ALIGNMENT 256

enum { MUCC_DEVICE_CPU = 1, MUCC_DEVICE_CUDA = 2, MUCC_DEVICE_CUDA_MANAGED = 13 };

/* Type codes: s8 and s32 are MUCC_INT of 8 and 32 bits, u8 is MUCC_UINT of 8 bits; f16, f32 and f64 are MUCC_FLOAT of
 * 16, 32 and 64 bits; bf16 is MUCC_BFLOAT of 16 bits; e4m3 and e5m2 are MUCC_E4M3 and MUCC_E5M2 of 8 bits. */
enum {
  MUCC_INT = 0,
  MUCC_UINT = 1,
  MUCC_FLOAT = 2,
  MUCC_BFLOAT = 4,
  MUCC_BOOL = 6,
  MUCC_E4M3 = 10,
  MUCC_E5M2 = 12
};

typedef struct MuccDevice {
  int32_t type;
  int32_t id;
} MuccDevice;

typedef struct MuccDType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* always 1 */
} MuccDType;

typedef struct MuccTensor {
  void* data;
  MuccDevice device;
  int32_t ndim;
  MuccDType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL means contiguous row-major */
  uint64_t byte_offset;
} MuccTensor;

/* A contiguous tensor on CUDA device `device`; `shape` must outlive the call that it is passed to. */
static inline MuccTensor mucc_tensor(void* data, uint8_t code, uint8_t bits, int32_t ndim, int64_t* shape,
                                     int32_t device) {
  MuccTensor t;
  t.data = data;
  t.device.type = MUCC_DEVICE_CUDA;
  t.device.id = device;
  t.ndim = ndim;
  t.dtype.code = code;
  t.dtype.bits = bits;
  t.dtype.lanes = 1;
  t.shape = shape;
  t.strides = NULL;
  t.byte_offset = 0;
  return t;
}

/* A run-time scalar, passed by value: `value` must outlive the call only. */
static inline MuccTensor mucc_scalar(float* value) {
  MuccTensor t = mucc_tensor(value, MUCC_FLOAT, 32, 0, NULL, 0);
  t.device.type = MUCC_DEVICE_CPU;
  return t;
}

#endif /* MUCC_ABI_H_ */
