// The geometry of convolutions: what the host fills in and kernels of conv.cuh, conv_patches.cuh, conv_wgmma.cuh and
// conv_direct.cuh follow.
#pragma once

#include <mucc/tensor_map.h>

namespace mucc::conv {

// Formats in which factors are multiplied; sums are f32, or with kIntegers s32 that become f32 at the end.
struct Bf16 {
  static constexpr int kParts = 1;
  // Whether wgmma adds up one step of a tile only, and threads add the steps: wgmma adds products of 8-bit floats with some
  // 14 bits.
  static constexpr bool kByStep = false;
  static constexpr bool kIntegers = false;
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
struct E4m3 : Bf16 {
  static constexpr bool kByStep = true;
};
struct S8 : Bf16 {
  static constexpr bool kIntegers = true;
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

// Positions that are pooled to one result, along three axes.
template <int kD_, int kH_, int kW_>
struct PoolWindow {
  static constexpr int kD = kD_, kH = kH_, kW = kW_, kVolume = kD * kH * kW;
  MUCC_BOTH static constexpr int size(int a) { return a == 0 ? kD : a == 1 ? kH : kW; }
  // The index of a position of the window along an axis; positions are counted along the last axis first.
  MUCC_BOTH static constexpr int at(int a, int t) { return a == 2 ? t % kW : a == 1 ? t / kW % kH : t / kW / kH; }
};

// The part of a window of a pool that is one class of outputs along the first two axes, and all classes along the last one:
// neighbours there are `step` apart in the result.
template <class W, class Pool>
struct ClassWindow {
  MUCC_BOTH static constexpr int step(int a) { return W::kTransposed && a < 2 ? W::stride(a) : 1; }
  static constexpr int kClasses = step(0) * step(1);
  using Part = PoolWindow<Pool::kD / step(0), Pool::kH / step(1), Pool::kW>;
  static_assert(Pool::kVolume == 1 || Part::kVolume * kClasses == Pool::kVolume, "windows have as much of each class");
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

// The same of kernels that multiply by wgmma, whose stages hold kM rows and kN columns of 128 bytes: two warpgroups multiply, and
// one more warp copies. The blocks of a cluster have kShares parts of K. With kPersistent a block computes one tile after the
// other, and loads the next one while it stores: its sums have shared memory of their own.
template <int kM_, int kN_, int kStages_, int kResident_, int kShares_, bool kPersistent_, bool kAlongChannels_>
struct StagedShape {
  static constexpr int kShares = kShares_;
  static constexpr int kM = kM_, kN = kN_, kStages = kStages_, kResident = kResident_;
  static constexpr bool kPersistent = kPersistent_, kAlongChannels = kAlongChannels_;
  static constexpr int kGroups = 2, kThreads = 128 * kGroups, kAllThreads = kThreads + 32;
  static constexpr int kX = kM * kMappedRow, kW = kN * kMappedRow, kStage = kX + kW;
  static constexpr int kPitch = kAlongChannels ? kN + 8 : kM + 4;
  static constexpr int kOut = (kAlongChannels ? kM : kN) * kPitch * int(sizeof(float));
  static constexpr int kSums = kPersistent ? kStage * kStages : 0;  // where sums begin
  static constexpr int kTiles = kStage * kStages > kSums + kOut ? kStage * kStages : kSums + kOut;
  static constexpr int kRows = kM * 16, kBarriers = 16 * kStages;
  static constexpr int kAlignment = 1024;  // of stages, as the swizzle counts rows
  static constexpr int kShared = kAlignment + kTiles + kRows + kBarriers;
  static_assert(!kPersistent || kShares == 1, "blocks of a cluster end together");
};

// Each warpgroup has an equal part of the rows.
template <int kM_, int kN_, int kStages_, int kResident_, int kShares_, bool kPersistent_, bool kAlongChannels_>
struct WideShape : StagedShape<kM_, kN_, kStages_, kResident_, kShares_, kPersistent_, kAlongChannels_> {
  static constexpr int kBlocks = kM_ / 128;  // of 64 rows to a warpgroup
  static constexpr bool kPositionsInner = false;  // in x
  static_assert(kM_ % 128 == 0 && kN_ % 8 == 0, "whole instructions and swizzles");
};

// The same for windows of one element, where the positions of a channel of x are adjacent. Of each element of the batch the rows
// are padded to chunks of 64, which TMA copies as one.
template <int kM_, int kN_, int kStages_, int kResident_, int kShares_, bool kPersistent_, bool kAlongChannels_>
struct MatrixShape : WideShape<kM_, kN_, kStages_, kResident_, kShares_, kPersistent_, kAlongChannels_> {
  static constexpr bool kPositionsInner = true;
};

// The same for kernels of conv_positions.cuh. Tiles of 64 rows have two warpgroups with half of the steps each (kSplits).
template <int kM_, int kN_, int kStages_, int kResident_, int kShares_, bool kPersistent_, bool kAlongChannels_>
struct PositionShape : StagedShape<kM_, kN_, kStages_, kResident_, kShares_, kPersistent_, kAlongChannels_> {
  static constexpr bool kSplits = kM_ == 64;
  static constexpr int kBlocks = kSplits ? 1 : kM_ / 128;  // of 64 rows to a warpgroup
  static_assert((kSplits || kM_ % 128 == 0) && kN_ % 64 == 0, "whole chunks");
  static_assert(!kPersistent_, "a block has one tile");
};

// How a block of conv_patches.cuh computes a tile of kD x kH x kW outputs of a class by kN channels: channels of x are staged
// kChunk at a time, and weights all at once with kResident, else kPanel places along K at a time. `kWhole`: all channels of a
// group are one chunk.
template <int kD_, int kH_, int kW_, int kN_, int kWarpsN_, int kChunk_, int kPanel_, bool kResident_, bool kWhole_,
          bool kAlongChannels_>
struct PatchTile {
  static constexpr int kD = kD_, kH = kH_, kW = kW_, kM = kD * kH * kW, kN = kN_, kWarpsN = kWarpsN_;
  static constexpr int kChunk = kChunk_, kPanel = kPanel_, kThreads = 256;
  static constexpr bool kResident = kResident_, kWhole = kWhole_, kAlongChannels = kAlongChannels_;
  MUCC_BOTH static constexpr int tile(int a) { return a == 0 ? kD : a == 1 ? kH : kW; }
};

// What of x a box of outputs `Of` reads.
template <class W, class Of>
struct PatchReach {
  static constexpr int kLast = W::kTransposed ? W::stride(2) : 1;  // classes along the last axis
  // The axis `a` of a class, whose outputs are not counted.
  MUCC_BOTH static constexpr Axis axis_of(int a, int index) {
    if (!W::kTransposed) return axis<W>(a, 0, 0);
    int const residue = a == 2   ? index % W::stride(2)
                        : a == 1 ? index / W::stride(2) % W::stride(1)
                                 : index / W::stride(2) / W::stride(1);
    return axis<W>(a, residue, 0);
  }
  MUCC_BOTH static constexpr int taps(int index) {
    return axis_of(0, index).taps * axis_of(1, index).taps * axis_of(2, index).taps;
  }
  // The lowest and the highest index of x that the first output of any class reads.
  MUCC_BOTH static constexpr int reach(int a, bool highest) {
    int low = 1 << 30, high = -(1 << 30);
    for (int residue = 0; residue < (W::kTransposed ? W::stride(a) : 1); ++residue) {
      Axis const at = axis<W>(a, residue, 0);
      for (int i = 0; i < at.taps; ++i) {
        int const in = at.first_in + i * at.in_move;
        low = in < low ? in : low;
        high = in > high ? in : high;
      }
    }
    return highest ? high : low;
  }
  MUCC_BOTH static constexpr int lowest(int a) { return reach(a, false); }
  MUCC_BOTH static constexpr int step(int a) { return W::kTransposed ? 1 : W::stride(a); }
  MUCC_BOTH static constexpr int extent(int a) {
    return (Of::tile(a) - 1) * step(a) + reach(a, true) - reach(a, false) + 1;
  }
};

// The patch of x that such a tile reads, and what its block keeps in shared memory.
template <class W, class Of>
struct PatchShape : PatchReach<W, Of> {
  using Reach = PatchReach<W, Of>;
  using Reach::kLast;
  static constexpr bool kWhole = Of::kWhole;
  // The first place along K of a class among those of all, for a chunk; they begin at multiples of 8.
  MUCC_BOTH static constexpr int first(int index) {
    int sum = 0;
    for (int i = 0; i < index; ++i) sum += (Reach::taps(i) * Of::kChunk + 7) / 8 * 8;
    return sum;
  }
  // A line begins at a multiple of four elements of x, as tiles do.
  static constexpr int kShift = (Reach::reach(2, false) % 4 + 4) % 4;
  static constexpr int kLine = (Reach::extent(2) + kShift + 3) / 4 * 4;
  MUCC_BOTH static constexpr int pitch(int a) { return a == 2 ? 1 : a == 1 ? kLine : kLine * Reach::extent(1); }
  // Of a channel, and of a place along K: eight banks apart.
  static constexpr int kPitch = (kLine * Reach::extent(1) * Reach::extent(0) + 23) / 32 * 32 + 8;
  static constexpr int kWeightPitch = (Of::kN + 23) / 32 * 32 + 8;
  static constexpr int kPlaces = Of::kM * kLast;
  static constexpr int kOutPitch = Of::kAlongChannels ? Of::kN + 8 : kPlaces + 4;
  static constexpr int kOut = (Of::kAlongChannels ? kPlaces : Of::kN) * kOutPitch * 4;  // bytes
  static constexpr int kStaged = Of::kChunk * kPitch * 4;
  static constexpr int kFront = ((kStaged > kOut ? kStaged : kOut) + 127) / 128 * 128;
  static constexpr int kDepths = first(W::kClasses);
  static constexpr int kWeightBytes = (Of::kResident ? kDepths : Of::kPanel) * kWeightPitch * 4;
  static constexpr int kShared = kFront + kWeightBytes + (kDepths + W::kClasses) * 8;
};

// How a block of conv_strips.cuh computes kChannels channels, which are groups of their own: kLanes threads beside each other
// have kVector channels each of a strip of kRows rows of kRun outputs, of which the block has kBeside. Loops over lines of x are
// unrolled for windows of at most kUnrolled taps.
template <int kVector_, int kLanes_, int kBeside_, int kRows_, int kRun_, int kUnrolled_>
struct StripTile {
  static constexpr int kVector = kVector_, kLanes = kLanes_, kBeside = kBeside_, kRows = kRows_, kRun = kRun_;
  static constexpr int kThreads = kLanes * kBeside, kChannels = kLanes * kVector, kUnrolled = kUnrolled_;
};

// What such a block keeps of weights, in bytes.
template <class W, class Of>
struct StripShape {
  static constexpr int kShared = W::kTaps * Of::kChannels * 4;
};

// Channels of x that kernels of conv_planes.cuh stage at a time: those of a row of weights.
constexpr int kPlanes = kMappedRow / int(sizeof(float));

// Bits of an index of a window along one axis, of which three are a number.
constexpr int kTapBits = 10;

// How a block of conv_planes.cuh computes a tile of kD x kH x kW outputs of a class by kN channels: kDeep planes of x of
// kBoxD x kBoxH x kBoxW elements are a stage, of which there are kStagesX, and kStagesW of weights.
template <int kD_, int kH_, int kW_, int kN_, int kDeep_, int kBoxD_, int kBoxH_, int kBoxW_, int kStagesX_, int kStagesW_,
          int kResident_, bool kAlongChannels_>
struct PlaneTile {
  static constexpr int kD = kD_, kH = kH_, kW = kW_, kM = kD * kH * kW, kN = kN_, kDeep = kDeep_;
  static constexpr int kBoxD = kBoxD_, kBoxH = kBoxH_, kBoxW = kBoxW_;
  static constexpr int kStagesX = kStagesX_, kStagesW = kStagesW_, kResident = kResident_;
  static constexpr bool kAlongChannels = kAlongChannels_;
  static constexpr int kGroups = 2, kThreads = 128 * kGroups;
  static constexpr int kBlocks = kM / (64 * kGroups);  // of 64 rows to a warpgroup
  static_assert(kM % (64 * kGroups) == 0 && kN % 8 == 0 && kDeep % 8 == 0, "whole instructions");
  MUCC_BOTH static constexpr int tile(int a) { return a == 0 ? kD : a == 1 ? kH : kW; }
  MUCC_BOTH static constexpr int box(int a) { return a == 0 ? kBoxD : a == 1 ? kBoxH : kBoxW; }
};

// The planes of x that such a tile reads, and what its block has in shared memory.
template <class W, class Of>
struct PlaneShape {
  using Reach = PatchReach<W, Of>;
  static constexpr int kLast = Reach::kLast;
  // Where boxes begin: along the last axis at 16 bytes, since the GPU takes other starts of a box for an illegal instruction.
  static constexpr int kShift = (Reach::lowest(2) % 4 + 4) % 4;
  MUCC_BOTH static constexpr int lowest(int a) { return Reach::lowest(a) - (a == 2 ? kShift : 0); }
  MUCC_BOTH static constexpr int step(int a) { return Reach::step(a); }
  MUCC_BOTH static constexpr int pitch(int a) { return a == 2 ? 1 : a == 1 ? Of::kBoxW : Of::kBoxW * Of::kBoxH; }
  static constexpr int kPitch = Of::kBoxW * Of::kBoxH * Of::kBoxD;  // of a channel
  static constexpr int kPlanesBytes = kPitch * Of::kDeep * 4;
  static constexpr int kX = (kPlanesBytes + 127) / 128 * 128, kW = Of::kN * kMappedRow;  // bytes of a stage
  static constexpr int kPlaces = Of::kM * kLast;
  static constexpr int kOutPitch = Of::kAlongChannels ? Of::kN + 8 : kPlaces + 4;
  static constexpr int kOut = (Of::kAlongChannels ? kPlaces : Of::kN) * kOutPitch * 4;
  static constexpr int kStages = kX * Of::kStagesX + kW * Of::kStagesW;
  static constexpr int kTiles = ((kStages > kOut ? kStages : kOut) + 15) / 16 * 16;
  static constexpr int kAlignment = 1024;  // of stages of weights, as the swizzle counts rows
  static constexpr int kBarriers = 16 * (Of::kStagesX + Of::kStagesW);
  static constexpr int kShared = kAlignment + kTiles + kBarriers + 8 * W::kTaps;
  static_assert(Reach::extent(0) <= Of::kBoxD && Reach::extent(1) <= Of::kBoxH && Reach::extent(2) + kShift <= Of::kBoxW,
                "all that the tile reads");
};

// Tensor maps of the operands of a kernel of conv_positions.cuh.
struct PositionMaps {
  TensorMap x, w;
};

// How TMA sees the operands of such a kernel.
struct PlaneMaps {
  TensorMap x, w;
};

// How TMA sees the operands: x once for each class of outputs.
template <int kClasses>
struct Maps {
  TensorMap x[kClasses], w;
};

// How TMA walks over x along one axis: outputs begin at `lowest` from the first element of x, in steps of
// `in_step`, and tap i is `first + i * move` further, which is never less than zero.
struct Course {
  int lowest, first, move;
};
MUCC_BOTH constexpr Course course(Axis const& axis) {
  int const reach = (axis.taps - 1) * axis.in_move;
  if (axis.taps == 0) return {axis.first_in, 0, 0};
  return reach < 0 ? Course{axis.first_in + reach, -reach, axis.in_move} : Course{axis.first_in, 0, axis.in_move};
}

// What blocks store moments of: nothing, channels of each element of the batch, or channels of the whole batch.
enum class Moments { kNone, kEach, kAcross };

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
  float* moments;                     // [3, N, O, cells], or [3, O, cells], where blocks store some
  int64_t cells;
  int64_t batch_rows;                 // rows of an element of the batch, where tiles or chunks of 64 have positions of one only
  int64_t row_tiles, column_tiles;    // for each group and class of outputs, filled in by the launch
};

}  // namespace mucc::conv
