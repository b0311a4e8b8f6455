// Engine: orders calls that run ahead by the memory they read and write. Internal to eager.
//
// A call waits for the last writer of what it reads, and for the last writer and all its readers of what it
// writes in place. Fresh outputs have nobody to wait for. So every call sees the values it would see in
// program order, whatever runs at the same time.
//
// No locks. A call's list of successors is a stack that its end closes: who comes later finds it closed and
// need not wait. `pending` counts the calls still to wait for, plus one while the call is being made.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "trireme/eager/call_runner.h"
#include "trireme/eager/kernel_cache.h"
#include "trireme/eager/state.h"

namespace trireme::eager {

class DeferredCall : public std::enable_shared_from_this<DeferredCall> {
 public:
  DeferredCall(CallRunner& runner, std::shared_ptr<const PreparedKernel> kernel, std::vector<Tensor> inputs,
               std::vector<Tensor> outputs, Buffer workspace, int width);
  DeferredCall(const DeferredCall&) = delete;
  DeferredCall& operator=(const DeferredCall&) = delete;
  ~DeferredCall();

  // Before submit(), on the program's thread. False: `before` has ended.
  bool wait_for(DeferredCall& before);
  void submit();
  const std::atomic<bool>& done() const { return done_; }
  bool is_done() const { return done_.load(std::memory_order_acquire); }

 private:
  struct Edge {
    std::shared_ptr<DeferredCall> successor;
    Edge* next;
  };
  void one_less();  // the last one starts it
  void run();

  CallRunner& runner_;
  std::shared_ptr<const PreparedKernel> kernel_;
  std::vector<Tensor> inputs_, outputs_;
  Buffer workspace_;
  int width_;
  std::atomic<int> pending_{1};
  std::atomic<Edge*> successors_{nullptr};
  std::atomic<bool> done_{false};
};

class Engine {
 public:
  Engine(CallRunner& runner, int width, int max_ahead)
      : runner_(runner), width_(width), max_ahead_(max_ahead) {}
  ~Engine() { wait_all(); }

  // `reads`, `writes`: storages of the inputs read and of those written in place; `makes`: of the outputs.
  void submit(std::shared_ptr<const PreparedKernel> kernel, std::vector<Tensor> inputs,
              std::vector<Tensor> outputs, Buffer workspace, std::span<Storage* const> reads,
              std::span<Storage* const> writes, std::span<Storage* const> makes);
  void wait_for(const Storage& storage);
  void wait_all();

 private:
  CallRunner& runner_;
  int width_, max_ahead_;
  std::deque<std::shared_ptr<DeferredCall>> under_way_;  // oldest first
};

}  // namespace trireme::eager
