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
  comm::Mailbox::Handler gather, result, end;
  gather.arrived = [this](int, const Letter& letter) {
    gathers_.push_back(letter);
    answer_gathers();
  };
  result.place = [this](int, const Letter& letter) { return place_result(letter); };
  result.arrived = [this](int peer, const Letter& letter) { reply(peer, letter, {}, {}); };
  end.arrived = [this](int peer, const Letter& letter) {
    ends_.emplace_back(peer, letter);
    answer_ends();
  };
  mail_->handle(kLetterGather, std::move(gather));
  mail_->handle(kLetterResult, std::move(result));
  mail_->handle(kLetterEnd, std::move(end));
}

Star::~Star() {
  if (num_workers_ == 1) return;
  if (!into_.empty()) pool_.abandon();
  for (const std::uint16_t kind : {kLetterGather, kLetterResult, kLetterEnd}) mail_->handle(kind, {});
}

void Star::reply(int peer, const Letter& asked, Letter answer, Tensor payload) {
  answers_.start(answer_later(mail_, peer, asked, answer, std::move(payload)));
}

// `clock` is the meeting, `key` the bucket; without a contribution the answer only says that this worker is
// there.
void Star::answer_gathers() {
  std::vector<Letter> later;
  for (const Letter& asked : gathers_) {
    if (asked.clock > round_) {
      later.push_back(asked);
      continue;
    }
    Letter answer;
    answer.value = weight_;
    reply(0, asked, answer, asked.key < contribution_.size() ? contribution_[asked.key] : Tensor());
  }
  gathers_ = std::move(later);
}

void Star::answer_ends() {
  std::vector<std::pair<int, Letter>> later;
  for (const auto& [peer, asked] : ends_)
    if (asked.clock <= ended_) {
      reply(peer, asked, {}, {});
    } else {
      later.emplace_back(peer, asked);
    }
  ends_ = std::move(later);
}

Result<net::View> Star::place_result(const Letter& letter) const {
  if (letter.clock != round_ || letter.key >= into_.size() ||
      letter.bytes != into_[letter.key].type().num_bytes())
    return error(Code::kMismatch,
                 "[agree] a result that nobody waits for: got bucket {} of {} bytes for meeting {}, expected "
                 "one of {} buckets of meeting {}; the workers run different jobs",
                 letter.key, letter.bytes, letter.clock, into_.size(), round_);
  return view_of(into_[letter.key]);
}

Task<Status> Star::hear_from(int peer) {
  Letter ask;
  ask.kind = kLetterGather;
  ask.clock = round_;
  const Result<Letter> answer = co_await mail_->ask(peer, ask, {}, {});
  co_return unless_lost(answer.status());
}

Task<Status> Star::gather(std::size_t bucket, Tensor part) {
  co_await copy(*rt_, contribution_[bucket], into_[bucket]);
  double total = weight_;
  for (int peer = 1; peer < num_workers_; ++peer) {
    if (!mail_->is_alive(peer)) continue;
    Letter ask;
    ask.kind = kLetterGather;
    ask.key = static_cast<std::uint32_t>(bucket);
    ask.clock = round_;
    const Result<Letter> answer = co_await mail_->ask(peer, ask, {}, view_of(part));
    if (!answer.ok()) {
      TR_CO_RETURN_IF_ERROR(unless_lost(answer.status()));
      continue;
    }
    co_await add_scaled(*rt_, into_[bucket], 1, part);
    total += answer->value;
  }
  co_await divide(*rt_, into_[bucket], static_cast<float>(total));
  co_return Status();
}

Task<Status> Star::give_result(int peer) {
  for (std::size_t b = 0; b < into_.size(); ++b) {
    Letter letter;
    letter.kind = kLetterResult;
    letter.key = static_cast<std::uint32_t>(b);
    letter.clock = round_;
    const Result<Letter> taken = co_await mail_->ask(peer, letter, view_of(into_[b]), {});
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
    Letter ask;
    ask.kind = kLetterEnd;
    ask.clock = round_;
    const Result<Letter> end = co_await mail_->ask(0, ask, {}, {});
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
