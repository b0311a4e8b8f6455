#include "trireme/runtime/virtual/network_faults.h"

#include <algorithm>

#include "trireme/base/hash.h"

namespace trireme::runtime::virt {
namespace {

using Kind = NetworkFault::Kind;
constexpr unsigned bit(Kind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kStops = bit(Kind::kLoss) | bit(Kind::kPartition);

bool contains(const std::vector<int>& machines, int m) {
  return machines.empty() || std::find(machines.begin(), machines.end(), m) != machines.end();
}

}  // namespace

NetworkChance::NetworkChance(const NetworkFaults& spec, std::uint64_t seed)
    : spec_(spec), random_(mix_key(seed, hash_text("network faults"))) {}

bool NetworkChance::concerns(const NetworkFault& f, int source, int target, cost::Routes& routes) const {
  const bool forth = contains(f.from, source) && contains(f.to, target);
  const bool back = !f.one_way && contains(f.from, target) && contains(f.to, source);
  if (!forth && !back) return false;
  if (f.link < 0) return true;
  const std::vector<std::int32_t> way = routes.path(source, target);
  return std::find(way.begin(), way.end(), f.link) != way.end();
}

unsigned NetworkChance::strike(TimeNs now, int source, int target, cost::Routes& routes, TimeNs& delay) {
  unsigned struck = 0;
  for (const NetworkFault& f : spec_.faults) {
    if (!f.active(now) || !concerns(f, source, target, routes)) continue;
    if (f.kind != Kind::kPartition && f.probability < 1 && random_.next_double() >= f.probability) continue;
    struck |= bit(f.kind);
    if (f.kind == Kind::kDelay || f.kind == Kind::kReorder) delay += f.delay;
  }
  return struck;
}

Fate NetworkChance::decide(TimeNs now, int source, int target, bool raw, cost::Routes& routes) {
  Fate fate;
  TimeNs delay = 0;
  unsigned struck = strike(now, source, target, routes, delay);
  if (raw) {
    fate.lost = (struck & kStops) != 0;
    fate.damaged = (struck & bit(Kind::kCorrupt)) != 0;
    fate.overtaken = (struck & bit(Kind::kReorder)) != 0;
  } else {
    TimeNs wait = spec_.resend_after;
    for (int resends = 0; (struck & (kStops | bit(Kind::kCorrupt))) != 0; ++resends) {
      fate.lost = resends == spec_.max_resends;
      if (fate.lost) return fate;
      fate.extra += wait;
      wait *= 2;
      delay = 0;
      struck = strike(now + fate.extra, source, target, routes, delay);
    }
  }
  fate.twice = (struck & bit(Kind::kDuplicate)) != 0;
  fate.extra += delay;
  return fate;
}

}  // namespace trireme::runtime::virt
