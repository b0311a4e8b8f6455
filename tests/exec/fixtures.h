// What the executor's tests share: host ops that end late, out of order or with an error, and ways to run.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/exec/shuffled_runtime.h"
#include "tests/graph/interpreter.h"
#include "trireme/exec/executor.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::exec {

using graph::Builder;
using graph::Feeds;
using graph::Graph;
using graph::Value;
using runtime::Runtime;
using runtime::Task;
inline constexpr DType kF32 = DType::kF32;

// Resumes after `turns` turns of the loop.
inline auto turns(Runtime& rt, int turns) {
  struct Awaiter {
    Runtime& rt;
    int left;
    bool await_ready() const noexcept { return left == 0; }
    void await_suspend(std::coroutine_handle<> h) { next(h); }
    void next(std::coroutine_handle<> h) {
      rt.post([this, h] {
        if (--left == 0)
          h.resume();
        else
          next(h);
      });
    }
    void await_resume() const noexcept {}
  };
  return Awaiter{rt, turns};
}

// Doubles its input. The label attribute says how: "" at once, "late:N" after N turns, "hold" when released,
// "fail" with an error, "never" not before it is cancelled. Keeps the order of ends.
class DoublingHost final : public HostOp {
 public:
  explicit DoublingHost(Runtime& rt) : rt_(rt) {}
  Task<Status> start(HostCall call) override {
    const graph::Node& node = call.node;
    const std::string label = node.attrs.get_text("label");
    const Tensor from = call.inputs[0], to = call.outputs[0];
    started.push_back(node.name);
    runs.push_back(call.run);
    if (label.starts_with("late:")) co_await turns(rt_, std::stoi(label.substr(5)));
    if (label == "hold") co_await Hold{*this};
    if (label == "never") {
      runtime::OneShot<bool> told(rt_);
      call.cancel.on_cancel([&told] { told.set(true); });
      co_await told.wait_until(kForever);
      reasons.push_back(call.cancel.reason());
      ended.push_back(node.name);
      co_return Status(Code::kCancelled, "[test] cancelled");
    }
    if (label == "fail" && failing) {
      ended.push_back(node.name);
      co_return Status(Code::kPeerLost, "[test] the peer is gone");
    }
    if (!rt_.is_phantom())
      for (std::int64_t i = 0; i < from.shape().num_elems(); ++i)
        to.data<float>()[i] = 2 * from.data<float>()[i];
    ended.push_back(node.name);
    co_return Status();
  }

  void release() {
    released_ = true;
    if (held_) rt_.post([h = std::exchange(held_, nullptr)] { h.resume(); });
  }

  bool failing = true;
  std::vector<std::string> started, ended;
  std::vector<std::uint64_t> runs;
  std::vector<Status> reasons;  // why calls were cancelled

 private:
  struct Hold {
    DoublingHost& host;
    bool await_ready() const noexcept { return host.released_; }
    void await_suspend(std::coroutine_handle<> h) { host.held_ = h; }
    void await_resume() const noexcept {}
  };
  bool released_ = false;
  std::coroutine_handle<> held_;
  Runtime& rt_;
};

inline Value host(Builder& b, Value x, const std::string& label = "") {
  return b.add_node(op::kAllreduce, {x}, {{"label", label}});
}

inline std::map<std::string, std::string> reference_kernels() {
  std::map<std::string, std::string> kernels;
  for (const op::OpDef* def : op::op_table()) kernels.emplace(def->name, "reference");
  return kernels;
}

inline Tensor tensor(std::vector<float> values) {
  return Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())});
}

inline Status feed_all(Execution& e, const Graph& g, const Feeds& feeds) {
  for (const auto& [name, t] : feeds)
    if (g.find_input(name)) TR_RETURN_IF_ERROR(e.feed(name, t));
  return {};
}

inline Variables variables_of(const Graph& g, const Feeds& feeds) {
  Variables v;
  for (const auto& [name, value] : g.variables()) EXPECT_TRUE(v.add(name, feeds.at(name)).ok());
  return v;
}

using Body = std::function<Task<void>(Runtime&)>;

inline void on_real(const Body& body, int threads = 2) {
  runtime::RealOptions options;
  options.compute_threads = threads;
  auto rt = runtime::make_real_runtime(options);
  rt->run(body(*rt));
}

inline runtime::WorldSpec one_machine(bool phantom) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  spec.phantom = phantom;
  return spec;
}

inline TimeNs on_virtual(const Body& body, bool phantom = false) {
  auto world = runtime::make_virtual_world(one_machine(phantom));
  Runtime& rt = world->add_runtime(0, "rank0");
  world->start(rt, body(rt));
  const runtime::WorldReport report = world->run(TimeNs{1} << 60);
  EXPECT_TRUE(report.finished) << report.stuck;
  return report.end_time;
}

inline void on_shuffled(const Body& body, std::uint64_t seed) {
  ShuffledRuntime rt(seed);
  EXPECT_TRUE(rt.run(body(rt))) << "stuck with seed " << seed;
}

}  // namespace trireme::exec
