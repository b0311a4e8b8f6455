#include "trireme/engine/state/whole_parameters.h"

#include <algorithm>

namespace trireme::engine {

using runtime::Task;

std::unique_ptr<WholeParameters> WholeParameters::make(runtime::Runtime& rt, comm::Group& replica,
                                                       const prepare::Prepared& prepared) {
  std::unique_ptr<WholeParameters> out(new WholeParameters(rt, replica));
  const std::vector<plan::Bucket>& buckets = prepared.plan.buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b)
    for (std::size_t i = 0; i < buckets[b].parameters.size(); ++i) {
      const std::string& name = buckets[b].parameters[i];
      if (prepared.wholes.contains(name)) continue;
      const auto p = std::find_if(prepared.parameters.begin(), prepared.parameters.end(),
                                  [&](const auto& q) { return q.name == name; });
      TR_CHECK(p != prepared.parameters.end(), "buckets name parameters of the model");
      out->runs_.push_back({b, buckets[b].offsets[i], p->type.shape.num_elems()});
      out->num_elems_ += out->runs_.back().count;
    }
  if (out->num_elems_ == 0) out.reset();
  return out;
}

Task<Status> WholeParameters::take_over(std::vector<Tensor> vectors, std::uint16_t slot,
                                        std::int64_t number) {
  Device& device = rt_.is_phantom() ? phantom_device() : cpu_device();
  TR_CO_ASSIGN_OR_RETURN(const Tensor packed, Tensor::allocate(device, {DType::kF32, {num_elems_}}));
  const bool gives = replica_.rank() == 0, copies = !rt_.is_phantom();
  std::int64_t at = 0;
  for (const Run& run : runs_) {
    if (gives && copies)
      std::copy_n(vectors[run.bucket].data<float>() + run.begin, run.count, packed.data<float>() + at);
    at += run.count;
  }
  comm::Call call;
  call.slot = slot;
  call.step = static_cast<std::uint32_t>(number);
  call.label = "parameters that every rank of a replica has whole";
  TR_CO_RETURN_IF_ERROR(co_await replica_.broadcast(std::move(call), packed));
  at = 0;
  for (const Run& run : runs_) {
    if (!gives && copies)
      std::copy_n(packed.data<float>() + at, run.count, vectors[run.bucket].data<float>() + run.begin);
    at += run.count;
  }
  co_return Status();
}

}  // namespace trireme::engine
