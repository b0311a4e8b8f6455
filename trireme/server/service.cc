#include "trireme/server/service.h"

#include <algorithm>

#include "trireme/server/letter_checks.h"

namespace trireme::server {

using comm::Letter;
using comm::UnknownLetter;

Service::Service(runtime::Runtime& rt, comm::Mailbox& mail, ServerOptions options, const ConsistencyRow& row)
    : rt_(rt), mail_(mail), options_(std::move(options)), row_(row), pool_(device_of(rt)) {}

Status Service::make_slices() {
  TR_ASSIGN_OR_RETURN(const std::vector<SharedCoder> coders,
                      slice_coders(options_.link, options_.layout, options_.keys));
  TR_ASSIGN_OR_RETURN(factors_, slice_factors(options_.link.factors, options_.layout, options_.keys));
  for (const Slice& s : options_.layout.slices) {
    if (s.server != options_.server) continue;
    auto kept = std::make_unique<KeptSlice>();
    TR_ASSIGN_OR_RETURN(StoredSlice stored, make_stored_slice(device_of(rt_), options_.keys[s.key], s));
    TR_ASSIGN_OR_RETURN(kept->updater, Updater::make(rt_, std::move(stored), options_.make_update, pool_));
    kept->policy = row_.make(options_.clocks);
    if (!coders.empty()) kept->coder = coders[s.id];
    if (!factors_.empty() && factors_[s.id].is_on()) {
      kept->factors = &factors_[s.id];
      TR_RETURN_IF_ERROR(make_products(*kept));
    }
    kept->last_clock.assign(static_cast<std::size_t>(options_.clocks.num_workers), -1);
    by_id_[s.id] = kept.get();
    slices_.push_back(std::move(kept));
  }
  return {};
}

namespace {

// Payloads whose size is not that of a slice.
template <typename Head>
bool has_any_size(const Letter<Head>&) {
  return std::is_same_v<Head, PushRowsHead> || std::is_same_v<Head, PullRowsHead>;
}
bool has_any_size(const Letter<PushHead>& letter) { return letter.head.is_coded; }

}  // namespace

template <typename AnyLetter>
Status Service::check(int peer, const AnyLetter& letter) const {
  if (peer < 0 || peer >= options_.clocks.num_workers)
    return error(Code::kMismatch, "[server] a letter of rank {}: expected workers 0 to {}", peer,
                 options_.clocks.num_workers - 1);
  if constexpr (std::is_same_v<AnyLetter, UnknownLetter>) {
    return error(Code::kMismatch, "[server] rank {} wrote a letter of no known sort: {}", peer, letter.flags);
  } else if constexpr (requires { letter.head.slice; }) {
    const auto it = by_id_.find(letter.head.slice);
    if (it != by_id_.end()) return check_payload(peer, letter, *it->second);
    return error(
        Code::kMismatch,
        "[server] slice {} is not kept by server {}: do all ranks have one layout, and do the servers of a "
        "rank have numbers that differ modulo 15?",
        letter.head.slice, options_.server);
  } else {
    if (letter.bytes == 0) return {};
    return error(Code::kMismatch, "[server] rank {} wrote {} bytes that are of no slice: expected none", peer,
                 letter.bytes);
  }
}

template <typename AnyLetter>
Result<net::View> Service::place(int peer, const AnyLetter& letter) {
  if (closed_) return error(Code::kCancelled, "[server] the server of this rank has ended");
  if (!failure_.ok()) return failure_;
  TR_RETURN_IF_ERROR(check(peer, letter));
  net::View view;
  if constexpr (!std::is_same_v<AnyLetter, UnknownLetter>) {
    const auto elems = static_cast<std::int64_t>(letter.bytes / sizeof(float));
    // A coded message may end within an element.
    constexpr std::int64_t kMore = std::is_same_v<AnyLetter, Letter<PushHead>> ? 1 : 0;
    TR_ASSIGN_OR_RETURN(Loan loan,
                        has_any_size(letter) ? pool_.take_at_least(elems + kMore) : pool_.take(elems));
    view = {loan->raw(), letter.bytes};
    arriving_[peer].push_back(std::move(loan));
  }
  return view;
}

template <typename AnyLetter>
void Service::arrived(int peer, const AnyLetter& letter) {
  if (const Status wrong = check(peer, letter); !wrong.ok()) return fail(wrong);
  if constexpr (!std::is_same_v<AnyLetter, UnknownLetter>) on(peer, letter);
}

void Service::open() {
  const std::weak_ptr<Service> weak = weak_from_this();
  const auto place = [weak](int peer, const auto& letter) -> Result<net::View> {
    if (const auto self = weak.lock()) return self->place(peer, letter);
    return error(Code::kCancelled, "[server] the server of this rank has ended");
  };
  const auto arrived = [weak](int peer, const auto& letter) {
    if (const auto self = weak.lock(); self != nullptr && !self->closed_) self->arrived(peer, letter);
  };
  mail_.handle_sorts<InitHead, PushHead, PullHead, PushRowsHead, PullRowsHead, TickHead, FinishHead,
                     RejoinHead>(receiver_of(options_.server), place, arrived);
  mail_.on_lost([weak](int peer, const Status&) {
    if (const auto self = weak.lock(); self != nullptr && !self->closed_) self->on_lost(peer);
  });
}

void Service::close() {
  closed_ = true;
  mail_.stop_handling<InitHead>(receiver_of(options_.server));
}

KeptSlice* Service::find(std::uint32_t slice_id) {
  const auto it = by_id_.find(slice_id);
  return it == by_id_.end() ? nullptr : it->second;
}

Loan Service::take_arrived(int peer) {
  std::deque<Loan>& loans = arriving_[peer];
  TR_CHECK(!loans.empty(), "a payload of rank {} that was never placed", peer);
  Loan loan = std::move(loans.front());
  loans.pop_front();
  return loan;
}

void Service::on(int peer, const Letter<InitHead>& letter) {
  KeptSlice& slice = *find(letter.head.slice);
  Batch batch;
  batch.is_init = true;
  batch.pushes.emplace_back().values = take_arrived(peer);
  slice.enqueue(std::move(batch));
  wake(slice);
}

namespace {

// What a PushHead or a PushRowsHead announces.
template <typename Head>
Push push_of(int peer, const Head& head) {
  Push push;
  push.id = {peer, head.clock};
  push.learning_rate = static_cast<float>(head.learning_rate);
  push.scale = static_cast<float>(head.scale);
  push.based_on = head.based_on;
  return push;
}

}  // namespace

void Service::on(int peer, const Letter<PushHead>& letter) {
  const PushHead& head = letter.head;
  Push push = push_of(peer, head);
  if (letter.bytes > 0) push.values = take_arrived(peer);
  if (head.is_coded) push.coded_bytes = letter.bytes;
  push.is_factors = head.is_factors;
  const Question question{peer, letter.ticket, rt_.now()};
  if (head.wants_before) push.asked_before = question;
  if (head.wants_after) push.asked_after = question;
  take_push(*find(head.slice), std::move(push), /*counts=*/true);
}

void Service::on(int peer, const Letter<PushRowsHead>& letter) {
  KeptSlice& slice = *find(letter.head.slice);
  Push push = push_of(peer, letter.head);
  if (letter.bytes > 0) {
    push.values = take_arrived(peer);
    push.num_rows = num_rows(letter, slice.stored());
    if (!are_rows_inside(push.values, push.num_rows, slice.stored()))
      return fail(
          error(Code::kMismatch, "[server] rank {} pushed a row outside slice {}", peer, letter.head.slice));
  }
  take_push(slice, std::move(push), /*counts=*/true);
}

void Service::take_push(KeptSlice& slice, Push push, bool counts) {
  const PushId id = push.id;
  std::int64_t& last = slice.last_clock[static_cast<std::size_t>(id.worker)];
  const bool again = id.clock <= last;
  last = std::max(last, id.clock);
  if (counts) ++stats_.pushes;
  const OnPush verdict = again ? OnPush::kDrop : slice.policy->on_push(id);
  if (verdict == OnPush::kDrop) {
    if (counts) ++(again ? stats_.repeated : stats_.dropped);
    // Who asked gets the values as they are.
    const auto& asked = push.asked_before ? push.asked_before : push.asked_after;
    if (asked) {
      Pull pull;
      pull.question = *asked;
      pull.after = slice.num_queued;
      pull.is_a_pull = false;
      slice.pulls.push_back(std::move(pull));
    }
  } else if (verdict == OnPush::kApply) {
    Batch batch;
    batch.pushes.push_back(std::move(push));
    slice.enqueue(std::move(batch));
  } else {
    slice.held.emplace(id, std::move(push));
  }
  release(slice);
}

void Service::release(KeptSlice& slice) {
  for (auto ready = slice.policy->ready(); !ready.empty(); ready = slice.policy->ready()) {
    Batch batch;
    for (const PushId& id : ready) {
      const auto it = slice.held.find(id);
      TR_CHECK(it != slice.held.end(), "push {} of worker {} is released and not held", id.clock, id.worker);
      batch.pushes.push_back(std::move(it->second));
      slice.held.erase(it);
    }
    slice.enqueue(std::move(batch));
  }
  wake(slice);
}

void Service::wake(KeptSlice& slice) {
  const bool some_due = slice.look_at_pulls();
  if (slice.is_served || closed_ || !failure_.ok() || (!some_due && !slice.can_apply())) return;
  slice.is_served = true;
  rt_.spawn(serve(shared_from_this(), slice));
}

void Service::on(int peer, const Letter<PullHead>& letter) {
  Pull pull;
  pull.question = {peer, letter.ticket, rt_.now()};
  pull.clock = letter.head.clock;
  pull.keeps = letter.head.keeps;
  pull.takes_coded = letter.head.takes_coded;
  pull.exchange = letter.head.exchange;
  take_pull(*find(letter.head.slice), std::move(pull));
}

void Service::on(int peer, const Letter<PullRowsHead>& letter) {
  KeptSlice& slice = *find(letter.head.slice);
  Pull pull;
  pull.question = {peer, letter.ticket, rt_.now()};
  pull.clock = letter.head.clock;
  pull.wants_rows = true;
  pull.rows = letter.bytes > 0 ? take_arrived(peer) : nullptr;
  pull.num_rows = num_rows(letter, slice.stored());
  if (!are_rows_inside(pull.rows, pull.num_rows, slice.stored()))
    return fail(
        error(Code::kMismatch, "[server] rank {} pulled a row outside slice {}", peer, letter.head.slice));
  take_pull(slice, std::move(pull));
}

void Service::take_pull(KeptSlice& slice, Pull pull) {
  if (!failure_.ok()) {
    ServerAnswer failed;
    failed.has_failed = true;
    return send_answer(nullptr, pull.question, failed, nullptr, {});
  }
  slice.pulls.push_back(std::move(pull));
  wake(slice);
}

// A slice that the worker did not push in this clock: there was nothing for it.
void Service::on(int peer, const Letter<TickHead>& letter) {
  for (const auto& slice : slices_) {
    if (slice->last_clock[static_cast<std::size_t>(peer)] >= letter.head.clock) continue;
    Push nothing;
    nothing.id = {peer, letter.head.clock};
    take_push(*slice, std::move(nothing), /*counts=*/false);
  }
}

void Service::on(int peer, const Letter<FinishHead>& letter) {
  for (const auto& slice : slices_) {
    slice->policy->on_gone(peer);
    release(*slice);
  }
  Farewell farewell;
  farewell.question = {peer, letter.ticket, rt_.now()};
  farewell.up_to.assign(slices_.size(), -1);
  farewells_.push_back(std::move(farewell));
  look_at_farewells();
}

void Service::look_at_farewells() {
  const auto is_over = [&](Farewell& f) {
    bool over = true;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const KeptSlice& slice = *slices_[i];
      if (f.up_to[i] < 0 && !slice.holds_of(f.question.peer)) f.up_to[i] = slice.num_queued;
      over &= f.up_to[i] >= 0 && slice.is_done_up_to(f.up_to[i]);
    }
    return over || !failure_.ok();
  };
  std::vector<Farewell> rest;
  for (Farewell& f : std::exchange(farewells_, {})) {
    if (!is_over(f)) {
      rest.push_back(std::move(f));
      continue;
    }
    ServerAnswer head;
    head.has_failed = !failure_.ok();
    send_answer(nullptr, f.question, head, nullptr, {});
  }
  farewells_ = std::move(rest);
}

void Service::on(int peer, const Letter<RejoinHead>& letter) {
  for (const auto& slice : slices_) {
    slice->policy->on_back(peer, letter.head.clock);
    slice->last_clock[static_cast<std::size_t>(peer)] = letter.head.clock - 1;
    release(*slice);
  }
  const Question question{peer, letter.ticket, rt_.now()};
  send_answer(nullptr, question, {}, nullptr, {});
}

void Service::on_lost(int peer) {
  if (peer < 0 || peer >= options_.clocks.num_workers) return;
  const auto of_peer = [&](const auto& waiting) { return waiting.question.peer == peer; };
  std::erase_if(farewells_, of_peer);
  for (const auto& slice : slices_) {
    slice->had.erase(peer);
    std::erase_if(slice->pulls, of_peer);
    slice->policy->on_gone(peer);
    release(*slice);
  }
  look_at_farewells();
}

void Service::fail(const Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  rt_.log(why.message());
  const auto tell = [this](const Question& question) {
    ServerAnswer head;
    head.has_failed = true;
    send_answer(nullptr, question, head, nullptr, {});
  };
  const auto tell_pusher = [&](const Push& push) {
    if (push.asked_before || push.asked_after)
      tell(push.asked_before ? *push.asked_before : *push.asked_after);
  };
  for (const auto& slice : slices_) {
    for (const Pull& pull : std::exchange(slice->pulls, {})) tell(pull.question);
    for (const auto& [id, push] : slice->held) tell_pusher(push);
    for (const Batch& batch : slice->queue)
      for (const Push& push : batch.pushes) tell_pusher(push);
  }
  look_at_farewells();
  for (const auto& waiting : settling_) waiting->set(true);
}

}  // namespace trireme::server
