#include "trireme/comm/call_book.h"

#include <algorithm>

#include "trireme/base/hash.h"

namespace trireme::comm {
namespace {

std::uint64_t digest_of(std::uint64_t fingerprint, const CallShape& s) {
  TraceHash hash;
  hash.add(fingerprint);
  hash.add(static_cast<std::uint64_t>(s.root));
  hash.add(hash_text(s.algorithm));
  hash.add(s.parts);
  return std::max<std::uint64_t>(hash.value(), net::kNotYet + 1);
}

}  // namespace

std::uint64_t hash_parts(std::span<const std::int64_t> counts, std::span<const collective::Edge> edges,
                         std::span<const collective::LeafRun> leaf_runs) {
  if (counts.empty() && edges.empty() && leaf_runs.empty()) return 0;
  TraceHash hash;
  const auto add = [&hash](std::int64_t value) { hash.add(static_cast<std::uint64_t>(value)); };
  for (const std::int64_t count : counts) add(count);
  for (const collective::Edge& e : edges) {
    add(e.from);
    add(e.to);
    add(e.count);
  }
  for (const collective::LeafRun& run : leaf_runs) {
    add(run.first);
    add(run.count);
  }
  return std::max<std::uint64_t>(hash.value(), 1);
}

std::string in_words(const CallShape& s) {
  std::string text(collective::kind_name(s.kind));
  if (s.kind != collective::Kind::kBarrier) text += fmt::format(" of {} {}", s.count, dtype_name(s.dtype));
  if (collective::has_root(s.kind)) {
    const bool to = s.kind == collective::Kind::kReduce || s.kind == collective::Kind::kGather;
    text += fmt::format(" {} root {}", to ? "to" : "from", s.root);
  }
  std::string how;
  if (collective::is_reduction(s.kind)) how = fmt::format("{}, ", collective::reduction_name(s.reduction));
  how += s.algorithm;
  // Who gave different blocks, edges or leaf runs sees different numbers.
  if (s.parts != 0) how += fmt::format(", parts #{:04x}", s.parts & 0xFFFF);
  return text + fmt::format(" ({})", how);
}

net::CallId CallBook::count(const net::Identity& id) {
  const bool near = id.slot < kNearSlots && !groups_.empty() && id.group == groups_.front();
  Turn& turn = near ? near_turns_[id.slot] : turns_[(std::uint32_t{id.group} << 16) | id.slot];
  if (turn.turn != 0 && turn.step == id.step)
    ++turn.turn;
  else
    turn = {id.step, 1};
  return {id.group, id.slot, id.step, turn.turn};
}

void CallBook::started(const net::CallId& id, const net::Fingerprint& fingerprint, const CallShape& shape,
                       const std::string& operation) {
  std::uint32_t at = static_cast<std::uint32_t>(entries_.size());
  if (free_.empty()) {
    entries_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  Entry& e = entries_[at];
  e.id = id;
  e.fingerprint = fingerprint.pack();
  e.shape = shape;
  e.operation = operation;
  e.serial = ++num_calls_;
  e.seen = e.told = false;
  active_.push_back(at);
}

void CallBook::ended(const net::CallId& id) {
  const auto at =
      std::find_if(active_.begin(), active_.end(), [&](std::uint32_t i) { return entries_[i].id == id; });
  if (at == active_.end()) return;
  if (num_ended_ == kKept) {
    const std::uint32_t oldest = ended_[first_ended_];
    entries_[oldest].serial = 0;
    free_.push_back(oldest);
    first_ended_ = (first_ended_ + 1) % kKept;
    --num_ended_;
  }
  ended_[(first_ended_ + num_ended_++) % kKept] = *at;
  active_.erase(at);
}

std::optional<net::CallId> CallBook::find_under_way(const std::string& operation) const {
  for (auto at = active_.rbegin(); at != active_.rend(); ++at)
    if (entries_[*at].operation == operation) return entries_[*at].id;
  return std::nullopt;
}

bool CallBook::is_member(std::uint16_t group) const {
  return std::find(groups_.begin(), groups_.end(), group) != groups_.end() &&
         std::find(dead_.begin(), dead_.end(), group) == dead_.end();
}

int CallBook::line_of(std::uint16_t group) const {
  const auto found = std::find(groups_.begin(), groups_.end(), group);
  return found == groups_.end() ? -1 : lines_[static_cast<std::size_t>(found - groups_.begin())];
}

std::optional<net::CallRecord> CallBook::find_call(const net::CallId& id) const {
  const Entry* found = nullptr;
  for (const Entry& e : entries_)
    if (e.serial != 0 && e.id == id && (found == nullptr || e.serial > found->serial)) found = &e;
  if (found == nullptr) return std::nullopt;
  const Entry* const before = last_before(*found);
  const std::uint64_t digest = digest_of(found->fingerprint, found->shape);
  return net::CallRecord{id,
                         found->fingerprint,
                         digest,
                         found->serial,
                         found->operation,
                         in_words(found->shape),
                         before != nullptr && digest_of(before->fingerprint, before->shape) != digest};
}

// The call of the same place in the latest step before, if it is still known. Steps repeat their calls.
const CallBook::Entry* CallBook::last_before(const Entry& call) const {
  const Entry* before = nullptr;
  for (const Entry& e : entries_)
    if (e.serial != 0 && e.serial < call.serial && e.id.group == call.id.group && e.id.slot == call.id.slot &&
        e.id.turn == call.id.turn && e.id.step != call.id.step &&
        (before == nullptr || e.serial > before->serial))
      before = &e;
  return before;
}

std::optional<net::CallMark> CallBook::latest_call(std::uint16_t group, std::uint16_t slot,
                                                   std::uint32_t step) const {
  const Entry* found = nullptr;
  for (const Entry& e : entries_)
    if (e.serial != 0 && e.id.step == step && e.id.slot == slot && e.id.group == group &&
        (found == nullptr || e.serial > found->serial))
      found = &e;
  if (found == nullptr) return std::nullopt;
  return net::CallMark{found->id, found->fingerprint};
}

std::vector<net::CallId> CallBook::lasting_calls(std::size_t max) {
  std::vector<net::CallId> out;
  for (const std::uint32_t at : active_) {
    Entry& e = entries_[at];
    if (e.seen && !e.told && out.size() < max) {
      e.told = true;
      out.push_back(e.id);
    }
    e.seen = true;
  }
  return out;
}

}  // namespace trireme::comm
