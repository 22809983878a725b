// What warps ask of memory, counted while their threads run.
//
// Threads of a warp run one after the other, so the n-th time that each lane comes to an instruction counts as one request of the
// warp. A request to global memory is made of sectors of 32 bytes in lines of 128. Shared memory has 32 banks of 4 bytes, of which
// each gives one word a cycle.
#pragma once

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx_thread.h"

namespace ptx {

// Sums over all requests of one instruction.
struct Traffic {
  uint64_t requests = 0, bytes = 0;  // bytes that lanes name, those that several lanes name counted once
  uint64_t sectors = 0, lines = 0;   // of global memory
  uint64_t cycles = 0, least = 0;    // of shared memory: by banks, and where each bank gives a word in each cycle
};

struct Asked {
  uint64_t address;
  uint32_t lane, bytes;
  bool writes;
};

// The requests of the blocks that run, and the sums of all that have run.
class Meter {
 public:
  bool on = false;
  std::map<std::string, std::map<int, Traffic>> traffic;  // by kernel, then by the number of the instruction
  std::map<std::string, uint64_t> sectors_of_blocks;      // sectors that each block reads, added up

  void access(Thread const& t, uint64_t address, uint32_t bytes, bool in_shared, bool writes) {
    uint64_t const warp = uint64_t(t.block) << 8 | uint64_t(t.index / 32);
    Place& place = places[(warp << 32 | (t.pc - 1)) << 1 | uint64_t(in_shared)];
    uint32_t const time = place.times[t.lane]++;
    if (place.requests.size() <= time) place.requests.resize(time + 1);
    place.requests[time].push_back({address, uint32_t(t.lane), bytes, writes});
  }

  // Adds up what blocks have asked, once they have run.
  void blocks_end(std::string const& kernel) {
    for (auto& [key, place] : places) {
      Traffic& sum = traffic[kernel][int(key >> 1 & 0xffffffff)];
      for (std::vector<Asked>& request : place.requests) {
        if (request.empty()) continue;
        ++sum.requests;
        (key & 1) ? add_shared(sum, request) : add_global(sum, request, int(key >> 41));
      }
    }
    for (auto& [block, touched] : sectors) sectors_of_blocks[kernel] += touched.size();
    places.clear(), sectors.clear();
  }

 private:
  struct Place {
    uint32_t times[32] = {};
    std::vector<std::vector<Asked>> requests;
  };
  std::unordered_map<uint64_t, Place> places;
  std::map<int, std::unordered_set<uint64_t>> sectors;

  void add_global(Traffic& sum, std::vector<Asked> const& request, int block) {
    std::unordered_set<uint64_t> named, own, lines;
    for (Asked const& one : request) {
      if (named.insert(one.address).second) sum.bytes += one.bytes;
      for (uint64_t s = one.address / 32; s <= (one.address + one.bytes - 1) / 32; ++s)
        if (own.insert(s), lines.insert(s / 4), !one.writes) sectors[block].insert(s);
    }
    sum.sectors += own.size(), sum.lines += lines.size();
  }

  // Lanes whose accesses make 128 bytes are served together: all, half or a quarter of a warp.
  static void add_shared(Traffic& sum, std::vector<Asked> const& request) {
    std::map<uint32_t, std::vector<Asked>> parts;
    std::unordered_set<uint64_t> named;
    for (Asked const& one : request) {
      parts[one.lane * std::max(one.bytes, 4u) / 128].push_back(one);
      if (named.insert(one.address).second) sum.bytes += one.bytes;
    }
    for (auto const& [number, part] : parts) {
      std::unordered_set<uint64_t> words[32];
      for (Asked const& one : part)
        for (uint64_t w = one.address / 4; w <= (one.address + one.bytes - 1) / 4; ++w) words[w % 32].insert(w);
      size_t most = 0;
      for (auto const& bank : words) most = std::max(most, bank.size());
      sum.cycles += most, ++sum.least;
    }
  }
};

inline Meter meter;

}  // namespace ptx
