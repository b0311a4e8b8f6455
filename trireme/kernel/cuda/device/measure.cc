#include "trireme/kernel/cuda/cuda.h"

#include <algorithm>
#include <array>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

extern const char kNoiseText[];  // measure.cu

namespace {

constexpr double kLeastGain = 0.97;  // of the time of the library's first choice
constexpr double kHopeless = 1.2;    // times the best so far, after one round
constexpr double kRoundSeconds = 2e-3;
constexpr int kRounds = 3, kMostCalls = 10;
constexpr std::size_t kMoreWorkspace = std::size_t{128} << 20U;  // bytes beyond the first: speed is not all

constexpr std::array<std::string_view, 17> kOps{"matmul",
                                                "matmul_bias_act",
                                                "conv2d",
                                                "conv2d_input_grad",
                                                "conv2d_filter_grad",
                                                "conv2d_bias_act",
                                                "conv2d_transpose",
                                                "attention_qkv",
                                                "attention_qkv_grad",
                                                "attention",
                                                "attention_grad",
                                                "lstm",
                                                "lstm_grad",
                                                "gru",
                                                "gru_grad",
                                                "rnn",
                                                "rnn_grad"};

struct Candidate {
  int algorithm = 0;
  std::unique_ptr<CudaKernel> kernel;
  double seconds = 0;  // of a call, in the fastest round
};

// Operands of a node in memory of their own.
class Bench {
 public:
  Bench(CudaDevice& device, std::unique_ptr<CudaStream> stream)
      : device_(device), stream_(std::move(stream)) {}
  ~Bench() {
    for (const CUevent event : {begin_, end_})
      if (event != nullptr) device_.lib().cuEventDestroy(event);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Status make(const CudaQuery& q, std::size_t workspace_bytes) {
    device_.enter();
    const Libraries& lib = device_.lib();
    TR_RETURN_IF_ERROR(lib.check(lib.cuEventCreate(&begin_, CU_EVENT_DEFAULT), "making an event"));
    TR_RETURN_IF_ERROR(lib.check(lib.cuEventCreate(&end_, CU_EVENT_DEFAULT), "making an event"));
    TR_ASSIGN_OR_RETURN(const Function* const noise, device_.function(kNoiseText, "noise"));
    for (const TensorType& type : q.inputs) {
      TR_ASSIGN_OR_RETURN(const Tensor t, Tensor::allocate(device_, type));
      const auto words = static_cast<std::int64_t>(type.num_bytes() / 4);
      if (words > 0)
        TR_RETURN_IF_ERROR(launch(*stream_, *noise, {blocks_for(words, 256, 4)}, {256}, 0,
                                  static_cast<void*>(t.raw()), words));
      in_.push_back(t);
    }
    for (const TensorType& type : q.outputs) {
      TR_ASSIGN_OR_RETURN(Tensor t, Tensor::allocate(device_, type));
      out_.push_back(std::move(t));
    }
    TR_ASSIGN_OR_RETURN(workspace_, device_.allocate(workspace_bytes));
    return stream_->synchronize();
  }

  // Seconds of a call, over `calls` of them.
  Result<double> time(const CudaKernel& kernel, int calls) {
    const Libraries& lib = device_.lib();
    TR_RETURN_IF_ERROR(lib.check(lib.cuEventRecord(begin_, stream_->raw()), "recording an event"));
    for (int i = 0; i < calls; ++i)
      TR_RETURN_IF_ERROR(kernel.enqueue({in_, out_, workspace_.data(), *stream_}));
    TR_RETURN_IF_ERROR(lib.check(lib.cuEventRecord(end_, stream_->raw()), "recording an event"));
    TR_RETURN_IF_ERROR(stream_->synchronize());
    float ms = 0;
    TR_RETURN_IF_ERROR(lib.check(lib.cuEventElapsedTime(&ms, begin_, end_), "reading the time"));
    return static_cast<double>(ms) * 1e-3 / calls;
  }

 private:
  CudaDevice& device_;
  std::unique_ptr<CudaStream> stream_;
  CUevent begin_ = nullptr, end_ = nullptr;
  std::vector<Tensor> in_, out_;
  Buffer workspace_;
};

Result<std::vector<Candidate>> make_candidates(const CudaQuery& query, const CudaRow& row, int most) {
  std::vector<Candidate> made;
  for (int i = 0; i <= most; ++i) {
    CudaQuery q = query;
    q.algorithm = i;
    Result<std::unique_ptr<CudaKernel>> kernel = row.make(q);
    if (!kernel.ok() && i == 0) return kernel.status();
    if (!kernel.ok() && kernel.status().code() == Code::kNotFound) break;  // the list has ended
    if (!kernel.ok() ||
        (i > 0 && (*kernel)->workspace_bytes() > made.front().kernel->workspace_bytes() + kMoreWorkspace))
      continue;
    made.push_back({i, std::move(*kernel)});
  }
  return made;
}

}  // namespace

bool has_algorithms(const op::OpDef& def) {
  return std::find(kOps.begin(), kOps.end(), def.name) != kOps.end();
}

Result<AlgorithmTimes> time_algorithms(const CudaQuery& query, const CudaRow& row, int most) {
  TR_ASSIGN_OR_RETURN(std::vector<Candidate> field, make_candidates(query, row, most));
  AlgorithmTimes times;
  times.tried = static_cast<int>(field.size());
  if (field.size() < 2) return times;
  std::size_t bytes = 0;
  for (const Candidate& c : field) bytes = std::max(bytes, c.kernel->workspace_bytes());
  Bench bench(query.device, query.device.make_cuda_stream());
  TR_RETURN_IF_ERROR(bench.make(query, bytes));
  double best = 0;
  for (Candidate& c : field) {
    TR_RETURN_IF_ERROR(bench.time(*c.kernel, 1).status());  // code is loaded when it is first called
    TR_ASSIGN_OR_RETURN(c.seconds, bench.time(*c.kernel, 1));
    best = best == 0 ? c.seconds : std::min(best, c.seconds);
  }
  for (int round = 0; round < kRounds; ++round)
    for (Candidate& c : field) {
      if (c.seconds > kHopeless * best && c.algorithm != 0) continue;
      const int calls =
          std::clamp(static_cast<int>(kRoundSeconds / std::max(c.seconds, 1e-7)), 1, kMostCalls);
      TR_ASSIGN_OR_RETURN(const double seconds, bench.time(*c.kernel, calls));
      c.seconds = std::min(c.seconds, seconds);
      best = std::min(best, c.seconds);
    }
  const auto first = std::min_element(field.begin(), field.end(), [](const Candidate& a, const Candidate& b) {
    return a.seconds < b.seconds;
  });
  times.first_seconds = field.front().seconds;
  const Candidate& chosen = first->seconds < kLeastGain * times.first_seconds ? *first : field.front();
  times.fastest = chosen.algorithm;
  times.seconds = chosen.seconds;
  return times;
}

}  // namespace trireme::kernel::cuda
