// The geometry of convolutions: what the host fills in and kernels of conv.cuh, conv_wgmma.cuh and conv_direct.cuh follow.
#pragma once

#include <mucc/tensor_map.h>

namespace mucc::conv {

// Formats in which factors are multiplied; sums are f32.
struct Bf16 {
  static constexpr int kParts = 1;
  static constexpr bool kTensor = true, kRounds = false;  // tensor cores multiply, factors are rounded before
};
struct F16 : Bf16 {};
struct Tf32 : Bf16 {
  static constexpr bool kRounds = true;
};
// Each factor as the sum of two of tf32, of whose four products the smallest is left out.
struct Tf32x3 : Tf32 {
  static constexpr int kParts = 2;
};
struct F32 : Bf16 {
  static constexpr bool kTensor = false;
};

// A window along one spatial axis.
template <int kSize_, int kStride_, int kPad_, int kDilation_>
struct Window {
  static constexpr int kSize = kSize_, kStride = kStride_, kPad = kPad_, kDilation = kDilation_;
};

// The windows of three spatial axes; an axis that the program does not have is one of extent 1 with a window of 1.
// With kTransposed_ each element of x is spread over a window of outputs.
template <bool kTransposed_, class A, class B, class C>
struct Windows {
  static constexpr bool kTransposed = kTransposed_;
  static constexpr int kTaps = A::kSize * B::kSize * C::kSize;
  static constexpr int kClasses = kTransposed ? A::kStride * B::kStride * C::kStride : 1;
  MUCC_BOTH static constexpr int size(int a) { return a == 0 ? A::kSize : a == 1 ? B::kSize : C::kSize; }
  MUCC_BOTH static constexpr int stride(int a) { return a == 0 ? A::kStride : a == 1 ? B::kStride : C::kStride; }
  MUCC_BOTH static constexpr int pad(int a) { return a == 0 ? A::kPad : a == 1 ? B::kPad : C::kPad; }
  MUCC_BOTH static constexpr int dilation(int a) {
    return a == 0 ? A::kDilation : a == 1 ? B::kDilation : C::kDilation;
  }
};

// Outputs of one axis that see the same taps: output j of them is element first_out + j * out_step of the result. Its
// tap i is element first_tap + i * tap_step of the window, and reads element j * in_step + first_in + i * in_move of x.
struct Axis {
  int64_t outs;
  int first_out, out_step;
  int taps, first_tap, tap_step;
  int in_step, first_in, in_move;
};

MUCC_BOTH constexpr int gcd(int a, int b) { return b == 0 ? a : gcd(b, a % b); }

// The outputs of axis `a` of a result with `extent` elements; of a transposed convolution those whose index is
// `residue` modulo the stride, which see every stride-th tap or so.
template <class W>
MUCC_BOTH constexpr Axis axis(int a, int residue, int64_t extent) {
  int const stride = W::stride(a), dilation = W::dilation(a);
  if (!W::kTransposed) return {extent, 0, 1, W::size(a), 0, 1, stride, -W::pad(a), dilation};
  int const common = gcd(dilation, stride), step = stride / common;
  int first = 0;
  while (first < step && (residue + W::pad(a) - first * dilation) % stride != 0) ++first;
  int const taps = first < step && first < W::size(a) ? (W::size(a) - first + step - 1) / step : 0;
  return {extent > residue ? (extent - residue + stride - 1) / stride : 0,
          residue,
          stride,
          taps,
          first,
          step,
          1,
          (residue + W::pad(a) - first * dilation) / stride,
          -dilation / common};
}

// A tile of rows and columns of a result, with which pieces of 16 bytes along K are `kPieces` to a row of a
// stage.
template <int kM_, int kN_, int kThreads_, int kStages_, bool kAlongChannels_>
struct TileShape {
  static constexpr int kM = kM_, kN = kN_, kThreads = kThreads_, kStages = kStages_, kPieces = 8;
  static constexpr bool kAlongChannels = kAlongChannels_;  // results are adjacent along their channels
  static constexpr int kStage = (kM + kN) * 16 * kPieces;  // bytes
  static constexpr int kPitch = kAlongChannels ? kN + 8 : kM + 4;
  static constexpr int kOut = (kAlongChannels ? kM : kN) * kPitch * int(sizeof(float));
  static constexpr int kRows = kM * 40;  // what is known of each row
  static constexpr int kShared = (kStage * kStages > kOut ? kStage * kStages : kOut) + kRows;
};

// The same of kernels that multiply by wgmma: `kGroups` warpgroups of four warps have an equal part of the rows each, and one
// more warp copies.
template <int kM_, int kN_, int kStages_, int kResident_, bool kAlongChannels_>
struct WideShape {
  static constexpr int kM = kM_, kN = kN_, kStages = kStages_, kResident = kResident_;
  static constexpr bool kAlongChannels = kAlongChannels_;
  static constexpr int kGroups = 2, kThreads = 128 * kGroups, kAllThreads = kThreads + 32;
  static constexpr int kBlocks = kM / (64 * kGroups);  // of 64 rows to a warpgroup
  static constexpr int kX = kM * kMappedRow, kW = kN * kMappedRow, kStage = kX + kW;
  static constexpr int kPitch = kAlongChannels ? kN + 8 : kM + 4;
  static constexpr int kOut = (kAlongChannels ? kM : kN) * kPitch * int(sizeof(float));
  static constexpr int kTiles = kStage * kStages > kOut ? kStage * kStages : kOut;
  static constexpr int kRows = kM * 16, kBarriers = 16 * kStages;
  static constexpr int kAlignment = 1024;  // of stages, as the swizzle counts rows
  static constexpr int kShared = kAlignment + kTiles + kRows + kBarriers;
  static_assert(kM % (64 * kGroups) == 0 && kN % 8 == 0, "whole instructions and swizzles");
};

// How the copy engine sees the operands: x once for each class of outputs.
template <int kClasses>
struct Maps {
  TensorMap x[kClasses], w;
};

// How the copy engine walks over x along one axis: outputs begin at `lowest` from the first element of x, in steps of
// `in_step`, and tap i is `first + i * move` further, which is never less than zero.
struct Course {
  int lowest, first, move;
};
MUCC_BOTH constexpr Course course(Axis const& axis) {
  int const reach = (axis.taps - 1) * axis.in_move;
  if (axis.taps == 0) return {axis.first_in, 0, 0};
  return reach < 0 ? Course{axis.first_in + reach, -reach, axis.in_move} : Course{axis.first_in, 0, axis.in_move};
}

// A convolution of a call. Strides count elements.
template <class T>
struct Problem {
  T const* x;
  T const* w;
  int64_t batch;
  int64_t groups, channels, outputs;  // channels of x and of the result: those of one group
  int64_t out[3];                     // extents of the result
  int64_t low[3], count[3];           // indices along the axes of x that have elements: `count` from `low` on
  int64_t x_batch, x_channel, x_at[3];
  int64_t w_group, w_output, w_channel, w_at[3];
  int64_t row_tiles, column_tiles;    // for each group and class of outputs, filled in by the launch
};

}  // namespace mucc::conv
