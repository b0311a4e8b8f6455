// What running costs beyond the kernels: time per small op of the executor, of a Session, of imperative
// calls, and of a host op between two strands. The op is a `neg` of 8 floats with the kernel an executor
// chooses; `kernel` calls it with nothing around it.
#include <benchmark/benchmark.h>

#include <vector>

#include "trireme/eager/context.h"
#include "trireme/eager/ops.h"
#include "trireme/exec/session.h"
#include "trireme/graph/builder.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/ops.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme {
namespace {

const TensorType kSmall{DType::kF32, {8}};

Tensor small_tensor() {
  Tensor t = *Tensor::allocate(cpu_device(), kSmall);
  for (float& f : t.values<float>()) f = 1;
  return t;
}

graph::Graph chain(std::int64_t num_ops) {
  graph::Graph g;
  graph::Builder b(g);
  graph::Value y = b.input("x", kSmall.dtype, kSmall.shape);
  for (std::int64_t i = 0; i < num_ops; ++i) y = b.add_node(op::kNeg, {y});
  b.output("y", y);
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  return g;
}

void per_op(benchmark::State& state, std::int64_t num_ops) {
  state.counters["per_op"] = benchmark::Counter(static_cast<double>(state.iterations() * num_ops),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void kernel_alone(benchmark::State& state) {
  const std::vector<TensorType> types{kSmall};
  const op::Attrs attrs;
  const op::KernelRow* row = kernel::choose_cpu_kernel({op::kNeg, types, types, attrs, 1})->row;
  const op::KernelFn run = row ? row->run : op::kNeg.reference;
  const std::vector<Tensor> in{small_tensor()}, out{small_tensor()};
  for (auto _ : state) {
    op::KernelArgs args{in, out, attrs, {}, op::serial(), nullptr};
    run(args);
  }
  per_op(state, 1);
}
BENCHMARK(kernel_alone);

// Replays an Execution in one Task, so that only run() is inside the loop.
runtime::Task<void> replay(benchmark::State& state, exec::Execution& execution) {
  for (auto _ : state) {
    const Status status = co_await execution.run();
    TR_CHECK(status.ok());
  }
}

void execution(benchmark::State& state, bool profile) {
  runtime::RealOptions options;
  options.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(std::move(options));
  auto e = *exec::make_execution(*rt, *exec::compile(chain(state.range(0)), {}), {.profile = profile});
  TR_CHECK(e->feed("x", small_tensor()).ok());
  rt->run(replay(state, *e));
  per_op(state, state.range(0));
}
void execution_plain(benchmark::State& state) { execution(state, false); }
void execution_profiled(benchmark::State& state) { execution(state, true); }
BENCHMARK(execution_plain)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(execution_profiled)->Arg(1000)->UseRealTime();

// A collective that takes no time.
class CopyingHost final : public exec::HostOp {
 public:
  runtime::Task<Status> start(exec::HostCall call) override {
    const auto in = call.inputs[0].values<float>();
    std::copy(in.begin(), in.end(), call.outputs[0].values<float>().begin());
    co_return Status();
  }
};

// A strand ends, the loop hears of it, starts the host op, ends it, and starts the next strand: what a cut
// model pays beside its sums.
void strand_to_strand(benchmark::State& state) {
  graph::Graph g;
  graph::Builder b(g);
  graph::Value y = b.add_node(op::kNeg, {b.input("x", kSmall.dtype, kSmall.shape)});
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    const graph::Value sum = b.add_node(op::kAllreduce, {y}, {{"label", "sum"}});
    y = b.add_node(op::kNeg, {sum});
  };
  b.output("y", y);
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  runtime::RealOptions options;
  options.compute_threads = 1;
  const auto rt = runtime::make_real_runtime(std::move(options));
  CopyingHost copying;
  auto e = *exec::make_execution(*rt, *exec::compile(g, {}), {.host_ops = {{"allreduce", &copying}}});
  TR_CHECK(e->feed("x", small_tensor()).ok());
  rt->run(replay(state, *e));
  per_op(state, state.range(0));
}
BENCHMARK(strand_to_strand)->Arg(1)->Arg(100)->UseRealTime();

void session(benchmark::State& state) {
  auto s = *exec::BlockingSession::make(chain(state.range(0)), {}, 1);
  const exec::Feeds feeds{{"x", small_tensor()}};
  for (auto _ : state) TR_CHECK(s.run_one(feeds, "y").ok());
  per_op(state, state.range(0));
}
BENCHMARK(session)->Arg(1)->Arg(100)->UseRealTime();

void imperative(benchmark::State& state, bool recorded) {
  eager::Context ctx;
  const eager::Array x = recorded ? ctx.parameter("x", small_tensor()) : ctx.array(small_tensor());
  for (auto _ : state) {
    eager::Array y = x;
    for (std::int64_t i = 0; i < state.range(0); ++i) y = -y;
    benchmark::DoNotOptimize(y);
  }
  per_op(state, state.range(0));
}
void imperative_plain(benchmark::State& state) { imperative(state, false); }
void imperative_recorded(benchmark::State& state) { imperative(state, true); }
BENCHMARK(imperative_plain)->Arg(100);
BENCHMARK(imperative_recorded)->Arg(100);

}  // namespace
}  // namespace trireme

BENCHMARK_MAIN();
