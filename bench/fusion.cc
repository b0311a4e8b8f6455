// A chain of 5 elementwise ops over 64 MB of f32, as 5 nodes with the kernels they would get (in place, as a
// memory plan has them) and as one fused node, in the same run. `ratio` of the last row is unfused time over
// fused time.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "trireme/kernel/kernel.h"
#include "trireme/op/ops.h"

namespace trireme {
namespace {

constexpr std::int64_t kElems = std::int64_t{16} * 1024 * 1024;
constexpr const char* kProgram =
    R"({"inputs":2,"steps":[["mul",[0,1]],["scale",[2],{"factor":0.5}],["relu",[3]],["add",[4,1]],["scale",[5],{"factor":0.25}]],"outputs":[6]})";

Tensor make_tensor(std::uint32_t state) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {kElems}});
  for (float& v : t.values<float>()) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8) / (1 << 24) - 0.5F;
  }
  return t;
}

// One node: its kernel, prepared, on given tensors.
class Step {
 public:
  Step(const op::OpDef& def, std::vector<Tensor> in, Tensor out, op::Attrs attrs)
      : in_(std::move(in)), out_(std::move(out)), attrs_(*op::complete_attrs(def, std::move(attrs))) {
    std::vector<TensorType> types;
    for (const Tensor& t : in_) types.push_back(t.type());
    const op::KernelQuery q{def, types, std::span(&out_.type(), 1), attrs_, 1};
    const kernel::Choice choice = *kernel::choose_cpu_kernel(q);
    run_ = choice.row ? choice.row->run : def.reference;
    if (choice.row && choice.row->workspace_bytes)
      workspace_ = *Tensor::allocate(
          cpu_device(), {DType::kU8, {static_cast<std::int64_t>(choice.row->workspace_bytes(q))}});
    if (choice.row && choice.row->prepare) state_ = choice.row->prepare(q);
  }
  void run() {
    op::KernelArgs args{
        .inputs = in_,
        .outputs = std::span(&out_, 1),
        .attrs = attrs_,
        .workspace = {workspace_.raw(), workspace_.is_null() ? 0 : workspace_.type().num_bytes()},
        .parallel = op::serial(),
        .state = state_.get()};
    run_(args);
  }

 private:
  std::vector<Tensor> in_;
  Tensor out_;
  op::Attrs attrs_;
  op::KernelFn run_ = nullptr;
  Tensor workspace_;
  std::unique_ptr<op::KernelState> state_;
};

struct Chains {
  Tensor x = make_tensor(1), y = make_tensor(2), plain = make_tensor(3), fused = make_tensor(4);
  std::vector<Step> unfused_steps() {
    std::vector<Step> steps;
    steps.emplace_back(op::kMul, std::vector{x, y}, plain, op::Attrs{});
    steps.emplace_back(op::kScale, std::vector{plain}, plain, op::Attrs{{"factor", 0.5}});
    steps.emplace_back(op::kRelu, std::vector{plain}, plain, op::Attrs{});
    steps.emplace_back(op::kAdd, std::vector{plain, y}, plain, op::Attrs{});
    steps.emplace_back(op::kScale, std::vector{plain}, plain, op::Attrs{{"factor", 0.25}});
    return steps;
  }
  std::vector<Step> fused_steps() {
    std::vector<Step> steps;
    steps.emplace_back(op::kFused, std::vector{x, y}, fused, op::Attrs{{"program", std::string(kProgram)}});
    return steps;
  }
};

void run_all(std::vector<Step>& steps) {
  for (Step& s : steps) s.run();
}

void run_chain(benchmark::State& state, bool fused) {
  Chains chains;
  std::vector<Step> steps = fused ? chains.fused_steps() : chains.unfused_steps();
  run_all(steps);
  for (auto _ : state) run_all(steps);
}

// Alternates the two, so that a noisy moment hits both; the ratio is of the fastest of each.
void run_ratio(benchmark::State& state) {
  Chains chains;
  std::vector<Step> unfused = chains.unfused_steps(), fused = chains.fused_steps();
  const auto seconds = [](std::vector<Step>& steps) {
    const auto begin = std::chrono::steady_clock::now();
    run_all(steps);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double slow = 1e9, fast = 1e9;
  seconds(unfused), seconds(fused);
  for (auto _ : state) {
    slow = std::min(slow, seconds(unfused));
    fast = std::min(fast, seconds(fused));
  }
  const auto a = chains.plain.values<float>(), b = chains.fused.values<float>();
  if (!std::equal(a.begin(), a.end(), b.begin())) state.SkipWithError("fused and unfused differ");
  state.counters["ratio"] = slow / fast;
  state.counters["unfused_ms"] = slow * 1e3;
  state.counters["fused_ms"] = fast * 1e3;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("kernels", trireme::kernel::cpu_kernel_library());
  benchmark::RegisterBenchmark("chain5_64MB/unfused", trireme::run_chain, false)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("chain5_64MB/fused", trireme::run_chain, true)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("chain5_64MB/ratio", trireme::run_ratio)
      ->Unit(benchmark::kMillisecond)
      ->Iterations(20);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
