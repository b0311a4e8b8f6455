// A Runtime for properties of schedules: one thread, no time, compute requests and tasks served in an order
// drawn from a seed. It allocates only in spawn and post, so that the executor's own allocations can be
// counted.
#pragma once

#include <vector>

#include "trireme/base/rng.h"
#include "trireme/runtime/runtime.h"

namespace trireme::exec {

class ShuffledRuntime final : public runtime::Runtime {
 public:
  explicit ShuffledRuntime(std::uint64_t seed) : rng_(seed, 3) {
    started_.reserve(1000);
    computed_.reserve(1000);
  }

  // Serves everything until the task ends; returns false when it is stuck.
  bool run(runtime::Task<void> task) {
    task.start();
    while (!task.done())
      if (!step()) return false;
    return true;
  }

  bool step() {
    const std::size_t total = started_.size() + computed_.size() + tasks_.size() + posted_.size();
    if (total == 0) return false;
    std::size_t pick = rng_.next_below(static_cast<std::uint32_t>(total));
    if (pick < started_.size()) {
      runtime::ComputeRequest r = take(started_, pick);
      Inline context(r.width);
      r.fn(context);
      computed_.push_back(std::move(r.done));
    } else if ((pick -= started_.size()) < computed_.size()) {
      Callback done = take(computed_, pick);
      done();
    } else if ((pick -= computed_.size()) < tasks_.size()) {
      running_.push_back(take(tasks_, pick));
      running_.back().start();
    } else {
      Callback fn = take(posted_, pick - tasks_.size());
      fn();
    }
    return true;
  }

  const std::string& name() const override { return name_; }
  bool is_virtual() const override { return true; }
  bool is_phantom() const override { return false; }
  TimeNs now() const override { return 0; }
  std::int64_t unix_time_ns() const override { return 0; }
  void spawn(runtime::Task<void> task) override { tasks_.push_back(std::move(task)); }
  void post(Callback fn) override { posted_.push_back(std::move(fn)); }
  runtime::TimerId call_at(TimeNs, Callback) override { return no<runtime::TimerId>(); }
  void cancel_timer(runtime::TimerId) override {}
  void start_compute(runtime::ComputeRequest r) override { started_.push_back(std::move(r)); }
  int compute_threads() const override { return 1; }
  runtime::Activity activity() const override { return {}; }
  runtime::Files& files() override { return *no<runtime::Files*>(); }
  runtime::Network& network() override { return *no<runtime::Network*>(); }
  runtime::Processes& processes() override { return *no<runtime::Processes*>(); }
  void on_interrupt(Callback) override {}
  runtime::FaultAction fault_point(std::string_view, std::uint64_t) override {
    return runtime::FaultAction::kNone;
  }
  void log(std::string_view) override {}

 private:
  struct Inline final : runtime::ComputeContext {
    explicit Inline(int w) : width_(w) {}
    int width() const override { return width_; }
    void parallel_for(std::int64_t n,
                      const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
      for (int i = 0; i < width_; ++i)
        if (const std::int64_t b = n * i / width_, e = n * (i + 1) / width_; b < e) body(b, e, i);
    }
    int width_;
  };
  template <typename T>
  static T take(std::vector<T>& from, std::size_t i) {
    T taken = std::move(from[i]);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
    return taken;
  }
  template <typename T>
  static T no() {
    TR_CHECK(false, "not in this Runtime");
  }

  std::string name_ = "shuffled";
  Philox rng_;
  std::vector<runtime::ComputeRequest> started_;
  std::vector<Callback> computed_, posted_;
  std::vector<runtime::Task<void>> tasks_, running_;
};

}  // namespace trireme::exec
