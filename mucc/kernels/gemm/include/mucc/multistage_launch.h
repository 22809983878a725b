// The host side of a kernel of mucc/multistage.cuh: from a problem to its parameters, and the launch.
#pragma once

#include <mucc/identity.h>
#include <mucc/multistage.cuh>

namespace mucc::multistage {

using gemm::Problem;
using gemm::Raster;
using gemm::Skeleton;
using gemm::Stage;

// `kVisitor(problem, to)` fills in what the visitor of a kernel reads and writes.
template <class Kernel, void (*kVisitor)(Problem const&, typename Kernel::Visitor::Params&)>
struct Host {
  using Params = typename Kernel::Params;
  using Block = typename Kernel::Block;

  static int tiles(int extent, int size) { return extent / size + (extent % size != 0); }

  // The number of elements from one line of A over (M, K), or of B over (N, K), to the next.
  template <class Iterator, class AlongK>
  static typename Iterator::Params steps(Operand const& x) {
    bool const along_k = std::is_same_v<typename Iterator::Layout, AlongK>;
    return typename Iterator::Params(typename Iterator::Layout(x.stride[along_k ? 0 : 1]));
  }

  // Of partial sums: for each part of a tile, or two for each block that streams.
  static int64_t partial_bytes(Params const& p, int64_t count) {
    return (Kernel::kStreams ? 2 * int64_t(p.blocks) : count * p.splits) * Block::kMN * int64_t(sizeof(float));
  }
  // The tiles that blocks share: those of the last wave, which is not full, with the one before it.
  static void stream(Call const& c, int64_t count, Params& p) {
    int const fitting = 227 * 1024 / (Kernel::kShared + 1024), resident = fitting < 1 ? 1 : fitting > 2 ? 2 : fitting;
    int64_t const steps = Kernel::steps(p);
    p.blocks = int(at_most(int64_t(c.sm_count) * resident, count * steps));
    p.tiles = count;
    int64_t const rest = count % p.blocks;
    p.streamed = rest == 0 ? 0 : at_most(count, rest + p.blocks);
  }
  static int64_t tile_count(Problem const& problem, Params const& p) {
    return int64_t(p.tiles_m) * p.tiles_n * problem.batch;
  }

  // Whether blocks leave partial sums.
  static bool shares(Params const& p) { return Kernel::kStreams ? p.streamed > 0 : Kernel::kSplits && p.splits > 1; }

  static int describe(Call const& c, Stage const& stage, Problem& problem, Params& p) {
    if (stage.describe(c, problem)) return 1;
    p.m = problem.m, p.n = problem.n, p.k = problem.k;
    p.tiles_m = tiles(p.m, Block::kM), p.tiles_n = tiles(p.n, Block::kN);
    p.along_m = problem.raster == Raster::kAlongM || (problem.raster == Raster::kHeuristic && p.tiles_m > p.tiles_n);
    p.swizzle = problem.swizzle;
    p.k_part = tiles(tiles(p.k, Block::kK), Kernel::kSplits && !Kernel::kStreams ? problem.splits : 1) * Block::kK;
    p.splits = tiles(p.k, p.k_part);
    if constexpr (Kernel::kStreams) stream(c, tile_count(problem, p), p);
    if (tile_count(problem, p) * p.splits > INT32_MAX)
      return fail("MU6010", "%s, stage %s: more than 2147483647 thread blocks", c.kernel->name, stage.name);
    return 0;
  }

  static int prepare(Call const& c, Stage const& stage, void* workspace, Problem& problem, Params& p) {
    if (describe(c, stage, problem, p)) return 1;
    p.a = steps<typename Kernel::IteratorA, cutlass::layout::RowMajor>(problem.a);
    p.b = steps<typename Kernel::IteratorB, cutlass::layout::ColumnMajor>(problem.b);
    p.data_a = problem.a.template as<typename Kernel::IteratorA::Element>();
    p.data_b = problem.b.template as<typename Kernel::IteratorB::Element>();
    p.batch_a = problem.a.stride[2], p.batch_b = problem.b.stride[2];
    if (Kernel::kSplits) {
      p.partials = static_cast<float*>(workspace);
      p.arrived = reinterpret_cast<unsigned*>(static_cast<char*>(workspace) +
                                              partial_bytes(p, tile_count(problem, p)));
    }
    kVisitor(problem, p.visitor);
    return 0;
  }

  static int run(Call const& c, Stage const& stage, void* workspace) {
    Problem problem;
    Params p{};
    if (prepare(c, stage, workspace, problem, p)) return 1;
    int64_t const count = tile_count(problem, p);
    // The bits of an unsigned 0 are those of 0.0f.
    if (shares(p) && fill(c, reinterpret_cast<float*>(p.arrived), 0.0f, count)) return 1;
    void* parameters[] = {&p};
    Geometry geometry{{unsigned(Kernel::kStreams ? p.blocks : count * p.splits), 1, 1}, Kernel::kThreads};
    geometry.shared = Kernel::kShared;
    return start(c, stage.name, *stage.code, geometry, parameters);
  }

  static int64_t scratch(Call const& c, Stage const& stage) {
    Problem problem;
    Params p{};
    if (describe(c, stage, problem, p)) return -1;
    int64_t const count = tile_count(problem, p);
    return shares(p) ? partial_bytes(p, count) + count * int64_t(sizeof(unsigned)) : 0;
  }

  static int parameters(Call const& c, Stage const& stage, void* workspace, void* out) {
    Problem problem;
    Params p{};
    if (prepare(c, stage, workspace, problem, p)) return 1;
    std::memcpy(out, &p, sizeof(Params));
    return 0;
  }

  static constexpr Skeleton skeleton{run, scratch, parameters, sizeof(Params)};
};

}  // namespace mucc::multistage
