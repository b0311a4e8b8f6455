#include "trireme/data/prefetch.h"

#include <vector>

#include "trireme/runtime/sync.h"

namespace trireme::data {

using runtime::OneShot;
using runtime::Task;

struct Prefetcher::State {
  struct Slot {
    bool ready = false;
    Status status;
  };
  State(runtime::Runtime& r, int depth, std::int64_t first, std::int64_t last, Producer p)
      : rt(r),
        produce(std::move(p)),
        slots(static_cast<std::size_t>(depth)),
        filled(first),
        taken(first),
        released(first),
        end(last) {}

  int slot_of(std::int64_t position) const {
    return static_cast<int>(position % static_cast<std::int64_t>(slots.size()));
  }
  Slot& slot(std::int64_t position) { return slots[static_cast<std::size_t>(slot_of(position))]; }

  runtime::Runtime& rt;
  Producer produce;
  std::vector<Slot> slots;
  std::int64_t filled, taken, released;  // first position not yet begun, handed over, given back
  std::int64_t end;
  bool stopped = false;
  OneShot<bool>* arrival = nullptr;  // of the consumer that waits for `taken`
  PrefetchCounters counters;

  // The state is passed along: it lives until the last batch under way has ended.
  static Task<void> make(std::shared_ptr<State> state, std::int64_t position) {
    Status status = co_await state->produce(position, state->slot_of(position));
    Slot& slot = state->slot(position);
    slot.status = std::move(status);
    slot.ready = true;
    if (state->arrival != nullptr && position == state->taken) state->arrival->set(true);
  }
  static void pump(const std::shared_ptr<State>& state) {
    State& s = *state;
    while (!s.stopped && s.filled < s.end &&
           s.filled < s.released + static_cast<std::int64_t>(s.slots.size())) {
      const std::int64_t position = s.filled++;
      s.slot(position).ready = false;
      s.rt.spawn(make(state, position));
    }
  }
};

Prefetcher::Prefetcher(runtime::Runtime& rt, int depth, std::int64_t first, std::int64_t end,
                       Producer producer) {
  TR_CHECK(depth >= 1 && first >= 0, "a ring of {} slots from {} on", depth, first);
  state_ = std::make_shared<State>(rt, depth, first, end, std::move(producer));
  State::pump(state_);
}

Prefetcher::~Prefetcher() { state_->stopped = true; }

Task<Result<int>> Prefetcher::next(TimeNs deadline) {
  const std::shared_ptr<State> state = state_;
  State& s = *state;
  const std::int64_t position = s.taken;
  if (position >= s.end)
    co_return error(Code::kNotFound, "[data] no batch {}: the last one is {}", position, s.end - 1);
  if (position >= s.filled)
    co_return error(Code::kInvalid, "[data] all {} prefetched batches are in use; release one first",
                    s.slots.size());
  if (!s.slot(position).ready) {
    TR_CHECK(s.arrival == nullptr, "two consumers wait for one batch");
    struct Waiting {  // also when this Task is destroyed while it waits
      explicit Waiting(State& st) : owner(st), arrival(st.rt), since(st.rt.now()) {
        owner.arrival = &arrival;
      }
      Waiting(const Waiting&) = delete;
      Waiting& operator=(const Waiting&) = delete;
      ~Waiting() {
        owner.arrival = nullptr;
        owner.counters.waited_ns += owner.rt.now() - since;
      }
      State& owner;
      OneShot<bool> arrival;
      TimeNs since;
    } waiting(s);
    ++s.counters.waits;
    if (!co_await waiting.arrival.wait_until(deadline))
      co_return error(Code::kDeadline, "[data] batch {} is not ready after {}", position,
                      format_duration(s.rt.now() - waiting.since));
  }
  ++s.taken;
  ++s.counters.batches;
  if (!s.slot(position).status.ok()) co_return s.slot(position).status;
  co_return s.slot_of(position);
}

void Prefetcher::release() {
  TR_CHECK(state_->released < state_->taken, "a slot given back that nobody holds");
  ++state_->released;
  State::pump(state_);
}

const PrefetchCounters& Prefetcher::counters() const { return state_->counters; }

Task<void> fill_on_pool(runtime::Runtime& rt, std::shared_ptr<const Dataset> set, PlannedBatch batch,
                        BatchView out) {
  const double elems = static_cast<double>(batch.ids.size()) * static_cast<double>(set->sample_elems());
  const double flops_per_elem = set->generate ? 40 : batch.options.augment && set->augment.crop < 1 ? 20 : 2;
  const cost::OpCost work{.flops = flops_per_elem * elems, .bytes = 5 * elems};
  co_await rt.compute(
      work, [&](runtime::ComputeContext&) { fill_batch(*set, batch.ids, batch.options, out); }, 1,
      "fill batch");
}

}  // namespace trireme::data
