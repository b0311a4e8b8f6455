#include "trireme/engine/lease_desk.h"

#include <algorithm>

namespace trireme::engine {
namespace {

data::ShardRun run_of(Unit unit) { return {unit.shard, 1}; }

}  // namespace

LeaseDesk::LeaseDesk(Work work, int num_workers, data::LeaseBook book, int at_once)
    : work_(work),
      book_(std::move(book)),
      workers_(static_cast<std::size_t>(num_workers)),
      steals_(at_once == 1) {
  num_shards_ = book_.num_shards();
  const std::int64_t first = book_.first_never_granted();
  for (Worker& w : workers_) w.next_batch = first;
  next_unit_ = first * num_shards_;
  for (const auto& [batch, shard] : book_.free_shards()) returned_.push_back({batch, shard});
  end_ = first;
}

void LeaseDesk::open_round(std::int64_t end) {
  for (std::size_t i = 0; i < workers_.size(); ++i)  // nobody will do their part
    for (Worker& w = workers_[i]; work_ == Work::kOwn && w.lost && w.next_batch < end_; ++w.next_batch)
      drop({w.next_batch, static_cast<std::int32_t>(i)});
  end_ = std::max(end_, end);
  stopped_ = false;
  for (Worker& w : workers_) w.told_to_meet = false;
}

Grant LeaseDesk::give(int worker, Unit unit) {
  TR_CHECK(book_.grant(unit.batch, run_of(unit), worker).ok(), "a unit is granted once");
  workers_[static_cast<std::size_t>(worker)].held.push_back(unit);
  return {unit, -1};
}

Grant LeaseDesk::next(int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  if (w.lost || w.told_to_meet) return {};
  Grant grant = work_ == Work::kOwn ? next_own(worker) : next_free(worker);
  w.told_to_meet = !grant.unit;
  return grant;
}

Grant LeaseDesk::next_own(int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  // Resumed with shards of a batch undone: its own come first.
  const auto mine =
      std::find_if(returned_.begin(), returned_.end(), [&](const Unit& u) { return u.shard == worker; });
  if (mine != returned_.end()) {
    const Unit unit = *mine;
    returned_.erase(mine);
    return give(worker, unit);
  }
  if (w.next_batch >= end_) return {};
  return give(worker, {w.next_batch++, worker});
}

Grant LeaseDesk::next_free(int worker) {
  if (stopped_) return {};
  if (!returned_.empty()) {
    const Unit unit = returned_.front();
    returned_.pop_front();
    return give(worker, unit);
  }
  if (next_unit_ >= end_ * num_shards_) return steal(worker);
  const Unit unit{next_unit_ / num_shards_, static_cast<std::int32_t>(next_unit_ % num_shards_)};
  ++next_unit_;
  return give(worker, unit);
}

Grant LeaseDesk::steal(int worker) {
  if (!steals_) return {};
  int from = -1;
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
    const std::size_t held = workers_[static_cast<std::size_t>(w)].held.size();
    if (w == worker || held < 2) continue;
    if (from < 0 || held > workers_[static_cast<std::size_t>(from)].held.size()) from = w;
  }
  // Whoever holds something has no reason to take more from others.
  if (from < 0 || !workers_[static_cast<std::size_t>(worker)].held.empty()) return {};
  auto& held = workers_[static_cast<std::size_t>(from)].held;
  const Unit unit = held.back();
  held.pop_back();
  TR_CHECK(book_.give_back(unit.batch, run_of(unit), from).ok(), "what is held can be given back");
  Grant grant = give(worker, unit);
  grant.taken_from = from;
  ++num_stolen_;
  return grant;
}

bool LeaseDesk::finish(int worker, Unit unit) {
  auto& held = workers_[static_cast<std::size_t>(worker)].held;
  const auto at = std::find(held.begin(), held.end(), unit);
  if (at == held.end()) return false;
  held.erase(at);
  return book_.finish(unit.batch, run_of(unit), worker).ok();
}

void LeaseDesk::lose(int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  if (w.lost) return;
  w.lost = true;
  book_.expire(worker);
  for (auto unit = w.held.rbegin(); unit != w.held.rend(); ++unit)
    if (work_ == Work::kFree)
      returned_.push_front(*unit);
    else
      drop(*unit);
  w.held.clear();
}

void LeaseDesk::stop() {
  stopped_ = true;
  if (work_ == Work::kFree) return;
  std::int64_t furthest = 0;
  for (const Worker& w : workers_)
    if (!w.lost) furthest = std::max(furthest, w.next_batch);
  end_ = std::min(end_, furthest);
}

void LeaseDesk::drop(Unit unit) {
  // Nobody's: granted and done at once.
  if (book_.grant(unit.batch, run_of(unit), -1).ok()) (void)book_.finish(unit.batch, run_of(unit), -1);
  ++num_dropped_;
}

std::int64_t LeaseDesk::drop_rest() {
  const std::int64_t before = num_dropped_;
  for (int i = 0; i < static_cast<int>(workers_.size()); ++i) {
    Worker& w = workers_[static_cast<std::size_t>(i)];
    for (; work_ == Work::kOwn && w.next_batch < end_; ++w.next_batch) drop({w.next_batch, i});
  }
  return num_dropped_ - before;
}

int LeaseDesk::num_meeting() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const Worker& w) { return w.told_to_meet && !w.lost; }));
}

bool LeaseDesk::is_done(std::int64_t end) const {
  if (work_ == Work::kFree) {
    if (!returned_.empty() || next_unit_ < end * num_shards_) return false;
    return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.held.empty(); });
  }
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const Worker& w) { return w.lost || (w.next_batch >= end && w.held.empty()); });
}

}  // namespace trireme::engine
