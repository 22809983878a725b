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

template <class Op>
int64_t scratch(Call const&, Extents<Op::kRank> const& extents) {
  return aligned(4 * kTileFloats<Op> * sizes_of<Op>(extents).tiles) +
         attention::span_bytes<Op>(extents, extents.of[Op::kRank - 1]);
}

// Runs `op`; its kernels are in the order of `Form`.
template <class Op>
int launch(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool, void* scratch) {
  Sizes const sizes = sizes_of<Op>(extents);
  bool const fits = sizes.tiles < INT32_MAX && sizes.key_tiles < INT32_MAX && extents.of[Op::kRank - 2] < INT32_MAX / 2 &&
                    extents.of[Op::kRank - 1] < INT32_MAX / 2;
  if (!fits) return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  float* partials = static_cast<float*>(scratch);
  bool const wants_query = op.query_gradient.data && sizes.tiles > 0;
  if (wants_query && fill(c, partials, 0.0f, kTileFloats<Op> * sizes.tiles, 1, kTileFloats<Op> * sizes.tiles)) return 1;
  if (!wants_query) partials = nullptr;
  auto packs = [](auto const& result, int width) { return !result.data || attention::in_pieces(result, width); };
  op.packs = packs(op.query_gradient, Op::kWidth) && packs(op.key_gradient, Op::kWidth) &&
             packs(op.value_gradient, Op::kResultWidth);
  if constexpr (Op::kHasLabels) {
    char* const to = static_cast<char*>(scratch) + aligned(4 * kTileFloats<Op> * sizes.tiles);
    if (sizes.tiles > 0 && attention::find_spans(c, stage, codes[kSpans], op, extents, extents.of[Op::kRank - 1], to)) return 1;
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
    Geometry geometry{{unsigned(sizes.key_tiles), 1, 1}, unsigned(128 * (kGroups + 1))};
    geometry.shared = unsigned(shared_bytes<Op>());
    void* parameters[] = {&op, &extents, &maps, &partials};
    if (start(c, stage, codes[kMultiply], geometry, parameters)) return 1;
  }
  if (!wants_query) return 0;
  Geometry const geometry{{unsigned(sizes.tiles), 1, 1}, 128 * kGroups};
  void* parameters[] = {&op, &extents, &partials};
  return start(c, stage, codes[kFinish], geometry, parameters);
}

}  // namespace mucc::attention_backward
