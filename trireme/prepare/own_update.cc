#include "trireme/prepare/own_update.h"

#include <algorithm>

#include "trireme/job/job_parts.h"

namespace trireme::prepare {

Result<std::vector<ParameterSlice>> slices_of(const plan::Bucket& bucket,
                                              const std::vector<model::Parameter>& parameters,
                                              comm::Chunk chunk) {
  std::vector<ParameterSlice> slices;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const auto p = std::find_if(parameters.begin(), parameters.end(),
                                [&](const auto& q) { return q.name == bucket.parameters[i]; });
    if (p == parameters.end())
      return error(Code::kCorrupt, "[plan] bucket {} names parameter '{}', which the model does not have",
                   bucket.slot, bucket.parameters[i]);
    const std::int64_t first = bucket.offsets[i], begin = std::max(chunk.begin, first),
                       end = std::min(chunk.end, first + p->type.shape.num_elems());
    if (begin < end) slices.push_back({&*p, begin, begin - first, end - begin});
  }
  return slices;
}

comm::Chunk own_part(const plan::Plan& plan, const plan::Bucket& bucket, int replica) {
  return comm::chunk_of(parameter_elems(bucket), sizeof(float), replica, plan.workers());
}

Result<Compiled> compile_own_update(const job::Job& job, const Prepared& prepared,
                                    const std::vector<ParameterSlice>& slices) {
  if (slices.empty()) return Compiled();
  std::vector<model::Parameter> own;
  for (const ParameterSlice& s : slices) {
    own.push_back(*s.parameter);
    own.back().type = s.type();
  }
  TR_ASSIGN_OR_RETURN(const model::UpdateGraph update,
                      model::build_update(job::optimizer_spec(job, prepared.sending), own));
  exec::CompileOptions options;
  options.width = prepared.plan.shard_threads;
  options.kernels = prepared.plan.kernels;
  options.strict_kernels = !options.kernels.empty();
  return exec::compile(update.graph, options);
}

StateLayout state_layout(const std::vector<model::StateVariable>& states) {
  constexpr std::int64_t kLineElems = 16;
  StateLayout layout;
  for (const model::StateVariable& s : states) {
    layout.offsets.push_back(layout.num_elems);
    layout.num_elems += (s.type.shape.num_elems() + kLineElems - 1) / kLineElems * kLineElems;
  }
  return layout;
}

}  // namespace trireme::prepare
