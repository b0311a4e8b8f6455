// Prefetcher: batches made ahead of their use, in a ring of a fixed number of slots.
//
// A slot's memory belongs to its producer from the start of a batch until next() hands it over, then to the
// consumer until release(). What a batch holds depends on its position alone, so neither the depth nor the
// speed of anybody changes what is trained on. Single-threaded: all calls on the Runtime's loop; producers
// send their work to the compute pool themselves.
#pragma once

#include <functional>
#include <memory>

#include "trireme/data/dataset.h"
#include "trireme/runtime/runtime.h"

namespace trireme::data {

struct PrefetchCounters {
  std::int64_t batches = 0;  // handed over
  std::int64_t waits = 0;    // of them, not ready when asked for
  TimeNs waited_ns = 0;      // how long the consumer stood still for them
};

class Prefetcher {
 public:
  // Makes batch `position` in slot `slot` (0 to depth - 1). Must own what it uses, since a batch under way
  // outlives the Prefetcher; several run at once, in different slots.
  using Producer = std::function<runtime::Task<Status>(std::int64_t position, int slot)>;

  // Starts on the first `depth` positions from `first` on; none from `end` on is made. depth >= 1.
  Prefetcher(runtime::Runtime& rt, int depth, std::int64_t first, std::int64_t end, Producer producer);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  // Batches under way end by themselves; no new ones start.
  ~Prefetcher();

  // The slot of the next batch, in order of position, when it is ready; the failure of its producer;
  // kDeadline; kNotFound after the last one; kInvalid when all slots are in the consumer's hands. One call at
  // a time.
  runtime::Task<Result<int>> next(TimeNs deadline);
  // Gives back the slot that next() handed over first.
  void release();

  const PrefetchCounters& counters() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Fills `out` on the compute pool. The set and what `out` shows must outlive the pool's work: the caller's
// producer owns both. Phantom Runtimes are charged and nothing is written.
struct PlannedBatch {
  std::vector<std::int64_t> ids;
  FillOptions options;
};
runtime::Task<void> fill_on_pool(runtime::Runtime& rt, std::shared_ptr<const Dataset> set, PlannedBatch batch,
                                 BatchView out);

}  // namespace trireme::data
