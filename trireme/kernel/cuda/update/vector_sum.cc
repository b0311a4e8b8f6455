#include "trireme/kernel/cuda/cuda.h"

#include <fmt/format.h>

#include <string>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

extern const char kVectorsText[], kLargerText[], kSumVectorsText[];  // vector_sum.cu

namespace {

constexpr int kThreads = 256;
constexpr unsigned kMostBlocks = 1056;

// One element of the sum, from `load(k)`; every value is named, so the order is the one that was asked for.
std::string sum_text(int num_inputs, std::span<const Addition> additions, bool larger) {
  std::string text;
  const auto name = [&](int operand) {
    return operand < num_inputs ? fmt::format("load<P>(p.in[{}], i)", operand)
                                : fmt::format("t{}", operand - num_inputs);
  };
  for (std::size_t k = 0; k < additions.size(); ++k)
    text += fmt::format("  const P t{} = {}({}, {});\n", k, larger ? "larger" : "add",
                        name(additions[k].left), name(additions[k].right));
  const int last = additions.empty() ? 0 : num_inputs + static_cast<int>(additions.size()) - 1;
  return text + fmt::format("  return {};\n", name(last));
}

std::string kernel_text(int num_inputs, std::span<const Addition> additions, int num_outputs, bool larger) {
  return fmt::format(
      "constexpr int kInputs = {}, kOutputs = {};\n{}"
      "template <class P> __device__ __forceinline__ P total(const Vectors& p, i64 i) {{\n{}}}\n{}",
      num_inputs, num_outputs, std::string(kVectorsText) + (larger ? kLargerText : ""),
      sum_text(num_inputs, additions, larger), kSumVectorsText);
}

class TextSum final : public VectorSum {
 public:
  TextSum(const Function& function, int inputs, int outputs)
      : function_(function), inputs_(inputs), outputs_(outputs) {}

  Status enqueue(KernelStream& stream, std::span<const float* const> inputs, std::span<float* const> outputs,
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
    return launch_raw(stream.cuda_stream(), function_, {blocks}, {kThreads}, 0, args);
  }

 private:
  const Function& function_;
  const int inputs_, outputs_;
};

}  // namespace

Result<std::unique_ptr<VectorSum>> make_vector_sum(CudaDevice& device, int num_inputs,
                                                   std::span<const Addition> additions, int num_outputs,
                                                   bool larger) {
  if (num_inputs < 1 || num_outputs < 1 || num_inputs + num_outputs > VectorSum::kMostVectors)
    return error(Code::kInvalid, "[cuda] a sum of {} vectors into {}: expected at most {} in all", num_inputs,
                 num_outputs, VectorSum::kMostVectors);
  TR_ASSIGN_OR_RETURN(
      const Function* const function,
      device.function(kernel_text(num_inputs, additions, num_outputs, larger), "sum_vectors"));
  return std::unique_ptr<VectorSum>(std::make_unique<TextSum>(*function, num_inputs, num_outputs));
}

}  // namespace trireme::kernel::cuda
