#include "trireme/engine/stage/stage_gradients.h"

#include <algorithm>
#include <cstring>

#include "trireme/comm/sum/segment_sum.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {

using runtime::Task;

Status StageGradients::make(std::size_t batch_sums) {
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  written_.resize(sums_.size());
  for (const prepare::StageSegment& s : prepared_.stages->segments)
    for (const std::size_t b : s.buckets) {
      const comm::GradientSum& sum = *sums_[b];
      if (!written_[b].is_null() || dynamic_cast<const comm::SegmentSum*>(&sum) != nullptr) continue;
      TR_ASSIGN_OR_RETURN(written_[b], allocate_zeros(device, sum.memory(0).type()));
    }
  batch_sums_.clear();
  if (batch_sums == 0) return {};
  for (const prepare::StageSegment& s : prepared_.stages->segments)
    for (const std::size_t b : s.buckets) {
      std::vector<Tensor>& sums = batch_sums_[{b, s.index}];
      for (std::size_t place = 0; place < batch_sums; ++place) {
        TR_ASSIGN_OR_RETURN(Tensor sum, allocate_zeros(device, written(b, s.index).type()));
        sums.push_back(std::move(sum));
      }
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

// The last batch leaves the sum where backward wrote.
Task<void> StageGradients::add_batch(std::size_t bucket, std::int32_t segment, Place place) {
  const Tensor now = written(bucket, segment), before = batch_sums_.at({bucket, segment})[place.number];
  const auto n = static_cast<double>(now.shape().num_elems());
  runtime::ComputeFn add = [&now, &before, place](runtime::ComputeContext&) {
    const std::span<float> to = (place.last_batch ? now : before).values<float>();
    const float *a = before.data<float>(), *b = now.data<float>();
    if (place.first_batch)
      std::memcpy(to.data(), b, to.size_bytes());
    else
      for (std::size_t k = 0; k < to.size(); ++k) to[k] = a[k] + b[k];
  };
  co_await rt_.compute({.flops = n, .bytes = 12 * n}, std::move(add), 1, "add batches");
}

// Where backward wrote a bucket's gradients.
Tensor StageGradients::written(std::size_t bucket, std::int32_t segment) const {
  auto* const sum = dynamic_cast<comm::SegmentSum*>(sums_[bucket].get());
  return sum != nullptr ? sum->memory_of(segment) : written_[bucket];
}

Task<Status> StageGradients::add(const exec::Execution& execution, const prepare::StageSegment& segment,
                                 Place place) {
  if (!rt_.is_phantom())
    for (const std::size_t b : segment.buckets)
      TR_CO_RETURN_IF_ERROR(collect(execution, segment, b, written(b, segment.index)));
  if (prepared_.deals_shards) {
    leaving_.push_back({&segment, place});
    if (leaving_.size() == 1) rt_.spawn(divide_all());
    co_return failure_;
  }
  for (const std::size_t b : segment.buckets) {
    if (!place.first_batch || !place.last_batch) co_await add_batch(b, segment.index, place);
    if (!place.last_batch) continue;
    if (auto* const of_segments = dynamic_cast<comm::SegmentSum*>(sums_[b].get())) {
      TR_CO_RETURN_IF_ERROR(co_await of_segments->add(segment.index, place.step));
    } else {
      Task<void> kept = keep(b, place.number);
      co_await std::move(kept);
    }
  }
  if (place.is_last) on_done_(segment.index);
  co_return Status();
}

Task<Status> StageGradients::divide(const Added& added) {
  std::vector<Task<Status>> all;
  for (const std::size_t b : added.segment->buckets)
    all.push_back(dynamic_cast<comm::SegmentSum&>(*sums_[b]).add(added.segment->index, added.place.step));
  co_return co_await runtime::when_all(rt_, std::move(all));
}

// After a failure what waits never begins.
Task<void> StageGradients::divide_all() {
  while (!leaving_.empty()) {
    const Added first = leaving_.front();
    const Status status = co_await divide(first);
    leaving_.pop_front();
    if (!status.ok()) {
      if (failure_.ok()) failure_ = status;
      leaving_.clear();
    } else if (first.place.is_last) {
      on_done_(first.segment->index);
    }
    if (ended_ != nullptr) ended_->set(true);
  }
}

bool StageGradients::is_written(int turn) const {
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const Added& added) { return added.segment->turn == turn; });
}

Task<void> StageGradients::wait_for_an_end() {
  const TimeNs began = rt_.now();
  ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  co_await ended_->wait_until(kForever);  // sums end with the group's verdict at the latest
  ended_ = nullptr;
  waited_ += rt_.now() - began;
}

Task<Status> StageGradients::make_room(const prepare::StageSegment& segment) {
  while (is_written(segment.turn)) co_await wait_for_an_end();
  co_return failure_;
}

Task<Status> StageGradients::drained() {
  while (!leaving_.empty()) co_await wait_for_an_end();
  co_return failure_;
}

}  // namespace trireme::engine
