// Clocks and meetings of PeerUpdates; peer_updates.cc has what comes in and what goes out.
#include <algorithm>
#include <cmath>

#include "trireme/agree/mechanism/peer_updates.h"
#include "trireme/agree/mechanism/vector_math.h"

namespace trireme::agree {

using runtime::Task;

namespace {

// base = from + sum, sum = 0.
Task<void> agree_here(runtime::Runtime& rt, Tensor from, Tensor base, Tensor sum) {
  const auto body = [](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      v[1][i] = v[0][i] + v[2][i];
      v[2][i] = 0;
    }
  };
  return run_pass(rt, {1, 2, 2}, {std::move(from), std::move(base), std::move(sum)}, body, "agree");
}

// base = agreed; the largest change goes to `most`.
Task<void> take_over(runtime::Runtime& rt, Tensor agreed, Tensor base,
                     const std::shared_ptr<std::atomic<float>>& most) {
  PassBody body = [most](float* const* v, std::int64_t begin, std::int64_t end) {
    float largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      largest = std::max(largest, std::abs(v[0][i] - v[1][i]));
      v[1][i] = v[0][i];
    }
    float seen = most->load();
    while (largest > seen && !most->compare_exchange_weak(seen, largest)) {
    }
  };
  return run_pass(rt, {2, 2, 1}, {std::move(agreed), std::move(base)}, std::move(body), "take over");
}

}  // namespace

Whereabouts PeerUpdates::where_i_am() const {
  Whereabouts here;
  here.has_finished = finished_;
  here.is_at_meeting = at_meeting_ || resting_;
  here.num_sent = sent_;
  return here;
}

void PeerUpdates::answer_asks() {
  const auto answer = [this](auto& asks, auto&& is_due) {
    std::remove_reference_t<decltype(asks)> later;
    for (const auto& [peer, asked] : asks)
      if (is_due(asked.head)) {
        answers_.start(answer_later(mail_, peer, asked.ticket, where_i_am(), {}));
      } else {
        later.emplace_back(peer, asked);
      }
    asks = std::move(later);
  };
  answer(clock_asks_, [this](const ClockHead& asked) {
    return finished_ || at_meeting_ || resting_ || asked.round < round_ || asked.clock <= sent_clock_;
  });
  answer(meet_asks_, [this](const MeetHead& asked) {
    return asked.round < round_ || (at_meeting_ && asked.round == round_);
  });
}

Task<Status> PeerUpdates::ask_clock(int peer, std::int64_t clock) {
  ClockHead ask;
  ask.clock = clock;
  ask.round = round_;
  const auto answer = co_await mail_->ask(peer, ask, {}, {});
  if (!answer.ok()) co_return unless_lost(answer.status());
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.finished = answer->head.has_finished;
  from.met = answer->head.is_at_meeting;
  // Its next updates may have come too, before this frame was resumed.
  if (answer->head.num_sent > from.arrived && !from.lost)
    co_return error(Code::kMismatch, "[agree] updates of worker {} are missing: got {}, expected {}", peer,
                    from.arrived, answer->head.num_sent);
  co_return Status();
}

Task<Status> PeerUpdates::wait_for_clocks(std::int64_t clock) {
  finished_ = false;
  std::vector<Task<Status>> asks;
  for (int peer = 0; peer < context_.num_workers; ++peer) {
    const Peer& p = peers_[static_cast<std::size_t>(peer)];
    if (!p.lost && !p.finished && !p.met && p.done < clock) asks.push_back(ask_clock(peer, clock));
  }
  co_return co_await runtime::when_all(*rt_, std::move(asks));
}

Task<Status> PeerUpdates::wait_while_ahead(std::int64_t bound, Ahead ahead) {
  finished_ = false;
  std::vector<std::pair<int, std::int64_t>> behind;  // who, and the clock to wait for
  for (int peer = 0; peer < context_.num_workers; ++peer) {
    const Peer& p = peers_[static_cast<std::size_t>(peer)];
    if (p.lost || p.finished || p.met) continue;
    const bool by_clocks = ahead == Ahead::kOfClocks;
    if (clock_ - (by_clocks ? p.done : p.heard) > bound)
      behind.emplace_back(peer, by_clocks ? clock_ - bound : p.done + 1);
  }
  if (behind.empty()) co_return Status();
  if (unsent_steps_ > 0) {
    const Result<bool> sent = co_await send(/*wait=*/true);
    if (!sent.ok()) co_return sent.status();
  }
  std::vector<Task<Status>> asks;
  for (const auto& [peer, clock] : behind) asks.push_back(ask_clock(peer, clock));
  co_return co_await runtime::when_all(*rt_, std::move(asks));
}

std::int64_t PeerUpdates::lead() const {
  std::int64_t slowest = clock_;
  for (const Peer& p : peers_)
    if (!p.lost && !p.finished && !p.met) slowest = std::min(slowest, p.done);
  return clock_ - slowest;
}

Task<Status> PeerUpdates::ask_meet(int peer) {
  MeetHead ask;
  ask.round = round_;
  const auto answer = co_await mail_->ask(peer, ask, {}, {});
  if (!answer.ok()) co_return unless_lost(answer.status());
  const Peer& from = peers_[static_cast<std::size_t>(peer)];
  if (answer->head.num_sent != from.arrived && !from.lost)
    co_return error(Code::kMismatch, "[agree] updates of worker {} are missing: got {}, expected {}", peer,
                    from.arrived, answer->head.num_sent);
  co_return Status();
}

Task<Status> PeerUpdates::arrive() {
  TR_CO_RETURN_IF_ERROR(co_await prepare());
  TR_CO_RETURN_IF_ERROR(co_await send_rest());
  TR_CO_RETURN_IF_ERROR(co_await under_way_.drain());
  resting_ = true;
  answer_asks();
  co_return Status();
}

Task<Status> PeerUpdates::settle(std::vector<Tensor> into) {
  TR_CO_RETURN_IF_ERROR(co_await prepare());
  TR_CO_RETURN_IF_ERROR(co_await send_rest());
  TR_CO_RETURN_IF_ERROR(co_await under_way_.drain());
  at_meeting_ = true;
  answer_asks();
  std::vector<Task<Status>> asks;
  for (int peer = 0; peer < context_.num_workers; ++peer)
    if (is_live(peer)) asks.push_back(ask_meet(peer));
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(*rt_, std::move(asks)));
  TR_CO_RETURN_IF_ERROR(failure_);
  co_return co_await write_agreed(std::move(into));
}

// Everybody's updates are in everybody's sums. Nobody steps on before this worker has said in the star that
// it is here, so clocks may start anew now.
Task<Status> PeerUpdates::write_agreed(std::vector<Tensor> into) {
  co_await take_turn();
  for (std::size_t b = 0; b < sum_.size(); ++b) {
    const Tensor from = adopt_ ? base_[b] : context_.weights[b];
    co_await agree_here(*rt_, from, base_[b], sum_[b]);
  }
  for (const std::int64_t clock : fresh_) ++report_.staleness[std::max<std::int64_t>(0, clock_ - clock)];
  fresh_.clear();
  adopt_ = true;
  give_turn();
  ++round_;
  clock_ = sent_clock_ = 0;
  for (Peer& peer : peers_) peer.done = peer.heard = 0, peer.met = false;
  at_meeting_ = resting_ = false;
  answer_asks();
  if (context_.worker == 0)
    for (std::size_t b = 0; b < into.size(); ++b) co_await copy(*rt_, base_[b], into[b]);
  if (context_.num_workers > 1) TR_CO_RETURN_IF_ERROR(co_await star_.share(into));
  if (context_.worker == 0) co_return Status();
  for (std::size_t b = 0; b < into.size(); ++b)
    co_await take_over(*rt_, into[b], base_[b], settle_difference_);
  co_return Status();
}

Task<Status> PeerUpdates::finish() {
  TR_CO_RETURN_IF_ERROR(co_await prepare());
  TR_CO_RETURN_IF_ERROR(co_await send_rest());
  TR_CO_RETURN_IF_ERROR(co_await under_way_.drain());
  finished_ = true;
  answer_asks();
  co_return Status();
}

}  // namespace trireme::agree
