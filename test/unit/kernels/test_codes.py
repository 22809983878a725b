"""Which of a stage's kernels a launch may take: mucc/rows.h, mucc/reduce.h, mucc/map.h. Needs g++, no GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mucc.files.package import INCLUDES

CHECKS = """
#include <initializer_list>

#include <mucc/rows.h>
#include <mucc/reduce.h>
#include <mucc/map.h>

template <uint32_t kRows, uint32_t kLength, bool kIn = true, bool kShift = false, bool kCluster = false>
struct Op {
  static constexpr int kRank = 2, kKept = 1, kVector = 4, kThreads = 256, kPhases = 1;
  static constexpr bool kPairs = false;
  static constexpr int kFew = 8, kShort = 16, kSome = 16, kMany = 32, kMostThreads = 1024, kManyThreads = 512;
  static constexpr int kColumnItems = 16;
  static constexpr bool kInner = kIn, kShifted = kShift, kClusters = kCluster;
  static constexpr uint32_t kKnown[] = {kRows, kLength};
};
template <class Op>
constexpr int taken() {
  int bits = 0;
  for (int code = 0; code < 9; ++code) bits |= mucc::may_take<Op>(code) << code;
  return bits;
}
constexpr int of(int a, int b) { return 1 << a | 1 << b; }

// Single elements, as tensors may lie anywhere, and vectors.
static_assert(taken<Op<7, 0>>() == 511 - (1 << 3), "any length, but no vectors for a warp");
struct FewForWarps : Op<7, 0> {
  static constexpr int kShort = 4;
};
static_assert(taken<FewForWarps>() == 511, "any length");
template <class Op>
constexpr bool taken_by_launches() {
  for (int64_t length = 1; length < 100000; length += 1 + length / 64)
    for (int v : {1, Op::kVector}) {
      if (v > 1 && length % v) continue;
      if (!mucc::may_take<Op>(mucc::row_code<Op>(mucc::steps_of<Op>(length, v), v))) return false;
    }
  return true;
}
static_assert(taken_by_launches<Op<7, 0>>() && taken_by_launches<FewForWarps>(), "all choices");
static_assert(taken<Op<7, 64>>() == of(0, 6), "one vector in each lane");
static_assert(taken<Op<7, 512>>() == of(1, 2));
static_assert(taken<Op<7, 1024>>() == of(1, 4), "a block holds 1,024 elements");
static_assert(taken<Op<7, 8192>>() == of(1, 5));
static_assert(taken<Op<7, 16384>>() == of(7, 5));
static_assert(taken<Op<7, 65536>>() == of(7, 8));
static_assert(taken<Op<7, 1023>>() == of(1, 1), "no whole vectors");
static_assert(taken<Op<7, 1023, true, true>>() == of(1, 4), "shifted rows have vectors");

// Threads that share a row of a known length, as the launch and the kernel find them.
static_assert(mucc::known_steps<Op<7, 1024>>(4) == 256 && mucc::known_steps<Op<7, 0>>(4) == 0);
static_assert(mucc::known_steps<Op<7, 1023, true, true>>(4) == 0, "shifted rows have as many as they meet");
static_assert(mucc::known_steps<Op<7, 1024, false>>(4) == 0, "columns");
template <uint32_t kLength, int kReductions = 1>
struct Pairs : Op<7, kLength> {
  static constexpr int kPhases = kReductions;
  static constexpr bool kPairs = true;
};
static_assert(mucc::known_steps<Pairs<4096>>(8) == 512 && mucc::known_steps<Pairs<8192, 2>>(8) == 1024);
static_assert(mucc::known_steps<Pairs<8192>>(8) == 0, "long rows of bf16 that are reduced once");
static_assert(mucc::warp_lanes(256, 8) == 32 && mucc::warp_lanes(9, 1) == 16 && mucc::warp_lanes(1, 8) == 1);
static_assert(mucc::block_threads(1024, 8) == 128 && mucc::block_threads(1025, 8) == 160);
static_assert(taken<Op<64, 100, false>>() == of(0, 2), "columns once");
static_assert(taken<Op<64, 5000, false>>() == of(1, 3), "columns again");
static_assert(taken<Op<64, 1024, false>>() == of(1, 2), "more threads share columns of vectors");
template <uint32_t kLength, bool kCluster = true>
constexpr bool clustered = mucc::may_take<Op<64, kLength, false, false, kCluster>>(mucc::kClusterCode);
static_assert(clustered<8192> && clustered<16384> && !clustered<8192, false>, "clusters hold long columns");
static_assert(!clustered<4096> && !clustered<16385>, "columns too short, or too long");

template <uint32_t kResults, uint32_t kLength>
struct Sum {
  static constexpr int kRank = 2, kKept = 1, kVector = 4;
  static constexpr bool kRows = true, kShifted = false;
  static constexpr uint32_t kKnown[] = {kResults, kLength};
};
using mucc::may_reduce;
static_assert(may_reduce<Sum<8, 0>>(true, 4, false) && may_reduce<Sum<8, 0>>(false, 1, true), "any length");
static_assert(may_reduce<Sum<8, 64>>(false, 1, false) && !may_reduce<Sum<8, 64>>(true, 1, false));
static_assert(may_reduce<Sum<8, 128>>(false, 1, false) && may_reduce<Sum<8, 128>>(true, 1, false), "by rows");
static_assert(!may_reduce<Sum<8, 2048>>(false, 1, false) && may_reduce<Sum<8, 2048>>(true, 4, false));
static_assert(!may_reduce<Sum<8, 2047>>(true, 4, false), "no whole vectors");
static_assert(!may_reduce<Sum<8, 2048>>(true, 1, true) && may_reduce<Sum<0, 2048>>(true, 1, true), "many");
using Many = Sum<3000000000u, 8>;
static_assert(may_reduce<Many>(false, 1, true) && !may_reduce<Many>(false, 1, false));

using mucc::may_map;
static_assert(may_map<Op<7, 64>>(1, false) && may_map<Op<7, 64>>(4, false) && !may_map<Op<7, 64>>(4, true));
static_assert(!may_map<Op<7, 65>>(4, false) && may_map<Op<7, 0>>(4, true) && may_map<Op<0, 64>>(1, false));
static_assert(may_map<Op<60000, 60000>>(1, true) && !may_map<Op<60000, 60000>>(1, false));
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_known_extents_leave_few_kernels(tmp_path: Path) -> None:
    (tmp_path / "codes.cpp").write_text(CHECKS)
    include = [f"-I{folder}" for folder in INCLUDES]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wno-unknown-pragmas", *include, "codes.cpp"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
