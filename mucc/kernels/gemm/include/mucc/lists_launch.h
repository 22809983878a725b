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

  struct Launch {
    Params params;
    dim3 grid;
  };

  // The launches of a list, known by the keys of its calls; empty where these are too long.
  struct Remembered {
    Stage const* stage;
    std::vector<int64_t> key;
    std::vector<Launch> launches;
  };

  static std::vector<int64_t> key_of(Call const* calls, int count) {
    std::vector<int64_t> key;
    for (int i = 0; i < count; ++i) {
      Key const& own = calls[i].key;
      if (own.size > Key::kCapacity) return {};
      key.push_back(own.size);
      key.insert(key.end(), own.words, own.words + own.size);
    }
    return key;
  }

  // A list that repeats one of the last few of this thread skips the making of tensor maps.
  static int run_list(Call const* calls, int count, Stage const& stage) {
    static thread_local std::vector<std::unique_ptr<Remembered>> last;
    static constexpr size_t kEntries = 4;
    auto key = key_of(calls, count);
    for (auto const& known : last)
      if (known->stage == &stage && known->key == key && !key.empty()) return start_all(calls[0], stage, *known);
    std::unique_ptr<Remembered> made(new Remembered{&stage, std::move(key), {}});
    if (make(calls, count, stage, made->launches)) return 1;
    if (last.size() == kEntries) last.erase(last.begin());
    return start_all(calls[0], stage, *last.emplace_back(std::move(made)));
  }

  static int start_all(Call const& c, Stage const& stage, Remembered const& all) {
    for (Launch const& launch : all.launches) {
      void* parameters[] = {const_cast<Params*>(&launch.params)};
      if (start(c, stage.name, *stage.code, Single::geometry(launch.grid), parameters)) return 1;
    }
    return 0;
  }

  static int make(Call const* calls, int count, Stage const& stage, std::vector<Launch>& launches) {
    std::vector<One> ones(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      Problem problem;
      One& one = ones[size_t(i)];
      one.call = calls + i;
      if (Single::describe(calls[i], stage, problem, one.arguments)) return 1;
      one.m = problem.m, one.n = problem.n, one.k = problem.k;
    }
    std::stable_sort(ones.begin(), ones.end(), [](One const& a, One const& b) { return a.k > b.k; });
    for (int first = 0; first < count; first += kMost) {
      One* const own = &ones[size_t(first)];
      Launch& launch = launches.emplace_back();
      if (prepare(own, std::min(count - first, kMost), stage, launch.params)) return 1;
      launch.grid = Scheduler::grid(launch.params.scheduler, own->arguments.hw_info);
    }
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
