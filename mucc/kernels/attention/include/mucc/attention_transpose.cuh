// Values of e4m3 and f32 are transposed in memory before kernels on wgmma multiply them (attention.h says why).
#pragma once

#include <mucc/attention.cuh>

namespace mucc::attention {

// Where a key lies among 16 whose values are transposed, or among 8 of f32 (attention.h).
template <class T>
MUCC_BOTH constexpr int turned_place(int key) {
  if constexpr (sizeof(T) == 4) return key & ~7 | (key & 1) << 2 | (key & 6) >> 1;
  return key & ~15 | (key & 6) << 1 | (key >> 3 & 1) << 1 | key & 1;
}

// Returns the first value of the matrix of a number, which counts all matrices of the leading axes.
template <class T, class Work>
MUCC_DEVICE T const* matrix_of_values(Work const& work, unsigned index) {
  auto const* from = reinterpret_cast<T const*>(work.value.data);
  if constexpr (Work::kBatch > 0) {
#pragma unroll
    for (int a = Work::kBatch - 1; a >= 0; --a) {
      unsigned const extent = unsigned(work.value.leading[a].extent), rest = index / extent;
      from += (index - rest * extent) * work.value.leading[a].stride;
      index = rest;
    }
  }
  return from;
}

// Transposes the values of `kTurnedKeys` keys of one matrix: for each element of a row, those of `pitch` keys follow each
// other, zeros for keys that do not exist.
template <class Work>
MUCC_DEVICE void turn_values(Work const& work, float* to, int64_t pitch) {
  constexpr int kElements = Work::kResultWidth, kPitch = kTurnPitch<float>;
  unsigned const blocks = unsigned(pitch / kTurnedKeys);
  int64_t const first = int64_t(blockIdx.x % blocks) * kTurnedKeys;
  to += int64_t(blockIdx.x / blocks) * kElements * pitch + first;
  float const* const from = matrix_of_values<float>(work, blockIdx.x / blocks);
  float* const turned = reinterpret_cast<float*>(dynamic_shared());
#pragma unroll 8
  for (int i = threadIdx.x; i < kTurnedKeys * kElements; i += kTurnThreads) {
    int const key = i / kElements, e = i % kElements;
    bool const exists = first + key < work.value.count;
    turned[e * kPitch + turned_place<float>(key)] = exists ? from[(first + key) * work.value.row + e * work.value.step] : 0.0f;
  }
  __syncthreads();
#pragma unroll 8
  for (int i = threadIdx.x; i < kTurnedKeys * kElements; i += kTurnThreads)
    to[i / kTurnedKeys * pitch + i % kTurnedKeys] = turned[i / kTurnedKeys * kPitch + i % kTurnedKeys];
}
template <class Work>
MUCC_DEVICE void turn_values(Work const& work, unsigned char* to, int64_t pitch) {
  constexpr int kElements = Work::kResultWidth, kPitch = kTurnPitch<e4m3>;
  unsigned const blocks = unsigned(pitch / kTurnedKeys);
  auto const* const from = matrix_of_values<unsigned char>(work, blockIdx.x / blocks);
  int64_t const first = int64_t(blockIdx.x % blocks) * kTurnedKeys;
  to += int64_t(blockIdx.x / blocks) * kElements * pitch + first;
  auto* const turned = reinterpret_cast<unsigned char*>(dynamic_shared());
  bool words = kElements % 4 == 0 && work.value.step == 1 && work.value.row % 4 == 0 && reinterpret_cast<uint64_t>(from) % 4 == 0;
  if (words) {
    constexpr int kWords = kElements / 4 > 0 ? kElements / 4 : 1;
    // A thread transposes four elements of the four keys that follow each other afterwards.
#pragma unroll 4
    for (int i = threadIdx.x; i < kTurnedKeys / 4 * kWords; i += kTurnThreads) {
      int const place = i / kWords * 4, e = i % kWords * 4, key = place & ~15 | (place & 12) >> 1;
      uint32_t given[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int64_t const row = first + key + j % 2 + j / 2 * 8;
        given[j] = row < work.value.count ? *reinterpret_cast<uint32_t const*>(from + row * work.value.row + e) : 0;
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t word = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) word |= (given[j] >> 8 * k & 255) << 8 * j;
        *reinterpret_cast<uint32_t*>(turned + (e + k) * kPitch + place) = word;
      }
    }
  } else {
    for (int i = threadIdx.x; i < kTurnedKeys * kElements; i += kTurnThreads) {
      int const key = i / kElements, e = i % kElements;
      bool const exists = first + key < work.value.count;
      turned[e * kPitch + turned_place<e4m3>(key)] = exists ? from[(first + key) * work.value.row + e * work.value.step] : 0;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kElements * (kTurnedKeys / 4); i += kTurnThreads) {
    int const e = i / (kTurnedKeys / 4), at = i % (kTurnedKeys / 4) * 4;
    *reinterpret_cast<uint32_t*>(to + e * pitch + at) = *reinterpret_cast<uint32_t const*>(turned + e * kPitch + at);
  }
}

}  // namespace mucc::attention
