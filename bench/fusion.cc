// A chain of 5 elementwise ops over 64 MB of f32, as 5 nodes with the kernels they would get (in place, as a
// memory plan has them) and as one fused node, in the same run. `ratio` of the last row is unfused time over
// fused time.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
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
    const kernel::KernelChoice choice = *kernel::choose_cpu_kernel(q);
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

// Two chains over the same values. In place: the first input dies in the chain and its memory becomes the
// output's, as inside a network. Kept: the input is read again later, so the chain writes to other memory.
struct Chains {
  explicit Chains(bool in_place)
      : y(make_tensor(2)),
        plain_in(make_tensor(1)),
        fused_in(make_tensor(1)),
        plain(in_place ? plain_in : make_tensor(3)),
        fused(in_place ? fused_in : make_tensor(4)) {
    const auto add = [this](const op::OpDef& def, std::vector<Tensor> in, op::Attrs attrs = {}) {
      unfused_steps.emplace_back(def, std::move(in), plain, std::move(attrs));
    };
    add(op::kMul, {plain_in, y});
    add(op::kScale, {plain}, {{"factor", 0.5}});
    add(op::kRelu, {plain});
    add(op::kAdd, {plain, y});
    add(op::kScale, {plain}, {{"factor", 0.25}});
    fused_steps.emplace_back(op::kFused, std::vector{fused_in, y}, fused,
                             op::Attrs{{"program", std::string(kProgram)}});
  }
  Tensor y, plain_in, fused_in, plain, fused;
  std::vector<Step> unfused_steps, fused_steps;
};

void run_all(std::vector<Step>& steps) {
  for (Step& s : steps) s.run();
}

// Seconds of this thread: other programs on the machine count less.
double seconds(std::vector<Step>& steps) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double begin = now();
  run_all(steps);
  return now() - begin;
}

// Alternates the two, so that a noisy moment hits both; the ratio is of the fastest of each.
void run_ratio(benchmark::State& state, bool in_place) {
  Chains chains(in_place);
  double slow = 1e9, fast = 1e9;
  for (auto _ : state) {
    slow = std::min(slow, seconds(chains.unfused_steps));
    fast = std::min(fast, seconds(chains.fused_steps));
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
  for (const bool in_place : {true, false})
    benchmark::RegisterBenchmark(fmt::format("chain5_64MB/{}", in_place ? "in_place" : "kept").c_str(),
                                 trireme::run_ratio, in_place)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(30);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
