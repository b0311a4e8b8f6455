// What all policies know: how far every worker is, and which are still there.
#pragma once

#include "trireme/server/consistency/consistency.h"

namespace trireme::server {

class WorkerClocks {
 public:
  explicit WorkerClocks(int num_workers);

  // A push came. False: one of this clock or a later one of that worker was here before.
  bool note(PushId push);
  void leave(int worker) { at(worker).there = false; }
  void come_back(int worker, std::int64_t clock) { at(worker) = {clock, true}; }

  bool is_anybody_there() const;
  // Workers that are there and have not pushed `clock`.
  int num_behind(std::int64_t clock) const;
  // Clocks that every worker that is there has pushed; nobody is: that anybody has pushed.
  std::int64_t oldest() const;

 private:
  struct Worker {
    std::int64_t done = 0;  // clocks pushed; a clock that was jumped over counts
    bool there = true;
  };
  Worker& at(int worker) { return workers_.at(static_cast<std::size_t>(worker)); }

  std::vector<Worker> workers_;
};

// The part of a policy that is the same in all.
class ClockedConsistency : public Consistency {
 public:
  explicit ClockedConsistency(int num_workers) : clocks_(num_workers) {}
  void on_gone(int worker) override { clocks_.leave(worker); }
  std::int64_t oldest_clock() const override { return clocks_.oldest(); }
  void on_back(int worker, std::int64_t clock) override { clocks_.come_back(worker, clock); }

 protected:
  WorkerClocks clocks_;
};

}  // namespace trireme::server
