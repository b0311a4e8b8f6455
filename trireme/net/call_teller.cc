#include "trireme/net/call_teller.h"

#include <algorithm>
#include <utility>

namespace trireme::net {
namespace {

// Per heartbeat; the rest follow with the next.
constexpr std::size_t kMaxCallsTold = 4;
constexpr std::size_t kMaxWanted = 64;

void add(std::vector<CallId>& list, const CallId& id) {
  if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
}

}  // namespace

CallTeller::CallTeller(const Transport& transport, std::function<void(ControlMessage)> tell)
    : transport_(transport), tell_(std::move(tell)) {}

void CallTeller::note_wanted(const CallId& id) {
  if (std::erase(wanted_, id) > 0) compare(id);
}

void CallTeller::compare(const CallId& id, int line) {
  if (log_ == nullptr || !log_->is_member(id.group)) return;
  const int own = log_->line_of(id.group);
  ControlMessage m{.type = ControlType::kCall, .peer = own, .call = id.pack(), .turn = id.turn};
  if (auto record = log_->find_call(id)) {
    m.progress = record->serial;
    m.digest = record->digest;
    m.operation = std::move(record->operation);
    m.reason = std::move(record->words);
    if (record->is_new) m.code = Code::kMismatch;
  } else {
    if (!left_) {
      std::erase(wanted_, id);
      wanted_.push_back({id, line});
      if (wanted_.size() > kMaxWanted) wanted_.erase(wanted_.begin());
    }
    if (line >= 0 && own >= 0 && line != own) return;
    m.digest = left_ ? kNotMade : kNotYet;
    m.reason = "nothing";
  }
  tell_(std::move(m));
}

void CallTeller::beat() {
  if (log_ == nullptr) return;
  std::vector<CallId> told = log_->lasting_calls(kMaxCallsTold);
  transport_.visit_waiting([&](int /*peer*/, const Identity& id, const Fingerprint& fp) {
    if (told.size() >= 2 * kMaxCallsTold) return;
    const auto mark = log_->latest_call(id.group, id.slot, id.step);
    if (mark && mark->fingerprint != fp.pack()) add(told, mark->id);
  });
  for (const CallId& id : told) compare(id);
}

bool CallTeller::leave() {
  if (log_ == nullptr) return false;
  left_ = true;
  for (const Wanted& wanted : std::exchange(wanted_, {})) compare(wanted.id, wanted.line);
  std::vector<CallId> told;
  transport_.visit_waiting([&](int /*peer*/, const Identity& id, const Fingerprint& fp) {
    if (told.size() >= 2 * kMaxCallsTold || !log_->is_member(id.group)) return;
    const auto mark = log_->latest_call(id.group, id.slot, id.step);
    if (mark) add(told, mark->id);
    // A call that looks the same may also be the next of that name.
    if (!mark || mark->fingerprint == fp.pack())
      add(told, {id.group, id.slot, id.step, mark ? mark->id.turn + 1 : 1});
  });
  for (const CallId& id : told) compare(id);
  return !told.empty();
}

}  // namespace trireme::net
