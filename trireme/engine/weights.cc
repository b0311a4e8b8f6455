#include "trireme/engine/weights.h"

#include <algorithm>

#include "trireme/engine/state/initial_values.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/prepare/own_update.h"
#include "trireme/tensor/host_zeros.h"

namespace trireme::engine {
namespace {

template <class Named>
Result<const Named*> find_named(const std::vector<Named>& list, const std::string& name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Named& n) { return n.name == name; });
  if (at != list.end()) return &*at;
  return error(Code::kCorrupt, "[plan] a bucket names '{}', which the model does not have", name);
}

void fill(const Tensor& t, double value) {
  if (t.raw() != nullptr) std::fill_n(t.data<float>(), t.shape().num_elems(), static_cast<float>(value));
}

}  // namespace

Result<std::unique_ptr<Weights>> Weights::make(runtime::Runtime& rt, const prepare::Prepared& prepared,
                                               GpuSide& gpu, WeightsOptions options) {
  std::unique_ptr<Weights> made(new Weights(rt, prepared, gpu, std::move(options)));
  TR_RETURN_IF_ERROR(made->make_variables());
  TR_RETURN_IF_ERROR(made->mirror_all());
  if (made->options_.with_agreed) TR_RETURN_IF_ERROR(made->make_agreed());
  return made;
}

Result<std::vector<Tensor>> Weights::new_vectors() const {
  std::vector<Tensor> all;
  for (const plan::Bucket& bucket : prepared_.plan.buckets) {
    TR_ASSIGN_OR_RETURN(Tensor memory, allocate_zeros(device(), {DType::kF32, {bucket.num_elems}}));
    all.push_back(std::move(memory));
  }
  return all;
}

comm::Chunk Weights::own_part(std::size_t bucket) const {
  const plan::Plan& plan = prepared_.plan;
  return prepare::own_part(plan, plan.buckets[bucket], plan.mesh().replica_of(options_.rank));
}

// One after the other is counted off, so that all of them never count at once.
Status Weights::make_vectors() {
  const std::vector<plan::Bucket>& buckets = prepared_.plan.buckets;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    TR_ASSIGN_OR_RETURN(Tensor memory, allocate_zeros(device(), {DType::kF32, {buckets[b].num_elems}}));
    others_.emplace_back();
    if (memory.raw() != nullptr) {
      prefer_large_pages(memory.raw(), memory.type().num_bytes());
      const std::int64_t others = prepare::parameter_elems(buckets[b]) - own_part(b).size();
      others_.back().leave(static_cast<std::size_t>(others) * sizeof(float));
    }
    vectors_.push_back(std::move(memory));
  }
  return {};
}

// Behind the parameters are statistics, which every replica has.
void Weights::give_back_others(std::size_t bucket) {
  std::byte* const first = vectors_[bucket].raw();
  if (first == nullptr || !others_[bucket].is_empty()) return;
  const comm::Chunk own = own_part(bucket);
  const auto drop = [&](std::int64_t begin, std::int64_t end) {
    others_[bucket].give_back(first + begin * 4, static_cast<std::size_t>(end - begin) * 4);
  };
  drop(0, own.begin);
  drop(own.end, prepare::parameter_elems(prepared_.plan.buckets[bucket]));
}

void Weights::take_others(std::size_t bucket) { others_[bucket].take_again(); }

Status Weights::bind(exec::Variables& to, const std::vector<Tensor>& memory, bool fills) const {
  for (std::size_t i = 0; i < prepared_.plan.buckets.size(); ++i) {
    const plan::Bucket& bucket = prepared_.plan.buckets[i];
    const auto part = [&](const TensorType& type, std::int64_t offset) {
      return Tensor(memory[i].buffer(), type,
                    memory[i].offset_bytes() + static_cast<std::size_t>(offset) * 4);
    };
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
      TR_ASSIGN_OR_RETURN(const auto* found, find_named(prepared_.parameters, bucket.parameters[p]));
      TR_RETURN_IF_ERROR(to.add(found->name, part(found->type, bucket.offsets[p])));
    }
    for (std::size_t s = 0; s < bucket.statistics.size(); ++s) {
      TR_ASSIGN_OR_RETURN(const auto* found, find_named(prepared_.statistics, bucket.statistics[s]));
      const Tensor t = part(found->type, bucket.statistic_offsets[s]);
      if (fills) fill(t, found->initial);
      TR_RETURN_IF_ERROR(to.add(found->name, t));
    }
  }
  return {};
}

Status Weights::take_slices() {
  const plan::Plan& plan = prepared_.plan;
  if (plan.zero_level() == 0) return {};
  const int replica = plan.mesh().replica_of(options_.rank);
  for (const plan::Bucket& bucket : plan.buckets) {
    TR_ASSIGN_OR_RETURN(
        const std::vector<prepare::ParameterSlice> slices,
        prepare::slices_of(bucket, prepared_.parameters, prepare::own_part(plan, bucket, replica)));
    for (const prepare::ParameterSlice& s : slices) slices_[s.parameter->name] = s;
  }
  return {};
}

const prepare::ParameterSlice* Weights::own_slice(const std::string& parameter) const {
  const auto found = slices_.find(parameter);
  return found != slices_.end() ? &found->second : nullptr;
}

Tensor Weights::own_of(const Tensor& whole, const std::string& name) const {
  const auto is_it = [&](const auto& p) { return p.name == name; };
  const auto& trained = prepared_.parameters;
  if (!prepare::is_divided(prepared_, name) || std::none_of(trained.begin(), trained.end(), is_it))
    return whole;
  const prepare::ParameterSlice* slice = own_slice(name);
  const std::int64_t first = slice != nullptr ? slice->in_parameter : 0;
  return Tensor(whole.buffer(), {whole.dtype(), {slice != nullptr ? slice->count : 0}},
                whole.offset_bytes() + static_cast<std::size_t>(first) * sizeof(float));
}

Status Weights::make_variables() {
  TR_RETURN_IF_ERROR(take_slices());
  vectors_ = options_.shared;
  if (prepared_.plan.zero_level() == 3) {
    TR_RETURN_IF_ERROR(make_vectors());
  } else if (vectors_.empty()) {
    TR_ASSIGN_OR_RETURN(vectors_, new_vectors());
  }
  TR_RETURN_IF_ERROR(bind(variables_, vectors_, options_.fills));
  for (const model::Parameter& p : prepared_.frozen) {
    TR_ASSIGN_OR_RETURN(Tensor t, allocate_zeros(device(), p.type));
    TR_RETURN_IF_ERROR(variables_.add(p.name, std::move(t)));
  }
  TR_RETURN_IF_ERROR(add_states());
  if (prepared_.scale_update == nullptr) return {};
  TR_ASSIGN_OR_RETURN(Tensor scale, allocate_zeros(device(), {DType::kF32, Shape{}}));
  fill(scale, prepare::kFirstLossScale);
  TR_RETURN_IF_ERROR(variables_.add(prepare::kLossScale, std::move(scale)));
  TR_ASSIGN_OR_RETURN(Tensor good, allocate_zeros(device(), {DType::kI64, Shape{}}));
  return variables_.add(prepare::kGoodSteps, std::move(good));
}

Status Weights::add_states() {
  const prepare::StateLayout layout = prepare::state_layout(prepared_.states);
  const Tensor& shared = options_.shared_states;
  for (std::size_t i = 0; i < prepared_.states.size(); ++i) {
    const model::StateVariable& s = prepared_.states[i];
    TensorType type = s.type;
    if (prepare::is_divided(prepared_, s.name)) {
      const prepare::ParameterSlice* slice = own_slice(s.parameter);
      type.shape = {slice != nullptr ? slice->count : 0};
    }
    Tensor t;
    if (shared.is_null()) {
      TR_ASSIGN_OR_RETURN(t, allocate_zeros(device(), type));
    } else {
      t = Tensor(shared.buffer(), s.type,
                 shared.offset_bytes() + static_cast<std::size_t>(layout.offsets[i]) * 4);
    }
    if (s.initial != 0 && (shared.is_null() || options_.fills)) fill(t, s.initial);  // zeros it is
    TR_RETURN_IF_ERROR(variables_.add(s.name, std::move(t)));
  }
  return {};
}

Status Weights::make_agreed() {
  TR_ASSIGN_OR_RETURN(agreed_, new_vectors());
  TR_RETURN_IF_ERROR(bind(agreed_variables_, agreed_, options_.fills));
  for (const model::Parameter& p : prepared_.frozen) {
    TR_ASSIGN_OR_RETURN(Tensor same, variables_.get(p.name));
    TR_RETURN_IF_ERROR(agreed_variables_.add(p.name, std::move(same)));
  }
  return {};
}

Result<exec::Variables> Weights::variables_in(const std::vector<Tensor>& memory) const {
  exec::Variables out;
  TR_RETURN_IF_ERROR(bind(out, memory, false));
  for (const std::string& name : variables_.names())
    if (!out.get(name).ok()) TR_RETURN_IF_ERROR(out.add(name, *variables_.get(name)));
  return out;
}

Status Weights::mirror_all() {
  if (gpu_.mirror == nullptr) return {};
  for (const std::string& name : variables_.names())
    TR_RETURN_IF_ERROR(gpu_.mirror->add(*variables_.get(name)));
  return gpu_.mirror->upload_all();
}

Status Weights::publish() const { return gpu_.mirror != nullptr ? gpu_.mirror->upload_all() : Status(); }

bool Weights::is_shared(const Tensor& tensor) const {
  const auto holds = [&](const Tensor& t) {
    const std::byte *first = t.is_null() ? nullptr : t.raw(), *at = tensor.raw();
    return first != nullptr && at >= first && at < first + t.type().num_bytes();
  };
  return holds(options_.shared_states) || std::any_of(options_.shared.begin(), options_.shared.end(), holds);
}

Result<io::NamedTensors> Weights::named(const exec::Variables& from, bool with_state,
                                        const GpuSide* gpu) const {
  io::NamedTensors out;
  Status copied;
  if (gpu != nullptr && gpu->queue != nullptr) copied = gpu->queue->wait();  // mostly it has ended
  const auto add = [&](const std::string& name) {
    if (!copied.ok()) return;
    out.emplace_back(name, own_of(*from.get(name), name));
    if (gpu != nullptr && gpu->mirror != nullptr) copied = gpu->mirror->download(out.back().second);
  };
  for (const auto* list : {&prepared_.parameters, &prepared_.frozen})
    for (const model::Parameter& p : *list) add(p.name);
  for (const model::Statistic& s : prepared_.statistics) add(s.name);
  if (with_state) {
    for (const model::StateVariable& s : prepared_.states)
      if (s.type.shape.num_elems() > 0 || prepared_.wholes.contains(s.name)) add(s.name);
    if (prepared_.scale_update != nullptr) add(prepare::kLossScale), add(prepare::kGoodSteps);
  }
  if (!copied.ok())
    return copied.with_prefix(fmt::format(
        "the model could not be copied from GPU {} of rank {}: ", gpu_.device->name(), options_.rank));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

Result<HeldState> Weights::held(const io::NamedTensors& tensors, const IsShared& is_shared) const {
  std::vector<LaidOutTensor> all;
  for (const auto& [name, memory] : tensors) {
    prepare::LaidOut out = prepare::laid_out(prepared_, name, memory.type());
    all.push_back({name, out.whole, std::move(out.layout), memory, std::move(out.ranges)});
  }
  return hold_laid_out(all, prepared_.plan.mesh(), options_.rank, is_shared);
}

runtime::Task<Status> Weights::initialise(std::uint64_t seed) {
  if (rt_.is_phantom()) co_return Status();  // there are no values
  std::vector<model::Parameter> parameters = prepared_.frozen;
  if (options_.fills)
    parameters.insert(parameters.end(), prepared_.parameters.begin(), prepared_.parameters.end());
  io::NamedTensors tensors;
  for (model::Parameter& p : parameters) {
    tensors.emplace_back(p.name, own_of(*variables_.get(p.name), p.name));
    p.type = prepare::laid_out(prepared_, p.name, p.type).whole;
  }
  TR_CO_ASSIGN_OR_RETURN(const HeldState holding, held(tensors));
  co_await initialise_pieces(rt_, holding, std::move(parameters), seed);
  co_return Status();
}

}  // namespace trireme::engine
