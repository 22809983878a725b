// What launches of kernels over a space of elements have in common.
#pragma once

#include <mucc/call.h>
#include <mucc/view.h>

namespace mucc {

// Whether a stage has `reproducible = on`: how its work is divided may then depend on what is reduced, not on how many
// results there are.
template <class Op, class = void>
constexpr bool is_reproducible = false;
template <class Op>
constexpr bool is_reproducible<Op, decltype(void(Op::kReproducible))> = Op::kReproducible;


// Whether lanes of a view can be loaded and stored `v` at a time.
template <class View>
bool fits(View const& view, int v) {
  int const bytes = vector_bytes(v, sizeof(typename View::Element));
  if (reinterpret_cast<uintptr_t>(view.data) % bytes != 0) return false;
  for (int a = 0; a < View::kRank; ++a)
    if (a != View::kAxis && view.stride[a] * int64_t(sizeof(typename View::Element)) % bytes != 0) return false;
  return true;
}

// The same of rows that lie one behind the other, where the first one begins with a vector.
template <class View>
bool fits_shifted(View const& view, int v) {
  return reinterpret_cast<uintptr_t>(view.data) % vector_bytes(v, sizeof(typename View::Element)) == 0;
}

template <class View>
bool fits(Rows<View> const& rows, int v) {
  int const size = sizeof(typename View::Element);
  return fits(rows.at, v) && rows.stride * size % vector_bytes(v, size) == 0;
}

template <class T, int R, int Axis>
bool fits(Alternating<T, R, Axis> const& two, int v) {
  return fits(two.even, v);
}

template <int R, int At, int Axis>
bool fits(Counter<R, At, Axis> const&, int) {
  return true;
}

template <class View, class Index>
bool fits(Within<View, Index> const& within, int v) {
  return fits(within.at, v);
}

template <int R>
int64_t product(Extents<R> const& extents) {
  int64_t result = 1;
  for (int64_t e : extents.of) result *= e;
  return result;
}

constexpr int64_t blocks_of(int64_t work, int64_t each) { return (work + each - 1) / each; }

// The kernels of a stage come by the width of a step (one element, a vector) and by that of an index (32 or 64 bits).
enum : int { kWide = 1, kVector = 2 };

}  // namespace mucc
