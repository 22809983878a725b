// The host side of a CUTLASS kernel: from a problem to CUTLASS's parameters, and the launch.
#pragma once

#include <mucc/long_lines.h>
// It replaces a call in CUTLASS's headers, which these include:
#include <mucc/gemm.cuh>
#include <mucc/identity.h>
#include <mucc/memo.h>
#include <mucc/problem.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace mucc::gemm {

// The strides of an operand as the kernel's type has them: what the type fixes stays so.
template <class Stride>
Stride stride(Operand const& operand) {
  Stride result{};
  auto set = [&](auto axis) {
    if constexpr (!cute::is_static_v<cute::tuple_element_t<decltype(axis)::value, Stride>>)
      cute::get<decltype(axis)::value>(result) = operand.stride[decltype(axis)::value];
  };
  set(cute::Int<0>{}), set(cute::Int<1>{}), set(cute::Int<2>{});
  return result;
}

// Whether a kernel multiplies with two right operands at once: its N is (N, 2), and so are the columns of its tiles.
template <class Kernel>
inline constexpr bool is_pair = cute::rank_v<cute::tuple_element_t<0, typename Kernel::StrideB>> == 2;

// The two right operands as one. The one at the lower address comes first, since strides are not negative.
template <class Kernel>
void set_pair(Problem const& p, typename Kernel::Arguments& to) {
  using Stride = typename Kernel::StrideB;
  using One = cute::Stride<cute::tuple_element_t<0, cute::tuple_element_t<0, Stride>>, cute::tuple_element_t<1, Stride>,
                           cute::tuple_element_t<2, Stride>>;
  auto const* const gate = p.b.template as<typename Kernel::ElementB>();
  auto const* const up = p.b2.template as<typename Kernel::ElementB>();
  auto const [n, k, batch] = stride<One>(p.b);
  to.epilogue.reversed = up < gate;
  to.mainloop.ptr_B = up < gate ? up : gate;
  to.mainloop.dB = {{n, up < gate ? gate - up : up - gate}, k, batch};
}

// Whether a kernel's first operand is sparse: then a layout says how it lies, not strides.
template <class Kernel, class = void>
inline constexpr bool is_sparse = false;
template <class Kernel>
inline constexpr bool is_sparse<Kernel, std::void_t<typename Kernel::CollectiveMainloop::SparseConfig>> = true;

// A sparse first operand: the values, and after them from a multiple of 128 bytes on the metadata.
template <class Kernel>
void set_sparse(Problem const& p, typename Kernel::Arguments& to) {
  using Mainloop = typename Kernel::CollectiveMainloop;
  auto const shape = cute::make_shape(p.m, p.n, p.k, 1);
  to.mainloop.layout_a = Mainloop::SparseConfig::fill_layoutA(shape);
  to.mainloop.layout_e = Mainloop::SparseConfig::fill_layoutE(shape);
  int64_t const values = int64_t(p.m) * p.k / 2 * int64_t(sizeof(typename Mainloop::ElementA));
  static_assert(sizeof(typename Mainloop::ElementE) == 1);
  to.mainloop.ptr_E = p.a.template as<typename Mainloop::ElementE>() + (values + 127) / 128 * 128;
}

// What every kernel takes from a problem.
template <class Kernel>
void begin_arguments(Problem const& p, typename Kernel::Arguments& to) {
  using Mode = cutlass::gemm::GemmUniversalMode;
  to.mode = p.batched ? Mode::kBatched : Mode::kGemm;
  to.mainloop.ptr_A = p.a.template as<typename Kernel::ElementA>();
  if constexpr (is_sparse<Kernel>) {
    set_sparse<Kernel>(p, to);
  } else {
    to.mainloop.dA = stride<typename Kernel::StrideA>(p.a);
  }
  if constexpr (is_pair<Kernel>) {
    to.problem_shape = {p.m, {p.n, {}}, p.k, p.batch};
    set_pair<Kernel>(p, to);
  } else {
    to.problem_shape = {p.m, p.n, p.k, p.batch};
    to.mainloop.ptr_B = p.b.template as<typename Kernel::ElementB>();
    to.mainloop.dB = stride<typename Kernel::StrideB>(p.b);
  }
  if constexpr (!cute::is_void_v<typename Kernel::ElementC>) {
    to.epilogue.ptr_C = p.c.template as<typename Kernel::ElementC>();
    to.epilogue.dC = stride<typename Kernel::StrideC>(p.c);
  }
  if constexpr (!cute::is_void_v<typename Kernel::ElementD>) {
    to.epilogue.ptr_D = p.d.template as<typename Kernel::ElementD>();
    to.epilogue.dD = stride<typename Kernel::StrideD>(p.d);
  }
}

// The order in which a persistent scheduler walks over tiles.
template <class Kernel>
void set_raster(Problem const& p, typename Kernel::Arguments& to) {
  using Order = typename Kernel::TileScheduler::RasterOrderOptions;
  to.scheduler.max_swizzle_size = p.swizzle;
  to.scheduler.raster_order = p.raster == Raster::kAlongM   ? Order::AlongM
                              : p.raster == Raster::kAlongN ? Order::AlongN
                                                            : Order::Heuristic;
}

// How a stream-K scheduler splits tiles.
template <class Kernel>
void set_splits(Problem const& p, typename Kernel::Arguments& to) {
  using Mode = decltype(to.scheduler.decomposition_mode);
  to.scheduler.splits = p.splits;
  to.scheduler.decomposition_mode = p.split_k ? Mode::SplitK : Mode::Heuristic;
}

// What a launch needs, remembered for calls that repeat.
template <class Kernel>
struct Prepared {
  typename Kernel::Params params;
  typename Kernel::Arguments arguments;
  dim3 grid;
};

// cute reports a refused tensor map on stderr only; one that was made is never all zeros.
inline bool is_made(cute::TmaDescriptor const* map) {
  static constexpr char none[sizeof(cute::TmaDescriptor)] = {};
  return std::memcmp(map, none, sizeof(none)) != 0;
}
template <class Params, class = void>
inline constexpr bool maps_a = false;  // else threads copy A
template <class Params>
inline constexpr bool maps_a<Params, std::void_t<decltype(Params::tma_load_a)>> = true;
template <class Kernel>
bool maps_are_made(typename Kernel::Params const& p) {
  bool good = is_made(p.mainloop.tma_load_b.get_tma_descriptor());
  if constexpr (maps_a<typename Kernel::MainloopParams>)
    good = good && is_made(p.mainloop.tma_load_a.get_tma_descriptor());
  if constexpr (is_sparse<Kernel>) good = good && is_made(p.mainloop.tma_load_e.get_tma_descriptor());
  if constexpr (!cute::is_void_v<typename Kernel::ElementC>)
    good = good && is_made(p.epilogue.tma_load_c.get_tma_descriptor());
  if constexpr (!cute::is_void_v<typename Kernel::ElementD>)
    good = good && is_made(p.epilogue.tma_store_d.get_tma_descriptor());
  return good;
}

// A kernel's side of a Skeleton. `kArguments(problem, to)` fills in CUTLASS's arguments; `kDependent` says that the
// kernel is compiled to wait for the one before it.
template <class Kernel, void (*kArguments)(Problem const&, typename Kernel::Arguments&), bool kDependent = false>
struct Host {
  using Params = typename Kernel::Params;

  static Geometry geometry(dim3 grid) {
    using Cluster = typename Kernel::DispatchPolicy::ClusterShape;
    Geometry g{{grid.x, grid.y, grid.z}, Kernel::get_block_shape().x};
    g.cluster[0] = cute::size<0>(Cluster{});
    g.cluster[1] = cute::size<1>(Cluster{});
    g.cluster[2] = cute::size<2>(Cluster{});
    g.shared = Kernel::SharedStorageSize;
    g.dependent = kDependent;
    return g;
  }

  // The problem, and the device as the tile scheduler sees it.
  static int describe(Call const& c, Stage const& stage, Problem& problem, typename Kernel::Arguments& to) {
    if (stage.describe(c, problem)) return 1;
    if constexpr (is_pair<Kernel>) {
      auto const distance = reinterpret_cast<intptr_t>(problem.b2.data) - reinterpret_cast<intptr_t>(problem.b.data);
      if (std::abs(distance) >> 40)
        return fail("MU6010", "%s, stage %s: the right operands are more than a terabyte of addresses apart",
                    c.kernel->name, stage.name);
    }
    kArguments(problem, to);
    Loaded const* loaded = load(*stage.code, c.device, geometry(dim3(1, 1, 1)));
    if (!loaded) return 1;
    to.hw_info.device_id = c.device;
    to.hw_info.sm_count = c.sm_count;
    to.hw_info.max_active_clusters = loaded->clusters;
    return 0;
  }

  static int prepare(Call const& c, Stage const& stage, void* workspace, Prepared<Kernel>& made) {
    Problem problem;
    if (describe(c, stage, problem, made.arguments)) return 1;
    // CUTLASS would refuse extents that are no whole granules, though a tensor map may have them.
    bool fits = problem.padded || Kernel::can_implement(made.arguments);
    if constexpr (!maps_a<typename Kernel::MainloopParams>)
      fits = fits && Kernel::CollectiveMainloop::reaches(made.arguments.problem_shape, made.arguments.mainloop);
    if (!fits)
      return fail("MU6010", "%s, stage %s: CUTLASS cannot run this problem", c.kernel->name, stage.name);
    made.params = Kernel::to_underlying_arguments(made.arguments, workspace);
    if (!maps_are_made<Kernel>(made.params))
      return fail("MU6010", "%s, stage %s: the driver refused a tensor map", c.kernel->name, stage.name);
    made.grid = Kernel::get_grid_shape(made.params);
    return 0;
  }

  // Of this thread, one for each stage that uses the kernel.
  static Memo<Prepared<Kernel>>& memo(Stage const& stage) {
    struct Own {
      Stage const* stage;
      Memo<Prepared<Kernel>> memo;
    };
    static thread_local std::vector<std::unique_ptr<Own>> all;
    for (auto& own : all)
      if (own->stage == &stage) return own->memo;
    return all.emplace_back(new Own{&stage, {}})->memo;
  }

  // Launches the kernel; a call that repeats one of the last few skips the making of tensor maps.
  static int run(Call const& c, Stage const& stage, void* workspace) {
    auto& memory = memo(stage);
    auto const* ready = memory.find(c);
    if (!ready) {
      Prepared<Kernel> made;
      if (prepare(c, stage, workspace, made)) return 1;
      ready = memory.store(c, made);
    }
    auto* stream = static_cast<cudaStream_t>(c.stream);
    if (Kernel::initialize_workspace(ready->arguments, workspace, stream) != cutlass::Status::kSuccess)
      return fail("MU6016", "%s, stage %s: the workspace could not be cleared", c.kernel->name, stage.name);
    void* parameters[] = {const_cast<Params*>(&ready->params)};
    return start(c, stage.name, *stage.code, geometry(ready->grid), parameters);
  }

  static int64_t scratch(Call const& c, Stage const& stage) {
    typename Kernel::Arguments arguments;
    Problem problem;
    if (describe(c, stage, problem, arguments)) return -1;
    return int64_t(Kernel::get_workspace_size(arguments));
  }

  static int parameters(Call const& c, Stage const& stage, void* workspace, void* out) {
    Prepared<Kernel> made;
    if (prepare(c, stage, workspace, made)) return 1;
    std::memcpy(out, &made.params, sizeof(Params));
    return 0;
  }

  static constexpr Skeleton skeleton{run, scratch, parameters, sizeof(Params)};
};

template <class Kernel, void (*kArguments)(Problem const&, typename Kernel::Arguments&)>
using DependentHost = Host<Kernel, kArguments, true>;

}  // namespace mucc::gemm
