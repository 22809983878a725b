// Loads and stores of pointwise kernels.
#pragma once

#include <mucc/math.cuh>
#include <mucc/random.cuh>
#include <mucc/view.h>

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
MUCC_DEVICE float widen(bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }
MUCC_DEVICE float widen(f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}

MUCC_DEVICE float widen(e4m3 x) { return from_e4m3(x.bits); }
MUCC_DEVICE float widen(e5m2 x) { return widen(f16{uint16_t(x.bits << 8)}); }
MUCC_DEVICE float widen(int8_t x) { return float(x); }
MUCC_DEVICE float widen(uint8_t x) { return float(x); }
MUCC_DEVICE float widen(int32_t x) { return float(x); }

MUCC_DEVICE void narrow(float x, float& to) { to = x; }
MUCC_DEVICE void narrow(float x, bf16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
MUCC_DEVICE void narrow(float x, f16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
MUCC_DEVICE void narrow(float x, e4m3& to) { to.bits = to_e4m3(x); }
MUCC_DEVICE void narrow(float x, e5m2& to) { to.bits = to_e5m2(x); }
MUCC_DEVICE void narrow(float x, int8_t& to) { to = int8_t(round_s8(x)); }
MUCC_DEVICE void narrow(float x, uint8_t& to) { to = uint8_t(round_u8(x)); }
MUCC_DEVICE void narrow(float x, int32_t& to) { to = __float2int_rn(x); }

// Two numbers as bf16, the first in the low half.
MUCC_DEVICE uint32_t narrow_pair(float low, float high) {
  uint32_t pair;
#if defined(__CUDA_ARCH__)
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  bf16 lower, upper;
  narrow(low, lower), narrow(high, upper);
  pair = uint32_t(upper.bits) << 16 | lower.bits;
#endif
  return pair;
}

// The nearest number of tf32. What is not rounded the tensor cores cut off.
MUCC_DEVICE uint32_t to_tf32(float x) {
#if defined(__CUDA_ARCH__)
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  return (__builtin_bit_cast(uint32_t, x) + 0x1000u) & ~0x1fffu;
#endif
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

// Splits a linear index over axes [kFirst, kLast) of a space whose extents `Op` knows in part; along axis `kFast` a step is V
// elements. Dividing by a constant takes a fifth of the instructions.
template <class Op, int kFast, int V, int kFirst, int kLast, class P, class Index>
MUCC_DEVICE void split_known(P& p, Index linear, int64_t const* extents) {
  if constexpr (kLast - 1 <= kFirst) {
    if constexpr (kLast - 1 == kFirst) p.at[kFirst] = linear;
  } else {
    constexpr int a = kLast - 1;
    constexpr Index kKnown = Op::kKnown[a] / (a == kFast ? V : 1);
    Index const extent = kKnown ? kKnown : Index(extents[a]), rest = linear / extent;
    p.at[a] = linear - rest * extent;
    split_known<Op, kFast, V, kFirst, kLast - 1>(p, rest, extents);
  }
}

template <class T, int V>
struct alignas(vector_bytes(V, sizeof(T))) Pack {
  T of[V];
};

// Writes a pack to global memory, 8 or 16 bytes by one instruction. Of an assignment the compiler makes an instruction for each
// element where the address is a sum of several products.
template <class T>
MUCC_DEVICE void write_words(T* to, T const& pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) % 16 == 0) {
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 16; ++i) {
      uint4 const& w = reinterpret_cast<uint4 const*>(&pack)[i];
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<uint4*>(to) + i), "r"(w.x), "r"(w.y), "r"(w.z),
                   "r"(w.w)
                   : "memory");
    }
    return;
  } else if constexpr (sizeof(T) == 8) {
    uint2 const& w = reinterpret_cast<uint2 const&>(pack);
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w.x), "r"(w.y) : "memory");
    return;
  }
#endif
  *to = pack;
}

// The place of a view's first lane, in elements from its first one. Along the axis of the lanes the stride is known.
template <class View, class P>
MUCC_DEVICE int64_t index_of(View const& view, P const& p) {
  int64_t index = 0;
#pragma unroll
  for (int a = 0; a < View::kRank; ++a) {
    int64_t const i = int64_t(p.at[a]), known = View::Known::of(a);
    if (a != View::kAxis || View::kAlong == Along::kAny)
      index += known < 0 ? i * view.stride[a] : i * known;
    else if (View::kAlong == Along::kUnit)
      index += i;
  }
  return index;
}

template <class View, class P>
MUCC_DEVICE typename View::Element* place(View const& view, P const& p) {
  return view.data + index_of(view, p);
}

template <class T>
inline constexpr bool shares_bytes = false;
template <>
inline constexpr bool shares_bytes<s4> = true;
template <>
inline constexpr bool shares_bytes<u4> = true;

// The i-th integer of those that share bytes.
MUCC_DEVICE float widen(s4 const* data, int64_t i) {
  int const x = data[i >> 1].bits >> 4 * int(i & 1) & 15;
  return float((x ^ 8) - 8);
}
MUCC_DEVICE float widen(u4 const* data, int64_t i) { return float(data[i >> 1].bits >> 4 * int(i & 1) & 15); }

// The same where elements share bytes.
template <int V, class View, class P>
MUCC_DEVICE Lanes<V> load_packed(View const& view, P const& p) {
  int64_t const at = index_of(view, p);
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = widen(view.data, at + v * view.stride[View::kAxis]);
  return result;
}

// V neighbouring elements.
template <int V, class T>
MUCC_DEVICE Lanes<V> load_pack(T const* at) {
  Pack<T, V> const pack = *reinterpret_cast<Pack<T, V> const*>(at);
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = widen(pack.of[v]);
  return result;
}

// The same of bf16, by pairs: one instruction takes each element out of a word, where the upper one of two separate
// elements needs two.
template <int V>
MUCC_DEVICE Lanes<V> load_pack(bf16 const* at) {
  Pack<uint32_t, V / 2> const words = *reinterpret_cast<Pack<uint32_t, V / 2> const*>(at);
  Lanes<V> result;
#pragma unroll
  for (int w = 0; w < V / 2; ++w) {
    result.of[2 * w] = __uint_as_float(words.of[w] << 16);
    result.of[2 * w + 1] = __uint_as_float(words.of[w] & 0xffff0000u);
  }
  return result;
}

template <int V, class View, class P>
MUCC_DEVICE Lanes<V> load_whole(View const& view, P const& p) {
  using T = typename View::Element;
  T const* at = place(view, p);
  Lanes<V> result;
  if constexpr (V == 1 || View::kAlong == Along::kSame) {
    result = Lanes<V>(widen(*at));
  } else if constexpr (View::kAlong == Along::kUnit) {
    result = load_pack<V>(at);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) result.of[v] = widen(at[v * view.stride[View::kAxis]]);
  }
  return result;
}

// Writes 16 bytes that are not needed again soon: L2 keeps other lines rather than theirs.
template <class T>
MUCC_DEVICE void write_once(T* to, T const& value) {
  static_assert(sizeof(T) == 16);
#if defined(__CUDA_ARCH__)
  __stcs(reinterpret_cast<float4*>(to), reinterpret_cast<float4 const&>(value));
#else
  *to = value;
#endif
}

// Lanes of two tensors whose elements alternate.
template <int V>
struct TwoLanes {
  Lanes<V> even, odd;
};

template <int V, class T, int R, int Axis, class P>
MUCC_DEVICE TwoLanes<V> load_two(Alternating<T, R, Axis> const& two, P const& p) {
  T const* const at = place(two.even, p);
  TwoLanes<V> result;
  if constexpr (V == 1) {
    result = {Lanes<V>(widen(at[0])), Lanes<V>(widen(at[1]))};
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Lanes<V> const pack = load_pack<V>(at + half * V);
#pragma unroll
      for (int v = 0; v < V; v += 2) {
        result.even.of[(half * V + v) / 2] = pack.of[v];
        result.odd.of[(half * V + v) / 2] = pack.of[v + 1];
      }
    }
  }
  return result;
}

template <int V, class T, int R, int Axis, class P>
MUCC_DEVICE void store_two(Alternating<T, R, Axis> const& two, P const& p, Lanes<V> const& even, Lanes<V> const& odd) {
  T* const at = place(two.even, p);
  if constexpr (V == 1) {
    narrow(even.of[0], at[0]);
    narrow(odd.of[0], at[1]);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Pack<T, V> pack;
#pragma unroll
      for (int v = 0; v < V; v += 2) {
        narrow(even.of[(half * V + v) / 2], pack.of[v]);
        narrow(odd.of[(half * V + v) / 2], pack.of[v + 1]);
      }
      write_words(reinterpret_cast<Pack<T, V>*>(at) + half, pack);
    }
  }
}

template <int V, class View, class P>
MUCC_DEVICE Lanes<V> load(View const& view, P const& p) {
  if constexpr (shares_bytes<typename View::Element>)
    return load_packed<V>(view, p);
  else
    return load_whole<V>(view, p);
}

// Has L2 fetch what step `step` of a row will load, V neighbouring elements a step. The first step of each line does that.
template <int V, class View, class P>
MUCC_DEVICE void prefetch(View const& view, P const& p, uint32_t step) {
#if defined(__CUDA_ARCH__)
  constexpr uint32_t kSteps = 128 / (V * sizeof(typename View::Element));
  if (step % kSteps == 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(place(view, p)));
#endif
}

MUCC_DEVICE bool contains(Range const& range, int64_t index) {
  return uint64_t(index - range.low) < uint64_t(range.count);
}

template <int R, int At, int Axis, class P>
MUCC_DEVICE auto index_of(Counter<R, At, Axis> const&, P const& p) {
  return p.at[At];
}

// How far a view moves from one lane to the next, in elements.
template <class View>
MUCC_DEVICE int64_t lane_step(View const& view) {
  return View::kAlong == Along::kUnit ? 1 : View::kAlong == Along::kSame ? 0 : view.stride[View::kAxis];
}

template <int R, int At, int Axis>
MUCC_DEVICE constexpr int lane_step(Counter<R, At, Axis> const&) {
  return At == Axis;
}

// The places of a view, as the bits of integers.
template <int V, class View, class P>
MUCC_DEVICE Lanes<V> indices(View const& view, P const& p) {
  int64_t const first = index_of(view, p);
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = from_bits(int(first + v * lane_step(view)));
  return result;
}

// 1 where the place of a view is in a range, else 0.
template <int V, class View, class P>
MUCC_DEVICE Lanes<V> inside(Range const& range, View const& view, P const& p) {
  int64_t const first = index_of(view, p);
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = contains(range, first + v * lane_step(view)) ? 1.0f : 0.0f;
  return result;
}

// Uniform numbers from 0 to below 1 for the elements that the places of a view number.
template <int V, class View, class P>
MUCC_DEVICE Lanes<V> random(View const& view, P const& p, uint32_t seed, uint32_t stream) {
  int64_t const first = index_of(view, p);
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = uniform(uint64_t(first + v * lane_step(view)), seed, stream);
  return result;
}

// The v-th of the lanes that a load would give.
template <class View, class P>
MUCC_DEVICE float load_lane(View const& view, P const& p, int v) {
  return widen(place(view, p)[v * lane_step(view)]);
}

template <class View, class Index, class P>
MUCC_DEVICE float load_lane(Within<View, Index> const& within, P const& p, int v) {
  int64_t const index = index_of(within.index, p) + v * lane_step(within.index);
  return contains(within.range, index) ? load_lane(within.at, p, v) : 0.0f;
}

// Zeros where the view has no element. What lies there in memory is not read.
template <int V, class View, class Index, class P>
MUCC_DEVICE Lanes<V> load(Within<View, Index> const& within, P const& p) {
  int64_t const first = index_of(within.index, p) - within.range.low;
  if constexpr (V == 1 || Index::kAlong == Along::kSame) {
    return uint64_t(first) < uint64_t(within.range.count) ? load<V>(within.at, p) : Lanes<V>(0.0f);
  } else {
    static_assert(Index::kAlong == Along::kUnit, "bounds are along one axis");
    if (first >= 0 && first + V <= within.range.count) return load<V>(within.at, p);
    if (first + V <= 0 || first >= within.range.count) return Lanes<V>(0.0f);
    Lanes<V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.of[v] = load_lane(within, p, v);
    return result;
  }
}

// Writes V neighbouring elements.
template <int V, class T>
MUCC_DEVICE void store_pack(T* at, Lanes<V> const& value) {
  Pack<T, V> pack;
#pragma unroll
  for (int v = 0; v < V; ++v) narrow(value.of[v], pack.of[v]);
  write_words(reinterpret_cast<Pack<T, V>*>(at), pack);
}

// The same of bf16, by pairs: of two elements a word is made before it is written, not written in halves.
template <int V>
MUCC_DEVICE void store_pack(bf16* at, Lanes<V> const& value) {
  Pack<uint32_t, V / 2> words;
#pragma unroll
  for (int w = 0; w < V / 2; ++w) words.of[w] = narrow_pair(value.of[2 * w], value.of[2 * w + 1]);
  write_words(reinterpret_cast<Pack<uint32_t, V / 2>*>(at), words);
}

template <int V, class View, class P>
MUCC_DEVICE void store(View const& view, P const& p, Lanes<V> const& value) {
  using T = typename View::Element;
  T* at = place(view, p);
  if constexpr (V > 1 && View::kAlong == Along::kUnit) {
    store_pack<V>(at, value);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) narrow(value.of[v], at[v * view.stride[View::kAxis]]);
  }
}

// The same of elements that are not needed again soon, where `kOnce`.
template <bool kOnce, int V, class View, class P>
MUCC_DEVICE void store_hinted(View const& view, P const& p, Lanes<V> const& value) {
  using T = typename View::Element;
  if constexpr (kOnce && View::kAlong == Along::kUnit && sizeof(Pack<T, V>) == 16) {
    Pack<T, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) narrow(value.of[v], pack.of[v]);
    write_once(reinterpret_cast<Pack<T, V>*>(place(view, p)), pack);
  } else {
    store(view, p, value);
  }
}

// Rows that an index names; zeros for a row that there is not.
template <int V, class View, class Index, class P>
MUCC_DEVICE Lanes<V> load_rows(Rows<View> const& rows, Index const& index, P const& p) {
  auto const* numbers = place(index, p);
  if constexpr (V == 1 || Index::kAlong == Along::kSame) {
    int64_t const row = *numbers;
    if (row < 0 || row >= rows.count) return Lanes<V>(0.0f);
    View moved = rows.at;
    moved.data += row * rows.stride;
    return load<V>(moved, p);
  } else {
    auto const* at = place(rows.at, p);
    Lanes<V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      int64_t const row = numbers[v * lane_step(index)];
      bool const good = 0 <= row && row < rows.count;
      result.of[v] = good ? widen(at[row * rows.stride + v * lane_step(rows.at)]) : 0.0f;
    }
    return result;
  }
}

// Stores rows where an index says; nothing for a row that there is not.
template <int V, class View, class Index, class P>
MUCC_DEVICE void store_rows(Rows<View> const& rows, Index const& index, P const& p, Lanes<V> const& value) {
  auto const* numbers = place(index, p);
  if constexpr (V == 1 || Index::kAlong == Along::kSame) {
    int64_t const row = *numbers;
    if (row < 0 || row >= rows.count) return;
    View moved = rows.at;
    moved.data += row * rows.stride;
    store(moved, p, value);
  } else {
    auto* at = place(rows.at, p);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      int64_t const row = numbers[v * lane_step(index)];
      if (0 <= row && row < rows.count) narrow(value.of[v], at[row * rows.stride + v * lane_step(rows.at)]);
    }
  }
}

}  // namespace mucc
