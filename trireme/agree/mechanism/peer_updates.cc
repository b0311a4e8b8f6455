// What comes in; peer_send.cc has what goes out, peer_clocks.cc clocks and meetings.
#include "trireme/agree/mechanism/peer_updates.h"

#include <algorithm>

#include "trireme/agree/mechanism/vector_math.h"

namespace trireme::agree {

using comm::Letter;
using runtime::OneShot;
using runtime::Task;

namespace {

// weights += sum, base += sum, sum = 0. Adopting: weights = base = base + sum, sum = 0.
Task<void> take_in(runtime::Runtime& rt, Tensor weights, Tensor base, Tensor sum, bool adopt) {
  const auto body = [adopt](float* const* v, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      v[1][i] += v[2][i];
      v[0][i] = adopt ? v[1][i] : v[0][i] + v[2][i];
      v[2][i] = 0;
    }
  };
  return run_pass(rt, {2, 3, 3}, {std::move(weights), std::move(base), std::move(sum)}, body, "take in");
}

}  // namespace

PeerUpdates::PeerUpdates(const RuleContext& context, Counts counts)
    : context_(context),
      counts_(counts),
      rt_(context.rt),
      mail_(context.mail),
      pool_(*context.rt, context.weights),
      residuals_(*context.rt, codings_of(context), context.weights, /*velocities=*/false),
      peers_(static_cast<std::size_t>(context.num_workers)),
      star_(context),
      adding_(*context.rt),
      answers_(*context.rt),
      under_way_(*context.rt) {
  peers_[static_cast<std::size_t>(context.worker)].lost = true;  // not one of the others
  failure_ = make_vectors();
  if (failure_.ok()) failure_ = make_coders();
  open();
}

Status PeerUpdates::make_vectors() {
  TR_ASSIGN_OR_RETURN(base_, new_vectors_like(*rt_, context_.weights));
  TR_ASSIGN_OR_RETURN(sum_, new_vectors_like(*rt_, context_.weights));
  return {};
}

Status PeerUpdates::make_coders() {
  TR_RETURN_IF_ERROR(residuals_.status());
  if (!residuals_.is_on()) return {};
  const codec::Coding& any = residuals_.some_coding();
  std::vector<Tensor> like;
  for (std::size_t b = 0; b < context_.weights.size(); ++b) {
    const std::int64_t elems = context_.weights[b].shape().num_elems();
    codec::Packing packing = !residuals_.is_on(b) ? codec::Packing{{}, {{0, elems}}}
                             : context_.buckets.empty()
                                 ? codec::packing_of({{0, elems}}, {}, residuals_.coding(b).least_elems)
                                 : context_.buckets[b].packing;
    const codec::Coding& coding = residuals_.is_on(b) ? residuals_.coding(b) : any;
    TR_ASSIGN_OR_RETURN(server::VectorCoder coder, server::VectorCoder::make(coding, std::move(packing)));
    const TensorType type{DType::kF32, {server::VectorCoder::num_elems_for(coder.max_bytes())}};
    TR_ASSIGN_OR_RETURN(Tensor memory, Tensor::allocate(phantom_device(), type));
    like.push_back(std::move(memory));
    coders_.push_back(std::move(coder));
  }
  messages_ = std::make_unique<VectorPool>(*rt_, like);
  return {};
}

void PeerUpdates::open() {
  if (context_.num_workers == 1) return;
  comm::Mailbox::Handler<UpdateHead> update;
  update.place = [this](int peer, const Letter<UpdateHead>& letter) { return place_update(peer, letter); };
  update.arrived = [this](int peer, const Letter<UpdateHead>& letter) { on_update(peer, letter); };
  comm::Mailbox::Handler<ClockHead> clock;
  clock.arrived = [this](int peer, const Letter<ClockHead>& letter) {
    clock_asks_.emplace_back(peer, letter);
    answer_asks();
  };
  comm::Mailbox::Handler<MeetHead> meet;
  meet.arrived = [this](int peer, const Letter<MeetHead>& letter) {
    meet_asks_.emplace_back(peer, letter);
    answer_asks();
  };
  mail_->handle(std::move(update));
  mail_->handle(std::move(clock));
  mail_->handle(std::move(meet));
}

PeerUpdates::~PeerUpdates() {
  if (context_.num_workers == 1) return;
  mail_->stop_handling<UpdateHead>();
  mail_->stop_handling<ClockHead>();
  mail_->stop_handling<MeetHead>();
  const bool receiving =
      std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.due.empty(); });
  if (!receiving && under_way_.under_way() == 0) return;
  pool_.abandon();
  if (messages_ != nullptr) messages_->abandon();
}

// ---- what comes in

Result<net::View> PeerUpdates::place_update(int peer, const Letter<UpdateHead>& letter) {
  const std::size_t buckets = sum_.size();
  const std::uint32_t bucket = letter.head.bucket;
  const bool coded = letter.head.is_coded;
  const auto fits = [&] {
    if (!coded) return letter.bytes == sum_[bucket].type().num_bytes();
    return !coders_.empty() && letter.bytes <= coders_[bucket].max_bytes();
  };
  if (peer >= context_.num_workers || bucket >= buckets || !fits())
    return error(
        Code::kMismatch,
        "[agree] an update of another model: got bucket {} of {} bytes from rank {}, expected one of "
        "{} buckets; the workers run different jobs",
        bucket, letter.bytes, peer, buckets);
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  const std::int64_t most =
      std::max<std::int64_t>(1, context_.options.own.integer(kInFlight)) * static_cast<std::int64_t>(buckets);
  if (from.held >= most)
    return error(Code::kMismatch,
                 "[agree] too many updates under way: got more than {} vectors from rank {} at once; "
                 "parallel.in_flight differs between workers",
                 most, peer);
  TR_ASSIGN_OR_RETURN(Tensor vector, coded ? messages_->take(bucket) : pool_.take(bucket));
  const net::View view{vector.raw(), letter.bytes};
  from.due.emplace_back(bucket, std::move(vector));
  ++from.held;
  return view;
}

void PeerUpdates::on_update(int peer, const Letter<UpdateHead>& letter) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  Job job;
  job.peer = peer;
  job.letter = letter;
  job.bucket = from.due.front().first;
  job.vector = std::move(from.due.front().second);
  from.due.pop_front();
  if (job.bucket + 1 == sum_.size()) ++from.arrived;
  jobs_.push_back(std::move(job));
  if (!working_ && !turn_taken_) {
    working_ = true;
    adding_.start(work());
  }
}

Task<Status> PeerUpdates::work() {
  while (!jobs_.empty()) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job.turn != nullptr) {
      turn_taken_ = true;
      job.turn->set(true);
      break;
    }
    co_await add(std::move(job));
  }
  working_ = false;
  co_return Status();
}

Task<void> PeerUpdates::add(Job job) {
  const UpdateHead& head = job.letter.head;
  if (head.is_coded) {
    co_await add_coded(job);
    messages_->give(job.bucket, std::move(job.vector));
  } else {
    co_await add_scaled(*rt_, sum_[job.bucket], 1, job.vector);
    pool_.give(job.bucket, std::move(job.vector));
  }
  Peer& from = peers_[static_cast<std::size_t>(job.peer)];
  --from.held;
  if (job.bucket + 1 < sum_.size()) co_return;
  if (head.round == round_) from.done = head.clock, from.heard = clock_;
  from.finished = false;
  fresh_.push_back(head.clock);
  ++report_.exchanges;
  answers_.start(answer_later(mail_, job.peer, job.letter.ticket, {}, {}));
}

// Who sent it hears that it was taken all the same: this worker's own next operation fails.
Task<void> PeerUpdates::add_coded(const Job& job) {
  const Status added =
      co_await server::add_vector(*rt_, coders_[job.bucket], job.vector, job.letter.bytes, sum_[job.bucket]);
  if (!added.ok() && failure_.ok())
    failure_ = error(Code::kCorrupt, "[agree] a coded update of worker {}: {}", job.peer, added.message());
}

Task<void> PeerUpdates::take_turn() {
  if (!working_ && jobs_.empty()) {
    turn_taken_ = true;
    co_return;
  }
  OneShot<bool> turn(*rt_);
  Job job;
  job.turn = &turn;
  jobs_.push_back(std::move(job));
  co_await turn.wait_until(kForever);
}

void PeerUpdates::give_turn() {
  turn_taken_ = false;
  if (jobs_.empty()) return;
  working_ = true;
  adding_.start(work());
}

// ---- steps

Task<Status> PeerUpdates::prepare() {
  if (!failure_.ok() || prepared_) co_return failure_;
  for (std::size_t b = 0; b < base_.size(); ++b) co_await copy(*rt_, context_.weights[b], base_[b]);
  prepared_ = true;
  co_return Status();
}

Task<Status> PeerUpdates::apply() {
  TR_CO_RETURN_IF_ERROR(co_await prepare());
  finished_ = false;
  co_await take_turn();
  if (!fresh_.empty() || adopt_)
    for (std::size_t b = 0; b < sum_.size(); ++b)
      co_await take_in(*rt_, context_.weights[b], base_[b], sum_[b], adopt_);
  adopt_ = false;
  for (const std::int64_t clock : fresh_) ++report_.staleness[std::max<std::int64_t>(0, clock_ - clock)];
  fresh_.clear();
  give_turn();
  co_return failure_;
}

void PeerUpdates::on_moved(std::size_t bucket, std::int64_t begin, std::span<const float> by) {
  float* const base = base_[bucket].data<float>() + begin;
  for (std::size_t i = 0; prepared_ && i < by.size(); ++i) base[i] += by[i];
}

// Memory that a letter of it was to fill is not used again. What came whole still counts.
void PeerUpdates::on_lost(int peer) {
  if (peer < 0 || peer >= context_.num_workers) return;
  peers_[static_cast<std::size_t>(peer)].lost = true;
}

RuleReport PeerUpdates::report() const {
  RuleReport report = report_;
  report.more["updates_sent"] = sent_;
  report.more["updates_merged"] = merged_;
  if (residuals_.is_on()) {
    report.more["encoded_messages"] = coded_;
    report.more["encoded_bytes"] = coded_bytes_;
  }
  report.more["settle_difference"] = settle_difference_->load();
  report.largest.emplace_back("settle_difference");
  return report;
}

}  // namespace trireme::agree
