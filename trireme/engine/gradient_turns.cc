#include "trireme/engine/gradient_turns.h"

#include <algorithm>

namespace trireme::engine {

void GradientTurns::applied(std::size_t bucket) {
  applied_[bucket] = true;
  for (std::size_t b = 0; b < places_.after.size(); ++b) {
    const std::vector<std::size_t>& after = places_.after[b];
    const bool waits = std::find(after.begin(), after.end(), bucket) != after.end();
    if (waits && std::all_of(after.begin(), after.end(), [this](std::size_t a) { return applied_[a]; }))
      open(b);
  }
}

void GradientTurns::open_all() {
  for (std::size_t b = 0; b < places_.gates.size(); ++b)
    if (places_.gates[b] >= 0) open(b);
}

}  // namespace trireme::engine
