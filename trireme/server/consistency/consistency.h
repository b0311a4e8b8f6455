// Consistency: when pushes are applied and when pulls are answered. Pure policies over clocks: no messages,
// no tensors, no time; one file per rule, one row of table.cc.
//
// Clock c of worker w is its c-th update (from 0). A server asks the policy at every event and does what it
// says. `clock[w]` is the number of clocks that worker w has pushed whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::server {

struct ConsistencyOptions {
  int num_workers = 1;
  std::int64_t staleness = 0;  // ssp: how many clocks the fastest may be ahead of the slowest
  int gather = 1;              // soft: pushes that make one update
  double fraction = 1;         // late: share of the workers whose pushes close a clock
};

enum class OnPush : std::uint8_t {
  kApply,  // now, alone
  kHold,   // keep it: ready() says when
  kDrop,   // too late, or it was here before
};

// Pushes that become one update, in the order in which they are to be added.
struct PushId {
  int worker = 0;
  std::int64_t clock = 0;
  // clang-tidy 14 takes the 0 that a rewritten comparison has for a pointer.
  friend auto operator<=>(const PushId&, const PushId&) = default;  // NOLINT(modernize-use-nullptr)
};

class Consistency {
 public:
  virtual ~Consistency() = default;
  // One slice's push came. The same PushId again is dropped.
  virtual OnPush on_push(PushId push) = 0;
  // Held pushes that are to be applied now as one update; empty: none. Called until empty after every event.
  virtual std::vector<PushId> ready() = 0;
  // Whether worker `worker`, about to compute `clock`, may read now.
  virtual bool may_read(int worker, std::int64_t clock) const = 0;
  // Nobody waits for this worker any more. With the last one everything held becomes ready.
  virtual void on_gone(int worker) = 0;
  // A worker that was gone is there again; `clock` is the first that it will push.
  virtual void on_back(int worker, std::int64_t clock) = 0;
  // The clock below which the pushes of every worker that is still there are in.
  virtual std::int64_t oldest_clock() const = 0;
};

struct ConsistencyRow {
  const char* name;  // "bsp", "ssp", "async", "soft", "late"
  const char* doc;
  const char* paper;
  bool averages;  // one update from several pushes divides by their number
  // Workers read between updates and not during them, so that a read may wait for nothing and be sent from
  // the live values. Elsewhere reads are of a copy, and updates go on.
  bool lockstep;
  std::unique_ptr<Consistency> (*make)(const ConsistencyOptions& options);
};
std::span<const ConsistencyRow> consistency_table();
// kInvalid: no workers, a negative bound, a share outside (0, 1].
Status check_consistency(const ConsistencyOptions& options);
Result<const ConsistencyRow*> find_consistency(std::string_view name);

}  // namespace trireme::server
