#include "trireme/engine/stage/stage_slots.h"

#include <algorithm>
#include <map>

#include "trireme/prepare/batch.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {
namespace {

Tensor part_of(const Tensor& vector, const TensorType& type, std::int64_t offset) {
  return Tensor(vector.buffer(), type, vector.offset_bytes() + static_cast<std::size_t>(offset) * 4);
}

class SlotMaker {
 public:
  SlotMaker(runtime::Runtime& rt, const StageSlotOptions& options, const VirtualStage& stage)
      : rt_(rt),
        o_(options),
        stage_(stage),
        bindings_(stage.segments.size()),
        feeds_(stage.segments.size()) {}

  Result<StageSlot> make() {
    const auto& crossings = o_.prepared->stages->train;
    for (std::size_t i = 0; i < crossings.size(); ++i) {
      if (crossings[i].from > stage_.last() || crossings[i].last < stage_.first()) continue;
      TR_RETURN_IF_ERROR(place_forward(crossings[i], i));
      if (crossings[i].comes_back) TR_RETURN_IF_ERROR(place_back(crossings[i], i));
    }
    for (std::size_t s = 0; s < stage_.segments.size(); ++s) TR_RETURN_IF_ERROR(make_execution(s));
    return std::move(slot_);
  }

 private:
  Result<Tensor> allocate(const TensorType& type) {
    slot_.kept_bytes += static_cast<std::int64_t>(type.num_bytes());
    return allocate_zeros(rt_.is_phantom() ? phantom_device() : cpu_device(), type);
  }
  std::size_t place_of(std::int32_t segment) const {
    return static_cast<std::size_t>(segment - stage_.first());
  }
  static bool reads(const parallel::Crossing& c, std::int32_t segment) {
    return std::binary_search(c.readers.begin(), c.readers.end(), segment);
  }

  Status place_forward(const parallel::Crossing& c, std::size_t number) {
    TR_ASSIGN_OR_RETURN(const Tensor memory, allocate(c.type));
    if (c.from < stage_.first())
      slot_.received.push_back({&c, number, memory});
    else
      bindings_[place_of(c.from)][c.name] = memory;
    if (c.last > stage_.last()) slot_.sent.push_back({&c, number, memory});
    for (const prepare::StageSegment* s : stage_.segments)
      if (reads(c, s->index)) feeds_[place_of(s->index)][c.name] = memory;
    return {};
  }

  // The gradient that comes from later segments, to which every segment that reads the value adds its own.
  Status place_back(const parallel::Crossing& c, std::size_t number) {
    Tensor now;
    if (c.last > stage_.last()) {
      TR_ASSIGN_OR_RETURN(now, allocate(c.type));
      slot_.received_back.push_back({&c, number, now});
    }
    for (auto s = stage_.segments.rbegin(); s != stage_.segments.rend(); ++s) {
      const std::size_t at = place_of((*s)->index);
      const bool is_source = (*s)->index == c.from;
      if (!is_source && !reads(c, (*s)->index)) continue;
      if (!now.is_null()) feeds_[at][c.back()] = now;
      if (is_source) break;
      TR_ASSIGN_OR_RETURN(now, allocate(c.type));
      bindings_[at][c.back()] = now;
    }
    if (c.from < stage_.first()) slot_.sent_back.push_back({&c, number, now});
    return {};
  }

  Status bind_gradients(const prepare::StageSegment& segment, std::map<std::string, Tensor>& bindings) const {
    for (const std::size_t b : segment.buckets) {
      const plan::Bucket& bucket = o_.prepared->plan.buckets[b];
      const Tensor memory = o_.gradients->written(b, segment.index);
      for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
        const auto& early = segment.early;
        if (std::find(early.begin(), early.end(), bucket.parameters[p]) != early.end()) continue;
        TR_ASSIGN_OR_RETURN(const Tensor w, o_.weights->variables().get(bucket.parameters[p]));
        bindings["grad:" + bucket.parameters[p]] = part_of(memory, w.type(), bucket.offsets[p]);
      }
    }
    return {};
  }

  Status make_execution(std::size_t s) {
    const prepare::StageSegment& segment = *stage_.segments[s];
    exec::ExecutionOptions options;
    options.variables = &o_.weights->variables();
    options.host_ops = o_.host_ops;
    options.scratch = o_.scratch;
    options.bindings = std::move(bindings_[s]);
    TR_RETURN_IF_ERROR(bind_gradients(segment, options.bindings));
    TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt_, segment.train, std::move(options)));
    for (const auto& [name, tensor] : feeds_[s])
      if (segment.train->graph().find_input(name)) TR_RETURN_IF_ERROR(execution->feed(name, tensor));
    TR_RETURN_IF_ERROR(prepare::feed_tile(*execution, segment.train->graph(), o_.prepared->tile));
    slot_.kept_bytes += segment.train->arena_bytes();
    slot_.executions.push_back(std::move(execution));
    return {};
  }

  runtime::Runtime& rt_;
  const StageSlotOptions& o_;
  const VirtualStage& stage_;
  std::vector<std::map<std::string, Tensor>> bindings_, feeds_;  // per segment
  StageSlot slot_;
};

}  // namespace

Result<StageSlot> make_stage_slot(runtime::Runtime& rt, const StageSlotOptions& options,
                                  const VirtualStage& stage) {
  return SlotMaker(rt, options, stage).make();
}

}  // namespace trireme::engine
