// KeptSlice: one slice at work: what came for it, what is under way, who waits. Pure bookkeeping; the Service
// moves it on.
//
// Pushes are held until the policy makes a batch of them. Batches are applied one at a time, in order. Only
// the slice's one serving Task touches the values, so that a read is always between two updates.
#pragma once

#include <deque>

#include "trireme/server/updater.h"

namespace trireme::server {

// Pushes that become one update, or first values.
struct Batch {
  std::vector<Push> pushes;
  bool is_init = false;
};

struct Pull {
  Question question;
  std::int64_t clock = 0;   // about to be computed
  bool wants_rows = false;  // these rows, instead of all values
  Loan rows;                // their numbers; null: there are none
  std::int64_t num_rows = 0;
  bool keeps = false, takes_coded = false;  // as in PullHead
  std::int64_t exchange = 0;
  std::int64_t after = -1;  // batches to be applied before it; -1: not known, the policy holds it back
  bool is_a_pull = true;    // false: the answer to a push
};

struct KeptSlice {
  std::unique_ptr<Consistency> policy;
  std::unique_ptr<Updater> updater;
  std::vector<std::int64_t> last_clock;  // per worker, of the newest push that came; -1: none
  std::map<PushId, Push> held;
  std::deque<Batch> queue;
  // Batches, ever. The first values are the first of them, whenever they come: pushes of workers that did not
  // wait for them queue up behind.
  std::int64_t num_queued = 1, num_applied = 0;
  bool are_first_values_here = false;  // in the queue, or applied
  std::int64_t updates = 0;
  std::vector<Pull> pulls;  // in the order in which they came
  bool has_values = false;  // the first values are applied
  bool is_served = false;   // its Task runs
  int live_reads = 0;       // answers under way out of the live values: no update meanwhile
  Loan copy;                // of the values, after `copied_at` batches
  std::int64_t copied_at = -1;
  // Null where the link is not coded.
  SharedCoder coder;
  // Where pushes are factors: what they are of, and the products of its pieces.
  const FactorSlice* factors = nullptr;
  std::vector<std::unique_ptr<exec::Execution>> products;
  std::map<int, Loan> had;  // by worker: what it has of the values, where it said that it keeps them

  const StoredSlice& stored() const { return updater->stored(); }
  bool holds_of(int worker) const;
  // What an answer with the present values says of them.
  ServerAnswer answer_now() const;
  // A batch may be applied now.
  bool can_apply() const {
    return !queue.empty() && live_reads == 0 && (has_values || queue.front().is_init);
  }
  // Everything that came and is not held is applied; what no first values came for is not waited for.
  bool is_done_up_to(std::int64_t batches) const { return !has_values || num_applied >= batches; }
  void enqueue(Batch batch);
  // Notes for pulls that the policy lets pass now what they still wait for; whether one waits for nothing.
  bool look_at_pulls();
  // Those that wait for nothing, in order.
  std::vector<Pull> take_due_pulls();

 private:
  bool is_due(const Pull& pull) const { return has_values && pull.after >= 0 && num_applied >= pull.after; }
};

}  // namespace trireme::server
