// CPU kernels at the sizes of recipes/char-gpt.toml (4 layers, 256 wide, 4 heads, context 128, batch 32) and
// of small recurrent and convolutional networks: the reference of each op and every row of the table, on 1
// and 2 threads.
//
// On 1 thread rates are per second of processor time, so that a machine with other work still compares rows.
// "memcpy" is the share of the rate at which memcpy moves 16 MiB in the same process, counting bytes read and
// written.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "trireme/kernel/kernel.h"

namespace trireme {
namespace {

class Pair final : public op::Parallel {
 public:
  int width() const override { return 2; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    std::thread other([&] { body(n / 2, n, 1); });
    body(0, n / 2, 0);
    other.join();
  }
};

struct Work {
  std::string label;
  const char* op;
  std::vector<TensorType> inputs;
  op::Attrs attrs = {};
};

TensorType f32(const Shape& s) { return {DType::kF32, s}; }
TensorType i32(const Shape& s) { return {DType::kI32, s}; }

// Positive numbers below 1, so that they serve as variances; integers below 64.
Tensor make_tensor(const TensorType& type) {
  Tensor t = *Tensor::allocate(cpu_device(), type);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < type.shape.num_elems(); ++i) {
    state = state * 1664525U + 1013904223U;
    if (type.dtype == DType::kF32) t.data<float>()[i] = static_cast<float>(state >> 8) / (1 << 24);
    if (type.dtype == DType::kI32) t.data<std::int32_t>()[i] = static_cast<std::int32_t>(state >> 26);
    if (type.dtype == DType::kI64) t.data<std::int64_t>()[i] = state >> 26;
  }
  return t;
}

// A kernel with its operands, ready to run again and again. `row` null: the reference.
class Bound {
 public:
  Bound(const Work& work, const op::KernelRow* row, op::Parallel& parallel)
      : def_(*op::find_op(work.op)),
        attrs_(op::complete_attrs(def_, work.attrs).value()),
        types_(work.inputs),
        row_(row),
        parallel_(parallel) {
    for (const TensorType& t : types_) inputs_.push_back(make_tensor(t));
    out_types_ = op::infer_types(def_, types_, attrs_).value();
    for (const TensorType& t : out_types_)
      outputs_.push_back(def_.mutated_inputs.empty() ? make_tensor(t) : inputs_[0]);
    const op::KernelQuery q = query();
    std::size_t bytes = 0;
    if (row == nullptr && def_.reference_workspace != nullptr)
      bytes = def_.reference_workspace(types_, attrs_);
    if (row != nullptr && row->workspace_bytes != nullptr) bytes = row->workspace_bytes(q);
    workspace_.resize(bytes / sizeof(Line) + 1);
    if (row != nullptr && row->prepare != nullptr) state_ = row->prepare(q);
  }
  void run() {
    op::KernelArgs args{.inputs = inputs_,
                        .outputs = outputs_,
                        .attrs = attrs_,
                        .workspace = std::as_writable_bytes(std::span(workspace_)),
                        .parallel = parallel_,
                        .state = state_.get()};
    (row_ != nullptr ? row_->run : def_.reference)(args);
  }
  cost::OpCost cost() const { return def_.cost(types_, out_types_, attrs_); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  op::KernelQuery query() const { return {def_, types_, out_types_, attrs_, parallel_.width()}; }

  const op::OpDef& def_;
  op::Attrs attrs_;
  std::vector<TensorType> types_, out_types_;
  const op::KernelRow* row_;
  op::Parallel& parallel_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<Line> workspace_;
  std::unique_ptr<op::KernelState> state_;
};

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Bytes read and written per second of processor time.
double memcpy_rate() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes);
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const double begin = thread_seconds();
    std::memcpy(to.data(), from.data(), kBytes);
    benchmark::DoNotOptimize(to.data());
    best = std::max(best, 2 * static_cast<double>(kBytes) / (thread_seconds() - begin));
  }
  return best;
}

constexpr std::int64_t kBatch = 32, kContext = 128, kWide = 256, kHeads = 4, kClasses = 65;
constexpr std::int64_t kRows = kBatch * kContext;

// The gradient of gelu (tanh) as the pass over elementwise groups leaves it: x, dy and 1.
constexpr const char* kGeluGrad =
    R"({"inputs":3,"steps":[["square",[0]],["scale",[3],{"factor":0.044715}],["add",[2,4]],["mul",[0,5]],)"
    R"(["scale",[6],{"factor":0.7978845608}],["tanh",[7]],["scale",[3],{"factor":0.134145}],["add",[2,9]],)"
    R"(["scale",[10],{"factor":0.7978845608}],["square",[8]],["sub",[2,12]],["mul",[0,13]],["mul",[14,11]],)"
    R"(["add",[2,8]],["add",[16,15]],["scale",[17],{"factor":0.5}],["mul",[1,18]]],"outputs":[19]})";

void add_transformer(std::vector<Work>& out) {
  const Shape x{kRows, kWide}, inner{kRows, 4 * kWide}, w{kWide}, rows{kRows};
  const Shape head{kBatch, kHeads, kContext, kWide / kHeads};
  using Ints = std::vector<std::int64_t>;
  out.push_back({"gpt", "layer_norm", {f32(x), f32(w), f32(w)}});
  out.push_back({"gpt", "layer_norm_grad", {f32(x), f32(w), f32(rows), f32(rows), f32(x)}});
  out.push_back({"gpt", "attention", {f32(head), f32(head), f32(head)}, {{"causal", true}}});
  out.push_back({"gpt", "attention_grad", {f32(head), f32(head), f32(head), f32(head)}, {{"causal", true}}});
  out.push_back({"gpt", "gelu", {f32(inner)}, {{"tanh", true}}});
  out.push_back({"gpt_exact", "gelu", {f32(inner)}, {{"tanh", false}}});
  for (const char* op : {"tanh", "exp", "log", "sigmoid", "silu", "softplus", "erf", "square"})
    out.push_back({"gpt", op, {f32(inner)}});
  for (const char* op : {"add", "sub", "mul"}) out.push_back({"gpt", op, {f32(inner), f32(inner)}});
  out.push_back({"gpt_scalar", "add", {f32({}), f32(inner)}});
  out.push_back({"gpt_rows", "add", {f32({kBatch, kContext, kWide}), f32({kContext, kWide})}});
  out.push_back({"gpt", "bias_add", {f32(inner), f32({4 * kWide})}});
  out.push_back({"gpt", "bias_grad", {f32(inner)}});
  out.push_back(
      {"gpt", "split", {f32({kRows, 3 * kWide})}, {{"axis", std::int64_t{1}}, {"sizes", Ints(3, kWide)}}});
  out.push_back({"gpt", "concat", {f32(x), f32(x), f32(x)}, {{"axis", std::int64_t{1}}}});
  out.push_back(
      {"gpt", "transpose", {f32({kBatch, kContext, kHeads, kWide / kHeads})}, {{"order", Ints{0, 2, 1, 3}}}});
  out.push_back({"square", "transpose", {f32({1024, 2048})}});
  out.push_back({"gpt", "embedding", {f32({kClasses, kWide}), i32({kBatch, kContext})}});
  out.push_back({"gpt",
                 "embedding_grad",
                 {f32({kBatch, kContext, kWide}), i32({kBatch, kContext})},
                 {{"shape", Ints{kClasses, kWide}}}});
  out.push_back({"gpt", "softmax_cross_entropy", {f32({kRows, kClasses}), i32(rows), f32(rows)}});
  out.push_back(
      {"gpt", "softmax_cross_entropy_grad", {f32({kRows, kClasses}), i32(rows), f32(rows), f32(rows)}});
  out.push_back({"wide", "softmax_cross_entropy", {f32({256, 32000}), i32({256}), f32({256})}});
  out.push_back({"gpt", "softmax", {f32({kRows, 128})}});
  out.push_back(
      {"gelu_grad", "fused", {f32(inner), f32(inner), f32({})}, {{"program", std::string(kGeluGrad)}}});
  const auto product = [&](const char* label, const Shape& a, const Shape& b, bool ta, bool tb) {
    out.push_back({label, "matmul", {f32(a), f32(b)}, {{"transpose_a", ta}, {"transpose_b", tb}}});
  };
  product("gpt_y", x, {kWide, 4 * kWide}, false, false);
  product("gpt_dx", inner, {kWide, 4 * kWide}, false, true);
  product("gpt_dw", x, inner, true, false);
}

void add_updates(std::vector<Work>& out) {
  const TensorType w = f32({1024, 1024}), none = f32({0}), lr = f32({}), step{DType::kI64, {}};
  for (const char* op : {"apply_adam", "apply_adamw"})
    out.push_back({"update", op, {w, w, w, none, w, lr, step}, {{"weight_decay", 0.1}}});
  out.push_back({"update", "apply_rmsprop", {w, w, none, none, w, lr}});
  out.push_back({"update", "apply_adagrad", {w, w, w, lr, step}});
  out.push_back({"update", "apply_lars", {w, w, w, lr}});
}

void add_recurrent(std::vector<Work>& out) {
  const std::int64_t units = 256;
  const Shape x{64, 32, 128}, state{32, units}, y{64, 32, units};
  const auto add = [&](const char* op, const char* grad, std::int64_t gates, bool cell) {
    std::vector<TensorType> in{f32(x), f32(state)};
    if (cell) in.push_back(f32(state));
    for (const Shape& s : {Shape{gates * units, x[2]}, Shape{gates * units, units}, Shape{gates * units},
                           Shape{gates * units}})
      in.push_back(f32(s));
    out.push_back({"seq", op, in});
    in.push_back(f32(y));
    in.push_back(f32(state));
    if (cell) in.push_back(f32(state));
    out.push_back({"seq", grad, in});
  };
  add("rnn", "rnn_grad", 1, false);
  add("lstm", "lstm_grad", 4, true);
  add("gru", "gru_grad", 3, false);
}

void add_images(std::vector<Work>& out) {
  const Shape x{32, 64, 28, 28}, c{64};
  const std::int64_t three = 3, two = 2, one = 1;
  const op::Attrs pool{{"window_h", three}, {"window_w", three}, {"stride_h", two},
                       {"stride_w", two},   {"pad_h", one},      {"pad_w", one}};
  op::Attrs pool_grad = pool;
  pool_grad.set("input_shape", std::vector<std::int64_t>(x.dims().begin(), x.dims().end()));
  out.push_back({"image", "batch_norm", {f32(x), f32(c), f32(c)}});
  out.push_back({"image", "batch_norm_grad", {f32(x), f32(c), f32(c), f32(c), f32(x)}});
  out.push_back({"image", "batch_norm_inference", {f32(x), f32(c), f32(c), f32(c), f32(c)}});
  out.push_back({"image", "avg_pool2d", {f32(x)}, pool});
  out.push_back({"image", "avg_pool2d_grad", {f32({32, 64, 14, 14})}, pool_grad});
  out.push_back({"image", "local_response_norm", {f32(x)}});
  out.push_back({"image",
                 "dropout",
                 {f32(x), {DType::kI64, {}}, {DType::kI64, {}}, {DType::kI64, {32}}},
                 {{"stream", one}}});
  out.push_back({"image", "sum", {f32(x)}, {{"axes", std::vector<std::int64_t>{0, 2, 3}}}});
  out.push_back({"gpt", "correct", {f32({kRows, kClasses}), i32({kRows}), f32({kRows})}});
}

std::vector<Work> works() {
  std::vector<Work> out;
  add_transformer(out);
  add_updates(out);
  add_recurrent(out);
  add_images(out);
  return out;
}

void run_one(benchmark::State& state, const Work& work, const op::KernelRow* row, int width,
             double memcpy_bytes) {
  Pair pair;
  Bound bound(work, row, width == 2 ? static_cast<op::Parallel&>(pair) : op::serial());
  if (row != nullptr) bound.run();  // touches its memory, generates code
  for (auto _ : state) bound.run();
  const cost::OpCost cost = bound.cost();
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GFLOP/s"] = benchmark::Counter(cost.flops * 1e-9, rate);
  state.counters["memcpy"] = benchmark::Counter(cost.bytes / memcpy_bytes, rate);
}

bool applies(const Work& work, const op::KernelRow& row, int width) {
  if (std::string_view(row.op) != work.op) return false;
  const op::OpDef& def = *op::find_op(work.op);
  const op::Attrs attrs = op::complete_attrs(def, work.attrs).value();
  const auto types = op::infer_types(def, work.inputs, attrs).value();
  return row.applicable == nullptr || row.applicable({def, work.inputs, types, attrs, width});
}

void register_all(double memcpy_bytes) {
  for (const Work& work : works()) {
    const auto add = [&](const op::KernelRow* row, int width) {
      const std::string name =
          fmt::format("{}/{}/{}/{}", work.label, work.op, row ? row->name : "reference", width);
      auto* b = benchmark::RegisterBenchmark(name.c_str(), run_one, work, row, width, memcpy_bytes)
                    ->Unit(benchmark::kMicrosecond);
      if (width == 2) b->UseRealTime();
    };
    add(nullptr, 1);
    for (const op::KernelRow& row : kernel::cpu_kernels())
      for (const int width : {1, 2})
        if (applies(work, row, width)) add(&row, width);
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const double rate = trireme::memcpy_rate();
  benchmark::AddCustomContext("kernels", trireme::kernel::cpu_kernel_library());
  benchmark::AddCustomContext("memcpy GB/s", fmt::format("{:.1f}", rate * 1e-9));
  trireme::register_all(rate);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
