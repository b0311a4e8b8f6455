#include "trireme/engine/stage/stage_gradients.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/sum/segment_sum.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using runtime::Task;

Status StageGradients::make() {
  written_.resize(sums_.size());
  for (const prepare::StageSegment& s : prepared_.stages->segments)
    for (const std::size_t b : s.buckets) {
      const comm::GradientSum& sum = *sums_[b];
      if (!written_[b].is_null() || dynamic_cast<const comm::SegmentSum*>(&sum) != nullptr) continue;
      Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
      TR_ASSIGN_OR_RETURN(written_[b], allocate_zeros(device, sum.memory(0).type()));
    }
  return {};
}

// Statistics of the forward pass, and gradients that backward made by the way, lie in the slot until now.
Status StageGradients::collect(const exec::Execution& execution, const prepare::StageSegment& segment,
                               std::size_t bucket, const Tensor& into) const {
  const plan::Bucket& planned = prepared_.plan.buckets[bucket];
  const auto copy = [&](const std::string& output, std::int64_t offset) -> Status {
    TR_ASSIGN_OR_RETURN(const Tensor now, execution.fetch(output));
    std::memcpy(into.raw() + offset * 4, now.raw(), now.type().num_bytes());
    return {};
  };
  for (std::size_t s = 0; s < planned.statistics.size(); ++s)
    TR_RETURN_IF_ERROR(copy("stat:" + planned.statistics[s], planned.statistic_offsets[s]));
  for (std::size_t p = 0; p < planned.parameters.size(); ++p)
    if (std::find(segment.early.begin(), segment.early.end(), planned.parameters[p]) != segment.early.end())
      TR_RETURN_IF_ERROR(copy("grad:" + planned.parameters[p], planned.offsets[p]));
  return {};
}

Task<void> StageGradients::keep(std::size_t bucket, std::size_t place) {
  const Tensor from = written_[bucket], to = sums_[bucket]->memory(place);
  const double bytes = 2 * static_cast<double>(from.type().num_bytes());
  co_await rt_.compute(
      {.flops = 0, .bytes = bytes},
      [&](runtime::ComputeContext&) { std::memcpy(to.raw(), from.raw(), from.type().num_bytes()); }, 1,
      "keep a micro-batch");
}

// Where backward wrote a bucket's gradients.
Tensor StageGradients::written(std::size_t bucket, std::int32_t segment) const {
  auto* const sum = dynamic_cast<comm::SegmentSum*>(sums_[bucket].get());
  return sum != nullptr ? sum->memory_of(segment) : written_[bucket];
}

Task<Status> StageGradients::add(const exec::Execution& execution, const prepare::StageSegment& segment,
                                 std::size_t place) {
  for (const std::size_t b : segment.buckets) {
    if (!rt_.is_phantom()) TR_CO_RETURN_IF_ERROR(collect(execution, segment, b, written(b, segment.index)));
    if (auto* const of_segments = dynamic_cast<comm::SegmentSum*>(sums_[b].get())) {
      co_await of_segments->add(segment.index);
    } else {
      Task<void> kept = keep(b, place);
      co_await std::move(kept);
    }
  }
  co_return Status();
}

}  // namespace trireme::engine
