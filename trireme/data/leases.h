// Leases: the coordinator's book of which run of logical shards of which step is in which replica's hands.
//
// A lease ends done, returned (unfinished, may be granted again) or expired (its holder is gone; may be
// granted again). The data cursor of a checkpoint is the set of unfinished leases plus the first step never
// granted. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/status.h"

namespace trireme::data {

struct ShardRun {
  std::int32_t first = 0, count = 0;
  friend auto operator<=>(const ShardRun&, const ShardRun&) = default;
};

class LeaseBook {
 public:
  explicit LeaseBook(std::int32_t num_shards, std::int64_t first_step = 0);

  // Hands `run` of `step` to `holder`. kInvalid when a shard of it is out of range, under lease or done.
  Status grant(std::int64_t step, ShardRun run, int holder);
  // kNotFound when that lease is not open in `holder`'s hands: a late answer after expiry counts for nothing.
  Status finish(std::int64_t step, ShardRun run, int holder);
  Status give_back(std::int64_t step, ShardRun run, int holder);
  // Ends all open leases of a lost holder; their shards may be granted again.
  int expire(int holder);

  // Shards that nobody holds or has done, of steps with at least one granted shard: (step, shard), ascending.
  std::vector<std::pair<std::int64_t, std::int32_t>> free_shards() const;
  // Above every step that was ever granted.
  std::int64_t first_never_granted() const;
  bool is_step_done(std::int64_t step) const;
  // Steps before this one are done whole.
  std::int64_t completed_steps() const { return completed_; }
  std::int32_t num_shards() const { return num_shards_; }

  Json cursor() const;
  static Result<LeaseBook> from_cursor(const Json& json);

 private:
  enum class State : std::uint8_t { kFree, kLeased, kDone };
  struct Shard {
    State state = State::kFree;
    int holder = -1;
  };
  Status move(std::int64_t step, ShardRun run, int holder, State to);
  void drop_finished();

  std::int32_t num_shards_;
  std::int64_t completed_;
  std::map<std::int64_t, std::vector<Shard>> open_;  // steps with at least one shard granted and not all done
};

}  // namespace trireme::data
