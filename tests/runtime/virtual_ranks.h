// Ranks of a virtual world with one endpoint each that note what they hear and when.
#pragma once

#include <memory>
#include <ostream>
#include <vector>

#include "trireme/runtime/network.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime::testing {

inline Packet phantom(std::uint64_t bytes, std::uint64_t word = 0) {
  return {.header = {word}, .payload = nullptr, .bytes = bytes};
}

struct Seen {
  TimeNs at;
  int from;
  std::uint64_t word;  // of the packet; kClosedWord for a notice
  friend bool operator==(const Seen&, const Seen&) = default;
};
inline constexpr std::uint64_t kClosedWord = 999;
inline void PrintTo(const Seen& s, std::ostream* out) {
  *out << fmt::format("[{} from {} word {}]", s.at, s.from, s.word);
}

// One Runtime with one endpoint that notes what it hears.
struct Rank {
  Rank(VirtualWorld& world, int machine, int id)
      : rt(world.add_runtime(machine, fmt::format("rank {}", id))),
        box(std::move(rt.network().open_endpoint(id)).value()) {
    box->set_handlers(
        [this](int from, Packet p) {
          seen.push_back({rt.now(), from, p.header[0]});
          packets.push_back(std::move(p));
        },
        [this](int peer) {
          seen.push_back({rt.now(), peer, kClosedWord});
        });
  }
  Runtime& rt;
  std::unique_ptr<FabricEndpoint> box;
  std::vector<Seen> seen;
  std::vector<Packet> packets;
};

inline std::vector<std::unique_ptr<Rank>> make_ranks(VirtualWorld& world, const std::vector<int>& machines) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::size_t i = 0; i < machines.size(); ++i)
    ranks.push_back(std::make_unique<Rank>(world, machines[i], static_cast<int>(i)));
  return ranks;
}

// One rank on every machine.
inline std::vector<std::unique_ptr<Rank>> make_ranks(VirtualWorld& world, int num_machines) {
  std::vector<int> machines;
  for (int m = 0; m < num_machines; ++m) machines.push_back(m);
  return make_ranks(world, machines);
}

}  // namespace trireme::runtime::testing
