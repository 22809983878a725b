// The instructions of PTX that lanes of a warp run together. All lanes of a mask are at the same instruction.
#pragma once

#include "ptx_instructions.h"

namespace ptx {

// The lanes that take part; others are null. `mask` has a bit for each of them.
struct Warp {
  Thread* lanes[32];
  uint32_t mask;
};
using RunWarp = void (*)(Warp&, Operands);

inline std::map<std::string, RunWarp>& warp_instructions() {
  static std::map<std::string, RunWarp> all;
  return all;
}

// shfl.sync: register, predicate whether the source is in range, number, distance, bounds.
template <class Source>
void shuffle(Warp& warp, Operands o, Source source) {
  uint32_t given[32] = {};
  for (int lane = 0; lane < 32; ++lane)
    if (warp.lanes[lane]) given[lane] = get<uint32_t>(*warp.lanes[lane], o[2]);
  for (int lane = 0; lane < 32; ++lane) {
    if (!warp.lanes[lane]) continue;
    Thread& t = *warp.lanes[lane];
    int const distance = int(get<uint32_t>(t, o[3]) & 31), bounds = int(get<uint32_t>(t, o[4]));
    int const clamp = bounds & 31, segments = bounds >> 8 & 31;
    int const last = (lane & segments) | (clamp & ~segments), first = lane & segments;
    auto const [from, inside] = source(lane, distance, first, last, segments);
    if (inside && !warp.lanes[from]) throw Error("shfl.sync reads lane " + std::to_string(from) + ", which takes no part");
    put<uint32_t>(t, o[0], given[inside ? from : lane]);
    put<bool>(t, o[1], inside);
  }
}

struct From {
  int lane;
  bool inside;
};

inline uint32_t ballot(Warp& warp, int operand) {
  uint32_t votes = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (warp.lanes[lane] && get<bool>(*warp.lanes[lane], operand)) votes |= 1u << lane;
  return votes;
}
template <class T, class F>
void give(Warp& warp, int operand, F f) {
  for (Thread* t : warp.lanes)
    if (t) put<T>(*t, operand, f(*t));
}

inline void define_warps() {
  auto& all = warp_instructions();
  all["shfl.sync.up.b32"] = [](Warp& w, Operands o) {
    // For `up` the clamp is the first lane.
    shuffle(w, o, [](int lane, int n, int, int last, int) { return From{lane - n, lane - n >= last}; });
  };
  all["shfl.sync.down.b32"] = [](Warp& w, Operands o) {
    shuffle(w, o, [](int lane, int n, int, int last, int) { return From{lane + n, lane + n <= last}; });
  };
  all["shfl.sync.bfly.b32"] = [](Warp& w, Operands o) {
    shuffle(w, o, [](int lane, int n, int, int last, int) { return From{lane ^ n, (lane ^ n) <= last}; });
  };
  all["shfl.sync.idx.b32"] = [](Warp& w, Operands o) {
    shuffle(w, o, [](int, int n, int first, int last, int segments) {
      int const from = first | (n & ~segments);
      return From{from, from <= last};
    });
  };
  all["bar.warp.sync"] = [](Warp&, Operands) {};
  all["vote.sync.any.pred"] = [](Warp& w, Operands o) {
    give<bool>(w, o[0], [votes = ballot(w, o[1])](Thread&) { return votes != 0; });
  };
  all["vote.sync.all.pred"] = [](Warp& w, Operands o) {
    give<bool>(w, o[0], [every = ballot(w, o[1]) == w.mask](Thread&) { return every; });
  };
  all["vote.sync.ballot.b32"] = [](Warp& w, Operands o) {
    give<uint32_t>(w, o[0], [votes = ballot(w, o[1])](Thread&) { return votes; });
  };
  all["match.any.sync.b32"] = [](Warp& w, Operands o) {
    give<uint32_t>(w, o[0], [&](Thread& t) {
      uint32_t same = 0;
      for (int lane = 0; lane < 32; ++lane)
        if (w.lanes[lane] && get<uint32_t>(*w.lanes[lane], o[1]) == get<uint32_t>(t, o[1])) same |= 1u << lane;
      return same;
    });
  };
}

}  // namespace ptx
