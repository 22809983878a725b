// What mucc/epilogue.cuh does with accumulators: values that bodies compute from them, vectors, numbers and matrices, of
// which one is stored and others are reduced.
#pragma once

#include <cute/tensor.hpp>
#include <mucc/apply.cuh>
#include <mucc/visit_loads.cuh>
#include <mucc/visit_stores.cuh>

#include <type_traits>

namespace mucc::gemm {

template <int I, class T>
struct Numbered {
  T value;
};

// The shared memory of a part, no byte for a part that needs none: stages of operands may leave none.
template <int I, class T, bool = std::is_empty_v<T>>
struct SharedPart {
  T value;
  CUTLASS_DEVICE T& get() { return value; }
};
template <int I, class T>
struct SharedPart<I, T, true> {
  CUTLASS_DEVICE T& get() { return reinterpret_cast<T&>(*this); }
};

template <class Numbers, class... Part>
struct Parts;
template <int... I, class... Part>
struct Parts<cute::seq<I...>, Part...> {
  struct Arguments : Numbered<I, typename Part::Arguments>... {};
  struct Storage : SharedPart<I, typename Part::Storage>... {};
  struct State : Numbered<I, Part>... {};
  static constexpr bool kShared = (Part::kShared || ...);

  static CUTLASS_DEVICE void begin(State& s, Arguments const& a, Storage& storage, Place const& p) {
    (s.Numbered<I, Part>::value.begin(a.Numbered<I, typename Part::Arguments>::value,
                                      storage.SharedPart<I, typename Part::Storage>::get(), p),
     ...);
  }
  static CUTLASS_DEVICE void fetch(State& s, Place const& p, int m, int n, int groups) {
    (s.Numbered<I, Part>::value.fetch(p, m, n, groups), ...);
  }
  // Calls `f` with the number of each part, as a constant, and the part.
  template <class F>
  static CUTLASS_DEVICE void each(State& s, F const& f) {
    (f(cute::Int<I>{}, s.Numbered<I, Part>::value), ...);
  }
};

// What is computed for each element. `Body` is one function of the accumulators and of what each Load reads, in this order,
// or a Graph.
template <class Body, class... Load>
struct Work : Parts<cute::make_seq<int(sizeof...(Load))>, Load...> {
  using State = typename Parts<cute::make_seq<int(sizeof...(Load))>, Load...>::State;
  static constexpr bool kFolds = false;

  template <class... Accumulator>
  static CUTLASS_DEVICE Pair apply(State& s, Place const&, Spot const& at, Accumulator const&... acc) {
    return with(s, at, cute::make_seq<int(sizeof...(Load))>{}, acc...);
  }

 private:
  template <int... I, class... Accumulator>
  static CUTLASS_DEVICE Pair with(State const& s, Spot const& at, cute::seq<I...>, Accumulator const&... acc) {
    return {gemm::apply<Body>(acc.x..., s.Numbered<I, Load>::value.get(at).x...),
            gemm::apply<Body>(acc.y..., s.Numbered<I, Load>::value.get(at).y...)};
  }
};

// One function of several values, by their numbers in a Graph.
template <class Body, int... kInputs>
struct Step {
  template <int kCount>
  static CUTLASS_DEVICE Pair apply(Pair const (&v)[kCount]) {
    return {gemm::apply<Body>(v[kInputs].x...), gemm::apply<Body>(v[kInputs].y...)};
  }
};

// The reduction of each group of kWidth neighbours in a row, for all of the group. Pairs of a thread are eight columns
// apart, and the four lanes of a row hold neighbouring pairs.
template <class Kind, int kWidth, int kInput>
struct GroupStep {
  static constexpr int kGroup = kWidth;
  static_assert(kWidth % 8 == 0 || kWidth == 2 || kWidth == 4, "a group is made of whole pairs of a lane, or of lanes");

  template <int kPairs, int kCount>
  static CUTLASS_DEVICE void apply(Pair (&v)[kPairs][kCount], int to) {
    static constexpr int kOwn = kWidth < 8 ? 1 : kWidth / 8, kLanes = kWidth < 8 ? kWidth / 2 : 4;
    static_assert(kPairs % kOwn == 0);
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < kPairs; g += kOwn) {
      float total = Kind::combine(Kind::first(v[g][kInput].x), Kind::first(v[g][kInput].y));
      CUTLASS_PRAGMA_UNROLL
      for (int i = 1; i < kOwn; ++i) {
        Pair const more = v[g + i][kInput];
        total = Kind::combine(total, Kind::combine(Kind::first(more.x), Kind::first(more.y)));
      }
      CUTLASS_PRAGMA_UNROLL
      for (int lanes = 1; lanes < kLanes; lanes *= 2) total = Kind::combine(total, __shfl_xor_sync(~0u, total, lanes));
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kOwn; ++i) v[g + i][to] = {total, total};
    }
  }
};

// The columns that are computed together because of a step: those of its groups; 1 where it needs no others.
template <class Step, class = void>
inline constexpr int group_of = 1;
template <class Step>
inline constexpr int group_of<Step, std::void_t<decltype(Step::kGroup)>> = Step::kGroup;

constexpr int least_common_multiple(int a, int b) {
  int x = a, y = b;
  while (y != 0) {
    int const rest = x % y;
    x = y, y = rest;
  }
  return a / x * b;
}
template <class Body>
inline constexpr int columns_of = 1;

// Several functions. Values are numbered: the accumulators, what the first kLoads parts read, what each Step computes.
// Value kStored is stored, and each further part folds one of the values kFolded.
template <int kLoads, int kStored, class Folded, class... Steps>
struct Graph;
template <int kLoads, int kStored, int... kFolded, class... Steps, class... Part>
struct Work<Graph<kLoads, kStored, cute::seq<kFolded...>, Steps...>, Part...>
    : Parts<cute::make_seq<int(sizeof...(Part))>, Part...> {
  using Base = Parts<cute::make_seq<int(sizeof...(Part))>, Part...>;
  using State = typename Base::State;
  static constexpr bool kFolds = sizeof...(kFolded) > 0;

  // Computes pairs of a row that are eight columns apart, from `column` of the tile on; further parts store one value
  // for each group. `acc` gives an accumulator.
  template <int kPairs, class Accumulators>
  static CUTLASS_DEVICE void apply_row(State& s, Place const& p, int i, int column, Accumulators const& acc,
                                       Pair (&d)[kPairs]) {
    static constexpr int kFoldedValues[] = {kFolded..., 0};
    Pair v[kPairs][1 + kLoads + sizeof...(Steps)];
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < kPairs; ++g) v[g][0] = acc(g);
    int next = 1 + kLoads;
    (step<Steps>(s, i, column, v, next++), ...);
    Base::each(s, [&](auto k, auto& part) {
      if constexpr (k >= kLoads) {
        CUTLASS_PRAGMA_UNROLL
        for (int g = 0; g < kPairs; g += part.kEvery)
          part.add(p, {i, column + g * 8, g % 4, i % 2}, v[g][kFoldedValues[k - kLoads]]);
      }
    });
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < kPairs; ++g) d[g] = v[g][kStored < 0 ? 0 : kStored];
  }

  template <class... Accumulator>
  static CUTLASS_DEVICE Pair apply(State& s, Place const& p, Spot const& at, Accumulator const&... acc) {
    static constexpr int kGiven = sizeof...(Accumulator);
    static constexpr int kFoldedValues[] = {kFolded..., 0};
    Pair v[kGiven + kLoads + sizeof...(Steps)] = {acc...};
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i < kLoads) v[kGiven + i] = part.get(at);
    });
    int next = kGiven + kLoads;
    ((v[next] = Steps::apply(v), ++next), ...);
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.add(p, at, v[kFoldedValues[i - kLoads]]);
    });
    return v[kStored < 0 ? 0 : kStored];
  }
  static CUTLASS_DEVICE void end_box(State& s, Place const& p, int m, int n, int groups) {
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.end_box(p, m, n, groups);
    });
  }
  static CUTLASS_DEVICE void end_columns(State& s, Place const& p, int n, int groups) {
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.end_columns(p, n, groups);
    });
  }
  static CUTLASS_DEVICE void end(State& s, Place const& p) {
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.end(p);
    });
  }

 private:
  // One step for all pairs. What is loaded is loaded for each step, so that nothing of it is held while a group is
  // reduced.
  template <class Step, int kPairs, int kCount>
  static CUTLASS_DEVICE void step(State& s, int i, int column, Pair (&v)[kPairs][kCount], int to) {
    if constexpr (group_of<Step> > 1) {
      Step::apply(v, to);
    } else {
      CUTLASS_PRAGMA_UNROLL
      for (int g = 0; g < kPairs; ++g) {
        Base::each(s, [&](auto k, auto& part) {
          if constexpr (k < kLoads) v[g][1 + k] = part.get({i, column + g * 8, g % 4, i % 2});
        });
        v[g][to] = Step::apply(v[g]);
      }
    }
  }
};

// The columns that bodies compute together.
template <int kLoads, int kStored, class Folded, class... Steps>
inline constexpr int columns_of<Graph<kLoads, kStored, Folded, Steps...>> = [] {
  int all = 1;
  ((all = least_common_multiple(all, group_of<Steps>)), ...);
  return all;
}();

}  // namespace mucc::gemm
