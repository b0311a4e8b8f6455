// CPU kernels at the sizes of a LeNet-like network, batch 256: every row of the table, on 1 and 2 threads,
// and the whole step (forward, backward, update) with the rows that would be chosen. Counters: GFLOP/s or
// GB/s of one call.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "trireme/kernel/kernel.h"

namespace trireme {
namespace {

constexpr std::int64_t kBatch = 256;

// `width` threads that spin between calls: the least a real pool could cost.
class SpinPool final : public op::Parallel {
 public:
  explicit SpinPool(int width) : width_(width) {
    for (int i = 1; i < width; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~SpinPool() override {
    stop_ = true;
    round_.fetch_add(1);
    for (std::thread& t : threads_) t.join();
  }
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    body_ = &body;
    n_ = n;
    pending_.store(width_ - 1);
    round_.fetch_add(1);
    run_slice(0);
    while (pending_.load() != 0) {
    }
  }

 private:
  void run_slice(int i) {
    const std::int64_t begin = n_ * i / width_, end = n_ * (i + 1) / width_;
    if (begin < end) (*body_)(begin, end, i);
  }
  void serve(int i) {
    for (int seen = 0;;) {
      while (round_.load() == seen) {
      }
      ++seen;
      if (stop_) return;
      run_slice(i);
      pending_.fetch_sub(1);
    }
  }

  int width_;
  std::vector<std::thread> threads_;
  const std::function<void(std::int64_t, std::int64_t, int)>* body_ = nullptr;
  std::int64_t n_ = 0;
  std::atomic<int> round_{0}, pending_{0};
  std::atomic<bool> stop_{false};
};

// One op at one size.
struct Work {
  std::string label;
  const char* op;
  std::vector<Shape> inputs;
  Shape output;
  op::Attrs attrs;
  double flops;  // 0: count bytes
};

TensorType f32(const Shape& shape) { return {DType::kF32, shape}; }

Tensor make_tensor(const Shape& shape) {
  Tensor t = *Tensor::allocate(cpu_device(), f32(shape));
  std::uint32_t state = 1;
  for (float& v : t.values<float>()) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8) / (1 << 24) - 0.5F;
  }
  return t;
}

// A kernel with its operands, ready to run again and again.
class Bound {
 public:
  Bound(const Work& work, const op::KernelRow& row, op::Parallel& parallel)
      : work_(work), row_(row), parallel_(parallel), def_{.name = work.op, .doc = "", .family = ""} {
    for (const Shape& s : work.inputs) {
      inputs_.push_back(make_tensor(s));
      input_types_.push_back(f32(s));
    }
    if (work.output.rank() > 0 || work.op == std::string_view("sum"))
      outputs_.push_back(make_tensor(work.output));
    for (const Tensor& t : outputs_) output_types_.push_back(t.type());
    const op::KernelQuery q = query();
    if (row.workspace_bytes != nullptr)
      workspace_ =
          *Tensor::allocate(cpu_device(), {DType::kU8, {static_cast<std::int64_t>(row.workspace_bytes(q))}});
    if (row.prepare != nullptr) state_ = row.prepare(q);
  }
  bool applicable() { return row_.applicable == nullptr || row_.applicable(query()); }
  void run() {
    op::KernelArgs args{
        .inputs = inputs_,
        .outputs = outputs_,
        .attrs = work_.attrs,
        .workspace = {workspace_.raw(), workspace_.is_null() ? 0 : workspace_.type().num_bytes()},
        .parallel = parallel_,
        .state = state_.get()};
    row_.run(args);
  }
  double num_bytes() const {
    double bytes = 0;
    for (const Tensor& t : inputs_) bytes += static_cast<double>(t.type().num_bytes());
    for (const Tensor& t : outputs_) bytes += static_cast<double>(t.type().num_bytes());
    return bytes;
  }

 private:
  op::KernelQuery query() const {
    return {def_, input_types_, output_types_, work_.attrs, parallel_.width()};
  }

  Work work_;
  const op::KernelRow& row_;
  op::Parallel& parallel_;
  op::OpDef def_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<TensorType> input_types_, output_types_;
  Tensor workspace_;
  std::unique_ptr<op::KernelState> state_;
};

op::Attrs with_shape(op::Attrs attrs, const char* name, const Shape& shape) {
  attrs.set(name, std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end()));
  return attrs;
}

void add_conv(std::vector<Work>& out, const std::string& label, const Shape& x, std::int64_t o, bool first) {
  const Shape filter{o, x[1], 5, 5}, y{x[0], o, x[2], x[3]};
  const op::Attrs attrs{{"stride_h", std::int64_t{1}},   {"stride_w", std::int64_t{1}},
                        {"pad_h", std::int64_t{2}},      {"pad_w", std::int64_t{2}},
                        {"dilation_h", std::int64_t{1}}, {"dilation_w", std::int64_t{1}},
                        {"groups", std::int64_t{1}}};
  const double flops = 2.0 * static_cast<double>(y.num_elems() * x[1] * 25);
  out.push_back({label, "conv2d", {x, filter}, y, attrs, flops});
  out.push_back(
      {label, "conv2d_filter_grad", {x, y}, filter, with_shape(attrs, "filter_shape", filter), flops});
  if (!first)
    out.push_back({label, "conv2d_input_grad", {filter, y}, x, with_shape(attrs, "input_shape", x), flops});
}

void add_after_conv(std::vector<Work>& out, const std::string& label, const Shape& y) {
  const Shape c{y[1]}, half{y[0], y[1], y[2] / 2, y[3] / 2};
  const op::Attrs pool{{"window_h", std::int64_t{2}}, {"window_w", std::int64_t{2}},
                       {"stride_h", std::int64_t{2}}, {"stride_w", std::int64_t{2}},
                       {"pad_h", std::int64_t{0}},    {"pad_w", std::int64_t{0}}};
  out.push_back({label, "bias_add", {y, c}, y, {}, 0});
  out.push_back({label, "relu", {y}, y, {}, 0});
  out.push_back({label, "max_pool2d", {y}, half, pool, 0});
  out.push_back({label, "max_pool2d_grad", {y, half, half}, y, pool, 0});
  out.push_back({label, "relu_grad", {y, y}, y, {}, 0});
  out.push_back({label, "bias_grad", {y}, c, {}, 0});
}

void add_dense(std::vector<Work>& out, const std::string& label, std::int64_t in, std::int64_t units) {
  const Shape x{kBatch, in}, w{in, units}, y{kBatch, units};
  const double flops = 2.0 * static_cast<double>(kBatch * in * units);
  const auto attrs = [](bool a, bool b) { return op::Attrs{{"transpose_a", a}, {"transpose_b", b}}; };
  out.push_back({label + "_y", "matmul", {x, w}, y, attrs(false, false), flops});
  out.push_back({label + "_dw", "matmul", {x, y}, w, attrs(true, false), flops});
  out.push_back({label + "_dx", "matmul", {y, w}, x, attrs(false, true), flops});
  out.push_back({label, "bias_add", {y, {units}}, y, {}, 0});
  out.push_back({label, "bias_grad", {y}, {units}, {}, 0});
}

std::vector<Work> lenet() {
  std::vector<Work> out;
  add_conv(out, "conv1", {kBatch, 1, 28, 28}, 16, /*first=*/true);
  add_after_conv(out, "conv1", {kBatch, 16, 28, 28});
  add_conv(out, "conv2", {kBatch, 16, 14, 14}, 32, /*first=*/false);
  add_after_conv(out, "conv2", {kBatch, 32, 14, 14});
  add_dense(out, "fc1", 1568, 128);
  out.push_back({"fc1", "relu", {{kBatch, 128}}, {kBatch, 128}, {}, 0});
  out.push_back({"fc1", "relu_grad", {{kBatch, 128}, {kBatch, 128}}, {kBatch, 128}, {}, 0});
  add_dense(out, "fc2", 128, 10);
  const op::Attrs momentum{{"momentum", 0.9}, {"weight_decay", 1e-4}, {"nesterov", false}};
  for (const Shape& w : {Shape{16, 1, 5, 5}, Shape{32, 16, 5, 5}, Shape{1568, 128}, Shape{128, 10}})
    out.push_back({"update", "apply_momentum", {w, w, w, {}}, {}, momentum, 0});
  return out;
}

void run_one(benchmark::State& state, const Work& work, const op::KernelRow& row, int width) {
  SpinPool pool(width);
  Bound bound(work, row, pool);
  bound.run();  // touches its memory, generates code
  for (auto _ : state) bound.run();
  const bool compute = work.flops > 0;
  state.counters[compute ? "GFLOP/s" : "GB/s"] = benchmark::Counter(
      (compute ? work.flops : bound.num_bytes()) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void run_step(benchmark::State& state, int width) {
  SpinPool pool(width);
  std::vector<std::unique_ptr<Bound>> step;
  for (const Work& work : lenet())
    for (const op::KernelRow& row : kernel::cpu_kernels()) {
      if (std::string_view(row.op) != work.op) continue;
      auto bound = std::make_unique<Bound>(work, row, pool);
      if (!bound->applicable()) continue;
      step.push_back(std::move(bound));
      break;
    }
  const auto run_all = [&] {
    for (const auto& bound : step) bound->run();
  };
  run_all();  // touches its memory, generates code
  for (auto _ : state) run_all();
  state.counters["samples/s"] =
      benchmark::Counter(static_cast<double>(kBatch), benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  for (int width : {1, 2}) {
    benchmark::RegisterBenchmark(fmt::format("lenet_step/{}", width).c_str(), run_step, width)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
    for (const Work& work : lenet())
      for (const op::KernelRow& row : kernel::cpu_kernels())
        if (std::string_view(row.op) == work.op)
          benchmark::RegisterBenchmark(
              fmt::format("{}/{}/{}/{}", work.label, work.op, row.name, width).c_str(), run_one, work,
              std::cref(row), width)
              ->UseRealTime()
              ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("kernels", trireme::kernel::cpu_kernel_library());
  trireme::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
