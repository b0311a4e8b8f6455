#include "trireme/engine/state/share_weights.h"

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/own_update.h"

namespace trireme::engine {

using runtime::Task;

namespace {
constexpr std::uint32_t kStatesStep = 0x10000;  // beside those of the buckets
}  // namespace

Task<Result<std::vector<Tensor>>> share_weights(runtime::Runtime& rt, comm::Group& workers,
                                                const plan::Plan& plan) {
  std::vector<Tensor> out;
  for (const plan::Bucket& bucket : plan.buckets) {
    comm::Call call;
    call.step = bucket.slot;
    call.slot = plan::kSlotShareWeights;
    call.label = "shared weights";
    const TensorType type{DType::kF32, {bucket.num_elems}};
    Result<Tensor> shared = co_await workers.share(std::move(call), type);
    if (!shared.ok()) co_return shared.status();
    if (workers.rank() == 0 && shared->raw() != nullptr) co_await agree::clear(rt, *shared);
    out.push_back(std::move(*shared));
  }
  co_return out;
}

Task<Result<Tensor>> share_states(runtime::Runtime& rt, comm::Group& workers,
                                  const std::vector<model::StateVariable>& states) {
  const TensorType type{DType::kF32, {prepare::state_layout(states).num_elems}};
  if (type.shape.num_elems() == 0) co_return Tensor();
  comm::Call call;
  call.step = kStatesStep;
  call.slot = plan::kSlotShareWeights;
  call.label = "shared states";
  Result<Tensor> shared = co_await workers.share(std::move(call), type);
  if (shared.ok() && workers.rank() == 0 && shared->raw() != nullptr) co_await agree::clear(rt, *shared);
  co_return shared;
}

}  // namespace trireme::engine
