// How epilogues call the bodies that the compiler writes.
#pragma once

#include <mucc/math.cuh>

#include <type_traits>

namespace mucc::gemm {

// A body of which only the place is compiled: the rest comes later, from a compilation of its own.
struct Marker {};

// `Body::apply`, a function of floats. What goes in and out is fenced, so that a body computes the same, in the same
// instructions, whether it is compiled here or alone.
template <class Body, class... Inputs>
MUCC_DEVICE float apply(Inputs... inputs) {
  if constexpr (std::is_base_of_v<Marker, Body>) {
    return Body::apply(inputs...);
  } else {
    return fenced(Body::apply(fenced(inputs)...));
  }
}

}  // namespace mucc::gemm
