#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/tensor/host_zeros.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace trireme::agree {

using runtime::Runtime;
using runtime::Task;

namespace {

struct Pass {
  std::vector<Tensor> vectors;
  std::vector<float*> starts;  // empty: phantom
  PassBody body;
};

// Fewer elements than this per thread cost more to hand out than to do.
constexpr std::int64_t kElemsPerThread = 1 << 16;

int width_for(const Runtime& rt, std::int64_t n) {
  return static_cast<int>(std::clamp<std::int64_t>(n / kElemsPerThread, 1, rt.compute_threads()));
}

}  // namespace

Task<void> run_pass(Runtime& rt, PassCost cost, std::vector<Tensor> vectors, PassBody body, const char* label,
                    std::int64_t num_elems) {
  TR_CHECK(!vectors.empty());
  const std::int64_t length = vectors[0].shape().num_elems();
  for (const Tensor& t : vectors)
    TR_CHECK(t.shape().num_elems() == length, "[agree] {}: vectors of {} and {} elements", label, length,
             t.shape().num_elems());
  const std::int64_t n = num_elems < 0 ? length : std::min(num_elems, length);
  if (n == 0) co_return;
  // The function may outlive this frame (runtime.h), so it owns what it needs.
  const auto pass = std::make_shared<Pass>();
  if (!rt.is_phantom())
    for (const Tensor& t : vectors) pass->starts.push_back(t.data<float>());
  pass->vectors = std::move(vectors);
  pass->body = std::move(body);
  const auto elems = static_cast<double>(n);
  const cost::OpCost work{.flops = cost.flops * elems, .bytes = 4.0 * (cost.reads + cost.writes) * elems};
  runtime::ComputeFn fn = [pass, n](runtime::ComputeContext& context) {
    context.parallel_for(
        n, [&](std::int64_t begin, std::int64_t end, int) { pass->body(pass->starts.data(), begin, end); });
  };
  co_await rt.compute(work, std::move(fn), width_for(rt, n), label);
}

Task<void> fill(Runtime& rt, Tensor to, float value) {
  const auto body = [value](float* const* v, std::int64_t begin, std::int64_t end) {
    std::fill(v[0] + begin, v[0] + end, value);
  };
  return run_pass(rt, {0, 0, 1}, {std::move(to)}, body, "fill");
}

Task<void> clear(Runtime& rt, Tensor to) {
  const auto body = [](float* const* v, std::int64_t begin, std::int64_t end) {
    std::fill(v[0] + begin, v[0] + end, 0.0F);
  };
  return run_pass(rt, {0, 0, 0}, {std::move(to)}, body, "clear");
}

Task<void> copy(Runtime& rt, Tensor from, Tensor to) {
  const auto body = [](float* const* v, std::int64_t begin, std::int64_t end) {
    std::memcpy(v[1] + begin, v[0] + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  };
  return run_pass(rt, {0, 1, 1}, {std::move(from), std::move(to)}, body, "copy");
}

Task<void> scale(Runtime& rt, Tensor x, float factor) {
  const auto body = [factor](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[0][i] *= factor;
  };
  return run_pass(rt, {1, 1, 1}, {std::move(x)}, body, "scale");
}

Task<void> add_scaled(Runtime& rt, Tensor to, float factor, Tensor x) {
  const auto body = [factor](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[0][i] += factor * v[1][i];
  };
  return run_pass(rt, {2, 2, 1}, {std::move(to), std::move(x)}, body, "add scaled");
}

Task<void> subtract(Runtime& rt, Tensor a, Tensor b, Tensor to) {
  const auto body = [](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[2][i] = v[0][i] - v[1][i];
  };
  return run_pass(rt, {1, 2, 1}, {std::move(a), std::move(b), std::move(to)}, body, "subtract");
}

Task<void> mix(Runtime& rt, Tensor to, float share, Tensor x) {
  const auto body = [share](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[0][i] += share * (v[1][i] - v[0][i]);
  };
  return run_pass(rt, {3, 2, 1}, {std::move(to), std::move(x)}, body, "mix");
}

Result<Tensor> new_vector(Runtime& rt, std::int64_t num_elems) {
  return allocate_zeros(rt.is_phantom() ? phantom_device() : cpu_device(), {DType::kF32, Shape{num_elems}});
}

Result<std::vector<Tensor>> new_vectors_like(Runtime& rt, const std::vector<Tensor>& like) {
  std::vector<Tensor> vectors;
  for (const Tensor& t : like) {
    TR_ASSIGN_OR_RETURN(Tensor v, new_vector(rt, t.shape().num_elems()));
    vectors.push_back(std::move(v));
  }
  return vectors;
}

}  // namespace trireme::agree
