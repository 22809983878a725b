// Rows that teams of blocks share: how their blocks exchange totals, and what a thread does of a row.
#pragma once

#include <mucc/row_seconds.cuh>
#include <mucc/row_sharing.cuh>

namespace mucc {

// A slot has a total and, above it, the number of the exchange that it belongs to.
MUCC_DEVICE void write_slot(uint64_t* slot, uint32_t exchange, float total) {
  uint64_t const both = uint64_t(exchange) << 32 | __float_as_uint(total);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(both) : "memory");
}
MUCC_DEVICE uint64_t read_slot(uint64_t const* slot) {
  uint64_t both;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(slot) : "memory");
  return both;
}

// A block that has seen all totals of an exchange has told its own of the one before to all others: two sets of slots are
// enough.
template <int kWidest>
struct TeamRows {
  BlockRows<kWidest, kTeamThreads / 32> block;
  uint64_t* slots;  // of the team
  int parts, part;
  uint32_t exchange;  // the last one

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    block.template combine<Kinds>(acc);
    if (parts == 1) return;
    uint64_t* const set = slots + int64_t(++exchange % 2) * kWidest * parts;
    if (threadIdx.x == 0) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) write_slot(set + k * parts + part, exchange, acc[0][k]);
    }
    Kinds::start(acc[0]);
    for (int i = threadIdx.x; i < parts; i += kTeamThreads) {
      uint64_t both[Kinds::kCount];
      bool all;
      do {
        all = true;
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) both[k] = read_slot(set + k * parts + i);
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) all = all && uint32_t(both[k] >> 32) == exchange;
      } while (!all);
      typename Kinds::Totals other;
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) other[k] = __uint_as_float(uint32_t(both[k]));
      Kinds::combine(acc[0], other);
    }
    __syncwarp();
    block.template combine<Kinds>(acc);
  }
};

// Steps in shared memory: words of up to 16 bytes, those with the same place in all steps side by side.
template <int V, class Work>
struct HeldSteps {
  using Loads = typename Work::template Loads<V>;
  static constexpr int kWidth = V < 4 ? V : 4, kPacks = Work::kLoads * V / kWidth;
  using Piece = Pack<float, kWidth>;
  Piece* of;
  uint32_t count;

  MUCC_DEVICE void put(uint32_t step, Loads const& loads) const {
    auto const* from = reinterpret_cast<float const*>(&loads);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Piece piece;
#pragma unroll
      for (int w = 0; w < kWidth; ++w) piece.of[w] = from[i * kWidth + w];
      of[i * count + step] = piece;
    }
  }
  MUCC_DEVICE void get(uint32_t step, Loads& loads) const {
    auto* to = reinterpret_cast<float*>(&loads);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Piece const piece = of[i * count + step];
#pragma unroll
      for (int w = 0; w < kWidth; ++w) to[i * kWidth + w] = piece.of[w];
    }
  }
};

// What a thread of a team finds in the first phase, in rounds of steps that were loaded together.
template <int V, int kItems, class Work>
struct FirstPhase {
  using Kinds = KindsOf<Work, 0>;
  static constexpr bool kHasMoments = Work::kMoments >= 0, kHasSum = Work::kExponentials >= 0;
  typename Kinds::Totals acc[V];
  Moments moments;
  float most, sum;  // the largest x, and the sum of exp(x - most)

  MUCC_DEVICE void start() {
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
    moments = {};
    most = Max::identity, sum = 0;
  }
  MUCC_DEVICE void add(RowValues<V, Kinds::kCount> const (&values)[kItems],
                       InsideOf<V, Work> const (&inside)[kItems]) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!inside[i].exists) continue;
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (inside[i].lane(v)) Kinds::add(acc[v], values[i], v);
    }
    if constexpr (kHasSum) {
      float const before = most;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          most = Max::combine(most, inside[i].lane(v) ? values[i].of[Work::kExponentials].of[v] : Max::identity);
      }
      // -inf has no distance from itself.
      float const from = most == Max::identity ? 0.0f : most;
      sum *= fast_exp(before - from);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          sum += fast_exp((inside[i].lane(v) ? values[i].of[Work::kExponentials].of[v] : Max::identity) - from);
      }
    }
    if constexpr (kHasMoments) {
      Moments round;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if constexpr (!RowPlace<V, Work>::kShifted) round.count += inside[i].exists ? float(V) : 0.0f;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if constexpr (RowPlace<V, Work>::kShifted) round.count += inside[i].lane(v) ? 1.0f : 0.0f;
          sum += inside[i].lane(v) ? values[i].of[Work::kMoments].of[v] : 0.0f;
        }
      }
      round.mean = sum * fast_reciprocal(max(round.count, 1.0f));
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          float const apart = inside[i].lane(v) ? values[i].of[Work::kMoments].of[v] - round.mean : 0.0f;
          round.squares += apart * apart;
        }
      }
      moments.combine(round);
    }
  }
  // Takes the results of the phase, and of the next one too if the first one has found those.
  template <class Row, class Sharing>
  MUCC_DEVICE void end(Work const& work, Row& row, Sharing& sharing) {
    combine_vector<V, Kinds>(acc);
    RowValues<V, Kinds::kCount> results;
    if constexpr (kHasMoments) {
      using All = WithMoments<Kinds>;
      typename All::Totals all[1];
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) all[0][k] = acc[0][k];
      all[0][All::kOwn] = moments.count, all[0][All::kOwn + 1] = moments.mean, all[0][All::kOwn + 2] = moments.squares;
      sharing.template combine<All>(all);
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k] = Lanes<V>(all[0][k]);
      work.template end<V>(Phase<0>{}, row, results);
      work.template end<V>(Phase<1>{}, row, RowValues<V, 1>{{Lanes<V>(all[0][All::kOwn + 2])}});
    } else if constexpr (kHasSum) {
      using All = WithExponentials<Kinds, Work::kExponentials>;
      typename All::Totals all[1];
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) all[0][k] = acc[0][k];
      all[0][All::kOwn] = sum;
      sharing.template combine<All>(all);
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k] = Lanes<V>(all[0][k]);
      work.template end<V>(Phase<0>{}, row, results);
      bool const is_empty = all[0][Work::kExponentials] == Max::identity;
      float const total = is_empty ? __uint_as_float(0x7fc00000u) : all[0][All::kOwn];
      work.template end<V>(Phase<1>{}, row, RowValues<V, 1>{{Lanes<V>(total)}});
    } else {
      sharing.template combine<Kinds>(acc);
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k] = Lanes<V>(acc[0][k]);
      work.template end<V>(Phase<0>{}, row, results);
    }
  }
};

// What one thread does of a block's part of a row: every kTeamThreads-th step from its own, which are its alone in shared
// memory too. While results are stored, steps of the next row are loaded to the same places. Steps that are not held are
// loaded again in each phase, in turn from the first one and from the last one: those that were loaded last are in L2.
template <int V, int kItems, class Work>
struct TeamThread {
  using Row = typename Work::template Row<V>;
  using Loads = typename Work::template Loads<V>;
  using First = FirstPhase<V, kItems, Work>;
  static constexpr uint32_t kRound = kItems * kTeamThreads;
  static constexpr int kSecond = First::kHasMoments || First::kHasSum ? 2 : 1;  // the phase after the first ones

  Work const& work;
  Extents<Work::kRank> const& extents;
  HeldSteps<V, Work> held;
  uint32_t begin, count, kept;  // the steps of this block, and how many of them are held
  RowPlace<V, Work> place;      // of the row
  Row row;
  First first;

  MUCC_DEVICE uint32_t step_of(uint32_t base, int i) const { return base + threadIdx.x + i * kTeamThreads; }
  MUCC_DEVICE void go(RowPlace<V, Work>& to, uint32_t step) const {
    to.move(begin + (step < count ? step : count - 1), extents);
  }
  MUCC_DEVICE void load(RowPlace<V, Work>& from, uint32_t base, Loads (&to)[kItems]) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      go(from, step_of(base, i));
      work.template load<V>(from.p, to[i]);
    }
  }

  MUCC_DEVICE InsideOf<V, Work> inside_of(RowPlace<V, Work> const& at, uint32_t base, int i, uint32_t end) const {
    return at.inside(begin + step_of(base, i), step_of(base, i) < end, extents);
  }

  // What the first phase takes of steps below `end`.
  MUCC_DEVICE void add_first(RowPlace<V, Work>& at, Row const& of, uint32_t base, uint32_t end, Loads const (&loads)[kItems]) {
    RowValues<V, First::Kinds::kCount> values[kItems];
    InsideOf<V, Work> inside[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      go(at, step_of(base, i));
      values[i] = work.template values<V>(Phase<0>{}, at.p, of, loads[i]);
      inside[i] = inside_of(at, base, i, end);
    }
    first.add(values, inside);
  }

  // Stores results of steps below `end`. All are computed before the first one is stored: what else they need is in flight
  // together.
  MUCC_DEVICE void store(uint32_t base, uint32_t end, Loads const (&loads)[kItems]) {
    if constexpr (Work::kFills) {
      typename Work::template Results<V> results[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        go(place, step_of(base, i));
        results[i] = work.template results<V>(place.p, row, loads[i]);
      }
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        go(place, step_of(base, i));
        store_inside<true>(work, place, results[i], inside_of(place, base, i, end));
      }
    }
  }

  // Calls `each(base, loads)` for rounds of the steps that are not held.
  template <int kPass, class Each>
  MUCC_DEVICE void load_again(Each const& each) {
    uint32_t const rounds = (count - kept + kRound - 1) / kRound;
#pragma unroll 1
    for (uint32_t r = 0; r < rounds; ++r) {
      uint32_t const base = kept + (kPass % 2 ? rounds - 1 - r : r) * kRound;
      Loads loads[kItems];
      load(place, base, loads);
      each(base, loads);
    }
  }

  MUCC_DEVICE void get(uint32_t base, Loads (&to)[kItems]) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      uint32_t const step = step_of(base, i);
      held.get(step < kept ? step : kept - 1, to[i]);
    }
  }

  template <int k>
  MUCC_DEVICE void add(typename KindsOf<Work, k>::Totals (&acc)[V], uint32_t base, uint32_t end, Loads const (&loads)[kItems]) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      go(place, step_of(base, i));
      auto const values = work.template values<V>(Phase<k>{}, place.p, row, loads[i]);
      auto const inside = inside_of(place, base, i, end);
      if (!inside.exists) continue;
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (inside.lane(v)) KindsOf<Work, k>::add(acc[v], values, v);
    }
  }

  template <int k, class Sharing>
  MUCC_DEVICE void reduce(Sharing& sharing) {
    if constexpr (k < Work::kPhases) {
      using Kinds = KindsOf<Work, k>;
      typename Kinds::Totals acc[V];
#pragma unroll
      for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
      load_again<k - kSecond + 1>([&](uint32_t base, Loads const(&loads)[kItems]) { add<k>(acc, base, count, loads); });
#pragma unroll 1
      for (uint32_t base = 0; base < kept; base += kRound) {
        Loads loads[kItems];
        get(base, loads);
        add<k>(acc, base, kept, loads);
      }
      combine_vector<V, Kinds>(acc);
      sharing.template combine<Kinds>(acc);
      RowValues<V, Kinds::kCount> results;
#pragma unroll
      for (int i = 0; i < Kinds::kCount; ++i) results.of[i] = Lanes<V>(acc[0][i]);
      work.template end<V>(Phase<k>{}, row, results);
      reduce<k + 1>(sharing);
    }
  }

  MUCC_DEVICE void begin_row(uint32_t number, RowPlace<V, Work>& at, Row& of) const {
    at.start(number, extents);
    at.move(0, extents);
    work.template begin<V>(at.p, of);
  }

  // Stores the steps of this row that are held (`has_row`), and loads those of the next row in their place (`has_next`).
  MUCC_DEVICE void pass(bool has_row, bool has_next, RowPlace<V, Work>& next, Row const& of_next) {
#pragma unroll 1
    for (uint32_t base = 0; base < kept; base += kRound) {
      Loads fresh[kItems];
      if (has_next) load(next, base, fresh);
      if (has_row && Work::kFills) {
        Loads loads[kItems];
        get(base, loads);
        store(base, kept, loads);
      }
      if (has_next) {
#pragma unroll
        for (int i = 0; i < kItems; ++i)
          if (step_of(base, i) < kept) held.put(step_of(base, i), fresh[i]);
        add_first(next, of_next, base, kept, fresh);
      }
    }
  }

  // Computes rows from `number` on, `stride` apart, below `rows`. One call of `pass` serves the first, the last and all other
  // rows: three inlined copies took a third of the time of compiling.
  template <class Sharing>
  MUCC_DEVICE void run(uint32_t number, uint32_t stride, uint32_t rows, bool is_first, Sharing& sharing) {
    bool has_row = false;
#pragma unroll 1
    while (true) {
      bool const has_next = number < rows;
      RowPlace<V, Work> next = place;
      Row of_next = row;
      if (has_next) begin_row(number, next, of_next);
      first.start();
      pass(has_row, has_next, next, of_next);
      if (has_row) {
        place.move(0, extents);
        if (is_first) work.template finish<V, 1>(place.p, row);
      }
      if (!has_next) break;
      place = next, row = of_next, has_row = true;
      load_again<0>([&](uint32_t base, Loads const(&loads)[kItems]) { add_first(place, row, base, count, loads); });
      number += stride;
      first.end(work, row, sharing);
      reduce<kSecond>(sharing);
      if constexpr (Work::kFills)
        load_again<Work::kPhases - kSecond + 1>(
            [&](uint32_t base, Loads const(&loads)[kItems]) { store(base, count, loads); });
    }
  }
};

}  // namespace mucc
