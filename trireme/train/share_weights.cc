#include "trireme/train/share_weights.h"

#include <cstring>

#include "trireme/train/slots.h"

namespace trireme::train {

using runtime::Task;

Task<Result<std::vector<Tensor>>> share_weights(comm::Group& workers, const plan::Plan& plan) {
  std::vector<Tensor> out;
  for (const plan::Bucket& bucket : plan.buckets) {
    comm::Call call;
    call.step = bucket.slot;
    call.slot = kSlotShareWeights;
    call.label = "shared weights";
    const TensorType type{DType::kF32, {bucket.num_elems}};
    Result<Tensor> shared = co_await workers.share(std::move(call), type);
    if (!shared.ok()) co_return shared.status();
    if (workers.rank() == 0 && shared->raw() != nullptr) std::memset(shared->raw(), 0, type.num_bytes());
    out.push_back(std::move(*shared));
  }
  co_return out;
}

}  // namespace trireme::train
