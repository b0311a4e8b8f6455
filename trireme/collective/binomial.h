// The binomial tree that broadcasts from `root`, in relative ranks v = (rank - root) mod P.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "trireme/collective/loads.h"

namespace trireme::collective {

// Relative rank v receives from v - 2^k (2^k its highest bit) and sends to v + 2^j for every 2^j > v while
// inside the world. The path to v takes one message per set bit of v, so the longest is floor(log2 P).
struct Binomial {
  int world, root;
  int relative(int rank) const { return (rank - root + world) % world; }
  int absolute(int v) const { return (v + root) % world; }
  int parent(int rank) const {  // not for the root
    const auto v = static_cast<unsigned>(relative(rank));
    return absolute(static_cast<int>(v - std::bit_floor(v)));
  }
  template <typename Fn>
  void for_children(int rank, Fn&& fn) const {
    const int v = relative(rank);
    for (std::int64_t bit = v == 0 ? 1
                                   : 2 * static_cast<std::int64_t>(std::bit_floor(static_cast<unsigned>(v)));
         v + bit < world; bit *= 2)
      fn(absolute(static_cast<int>(v + bit)));
  }
  int num_children(int rank) const {
    int n = 0;
    for_children(rank, [&n](int) { ++n; });
    return n;
  }
  int depth() const { return std::bit_width(static_cast<unsigned>(world)) - 1; }
  // fn(parent, child) for every edge, parents before their children.
  template <typename Fn>
  void for_edges(Fn&& fn) const {
    for (int v = 1; v < world; ++v) fn(parent(absolute(v)), absolute(v));
  }
  // Most messages between machines on the way from the root to a rank.
  int crossings(const Loads& loads) const {
    if (!loads.has_machines()) return 0;
    std::vector<int> on_path(static_cast<std::size_t>(world));
    int most = 0;
    for_edges([&](int parent, int child) {
      int& here = on_path[static_cast<std::size_t>(child)];
      here = on_path[static_cast<std::size_t>(parent)] + (loads.crosses(parent, child) ? 1 : 0);
      most = std::max(most, here);
    });
    return most;
  }
};

}  // namespace trireme::collective
