// Where the outputs of a convolution lie in the space of its results.
#pragma once

#include <mucc/conv.h>
#include <mucc/view.cuh>

namespace mucc::conv {

// The position of an output: channels are axis Work::kChannelAxis of the space, the spatial axes keep their order.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int64_t> place_of(int64_t batch, int64_t output, int64_t const (&at)[3]) {
  static constexpr int kFirst = Work::kChannelAxis == 1 ? 2 : 1;
  Position<Work::kRank, int64_t> p;
  p.at[0] = batch;
  p.at[Work::kChannelAxis] = output;
#pragma unroll
  for (int a = 0; a < Work::kRank - 2; ++a) p.at[kFirst + a] = at[a + 5 - Work::kRank];
  return p;
}

}  // namespace mucc::conv
