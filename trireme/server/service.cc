#include "trireme/server/service.h"

#include <algorithm>

namespace trireme::server {

using comm::Letter;

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

void Service::open() {
  comm::Mailbox::Handler handler;
  const std::weak_ptr<Service> weak = weak_from_this();
  handler.place = [weak](int peer, const Letter& letter) -> Result<net::View> {
    if (const auto self = weak.lock()) return self->place(peer, letter);
    return error(Code::kCancelled, "[server] the server of this rank has ended");
  };
  handler.arrived = [weak](int peer, const Letter& letter) {
    if (const auto self = weak.lock(); self != nullptr && !self->closed_) self->arrived(peer, letter);
  };
  mail_.handle(kind_of_server(options_.server), std::move(handler));
  mail_.on_lost([weak](int peer, const Status&) {
    if (const auto self = weak.lock(); self != nullptr && !self->closed_) self->on_lost(peer);
  });
}

void Service::close() {
  closed_ = true;
  mail_.handle(kind_of_server(options_.server), {});
}

void Service::arrived(int peer, const Letter& letter) {
  if (const Status wrong = check(peer, letter); !wrong.ok()) return fail(wrong);
  switch (what_is(letter)) {
    case kInit:
      return on_init(peer, letter);
    case kPush:
    case kPushRows:
      return on_push(peer, letter);
    case kPull:
    case kPullRows:
      return on_pull(peer, letter);
    case kTick:
      return on_tick(peer, letter);
    case kFinish:
      return on_finish(peer, letter);
    case kRejoin:
      return on_rejoin(peer, letter);
  }
  fail(error(Code::kMismatch, "[server] rank {} wrote a letter of no known sort: {}", peer, letter.flags));
}

KeptSlice* Service::find(std::uint32_t slice_id) {
  const auto it = by_id_.find(slice_id);
  return it == by_id_.end() ? nullptr : it->second;
}

// Of one payload, what it must be for its slice.
Status Service::check(int peer, const Letter& letter) const {
  if (peer < 0 || peer >= options_.clocks.num_workers)
    return error(Code::kMismatch, "[server] a letter of rank {}: expected workers 0 to {}", peer,
                 options_.clocks.num_workers - 1);
  const LetterOf what = what_is(letter);
  if ((what == kTick || what == kFinish || what == kRejoin) && letter.bytes == 0) return {};
  const auto it = by_id_.find(letter.key);
  if (it == by_id_.end())
    return error(
        Code::kMismatch,
        "[server] slice {} is not kept by server {}: do all ranks have one layout, and do the servers of a "
        "rank have numbers that differ modulo 15?",
        letter.key, options_.server);
  const StoredSlice& slice = it->second->stored();
  if (what == kPush && (letter.flags & kFlagCoded) != 0) {
    const SharedCoder& coder = it->second->coder;
    if (coder == nullptr || letter.bytes == 0 || letter.bytes > coder->max_bytes())
      return error(
          Code::kMismatch,
          "[server] slice {}: got a coded push of {} bytes from rank {}, expected {}; do all ranks "
          "run one job?",
          letter.key, letter.bytes, peer,
          coder == nullptr ? "none: no codec is set here" : fmt::format("1 to {}", coder->max_bytes()));
    return {};
  }
  if (what == kPush && (letter.flags & kFlagFactors) != 0) {
    const FactorSlice* factors = it->second->factors;
    if (factors == nullptr || letter.bytes != factors->num_bytes())
      return error(
          Code::kMismatch,
          "[server] slice {}: got {} bytes of factors from rank {}, expected {}; do all ranks run one job?",
          letter.key, letter.bytes, peer,
          factors == nullptr ? "values: it has no factors here" : fmt::format("{}", factors->num_bytes()));
    return {};
  }
  if (what_is(letter) == kPushRows || what_is(letter) == kPullRows) {
    const std::uint64_t per_row =
        !slice.rows
            ? 0
            : 8 + (what_is(letter) == kPushRows ? 4 * static_cast<std::uint64_t>(slice.rows->row) : 0);
    if (letter.bytes != 0 && (per_row == 0 || letter.bytes % per_row != 0))
      return error(Code::kMismatch, "[server] slice {}: got {} bytes of rows, expected {}", letter.key,
                   letter.bytes, per_row == 0 ? "no rows: it has none" : "whole rows");
  } else if (letter.bytes != (what_is(letter) == kPull ? 0 : slice.num_bytes())) {
    return error(Code::kMismatch, "[server] slice {}: got {} bytes, expected {}", letter.key, letter.bytes,
                 slice.num_bytes());
  }
  return {};
}

Result<net::View> Service::place(int peer, const Letter& letter) {
  if (closed_) return error(Code::kCancelled, "[server] the server of this rank has ended");
  if (!failure_.ok()) return failure_;
  TR_RETURN_IF_ERROR(check(peer, letter));
  const bool has_rows = what_is(letter) == kPushRows || what_is(letter) == kPullRows;
  const bool is_coded = (letter.flags & kFlagCoded) != 0;
  const auto elems = static_cast<std::int64_t>(letter.bytes / sizeof(float));
  TR_ASSIGN_OR_RETURN(
      Loan loan, has_rows || is_coded ? pool_.take_at_least(elems + (is_coded ? 1 : 0)) : pool_.take(elems));
  const net::View view{loan->raw(), letter.bytes};
  arriving_[peer].push_back(std::move(loan));
  return view;
}

Loan Service::take_arrived(int peer) {
  std::deque<Loan>& loans = arriving_[peer];
  TR_CHECK(!loans.empty(), "a payload of rank {} that was never placed", peer);
  Loan loan = std::move(loans.front());
  loans.pop_front();
  return loan;
}

std::int64_t Service::num_rows(const Letter& letter, const StoredSlice& slice) const {
  if (letter.bytes == 0) return 0;
  const auto per_row = 8 + (what_is(letter) == kPushRows ? 4 * slice.rows->row : 0);
  return static_cast<std::int64_t>(letter.bytes) / per_row;
}

bool Service::are_rows_inside(const Loan& rows, std::int64_t count, const StoredSlice& slice) const {
  if (rt_.is_phantom() || count == 0) return true;
  const auto* numbers = reinterpret_cast<const std::int64_t*>(rows->raw());
  return std::all_of(numbers, numbers + count,
                     [&](std::int64_t r) { return r >= 0 && r < slice.rows->count; });
}

void Service::on_init(int peer, const Letter& letter) {
  KeptSlice& slice = *find(letter.key);
  Batch batch;
  batch.is_init = true;
  batch.pushes.emplace_back().values = take_arrived(peer);
  slice.enqueue(std::move(batch));
  wake(slice);
}

void Service::on_push(int peer, const Letter& letter) {
  KeptSlice& slice = *find(letter.key);
  Push push;
  push.id = {peer, letter.clock};
  if (letter.bytes > 0) push.values = take_arrived(peer);
  if (what_is(letter) == kPushRows && push.values != nullptr) {
    push.num_rows = num_rows(letter, slice.stored());
    if (!are_rows_inside(push.values, push.num_rows, slice.stored()))
      return fail(error(Code::kMismatch, "[server] rank {} pushed a row outside slice {}", peer, letter.key));
  }
  if ((letter.flags & kFlagCoded) != 0) push.coded_bytes = letter.bytes;
  push.is_factors = (letter.flags & kFlagFactors) != 0;
  push.learning_rate = static_cast<float>(letter.value);
  push.scale = static_cast<float>(letter.value2);
  push.based_on = letter.number;
  if ((letter.flags & (kFlagBefore | kFlagAfter)) != 0) push.asked = Question{peer, letter, rt_.now()};
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
    if (push.asked) {
      Pull pull;
      pull.question = *push.asked;
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

void Service::on_pull(int peer, const Letter& letter) {
  KeptSlice& slice = *find(letter.key);
  Pull pull;
  pull.question = {peer, letter, rt_.now()};
  if (what_is(letter) == kPullRows) {
    pull.rows = letter.bytes > 0 ? take_arrived(peer) : nullptr;
    pull.num_rows = num_rows(letter, slice.stored());
    if (!are_rows_inside(pull.rows, pull.num_rows, slice.stored()))
      return fail(error(Code::kMismatch, "[server] rank {} pulled a row outside slice {}", peer, letter.key));
  }
  if (!failure_.ok()) {
    Letter head;
    head.flags = kFlagFailed;
    return send_answer(nullptr, pull.question, head, nullptr, {});
  }
  slice.pulls.push_back(std::move(pull));
  wake(slice);
}

// A slice that the worker did not push in this clock: there was nothing for it.
void Service::on_tick(int peer, const Letter& letter) {
  for (const auto& slice : slices_) {
    if (slice->last_clock[static_cast<std::size_t>(peer)] >= letter.clock) continue;
    Push nothing;
    nothing.id = {peer, letter.clock};
    take_push(*slice, std::move(nothing), /*counts=*/false);
  }
}

void Service::on_finish(int peer, const Letter& letter) {
  for (const auto& slice : slices_) {
    slice->policy->on_gone(peer);
    release(*slice);
  }
  Farewell farewell;
  farewell.question = {peer, letter, rt_.now()};
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
    Letter head;
    head.flags = failure_.ok() ? 0 : kFlagFailed;
    send_answer(nullptr, f.question, head, nullptr, {});
  }
  farewells_ = std::move(rest);
}

void Service::on_rejoin(int peer, const Letter& letter) {
  for (const auto& slice : slices_) {
    slice->policy->on_back(peer, letter.clock);
    slice->last_clock[static_cast<std::size_t>(peer)] = letter.clock - 1;
    release(*slice);
  }
  const Question question{peer, letter, rt_.now()};
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
  Letter head;
  head.flags = kFlagFailed;
  for (const auto& slice : slices_) {
    for (const Pull& pull : std::exchange(slice->pulls, {}))
      send_answer(nullptr, pull.question, head, nullptr, {});
    for (const auto& [id, push] : slice->held)
      if (push.asked) send_answer(nullptr, *push.asked, head, nullptr, {});
    for (const Batch& batch : slice->queue)
      for (const Push& push : batch.pushes)
        if (push.asked) send_answer(nullptr, *push.asked, head, nullptr, {});
  }
  look_at_farewells();
  for (const auto& waiting : settling_) waiting->set(true);
}

}  // namespace trireme::server
