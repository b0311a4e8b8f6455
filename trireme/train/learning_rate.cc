#include "trireme/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::train {

double learning_rate(const Job::Optimizer& o, std::int64_t done, std::int64_t total) {
  const double progress =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0.0;
  if (progress < o.warmup)
    return o.lr * (progress / o.warmup * 0.95 + 0.05);  // never zero: the first step counts
  if (o.schedule == "constant") return o.lr;
  const double phase = (progress - o.warmup) / (1.0 - o.warmup);
  return o.lr * 0.5 * (1.0 + std::cos(std::numbers::pi * phase));
}

}  // namespace trireme::train
