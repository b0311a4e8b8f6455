#include "trireme/engine/state/whole_parameters.h"

#include <algorithm>

#include "trireme/agree/mechanism/racy.h"

namespace trireme::engine {

using runtime::Task;

namespace {

// One of a bucket's tensors, where every rank of a replica has it whole; else null.
template <typename Named>
const Named* find_whole(const prepare::Prepared& prepared, const std::vector<Named>& all,
                        const std::string& name) {
  if (prepared.wholes.contains(name)) return nullptr;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Named& n) { return n.name == name; });
  TR_CHECK(found != all.end(), "buckets name parameters and statistics of the model, not '{}'", name);
  return &*found;
}

}  // namespace

std::vector<WholeRun> whole_runs(const prepare::Prepared& prepared) {
  std::vector<WholeRun> out;
  const std::vector<plan::Bucket>& buckets = prepared.plan.buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const plan::Bucket& bucket = buckets[b];
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i)
      if (const auto* p = find_whole(prepared, prepared.parameters, bucket.parameters[i]))
        out.push_back({b, bucket.offsets[i], p->type.shape.num_elems()});
    for (std::size_t i = 0; i < bucket.statistics.size(); ++i)
      if (const auto* s = find_whole(prepared, prepared.statistics, bucket.statistics[i]))
        out.push_back({b, bucket.statistic_offsets[i], s->type.shape.num_elems()});
  }
  return out;
}

std::unique_ptr<WholeParameters> WholeParameters::make(runtime::Runtime& rt, comm::Group& replica,
                                                       const prepare::Prepared& prepared) {
  std::unique_ptr<WholeParameters> out(new WholeParameters(rt, replica));
  out->runs_ = whole_runs(prepared);
  for (const WholeRun& run : out->runs_) out->num_elems_ += run.count;
  if (out->num_elems_ == 0) out.reset();
  return out;
}

Task<Status> WholeParameters::take_over(std::vector<Tensor> vectors, std::uint16_t slot, std::int64_t number,
                                        Moved moved) {
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  TR_CO_ASSIGN_OR_RETURN(const Tensor packed, Tensor::allocate(device, {DType::kF32, {num_elems_}}));
  const bool gives = replica_.rank() == 0, copies = !rt_.is_phantom();
  float* at = copies ? packed.data<float>() : nullptr;
  for (const WholeRun& run : runs_) {
    if (!gives || !copies) break;
    agree::racy_read(vectors[run.bucket].data<float>() + run.begin, at, run.count);
    at += run.count;
  }
  comm::Call call;
  call.slot = slot;
  call.step = static_cast<std::uint32_t>(number);
  call.label = "parameters that every rank of a replica has whole";
  TR_CO_RETURN_IF_ERROR(co_await replica_.broadcast(std::move(call), packed));
  at = copies ? packed.data<float>() : nullptr;
  for (const WholeRun& run : runs_) {
    if (gives || !copies) break;
    float* const to = vectors[run.bucket].data<float>() + run.begin;
    const std::span<float> by(at, static_cast<std::size_t>(run.count));
    for (std::size_t i = 0; i < by.size(); ++i) {
      const float value = by[i];
      by[i] -= agree::racy_load(to + i);
      agree::racy_store(to + i, value);
    }
    if (moved) moved(run.bucket, run.begin, by);
    at += run.count;
  }
  co_return Status();
}

}  // namespace trireme::engine
