#include "trireme/engine/move_state.h"

#include <algorithm>
#include <cstring>

namespace trireme::engine {

using runtime::Runtime;
using runtime::Task;

Task<void> copy_tensor(Runtime& rt, Tensor from, Tensor to) {
  TR_CHECK(from.type() == to.type(), "a copy of {} into {}", from.type().to_string(), to.type().to_string());
  constexpr std::int64_t kOnLoopBytes = 1 << 20, kBytesPerThread = 1 << 20;
  const auto bytes = static_cast<std::int64_t>(from.type().num_bytes());
  if (from.raw() == nullptr || bytes == 0) co_return;
  if (bytes <= kOnLoopBytes) {
    std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(bytes));
    co_return;
  }
  runtime::ComputeFn copy = [from, to, bytes](runtime::ComputeContext& context) {
    context.parallel_for(bytes, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(to.raw() + begin, from.raw() + begin, static_cast<std::size_t>(end - begin));
    });
  };
  const int width =
      static_cast<int>(std::clamp<std::int64_t>(bytes / kBytesPerThread, 1, rt.compute_threads()));
  const cost::OpCost cost;
  co_await rt.compute(cost, std::move(copy), width, "copy state");
}

Task<std::string> hash_parameters(Runtime& rt, io::NamedTensors tensors) {
  if (rt.is_phantom()) co_return std::string();
  // A Task that is destroyed does not stop a function that runs: it owns what it writes.
  const auto sum = std::make_shared<std::string>();
  runtime::ComputeFn hash = [sum, tensors = std::move(tensors)](runtime::ComputeContext&) {
    *sum = io::parameters_sha256(tensors);
  };
  const cost::OpCost cost;
  co_await rt.compute(cost, std::move(hash), 1, "hash parameters");
  co_return *sum;
}

}  // namespace trireme::engine
