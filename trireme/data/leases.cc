#include "trireme/data/leases.h"

#include <algorithm>

namespace trireme::data {
namespace {

bool is_inside(ShardRun run, std::int32_t num_shards) {
  return run.first >= 0 && run.count >= 1 && run.first <= num_shards && run.count <= num_shards - run.first;
}

}  // namespace

LeaseBook::LeaseBook(std::int32_t num_shards, std::int64_t first_step)
    : num_shards_(num_shards), completed_(first_step) {
  TR_CHECK(num_shards >= 1);
}

Status LeaseBook::grant(std::int64_t step, ShardRun run, int holder) {
  if (!is_inside(run, num_shards_))
    return error(Code::kInvalid, "[data] lease of {} shards from {}: expected a run inside [0, {})",
                 run.count, run.first, num_shards_);
  if (step < completed_) return error(Code::kInvalid, "[data] lease of step {}: it is done already", step);
  auto& shards = open_[step];
  if (shards.empty()) shards.resize(static_cast<std::size_t>(num_shards_));
  for (std::int32_t s = run.first; s < run.first + run.count; ++s)
    if (shards[static_cast<std::size_t>(s)].state != State::kFree)
      return error(Code::kInvalid, "[data] lease of step {}, shard {}: it is in the hands of rank {} or done",
                   step, s, shards[static_cast<std::size_t>(s)].holder);
  for (std::int32_t s = run.first; s < run.first + run.count; ++s)
    shards[static_cast<std::size_t>(s)] = {State::kLeased, holder};
  return {};
}

Status LeaseBook::move(std::int64_t step, ShardRun run, int holder, State to) {
  const auto it = open_.find(step);
  const auto held = [&](const Shard& s) { return s.state == State::kLeased && s.holder == holder; };
  if (it == open_.end() || !is_inside(run, num_shards_) ||
      !std::all_of(it->second.begin() + run.first, it->second.begin() + run.first + run.count, held))
    return error(Code::kNotFound, "[data] rank {} holds no lease of step {}, {} shards from {}", holder, step,
                 run.count, run.first);
  for (std::int32_t s = run.first; s < run.first + run.count; ++s)
    it->second[static_cast<std::size_t>(s)] = {to, to == State::kFree ? -1 : holder};
  return {};
}

Status LeaseBook::finish(std::int64_t step, ShardRun run, int holder) {
  TR_RETURN_IF_ERROR(move(step, run, holder, State::kDone));
  drop_finished();
  return {};
}

Status LeaseBook::give_back(std::int64_t step, ShardRun run, int holder) {
  return move(step, run, holder, State::kFree);
}

int LeaseBook::expire(int holder) {
  int expired = 0;
  for (auto& [step, shards] : open_)
    for (Shard& s : shards)
      if (s.state == State::kLeased && s.holder == holder) s = {}, ++expired;
  return expired;
}

std::vector<std::pair<std::int64_t, std::int32_t>> LeaseBook::free_shards() const {
  std::vector<std::pair<std::int64_t, std::int32_t>> out;
  for (const auto& [step, shards] : open_)
    for (std::size_t s = 0; s < shards.size(); ++s)
      if (shards[s].state == State::kFree) out.emplace_back(step, static_cast<std::int32_t>(s));
  return out;
}

std::int64_t LeaseBook::first_never_granted() const {
  return open_.empty() ? completed_ : std::max(completed_, open_.rbegin()->first + 1);
}

bool LeaseBook::is_step_done(std::int64_t step) const {
  if (step < completed_) return true;
  const auto it = open_.find(step);
  return it != open_.end() && std::all_of(it->second.begin(), it->second.end(),
                                          [](const Shard& s) { return s.state == State::kDone; });
}

void LeaseBook::drop_finished() {
  while (is_step_done(completed_)) open_.erase(completed_++);
}

Json LeaseBook::cursor() const {
  Json unfinished = Json::array();
  for (const auto& [step, shards] : open_)
    for (std::size_t s = 0; s < shards.size(); ++s)
      if (shards[s].state != State::kDone) unfinished.push_back({step, s});
  // A step above completed_ whose shards are partly done lists only its unfinished ones; its done ones stay
  // done.
  Json steps = Json::array();
  for (const auto& [step, shards] : open_) steps.push_back(step);
  return {{"num_shards", num_shards_},
          {"completed_steps", completed_},
          {"open_steps", steps},
          {"unfinished", unfinished}};
}

Result<LeaseBook> LeaseBook::from_cursor(const Json& json) {
  TR_ASSIGN_OR_RETURN(const auto num_shards, json_get<std::int32_t>(json, "num_shards"));
  TR_ASSIGN_OR_RETURN(const auto completed, json_get<std::int64_t>(json, "completed_steps"));
  TR_ASSIGN_OR_RETURN(const auto steps, json_get<std::vector<std::int64_t>>(json, "open_steps"));
  using Pairs = std::vector<std::pair<std::int64_t, std::int32_t>>;
  TR_ASSIGN_OR_RETURN(const auto unfinished, json_get<Pairs>(json, "unfinished"));
  if (num_shards < 1 || completed < 0)
    return error(Code::kCorrupt, "[data] the cursor has no shards or a negative step");
  LeaseBook book(num_shards, completed);
  for (const std::int64_t step : steps) {
    if (step < completed)
      return error(Code::kCorrupt, "[data] the cursor has step {} open, but {} steps are done", step,
                   completed);
    auto& shards = book.open_[step];
    shards.assign(static_cast<std::size_t>(num_shards), Shard{State::kDone, -1});
  }
  for (const auto& [step, shard] : unfinished) {
    const auto it = book.open_.find(step);
    if (it == book.open_.end() || shard < 0 || shard >= num_shards)
      return error(Code::kCorrupt, "[data] the cursor names step {}, shard {}, which is not open", step,
                   shard);
    it->second[static_cast<std::size_t>(shard)] = {};
  }
  book.drop_finished();
  return book;
}

}  // namespace trireme::data
