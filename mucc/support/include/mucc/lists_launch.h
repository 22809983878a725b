// The host side of lists of problems.
#pragma once

#include <mucc/gemm_launch.h>
#include <mucc/lists.cuh>

#include <algorithm>

namespace mucc::gemm {

// Runs a kernel over lists of problems, up to kMostListed in a launch, those with the largest K first.
template <class Kernel, void (*kArguments)(Problem const&, typename Kernel::Arguments&)>
struct ListHost {
  using Single = Host<Kernel, kArguments>;
  using Params = typename Kernel::Params;
  using Scheduler = typename Kernel::TileScheduler;
  static_assert(sizeof(Params) <= 32764, "a kernel has no more bytes of parameters");
  static constexpr int kMost = std::min(Kernel::CollectiveMainloop::kMost, Kernel::CollectiveEpilogue::kMost);
  static_assert(kMost > 0, "the parameters of one problem fill a launch");

  struct One {
    Call const* call;
    typename Kernel::Arguments arguments;
    int m, n, k;
  };

  static int run_list(Call const* calls, int count, Stage const& stage) {
    std::vector<One> ones(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      Problem problem;
      One& one = ones[size_t(i)];
      one.call = calls + i;
      if (Single::describe(calls[i], stage, problem, one.arguments)) return 1;
      one.m = problem.m, one.n = problem.n, one.k = problem.k;
    }
    std::stable_sort(ones.begin(), ones.end(), [](One const& a, One const& b) { return a.k > b.k; });
    for (int first = 0; first < count; first += kMost)
      if (launch(&ones[size_t(first)], std::min(count - first, kMost), stage)) return 1;
    return 0;
  }

  // Of `count` problems, no more than kMost.
  static int prepare(One* ones, int count, Stage const& stage, Params& made) {
    int m = 0, n = 0, k = 0;
    for (int i = 0; i < count; ++i) {
      m = std::max(m, ones[i].m);
      n = std::max(n, ones[i].n);
      k = std::max(k, ones[i].k);
    }
    auto shape_of = [](auto& arguments, int m, int n, int k) {
      auto& shape = arguments.problem_shape;
      cute::get<0>(shape) = m;
      if constexpr (is_pair<Kernel>)
        cute::get<0>(cute::get<1>(shape)) = n;
      else
        cute::get<1>(shape) = n;
      cute::get<2>(shape) = k;
    };
    shape_of(ones[0].arguments, m, n, k);
    made = Kernel::to_underlying_arguments(ones[0].arguments, nullptr);
    shape_of(ones[0].arguments, ones[0].m, ones[0].n, ones[0].k);
    for (int i = 0; i < count; ++i) {
      auto const& arguments = ones[i].arguments;
      auto const shape = cute::append<4>(arguments.problem_shape, 1);
      auto& mainloop = made.mainloop.of[i];
      auto& epilogue = made.epilogue.of[i];
      mainloop = Mainloop::to_underlying_arguments(shape, arguments.mainloop, nullptr);
      static_cast<typename Epilogue::Params&>(epilogue) =
          Epilogue::to_underlying_arguments(shape, arguments.epilogue, nullptr);
      epilogue.m = ones[i].m, epilogue.n = ones[i].n;
      bool good = is_made(mainloop.tma_load_a.get_tma_descriptor()) && is_made(mainloop.tma_load_b.get_tma_descriptor());
      if constexpr (!cute::is_void_v<typename Kernel::ElementD>)
        good = good && is_made(epilogue.tma_store_d.get_tma_descriptor());
      if (!good)
        return fail("MU6010", "%s, stage %s: the driver refused a tensor map", ones[i].call->kernel->name, stage.name);
      Scheduler::add(made.scheduler, ones[i].m, ones[i].n, ones[i].k);
    }
    return 0;
  }

  static int launch(One* ones, int count, Stage const& stage) {
    Params params;
    if (prepare(ones, count, stage, params)) return 1;
    void* parameters[] = {&params};
    dim3 const grid = Scheduler::grid(params.scheduler, ones[0].arguments.hw_info);
    return start(*ones[0].call, stage.name, *stage.code, Single::geometry(grid), parameters);
  }

  static int run(Call const& c, Stage const& stage, void*) { return run_list(&c, 1, stage); }
  static int64_t scratch(Call const&, Stage const&) { return 0; }
  static int parameters(Call const& c, Stage const& stage, void*, void* out) {
    One one{&c, {}, 0, 0, 0};
    Problem problem;
    Params made;
    if (Single::describe(c, stage, problem, one.arguments)) return 1;
    one.m = problem.m, one.n = problem.n, one.k = problem.k;
    if (prepare(&one, 1, stage, made)) return 1;
    std::memcpy(out, &made, sizeof(Params));
    return 0;
  }

  static constexpr Skeleton skeleton{run, scratch, parameters, sizeof(Params), run_list};

 private:
  // The collectives of one problem, from which those of lists are derived.
  using Mainloop = typename Kernel::CollectiveMainloop::Single;
  using Epilogue = typename Kernel::CollectiveEpilogue::Single;
};

}  // namespace mucc::gemm
