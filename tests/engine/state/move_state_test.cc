#include "trireme/engine/state/move_state.h"

#include <gtest/gtest.h>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::engine {
namespace {

using runtime::Runtime;
using runtime::Task;

Tensor numbers(std::int64_t count) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {count}});
  for (std::int64_t i = 0; i < count; ++i) t.data<float>()[i] = static_cast<float>(i % 1009);
  return t;
}

// Whether `work` is in the hands of the pool once it has run as far as it can on the loop.
bool leaves_the_loop(Runtime& rt, Task<void>& work) {
  work.start();
  return rt.activity().compute_in_flight > 0;
}

Task<void> copy_both(Runtime& rt) {
  for (const std::int64_t count : {10L, 1L << 20, (3L << 20) + 17}) {
    const Tensor from = numbers(count), to = *Tensor::allocate(cpu_device(), from.type());
    Task<void> work = copy_tensor(rt, from, to);
    EXPECT_EQ(leaves_the_loop(rt, work), count > 10) << count;
    while (!work.done()) co_await rt.sleep_for(kMilli);
    const auto a = from.values<float>(), b = to.values<float>();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << count;
  }
}

TEST(MoveState, LargeCopiesAreMadeOnThePoolToTheSameBytes) {
  const auto rt = runtime::make_real_runtime({});
  rt->run(copy_both(*rt));
}

Task<void> hash_both(Runtime& rt) {
  const io::NamedTensors model{{"b", numbers(1000)}, {"a", numbers(7)}};
  EXPECT_EQ(co_await hash_parameters(rt, model), io::parameters_sha256(model));
}

TEST(MoveState, HashIsThatOfTheParameters) {
  const auto rt = runtime::make_real_runtime({});
  rt->run(hash_both(*rt));
}

}  // namespace
}  // namespace trireme::engine
