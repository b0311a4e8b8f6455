#include "trireme/comm/admission.h"

#include <utility>

#include "trireme/collective/contract.h"

namespace trireme::comm {

using collective::Kind;
using collective::ScheduleSpec;

ScheduleSpec Admission::spec_of(Request& r) const {
  ScheduleSpec spec;
  spec.kind = r.kind;
  spec.world = r.members == nullptr ? world_ : static_cast<int>(r.members->ranks.size());
  spec.root = r.call.root;
  spec.count = r.count;
  spec.elem_bytes = static_cast<std::int32_t>(dtype_size(r.dtype));
  spec.num_leaves = r.call.num_leaves;
  spec.leaf_runs = std::move(r.call.leaf_runs);
  spec.reduction = collective::is_reduction(r.kind) ? r.call.reduction : collective::Reduction::kSum;
  spec.counts = std::move(r.call.counts);
  spec.edges = std::move(r.call.edges);
  for (int i = 0; i < spec.world && !options_.machine_of.empty(); ++i) {
    const int of = r.members == nullptr ? i : r.members->ranks[static_cast<std::size_t>(i)];
    spec.group_of.push_back(options_.machine_of[static_cast<std::size_t>(of)]);
  }
  return spec;
}

Status Admission::prepare(Request& r, RunRequest& out, CallShape& shape) {
  const ScheduleSpec spec = spec_of(r);
  const int me = r.members == nullptr ? rank_ : r.members->rank;
  TR_RETURN_IF_ERROR(collective::check_spec(spec));
  if (r.kind != Kind::kBarrier && r.kind != Kind::kNeighbours)
    TR_RETURN_IF_ERROR(
        check_tensor(r.call.label.c_str(), r.result, r.dtype, collective::caller_elems(spec, me, 0)));
  if (collective::is_reduction(r.kind)) {
    TR_ASSIGN_OR_RETURN(out.combine, find_combine(r.dtype, spec.reduction));
  }
  TR_ASSIGN_OR_RETURN(out.program, cache_.get(spec, r.call.algorithm, me, options_.model));
  const auto num_partials = static_cast<std::size_t>(out.program->program.num_partials);
  if (r.one_partial && num_partials == 1) r.partials = {r.result};
  if (r.partials.size() != num_partials)
    return error(Code::kInvalid, "[comm] {} '{}' got {} {}, expected {}", collective::kind_name(r.kind),
                 r.call.label, r.partials.size(),
                 collective::is_reduction(r.kind) ? "partials (one per maximal subtree of its leaf run)"
                                                  : "input and output tensors beside the result",
                 num_partials);
  for (std::size_t i = 0; i < num_partials; ++i)
    TR_RETURN_IF_ERROR(check_tensor(collective::is_reduction(r.kind) ? "a partial" : "an input or output",
                                    r.partials[i], r.dtype,
                                    collective::caller_elems(spec, me, static_cast<int>(i) + 1)));
  fill(r, spec, out);
  shape = {.kind = r.kind,
           .dtype = r.dtype,
           .count = spec.count,
           .reduction = spec.reduction,
           .root = spec.root,
           .algorithm = out.program->algorithm->name,
           .parts = hash_parts(spec.counts, spec.edges, spec.leaf_runs)};
  return {};
}

net::Identity Admission::identity_of(const Request& r) const {
  return {.epoch = options_.epoch,
          .group = r.members == nullptr ? options_.id : r.members->id,
          .slot = r.call.slot,
          .step = r.call.step,
          .part = std::uint32_t{r.call.iteration} << kPartBits};
}
net::Fingerprint Admission::fingerprint_of(const Request& r, Kind told) {
  const auto reduction =
      static_cast<int>(collective::is_reduction(r.kind) ? r.call.reduction : collective::Reduction::kSum);
  const int root = collective::has_root(r.kind) ? r.call.root % 64 : 0;
  return {.kind = r.message && told == r.kind ? kMessageKind : static_cast<std::uint8_t>(told),
          .dtype = static_cast<std::uint8_t>(r.dtype),
          .format = static_cast<std::uint8_t>(reduction + 4 * root),
          .count = static_cast<std::uint64_t>(r.count)};
}

void Admission::fill(Request& r, const ScheduleSpec& spec, RunRequest& out) const {
  out.result = std::move(r.result);
  out.partials = std::move(r.partials);
  out.elem_bytes = spec.elem_bytes;
  out.world = spec.world;
  if (r.members != nullptr) out.ranks = r.members->ranks;
  out.keep = r.members;
  out.id = identity_of(r);
  out.fingerprint = fingerprint_of(r, r.kind);
}

Status Admission::check_direct(const Request& r, Combine& combine) {
  if (r.kind == Kind::kBarrier) return {};
  TR_RETURN_IF_ERROR(check_tensor(r.call.label.c_str(), r.result, r.dtype, r.count));
  if (!r.one_partial && r.partials.size() != 1)
    return error(
        Code::kInvalid,
        "[comm] allreduce '{}' got {} partials (one per maximal subtree of its leaf run), expected 1",
        r.call.label, r.partials.size());
  if (!r.one_partial) TR_RETURN_IF_ERROR(check_tensor("a partial", r.partials[0], r.dtype, r.count));
  TR_ASSIGN_OR_RETURN(combine, find_combine(r.dtype, r.call.reduction));
  return {};
}

}  // namespace trireme::comm
