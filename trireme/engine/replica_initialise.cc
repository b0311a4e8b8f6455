// What a replica's memory starts with.
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/engine/replica_parts.h"

namespace trireme::engine {

runtime::Task<void> Replica::clear() {
  if (parts_->rt.is_phantom() || parts_->mirror != nullptr) co_return;
  for (const Tensor& bucket : parts_->shards[0].buckets)
    if (bucket.raw() != nullptr) co_await agree::clear(parts_->rt, bucket);
}

runtime::Task<void> Replica::initialise(std::uint64_t seed) {
  if (parts_->rt.is_phantom()) co_return;
  struct Part {
    model::Parameter parameter;
    Tensor tensor;
    std::int64_t first, size;
  };
  constexpr std::int64_t kPart = 1 << 16;  // elements: about a millisecond
  std::vector<Part> all;
  for (const auto* list : {&parts_->prepared->parameters, &parts_->prepared->frozen})
    for (const model::Parameter& p : *list) {
      if (!parts_->fills() && list == &parts_->prepared->parameters) continue;
      const Tensor tensor = *parts_->variables.get(p.name);
      const std::int64_t n = tensor.type().shape.num_elems();
      const std::int64_t step = p.init == model::InitKind::kOrthogonal ? n : kPart;
      for (std::int64_t first = 0; first < n; first += step)
        all.push_back({p, tensor, first, std::min(step, n - first)});
    }
  const auto count = static_cast<std::int64_t>(all.size());
  runtime::ComputeFn fn = [all = std::move(all), seed, count](runtime::ComputeContext& context) {
    context.parallel_for(count, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Part& part = all[static_cast<std::size_t>(i)];
        const auto values = part.tensor.values<float>();
        if (part.parameter.init == model::InitKind::kOrthogonal)
          model::initialise(part.parameter, seed, values);
        else
          model::initialise_part(
              part.parameter, seed, static_cast<std::size_t>(part.first),
              values.subspan(static_cast<std::size_t>(part.first), static_cast<std::size_t>(part.size)));
      }
    });
  };
  const cost::OpCost cost;  // virtual time starts with the first step
  co_await parts_->rt.compute(cost, std::move(fn), parts_->rt.compute_threads(), "initial values");
}

}  // namespace trireme::engine
