// Random numbers by counter: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011. mucc/dialects/mu/philox.py has the same in Python.
#pragma once

#include <mucc/math.cuh>
#include <mucc/view.h>

namespace mucc {

struct Words {
  uint32_t of[4];
};

MUCC_DEVICE Words philox(Words x, uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    uint64_t const a = uint64_t(0xD2511F53u) * x.of[0], b = uint64_t(0xCD9E8D57u) * x.of[2];
    x = Words{{uint32_t(b >> 32) ^ x.of[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ x.of[3] ^ key1, uint32_t(a)}};
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
  return x;
}

// A uniform number from 0 to below 1, in steps of 2^-24, for element `index` of a tensor in row-major order. Four
// neighbouring elements share a counter.
MUCC_DEVICE float uniform(uint64_t index, uint32_t seed, uint32_t stream) {
  uint64_t const block = index / 4;
  Words const words = philox(Words{{uint32_t(block), uint32_t(block >> 32), stream, 0}}, seed, 0);
  uint32_t const i = uint32_t(index) % 4;
  uint32_t const word = i < 2 ? (i ? words.of[1] : words.of[0]) : (i == 2 ? words.of[2] : words.of[3]);
  return float(word >> 8) * 0x1p-24f;
}

}  // namespace mucc
