// LeaseDesk: which worker takes which piece of the data next, for rules whose workers go at their own pace.
// A worker is a replica, however many ranks it has. Rank 0 keeps it. Pure.
//
// A unit is one logical shard of one batch. Own: worker w has shard w of every batch, so all workers take
// equally many between two meetings. Free: units are given in order to whoever asks; what a lost worker held
// is given to others, and when nothing is left, the last unit that a worker holds but has not begun is given
// to one that stands idle, unless workers begin several at a time. Units are opened round by round; between
// rounds all workers meet.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "trireme/data/leases.h"

namespace trireme::engine {

struct Unit {
  std::int64_t batch = 0;
  std::int32_t shard = 0;
  friend bool operator==(const Unit&, const Unit&) = default;
};

struct Grant {
  std::optional<Unit> unit;  // none: the round is over for this worker, meet the others
  int taken_from = -1;       // the worker that held it and has not begun it
};

class LeaseDesk {
 public:
  enum class Work : std::uint8_t { kOwn, kFree };
  // `at_once`: units that a worker may have begun.
  LeaseDesk(Work work, int num_workers, data::LeaseBook book, int at_once = 1);

  // Batches below `end` are to be done in this round.
  void open_round(std::int64_t end);
  Grant next(int worker);
  // False: it is not in its hands any more; what it did counts for nothing.
  bool finish(int worker, Unit unit);
  void lose(int worker);
  // Nothing is begun any more that need not be: workers stop where they are level.
  void stop();
  // Own work: what has not been begun in this round is dropped; returns how many units.
  std::int64_t drop_rest();

  // Every unit of batches below `end` is done or dropped, but for those of lost workers (own work).
  bool is_done(std::int64_t end) const;
  int num_meeting() const;  // live workers that were told that the round is over
  std::int64_t num_stolen() const { return num_stolen_; }
  std::int64_t num_dropped() const { return num_dropped_; }
  const data::LeaseBook& book() const { return book_; }

 private:
  struct Worker {
    std::int64_t next_batch = 0;  // own work
    std::deque<Unit> held;        // in the order of granting; one at a time: the first may have begun
    bool told_to_meet = false;    // it was told that the round is over, and gets nothing more of it
    bool lost = false;
  };
  Grant give(int worker, Unit unit);
  Grant next_own(int worker);
  Grant next_free(int worker);
  Grant steal(int worker);
  void drop(Unit unit);

  Work work_;
  data::LeaseBook book_;
  std::vector<Worker> workers_;
  std::int32_t num_shards_;
  bool steals_;                 // it is known which units have not begun
  std::int64_t end_ = 0;        // of the round
  std::int64_t next_unit_ = 0;  // free work: batch * shards + shard
  std::deque<Unit> returned_;
  bool stopped_ = false;
  std::int64_t num_stolen_ = 0, num_dropped_ = 0;
};

}  // namespace trireme::engine
