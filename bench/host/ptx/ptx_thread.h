// The registers of a thread that runs PTX on the host, and the memory that its instructions name.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace ptx {

// What an instruction cannot do, such as an access that is not aligned.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr uint32_t kWindow = 1 << 18;  // bytes of shared memory that addresses of a block can name

// The shared memory of a block. Its addresses are distances from the start; those of another block of the cluster have the
// block's rank in the upper byte.
struct Block {
  char* shared;
  uint32_t bytes;
};

// Parameters, variables of the module and local memory: what no other launch, or no other thread, reads.
struct OwnMemory {
  char const *begin[8], *end[8];
  int count;
  bool has(char const* at) const {
    for (int i = 0; i < count; ++i)
      if (at >= begin[i] && at < end[i]) return true;
    return false;
  }
};

enum class State : uint8_t { kRuns, kAtWarp, kAtBarrier, kAtCluster, kEnded };

// `r` is behind the constants of the kernel, which have negative numbers.
struct Thread {
  uint64_t* r;
  uint32_t pc;
  State state;
  int index, lane, block;  // in the block, in the warp, among the blocks that run together
  int barrier, cluster_phase;  // where it waits, and the phase of the cluster's barrier in which it arrived
  Block* blocks;
  int block_count;
  OwnMemory const* own_memory;
  uint64_t executed;  // instructions
};

using Operands = int32_t const*;

template <class T>
T get(Thread const& t, int operand) {
  T x;
  std::memcpy(&x, &t.r[operand], sizeof(T));
  return x;
}
template <>
inline bool get<bool>(Thread const& t, int operand) {
  return t.r[operand] & 1;
}

// Integers fill the register: loads and conversions to a wider register extend by the sign of their type.
template <class T>
void put(Thread& t, int operand, T x) {
  if constexpr (std::is_integral_v<T>) {
    t.r[operand] = uint64_t(int64_t(x));
  } else {
    t.r[operand] = 0;
    std::memcpy(&t.r[operand], &x, sizeof(T));
  }
}

enum class Space { kPointer, kShared, kCluster };

// The place that an address means. Raises Error for one beyond shared memory or not aligned to the access.
template <Space kSpace>
char* place(Thread const& t, uint64_t address, uint32_t bytes) {
  if (address % bytes) throw Error("address " + std::to_string(address) + " is not aligned to " + std::to_string(bytes));
  if constexpr (kSpace == Space::kPointer) {
    if (address < 4096) throw Error("address " + std::to_string(address) + " is no pointer");
    return reinterpret_cast<char*>(address);
  } else {
    uint32_t const at = uint32_t(address);
    uint32_t const rank = kSpace == Space::kCluster ? at >> 24 : uint32_t(t.block);
    uint32_t const offset = kSpace == Space::kCluster ? at & 0xffffff : at;
    if (rank >= uint32_t(t.block_count) || offset + bytes > t.blocks[rank].bytes)
      throw Error("shared memory has no " + std::to_string(bytes) + " bytes at " + std::to_string(at));
    return t.blocks[rank].shared + offset;
  }
}

}  // namespace ptx
