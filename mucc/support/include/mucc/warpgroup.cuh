// What kernels of Hopper's warpgroups are made of: barriers in shared memory, copies by tensor maps, and what goes around
// `wgmma`, whose instructions the compiler writes.
#pragma once

#include <mucc/cluster.cuh>
#include <mucc/shared.cuh>
#include <mucc/tensor_map.h>

namespace mucc {

// ---- barriers and copies ------------------------------------------------------------------------------------

MUCC_DEVICE void start_barrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
MUCC_DEVICE void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
MUCC_DEVICE void arrive_and_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
MUCC_DEVICE void await(uint32_t barrier, int parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "AGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra AGAIN;\n"
      "DONE:}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

template <int kRank>
MUCC_DEVICE void copy_tile(uint32_t to, TensorMap const& map, uint32_t barrier, int element, int row,
                           int const (&leading)[3]) {
  if constexpr (kRank == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(element), "r"(row)
        : "memory");
  else if constexpr (kRank == 3)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
            to),
        "l"(&map), "r"(barrier), "r"(element), "r"(row), "r"(leading[0])
        : "memory");
  else if constexpr (kRank == 4)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
        "[%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(element), "r"(row), "r"(leading[0]), "r"(leading[1])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
        "[%2];" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(element), "r"(row), "r"(leading[0]), "r"(leading[1]), "r"(leading[2])
        : "memory");
}

// Copies positions of a tensor with `kAxes` spatial axes, innermost first: those from `first` of element `batch` on, each
// moved by `tap`.
template <int kAxes>
MUCC_DEVICE void copy_positions(uint32_t to, TensorMap const& map, uint32_t barrier, int channel, int const (&first)[3],
                                int batch, uint16_t const (&tap)[3]) {
  if constexpr (kAxes == 1)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2], "
        "{%6};" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(channel), "r"(first[0]), "r"(batch), "h"(tap[0])
        : "memory");
  else if constexpr (kAxes == 2)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
        "[%2], {%7, %8};" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(channel), "r"(first[0]), "r"(first[1]), "r"(batch), "h"(tap[0]), "h"(tap[1])
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
        "l"(&map), "r"(barrier), "r"(channel), "r"(first[0]), "r"(first[1]), "r"(first[2]), "r"(batch), "h"(tap[0]),
        "h"(tap[1]), "h"(tap[2])
        : "memory");
}

MUCC_DEVICE void prefetch(TensorMap const& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Makes barriers that this thread started known to TMA.
MUCC_DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// ---- threads --------------------------------------------------------------------------------------------------

// Two warpgroups meet at barrier 1 or higher of their block, or arrive there without waiting.
MUCC_DEVICE void sync_groups(int barrier) { asm volatile("bar.sync %0, 256;" ::"r"(barrier) : "memory"); }
MUCC_DEVICE void arrive_groups(int barrier) { asm volatile("bar.arrive %0, 256;" ::"r"(barrier) : "memory"); }

template <int kRegisters>
MUCC_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
MUCC_DEVICE void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- products -----------------------------------------------------------------------------------------------

MUCC_DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MUCC_DEVICE void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
MUCC_DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Keeps the compiler from moving what is done to these registers past a product.
template <int kCount>
MUCC_DEVICE void hold(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

// Shared memory as wgmma reads it: chunks of 64 elements, whose rows are 128 bytes apart and swizzled as tensor maps of
// that width do it. `next` is how far chunks are apart where the rows are those that are added up.
MUCC_DEVICE uint64_t described(uint32_t at, int next) {
  return uint64_t(at >> 4 & 0x3fff) | uint64_t(next >> 4) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

// Steps of the ring of stages, and the parity of their barriers.
template <int kStages>
struct Ring {
  int place = 0, parity = 0;
  MUCC_DEVICE void advance() {
    if (++place == kStages) place = 0, parity ^= 1;
  }
};

}  // namespace mucc
