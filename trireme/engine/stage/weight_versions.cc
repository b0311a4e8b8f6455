#include "trireme/engine/stage/weight_versions.h"

#include <cstring>

#include "trireme/base/check.h"

namespace trireme::engine {

using runtime::Task;

Result<std::unique_ptr<WeightVersions::Copy>> WeightVersions::take_copy() {
  if (!free_.empty()) {
    std::unique_ptr<Copy> copy = std::move(free_.back());
    free_.pop_back();
    return copy;
  }
  auto copy = std::make_unique<Copy>();
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  for (const Tensor& vector : weights_.vectors()) {
    TR_ASSIGN_OR_RETURN(copy->vectors.emplace_back(), allocate_zeros(device, vector.type()));
  }
  TR_ASSIGN_OR_RETURN(copy->variables, weights_.variables_in(copy->vectors));
  return copy;
}

Task<Status> WeightVersions::keep() {
  TR_CO_ASSIGN_OR_RETURN(std::unique_ptr<Copy> copy, take_copy());
  copy->version = newest_;
  const std::vector<Tensor>& from = weights_.vectors();
  double bytes = 0;
  for (const Tensor& vector : from) bytes += 2 * static_cast<double>(vector.type().num_bytes());
  runtime::ComputeFn move = [&](runtime::ComputeContext&) {
    for (std::size_t b = 0; b < from.size(); ++b)
      if (const std::size_t size = from[b].type().num_bytes(); size > 0)
        std::memcpy(copy->vectors[b].raw(), from[b].raw(), size);
  };
  const cost::OpCost work{.flops = 0, .bytes = bytes};
  co_await rt_.compute(work, std::move(move), 1, "keep weights");
  kept_.push_back(std::move(copy));
  co_return Status();
}

void WeightVersions::forget_before(std::int64_t version) {
  while (!kept_.empty() && kept_.front()->version < version) {
    free_.push_back(std::move(kept_.front()));
    kept_.erase(kept_.begin());
  }
}

exec::Variables& WeightVersions::of(std::int64_t version) {
  for (const auto& copy : kept_)
    if (copy->version == version) return copy->variables;
  TR_CHECK(version == newest_, "version {} of weights, of which {} is the newest", version, newest_);
  return weights_.variables();
}

}  // namespace trireme::engine
