// What PeerUpdates sends.
#include <algorithm>

#include "trireme/agree/mechanism/peer_updates.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/base/rng.h"

namespace trireme::agree {

using runtime::Task;

namespace {

// update = weights - base, base = weights. From `whole` on the change counts `share`, here too.
Task<void> take_out(runtime::Runtime& rt, Tensor weights, Tensor base, Tensor update, std::int64_t whole,
                    float share) {
  const auto body = [whole, share](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      v[2][i] = v[0][i] - v[1][i];
      if (i >= whole) {
        v[2][i] *= share;
        v[0][i] = v[1][i] + v[2][i];
      }
      v[1][i] = v[0][i];
    }
  };
  return run_pass(rt, {1, 2, 2}, {std::move(weights), std::move(base), std::move(update)}, body, "update");
}

// update += residual, residual = 0.
Task<void> add_residual(runtime::Runtime& rt, Tensor update, Tensor residual) {
  const auto body = [](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      v[0][i] += v[1][i];
      v[1][i] = 0;
    }
  };
  return run_pass(rt, {1, 2, 2}, {std::move(update), std::move(residual)}, body, "rest");
}

}  // namespace

Task<Result<bool>> PeerUpdates::send(bool wait) { return send_update(wait, /*whole=*/false); }

Task<Status> PeerUpdates::send_rest() {
  if (unsent_steps_ == 0 && !owes_) co_return Status();
  const Result<bool> sent = co_await send_update(/*wait=*/true, /*whole=*/true);
  co_return sent.status();
}

Task<Result<bool>> PeerUpdates::send_update(bool wait, bool whole) {
  const auto live = std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.lost; });
  if (live == 0) {
    unsent_steps_ = 0;
    sent_clock_ = clock_;
    co_return true;
  }
  const auto most =
      static_cast<std::size_t>(std::max<std::int64_t>(1, context_.options.own.integer(kInFlight)));
  if (under_way_.under_way() >= most && !wait) {
    ++merged_;
    co_return false;
  }
  Status status = co_await under_way_.wait_below(most);
  if (!status.ok()) co_return status;
  Result<Update> update = co_await take_update(live, whole);
  if (!update.ok()) co_return update.status();
  unsent_steps_ = 0;
  UpdateHead head;
  head.is_coded = update->is_coded;
  head.clock = clock_;
  head.round = round_;
  under_way_.start(broadcast(std::move(*update), head));
  co_return true;
}

Task<Result<PeerUpdates::Update>> PeerUpdates::take_update(std::int64_t num_live, bool whole) {
  TR_CO_ASSIGN_OR_RETURN(std::vector<Tensor> changes, pool_.take_all());
  std::int64_t exchange = 0;
  for (std::size_t b = 0; b < base_.size(); ++b) {
    std::int64_t first_shared = base_[b].shape().num_elems();
    if (counts_ == Counts::kShare) {
      first_shared = 0;
    } else {
      first_shared = context_.parameter_elems(b);
    }
    co_await take_out(*rt_, context_.weights[b], base_[b], changes[b], first_shared,
                      1 / static_cast<float>(num_live + 1));
    exchange = residuals_.count(b);
  }
  if (residuals_.is_on() && !whole && residuals_.some_coding().encodes_at(exchange))
    co_return co_await encode(std::move(changes), exchange);
  Update update;
  for (std::size_t b = 0; b < changes.size(); ++b) {
    if (owes_ && !residuals_.residual(b).is_null())
      co_await add_residual(*rt_, changes[b], residuals_.residual(b));
    update.bytes.push_back(changes[b].type().num_bytes());
  }
  owes_ = false;
  update.vectors = std::move(changes);
  co_return update;
}

Task<Result<PeerUpdates::Update>> PeerUpdates::encode(std::vector<Tensor> changes, std::int64_t exchange) {
  Update update;
  update.is_coded = true;
  TR_CO_ASSIGN_OR_RETURN(update.vectors, messages_->take_all());
  const std::uint64_t key = mix_key(mix_key(context_.seed, static_cast<std::uint64_t>(exchange)),
                                    static_cast<std::uint64_t>(context_.worker));
  for (std::size_t b = 0; b < changes.size(); ++b) {
    server::ToEncode from;
    from.values = changes[b];
    from.residual = residuals_.residual(b);
    from.exchange = exchange;
    from.key = mix_key(key, b);
    const Tensor memory = update.vectors[b];
    TR_CO_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                           co_await server::encode_vector(*rt_, coders_[b], std::move(from), memory));
    update.bytes.push_back(bytes);
    coded_bytes_ += bytes;
    ++coded_;
  }
  pool_.give_all(std::move(changes));
  owes_ = residuals_.keeps();
  co_return update;
}

Task<Status> PeerUpdates::broadcast(Update update, UpdateHead head) {
  std::vector<Task<Status>> tasks;
  for (int peer = 0; peer < context_.num_workers; ++peer)
    if (is_live(peer)) tasks.push_back(deliver(peer, update, head));
  tasks.push_back(say_so_far(head.clock));  // starts when the letters are on their way
  Status status = co_await runtime::when_all(*rt_, std::move(tasks));
  if (!status.ok() && failure_.ok()) failure_ = status;
  (update.is_coded ? *messages_ : pool_).give_all(std::move(update.vectors));
  co_return status;
}

// Vectors arrive and are added in order, so the answer to the last one counts for all.
Task<Status> PeerUpdates::deliver(int peer, const Update& update, UpdateHead head) {
  std::vector<Task<Status>> tasks;
  const auto view = [&](std::size_t b) { return net::View{update.vectors[b].raw(), update.bytes[b]}; };
  const auto last = static_cast<std::uint32_t>(update.vectors.size() - 1);
  for (head.bucket = 0; head.bucket < last; ++head.bucket)
    tasks.push_back(mail_->send(peer, head, view(head.bucket)));
  const auto ask_last = [](comm::Mailbox* mail, int to, UpdateHead what, net::View payload) -> Task<Status> {
    const auto answer = co_await mail->ask(to, what, payload, {});
    co_return answer.status();
  };
  tasks.push_back(ask_last(mail_, peer, head, view(last)));
  const Status status = co_await runtime::when_all(*rt_, std::move(tasks));
  co_return unless_lost(status);
}

Task<Status> PeerUpdates::say_so_far(std::int64_t clock) {
  ++sent_;
  sent_clock_ = clock;
  answer_asks();
  co_return Status();
}

}  // namespace trireme::agree
