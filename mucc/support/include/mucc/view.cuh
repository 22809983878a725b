// Tensors as pointwise kernels see them: a pointer and one stride per axis of the kernel's space.
#pragma once

#include <mucc/math.cuh>

#include <cstdint>

namespace mucc {

// V neighbouring elements of one value, in f32.
template <int V>
struct Lanes {
  float of[V];
  Lanes() = default;
  MUCC_DEVICE explicit Lanes(float x) {
#pragma unroll
    for (int v = 0; v < V; ++v) of[v] = x;
  }
};

// Applies `Body::apply`, a function of floats, to each lane.
template <class Body, int V, class... More>
MUCC_DEVICE Lanes<V> each(Lanes<V> const& first, More const&... more) {
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = Body::apply(first.of[v], more.of[v]...);
  return result;
}

MUCC_DEVICE float widen(float x) { return x; }
MUCC_DEVICE float widen(__half x) { return __half2float(x); }
MUCC_DEVICE float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
MUCC_DEVICE T narrow(float x);
template <>
MUCC_DEVICE float narrow<float>(float x) {
  return x;
}
template <>
MUCC_DEVICE __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
MUCC_DEVICE __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// A place in a space of R axes. Index is 32 bits wide where the space is small enough: its divisions are cheaper.
template <int R, class Index>
struct Position {
  static constexpr int kRank = R;
  Index at[R];

  // Splits a linear index over axes [First, Last); the last of them moves fastest.
  template <int First, int Last>
  MUCC_DEVICE void split(Index linear, int64_t const* extents) {
#pragma unroll
    for (int a = Last - 1; a > First; --a) {
      Index const extent = Index(extents[a]);
      Index const rest = linear / extent;
      at[a] = linear - rest * extent;
      linear = rest;
    }
    at[First] = linear;
  }
};

// How a tensor lies along the axis that the lanes run along: adjacent elements, the same one, or anyhow.
enum class Along { kUnit, kSame, kAny };

constexpr int vector_bytes(int v, int element) { return v * element < 16 ? v * element : 16; }

template <class T, int V>
struct alignas(vector_bytes(V, sizeof(T))) Pack {
  T of[V];
};

// A tensor seen from a space of R axes, of which `Axis` is the one that lanes run along. Strides count elements.
template <class T, int R, Along kAlong, int Axis = R - 1>
struct View {
  T* data;
  int64_t stride[R];

  template <class P>
  MUCC_DEVICE T* at(P const& p) const {
    T* place = data;
#pragma unroll
    for (int a = 0; a < R; ++a) place += int64_t(p.at[a]) * stride[a];
    return place;
  }

  template <int V, class P>
  MUCC_DEVICE Lanes<V> load(P const& p) const {
    T const* place = at(p);
    Lanes<V> result;
    if constexpr (V == 1 || kAlong == Along::kSame) {
      result = Lanes<V>(widen(*place));
    } else if constexpr (kAlong == Along::kUnit) {
      Pack<T, V> const pack = *reinterpret_cast<Pack<T, V> const*>(place);
#pragma unroll
      for (int v = 0; v < V; ++v) result.of[v] = widen(pack.of[v]);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) result.of[v] = widen(place[v * stride[Axis]]);
    }
    return result;
  }

  template <int V, class P>
  MUCC_DEVICE void store(P const& p, Lanes<V> const& value) const {
    T* place = at(p);
    if constexpr (V > 1 && kAlong == Along::kUnit) {
      Pack<T, V> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) pack.of[v] = narrow<T>(value.of[v]);
      *reinterpret_cast<Pack<T, V>*>(place) = pack;
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) place[v * stride[Axis]] = narrow<T>(value.of[v]);
    }
  }

  // Writes a reduction; `shared` says that other blocks write the same element.
  template <class Reduction, class P>
  MUCC_DEVICE void reduce(P const& p, float value, bool shared) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (shared) return Reduction::atomic(at(p), value);
    }
    *at(p) = narrow<T>(value);
  }

  // Whether lanes can be loaded and stored V at a time.
  bool fits(int v) const {
    if (kAlong != Along::kUnit) return true;
    int const bytes = vector_bytes(v, sizeof(T));
    if (reinterpret_cast<uintptr_t>(data) % bytes != 0) return false;
    for (int a = 0; a < R; ++a)
      if (a != Axis && stride[a] * int64_t(sizeof(T)) % bytes != 0) return false;
    return true;
  }
};

}  // namespace mucc
