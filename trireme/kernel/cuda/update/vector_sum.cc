#include "trireme/kernel/cuda/update/vector_sum.h"

#include <fmt/format.h>

#include <string>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/device/session.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMostBlocks = 1056;

// One element of the sum, from `load(k)`; every value is named, so the order is the one that was asked for.
std::string sum_text(int num_inputs, std::span<const Addition> additions) {
  std::string text;
  const auto name = [&](int operand) {
    return operand < num_inputs ? fmt::format("load<P>(p.in[{}], i)", operand)
                                : fmt::format("t{}", operand - num_inputs);
  };
  for (std::size_t k = 0; k < additions.size(); ++k)
    text +=
        fmt::format("  const P t{} = add({}, {});\n", k, name(additions[k].left), name(additions[k].right));
  const int last = additions.empty() ? 0 : num_inputs + static_cast<int>(additions.size()) - 1;
  return text + fmt::format("  return {};\n", name(last));
}

std::string kernel_text(int num_inputs, std::span<const Addition> additions, int num_outputs) {
  return fmt::format(
      R"cuda(
struct alignas(16) Four {{ float v[4]; }};
struct Vectors {{ const float* in[{inputs}]; float* out[{outputs}]; }};
__device__ __forceinline__ float add(float a, float b) {{ return a + b; }}
__device__ __forceinline__ Four add(Four a, Four b) {{
  Four r;
  for (int k = 0; k < 4; ++k) r.v[k] = a.v[k] + b.v[k];
  return r;
}}
template <class P> __device__ __forceinline__ P load(const float* at, i64 i) {{ return ((const P*)at)[i]; }}
template <class P> __device__ __forceinline__ P total(const Vectors& p, i64 i) {{
{sum}}}
template <class P> __device__ __forceinline__ void one(const Vectors& p, i64 i) {{
  const P v = total<P>(p, i);
#pragma unroll
  for (int k = 0; k < {outputs}; ++k) ((P*)p.out[k])[i] = v;
}}
extern "C" __global__ void sum_vectors(Vectors p, i64 begin, i64 end) {{
  const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, packs = end / 4;
  for (i64 i = begin / 4 + first; i < packs; i += grid_step()) one<Four>(p, i);
  const i64 rest = packs * 4 + first;
  if (rest < end) one<float>(p, rest);
}}
)cuda",
      fmt::arg("inputs", num_inputs), fmt::arg("outputs", num_outputs),
      fmt::arg("sum", sum_text(num_inputs, additions)));
}

class TextSum final : public VectorSum {
 public:
  TextSum(const Function& function, int inputs, int outputs)
      : function_(function), inputs_(inputs), outputs_(outputs) {}

  Status enqueue(Session& session, std::span<const float* const> inputs, std::span<float* const> outputs,
                 std::int64_t begin, std::int64_t end) const override {
    TR_CHECK(inputs.size() == static_cast<std::size_t>(inputs_) &&
                 outputs.size() == static_cast<std::size_t>(outputs_) && begin % 4 == 0,
             "a sum of {} vectors into {} got {} and {}, from {}", inputs_, outputs_, inputs.size(),
             outputs.size(), begin);
    if (begin >= end) return {};
    std::vector<const void*> vectors(inputs.begin(), inputs.end());
    vectors.insert(vectors.end(), outputs.begin(), outputs.end());
    void* args[] = {vectors.data(), &begin, &end, nullptr};
    const unsigned blocks = blocks_for(end - begin, kThreads, 4, kMostBlocks);
    return launch_raw(session.stream(), function_, {blocks}, {kThreads}, 0, args);
  }

 private:
  const Function& function_;
  const int inputs_, outputs_;
};

}  // namespace

Result<std::unique_ptr<VectorSum>> make_vector_sum(CudaDevice& device, int num_inputs,
                                                   std::span<const Addition> additions, int num_outputs) {
  if (num_inputs < 1 || num_outputs < 1 || num_inputs + num_outputs > VectorSum::kMostVectors)
    return error(Code::kInvalid, "[cuda] a sum of {} vectors into {}: expected at most {} in all", num_inputs,
                 num_outputs, VectorSum::kMostVectors);
  TR_ASSIGN_OR_RETURN(const Function* const function,
                      device.function(kernel_text(num_inputs, additions, num_outputs), "sum_vectors"));
  return std::unique_ptr<VectorSum>(std::make_unique<TextSum>(*function, num_inputs, num_outputs));
}

}  // namespace trireme::kernel::cuda
