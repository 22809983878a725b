// The host side of gradients of attention.
#pragma once

#include <mucc/attention_backward.h>
#include <mucc/attention_launch.h>

namespace mucc::attention_backward {

// The sizes of a call. `extents` are those of the scores: leading axes, queries, keys.
struct Sizes {
  int64_t batches = 1, key_batches = 1, tiles, key_tiles;
};

template <class Op>
Sizes sizes_of(Extents<Op::kRank> const& extents) {
  Sizes sizes;
  for (int a = 0; a < Op::kBatch; ++a) {
    sizes.batches *= extents.of[a];
    if (!attention::is_shared<Op>(a)) sizes.key_batches *= extents.of[a];
  }
  sizes.tiles = sizes.batches * blocks_of(extents.of[Op::kRank - 2], Op::kTileRows);
  sizes.key_tiles = sizes.key_batches * blocks_of(extents.of[Op::kRank - 1], kKeys);
  return sizes;
}

// In how many parts heads that share keys are divided: one for each where there are few tiles of keys. Blocks with few queries
// to see get ahead of the others, so that heads that are read at a time are many, and do not stay in L2.
template <class Op>
int64_t parts_of(Call const& c, Extents<Op::kRank> const& extents) {
  if constexpr (Op::kShared == 0) return 1;
  Sizes const sizes = sizes_of<Op>(extents);
  constexpr int kFew = 3;
  bool const few = attention::kTakesTiles<Op> && sizes.key_tiles < kFew * at_least(1, c.sm_count);
  return few && sizes.key_batches > 0 ? sizes.batches / sizes.key_batches : 1;
}

// Bytes of the sums of gradients of keys and values.
template <class Op>
int64_t sum_bytes(Call const& c, Extents<Op::kRank> const& extents) {
  return parts_of<Op>(c, extents) > 1 ? aligned(4 * kKeyFloats<Op> * sizes_of<Op>(extents).key_tiles) : 0;
}

template <class Op>
int64_t scratch(Call const& c, Extents<Op::kRank> const& extents) {
  return aligned(4 * kTileFloats<Op> * sizes_of<Op>(extents).tiles) + sum_bytes<Op>(c, extents) +
         attention::span_bytes<Op>(extents, extents.of[Op::kRank - 1]);
}

// Runs `op`; its kernels are in the order of `Form`.
template <class Op>
int launch(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool, void* scratch) {
  Sizes const sizes = sizes_of<Op>(extents);
  bool const fits = sizes.tiles < INT32_MAX && sizes.key_tiles * parts_of<Op>(c, extents) < INT32_MAX && sizes.key_tiles < INT32_MAX && extents.of[Op::kRank - 2] < INT32_MAX / 2 &&
                    extents.of[Op::kRank - 1] < INT32_MAX / 2;
  if (!fits) return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  float* partials = static_cast<float*>(scratch);
  bool const wants_query = op.query_gradient.data && sizes.tiles > 0;
  if (wants_query && fill(c, partials, 0.0f, kTileFloats<Op> * sizes.tiles, 1, kTileFloats<Op> * sizes.tiles)) return 1;
  if (!wants_query) partials = nullptr;
  Division division{int(parts_of<Op>(c, extents)), nullptr};
  char* const behind = static_cast<char*>(scratch) + aligned(4 * kTileFloats<Op> * sizes.tiles);
  bool const divides = division.parts > 1 && sizes.key_tiles > 0;
  int64_t const sums = kKeyFloats<Op> * sizes.key_tiles;
  if (divides) {
    division.sums = reinterpret_cast<float*>(behind);
    if (fill(c, division.sums, 0.0f, sums, 1, sums)) return 1;
  }
  auto packs = [](auto const& result, int width) { return !result.data || attention::in_pieces(result, width); };
  op.packs = packs(op.query_gradient, Op::kWidth) && packs(op.key_gradient, Op::kWidth) &&
             packs(op.value_gradient, Op::kResultWidth);
  if constexpr (Op::kHasLabels) {
    char* const to = behind + sum_bytes<Op>(c, extents);
    if (sizes.tiles > 0 && attention::find_spans(c, stage, codes[kSpans<Op>], op, extents, extents.of[Op::kRank - 1], to)) return 1;
  }
  if (sizes.key_tiles > 0) {
    Maps maps;
    // Where there is no query nothing is read: any map will do.
    bool const any = sizes.tiles > 0;
    if (attention::make_map(c, maps.key, op.key, Op::kWidth, kKeys) ||
        attention::make_map(c, maps.value, op.value, Op::kResultWidth, kKeys) ||
        (any && (attention::make_map(c, maps.query, op.query, Op::kWidth, Op::kTileRows) ||
                 attention::make_map(c, maps.gradient, op.gradient, Op::kResultWidth, Op::kTileRows))))
      return 1;
    if (!any) maps.query = maps.key, maps.gradient = maps.value;
    Geometry geometry{{unsigned(sizes.key_tiles * division.parts), 1, 1}, unsigned(128 * (kGroups + 1))};
    geometry.shared = unsigned(shared_bytes<Op>());
    void* parameters[] = {&op, &extents, &maps, &partials, &division};
    if (start(c, stage, codes[kMultiply], geometry, parameters)) return 1;
    if (divides) {
      Geometry const each{{unsigned(sizes.key_tiles), 1, 1}, 128 * kGroups};
      void* given[] = {&op, &extents, &division};
      if (start(c, stage, codes[kFinishKeys], each, given)) return 1;
    }
  }
  if (!wants_query) return 0;
  Geometry const geometry{{unsigned(sizes.tiles), 1, 1}, 128 * kGroups};
  void* parameters[] = {&op, &extents, &partials};
  return start(c, stage, codes[kFinish], geometry, parameters);
}

}  // namespace mucc::attention_backward
