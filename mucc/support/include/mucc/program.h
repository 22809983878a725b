// What the code that the compiler writes for a program stands on: calls, problems, and the three doors of a library.
//
//   int      mucc_<k>(args, n, workspace, bytes, stream)      plain C; 0, or non-zero and mucc_last_error()
//   int64_t  mucc_<k>_workspace(args, n)                      bytes that this call needs, or -1 and an error
//   int      __tvm_ffi_<k>(…), __tvm_ffi_<k>_workspace(…)     tvm-ffi's C convention, loaded by any DLPack framework
//
// The compiler writes the tables of spec.h and two functions, and then
//
//   MUCC_KERNEL(linear_gelu, args, dims, promises, launch, workspace)   // at file scope, once per kernel
//
// `launch` and `workspace` get a checked `mucc::Call`. An empty table is `mucc::none`. A kernel for lists of problems
// adds `true` and a function that launches all of them, or null; it takes the arguments of one problem after the other,
// as many as the caller likes. Compile with
// -fvisibility=hidden: the doors are exported, nothing else is.
#pragma once

#include <mucc/call.h>
#include <mucc/identity.h>

#define MUCC_DOOR extern "C" __attribute__((visibility("default")))

namespace mucc {
namespace ffi {

// TVMFFIAny: a tagged 64-bit value.
struct Any {
  int32_t type;
  uint32_t padding;
  union {
    int64_t as_int;
    double as_float;
    void* as_pointer;
  };
};
static_assert(sizeof(Any) == 16, "TVMFFIAny is 16 bytes");

}  // namespace ffi

int call_c(const Kernel& k, const MuccTensor* args, int n, void* workspace, size_t bytes, void* stream) noexcept;
int64_t workspace_c(const Kernel& k, const MuccTensor* args, int n) noexcept;
int call_ffi(const Kernel& k, const ffi::Any* args, int n, ffi::Any* ret) noexcept;
int workspace_ffi(const Kernel& k, const ffi::Any* args, int n, ffi::Any* ret) noexcept;

using Entry = int (*)(const int64_t* dims);
int entry_c(const Kernel& k, Entry entry, const MuccTensor* args, int n) noexcept;
int entry_ffi(const Kernel& k, Entry entry, const ffi::Any* args, int n, ffi::Any* ret) noexcept;

}  // namespace mucc

// A kernel with several schedules has one more door: the number of the entry that computes a call, or -1 and an error.
// `int entry(const int64_t* dims)` chooses it.
#define MUCC_ENTRIES(NAME, ENTRY)                                                                                   \
  MUCC_DOOR int mucc_##NAME##_entry(const MuccTensor* args, int n) {                                                \
    return ::mucc::entry_c(mucc_kernel_##NAME, ENTRY, args, n);                                                     \
  }                                                                                                                 \
  MUCC_DOOR int __tvm_ffi_##NAME##_entry(void*, const ::mucc::ffi::Any* args, int32_t n, ::mucc::ffi::Any* ret) {   \
    return ::mucc::entry_ffi(mucc_kernel_##NAME, ENTRY, args, n, ret);                                              \
  }

#define MUCC_KERNEL(NAME, ARGS, DIMS, PROMISES, LAUNCH, ...)                                                        \
  namespace {                                                                                                       \
  constexpr ::mucc::Kernel mucc_kernel_##NAME{#NAME, ARGS, DIMS, PROMISES, LAUNCH, __VA_ARGS__};                    \
  static_assert(mucc_kernel_##NAME.args.size <= ::mucc::kMaxArgs, "too many arguments");                            \
  static_assert(mucc_kernel_##NAME.dims.size <= ::mucc::kMaxDims, "too many dims");                                 \
  }                                                                                                                 \
  MUCC_DOOR int mucc_##NAME(const MuccTensor* args, int n, void* workspace, size_t bytes, void* stream) {           \
    return ::mucc::call_c(mucc_kernel_##NAME, args, n, workspace, bytes, stream);                                   \
  }                                                                                                                 \
  MUCC_DOOR int64_t mucc_##NAME##_workspace(const MuccTensor* args, int n) {                                        \
    return ::mucc::workspace_c(mucc_kernel_##NAME, args, n);                                                        \
  }                                                                                                                 \
  MUCC_DOOR int __tvm_ffi_##NAME(void*, const ::mucc::ffi::Any* args, int32_t n, ::mucc::ffi::Any* ret) {           \
    return ::mucc::call_ffi(mucc_kernel_##NAME, args, n, ret);                                                      \
  }                                                                                                                 \
  MUCC_DOOR int __tvm_ffi_##NAME##_workspace(void*, const ::mucc::ffi::Any* args, int32_t n,                        \
                                             ::mucc::ffi::Any* ret) {                                               \
    return ::mucc::workspace_ffi(mucc_kernel_##NAME, args, n, ret);                                                 \
  }
