#include "trireme/agree/mechanism/star.h"

#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {

using comm::Letter;
using runtime::Task;

namespace {

Task<void> divide(runtime::Runtime& rt, Tensor x, float divisor) {
  const auto body = [divisor](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) v[0][i] /= divisor;
  };
  return run_pass(rt, {1, 1, 1}, {std::move(x)}, body, "mean of workers");
}

}  // namespace

Star::Star(const RuleContext& context)
    : rt_(context.rt),
      mail_(context.mail),
      worker_(context.worker),
      num_workers_(context.num_workers),
      pool_(*context.rt, context.weights),
      answers_(*context.rt) {
  if (num_workers_ == 1) return;
  comm::Mailbox::Handler<GatherHead> gather;
  gather.arrived = [this](int, const Letter<GatherHead>& letter) {
    gathers_.push_back(letter);
    answer_gathers();
  };
  comm::Mailbox::Handler<ResultHead> result;
  result.place = [this](int, const Letter<ResultHead>& letter) { return place_result(letter); };
  result.arrived = [this](int peer, const Letter<ResultHead>& letter) {
    answers_.start(answer_later(mail_, peer, letter.ticket, {}, {}));
  };
  comm::Mailbox::Handler<MeetingEndHead> end;
  end.arrived = [this](int peer, const Letter<MeetingEndHead>& letter) {
    ends_.emplace_back(peer, letter);
    answer_ends();
  };
  mail_->handle(std::move(gather));
  mail_->handle(std::move(result));
  mail_->handle(std::move(end));
}

Star::~Star() {
  if (num_workers_ == 1) return;
  if (!into_.empty()) pool_.abandon();
  mail_->stop_handling<GatherHead>();
  mail_->stop_handling<ResultHead>();
  mail_->stop_handling<MeetingEndHead>();
}

void Star::answer_gathers() {
  std::vector<Letter<GatherHead>> later;
  for (const Letter<GatherHead>& asked : gathers_) {
    if (asked.head.meeting > round_) {
      later.push_back(asked);
      continue;
    }
    const std::uint32_t bucket = asked.head.bucket;
    Tensor payload = bucket < contribution_.size() ? contribution_[bucket] : Tensor();
    answers_.start(answer_later(mail_, 0, asked.ticket, Contribution{weight_}, std::move(payload)));
  }
  gathers_ = std::move(later);
}

void Star::answer_ends() {
  std::vector<std::pair<int, Letter<MeetingEndHead>>> later;
  for (const auto& [peer, asked] : ends_)
    if (asked.head.meeting <= ended_) {
      answers_.start(answer_later(mail_, peer, asked.ticket, {}, {}));
    } else {
      later.emplace_back(peer, asked);
    }
  ends_ = std::move(later);
}

Result<net::View> Star::place_result(const Letter<ResultHead>& letter) const {
  const ResultHead& head = letter.head;
  if (head.meeting != round_ || head.bucket >= into_.size() ||
      letter.bytes != into_[head.bucket].type().num_bytes())
    return error(Code::kMismatch,
                 "[agree] a result that nobody waits for: got bucket {} of {} bytes for meeting {}, expected "
                 "one of {} buckets of meeting {}; the workers run different jobs",
                 head.bucket, letter.bytes, head.meeting, into_.size(), round_);
  return view_of(into_[head.bucket]);
}

Task<Status> Star::hear_from(int peer) {
  GatherHead ask;
  ask.meeting = round_;
  const auto answer = co_await mail_->ask(peer, ask, {}, {});
  co_return unless_lost(answer.status());
}

Task<Status> Star::gather(std::size_t bucket, Tensor part) {
  co_await copy(*rt_, contribution_[bucket], into_[bucket]);
  double total = weight_;
  for (int peer = 1; peer < num_workers_; ++peer) {
    if (!mail_->is_alive(peer)) continue;
    GatherHead ask;
    ask.bucket = static_cast<std::uint32_t>(bucket);
    ask.meeting = round_;
    const auto answer = co_await mail_->ask(peer, ask, {}, view_of(part));
    if (!answer.ok()) {
      TR_CO_RETURN_IF_ERROR(unless_lost(answer.status()));
      continue;
    }
    co_await add_scaled(*rt_, into_[bucket], 1, part);
    total += answer->head.weight;
  }
  co_await divide(*rt_, into_[bucket], static_cast<float>(total));
  co_return Status();
}

Task<Status> Star::give_result(int peer) {
  for (std::size_t b = 0; b < into_.size(); ++b) {
    ResultHead head;
    head.bucket = static_cast<std::uint32_t>(b);
    head.meeting = round_;
    const auto taken = co_await mail_->ask(peer, head, view_of(into_[b]), {});
    if (!taken.ok()) co_return unless_lost(taken.status());
  }
  co_return Status();
}

Task<Status> Star::lead() {
  for (std::size_t b = 0; b < contribution_.size(); ++b) {
    Result<Tensor> part = pool_.take(b);
    if (!part.ok()) co_return part.status();
    TR_CO_RETURN_IF_ERROR(co_await gather(b, *part));
    pool_.give(b, *part);
  }
  std::vector<Task<Status>> tasks;
  if (contribution_.empty()) {
    for (int peer = 1; peer < num_workers_; ++peer)
      if (mail_->is_alive(peer)) tasks.push_back(hear_from(peer));
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(*rt_, std::move(tasks)));
    tasks.clear();
  }
  for (int peer = 1; peer < num_workers_; ++peer)
    if (mail_->is_alive(peer)) tasks.push_back(give_result(peer));
  TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(*rt_, std::move(tasks)));
  ended_ = round_;
  answer_ends();
  co_return Status();
}

Task<Status> Star::meet(std::vector<Tensor> contribution, double weight, std::vector<Tensor> into) {
  ++round_;
  contribution_ = std::move(contribution);
  weight_ = weight;
  into_ = std::move(into);
  Status status;
  if (worker_ == 0) {
    status = co_await lead();
  } else {
    answer_gathers();
    MeetingEndHead ask;
    ask.meeting = round_;
    const auto end = co_await mail_->ask(0, ask, {}, {});
    status = end.status();
  }
  contribution_.clear();
  into_.clear();
  co_return status;
}

Task<Status> Star::mean(std::vector<Tensor> contribution, double weight, std::vector<Tensor> into) {
  return meet(std::move(contribution), weight, std::move(into));
}

Task<Status> Star::share(std::vector<Tensor> into) { return meet({}, 1, std::move(into)); }

}  // namespace trireme::agree
