#include "trireme/net/mpi/mpi_transport.h"

#include <algorithm>
#include <cstring>

#include "trireme/net/mpi/mpi.h"

namespace trireme::net {
namespace mpi {
namespace {

constexpr int kMaxSmallInFlight = 64;  // per peer; more wait, uncompleted
constexpr std::size_t kMaxControlQueue = 4096;
// After the last progress the loop turns for this long while work is outstanding, then it sleeps.
constexpr TimeNs kSpin = 100 * kMicro;
constexpr TimeNs kFirstSleep = 50 * kMicro, kLongestSleep = kMilli, kIdleSleep = 4 * kMilli;
constexpr TimeNs kIdleAfter = 50 * kMilli;  // without progress, however much is outstanding
// How long poison waits for transfers that both sides have begun. Beyond, the other side is mute: MPI is then
// never entered again, so that nothing touches the callers' memory.
constexpr TimeNs kDrainPatience = 200 * kMilli;
constexpr TimeNs kByePatience = 500 * kMilli;

}  // namespace

MpiTransport::MpiTransport(runtime::Runtime& rt, const ConnectOptions& options,
                           std::shared_ptr<MpiEnvironment> environment)
    : endpoint_(std::make_shared<Endpoint>(rt, options.rank, options.world, options.epoch)),
      port_(std::move(environment), options.world),
      peers_(static_cast<std::size_t>(options.world)) {
  rt.network().add_poller(this);
}

MpiTransport::~MpiTransport() {
  rt().network().remove_poller(this);
  if (timer_ != 0) rt().cancel_timer(timer_);
  const bool failed = poisoning() || !port_.opened();
  const bool unfinished = callers_memory_in_use();
  endpoint_->close();
  closing_ = true;
  if (!dead_ && port_.opened()) say_bye();
  if (failed || unfinished || dead_) port_.environment().spoil();
}

// After the last control messages (a farewell, a verdict). Small messages leave eagerly, so this takes
// microseconds unless a peer is mute.
void MpiTransport::say_bye() {
  push_control();
  for (int to = 0; to < world(); ++to) {
    if (to == rank() || peer(to).data_ended) continue;
    MpiHeader bye;
    bye.kind = Kind::kBye;
    port_.send_small(to, kDataTag, bye, {});
    port_.send_small(to, kControlTag, bye, {});
  }
  const TimeNs until = rt().now() + kByePatience;
  while (port_.small_in_flight() > 0 && rt().now() < until) port_.poll(*this);
}

runtime::Task<Status> MpiTransport::open(TimeNs deadline) {
  TR_CO_RETURN_IF_ERROR(port_.open());
  // The poller turns the loop; a look now and then is enough for the few who come late.
  while (!port_.opened() && rt().now() < deadline) co_await rt().sleep_for(kFirstSleep);
  if (port_.opened()) co_return ok_status();
  co_return error(Code::kDeadline,
                  "[net] rank {} waited for the other {} ranks of MPI: not all came in time; see their logs",
                  rank(), world() - 1);
}

// ---- Sending

void MpiTransport::send(int to, const Identity& id, const Fingerprint& fp, View view, Completion* done,
                        std::uint64_t cookie) {
  if (!poison_.ok()) return endpoint_->complete_later(done, cookie, poison_);
  if (!endpoint_->check_call(to, id, done, cookie)) return;
  if (!peer(to).broken.ok()) return endpoint_->complete_later(done, cookie, peer(to).broken);
  MpiHeader header;
  header.high = id.high();
  header.low = id.low();
  header.fingerprint = fp.pack();
  header.bytes = view.bytes;
  header.phantom = view.bytes > 0 && view.data == nullptr ? 1 : 0;
  bytes_sent_ += sizeof(header) + view.bytes;
  const SendToken token = endpoint_->begin_send(done, cookie);
  if (to == rank()) return send_to_self(id, header.fingerprint, view, header.phantom != 0, token);
  if (header.phantom == 0 && view.bytes > kInlineBytes) {
    header.kind = Kind::kOffer;
    header.slot = new_outgoing(to, view, token);
    header.generation = outgoing_[header.slot].generation;
  }
  peer(to).queue.push_back({header, view.data, token});
  local_work_ = true;
}

void MpiTransport::send_to_self(const Identity& id, std::uint64_t fingerprint, View view, bool phantom,
                                SendToken token) {
  auto arrival = std::make_shared<Arrival>();
  arrival->peer = rank();
  arrival->id = id;
  arrival->fingerprint = fingerprint;
  arrival->bytes = view.bytes;
  if (!phantom && view.bytes > 0) {
    arrival->data = pool_.take(view.bytes);
    std::memcpy(arrival->data.get(), view.data, view.bytes);
  }
  rt().post([this, endpoint = endpoint_, arrival] {
    if (!endpoint->closed()) arrived(arrival);
  });
  endpoint_->end_send_later(token, ok_status());
}

std::uint32_t MpiTransport::new_outgoing(int to, View view, SendToken token) {
  if (free_outgoing_.empty()) {
    free_outgoing_.push_back(static_cast<std::uint32_t>(outgoing_.size()));
    outgoing_.emplace_back();
  }
  const std::uint32_t slot = free_outgoing_.back();
  free_outgoing_.pop_back();
  Outgoing& out = outgoing_[slot];
  TR_CHECK(slot < port_.max_slots(), "more outstanding sends than MPI has tags: {}", slot);
  out.peer = to;
  out.data = view.data;
  out.bytes = view.bytes;
  out.token = token;
  out.state = Outgoing::State::kOffered;
  return slot;
}

void MpiTransport::free_outgoing(std::uint32_t slot) {
  outgoing_[slot].state = Outgoing::State::kFree;
  ++outgoing_[slot].generation;
  free_outgoing_.push_back(slot);
}

bool MpiTransport::push_queue(int to) {
  std::deque<Queued>& queue = peer(to).queue;
  bool any = false;
  while (!queue.empty() && port_.small_in_flight(to) < kMaxSmallInFlight) {
    const Queued& q = queue.front();
    const bool with_payload = q.header.kind == Kind::kData && q.header.phantom == 0 && q.header.bytes > 0;
    port_.send_small(to, kDataTag, q.header, with_payload ? ByteView(q.data, q.header.bytes) : ByteView());
    if (q.header.kind == Kind::kData) endpoint_->end_send_later(q.token, ok_status());
    queue.pop_front();
    any = true;
  }
  return any;
}

void MpiTransport::answer(Kind kind, int to, std::uint32_t slot, std::uint32_t generation) {
  MpiHeader header;
  header.kind = kind;
  header.slot = slot;
  header.generation = generation;
  answers_.emplace_back(to, header);
  local_work_ = true;
}

bool MpiTransport::push_control() {
  const auto messages = std::exchange(control_out_, {});
  for (const auto& [to, bytes] : messages) {
    MpiHeader header;
    header.kind = Kind::kControl;
    header.bytes = bytes.size();
    port_.send_small(to, kControlTag, header, bytes);
  }
  return !messages.empty();
}

// Everything that callers, completions and arrivals left to be done with MPI.
bool MpiTransport::push_local_work() {
  local_work_ = false;
  bool any = push_control();
  any |= start_incoming();
  for (const auto& [to, header] : std::exchange(answers_, {})) {
    port_.send_small(to, kDataTag, header, {});
    any = true;
  }
  for (int to = 0; to < world(); ++to)
    if (!peer(to).queue.empty()) any |= push_queue(to);
  for (const std::uint32_t slot : std::exchange(new_window_ops_, {})) {
    WindowOp& op = window_ops_[slot];
    op.started = true;
    ++moving_;
    const std::uint64_t id = ended_id(Ended::kWindowOp, slot);
    if (op.is_put)
      port_.put(op.window, op.peer, op.offset, op.view.data, op.view.bytes, id);
    else
      port_.get(op.window, op.peer, op.offset, op.view.data, op.view.bytes, id);
    any = true;
  }
  return any;
}

void MpiTransport::send_control(int to, ByteView bytes) {
  TR_CHECK(to >= 0 && to < world() && bytes.size() <= kMaxControlBytes, "peer {}, {} bytes", to,
           bytes.size());
  bytes_sent_ += sizeof(MpiHeader) + bytes.size();
  Bytes copy(bytes.begin(), bytes.end());
  if (to != rank()) {
    if (dead_ || control_out_.size() >= kMaxControlQueue) return;  // best effort
    control_out_.emplace_back(to, std::move(copy));
    local_work_ = true;
    return;
  }
  rt().post(
      [endpoint = endpoint_, copy = std::move(copy)] { endpoint->control_on_loop(endpoint->rank(), copy); });
}

void MpiTransport::set_control_handler(std::function<void(int, ByteView)> handler) {
  endpoint_->set_control_handler(std::move(handler));
}

void MpiTransport::set_closed_handler(std::function<void(int)> handler) {
  endpoint_->set_closed_handler(std::move(handler));
}

// ---- Progress

void MpiTransport::on_finished(std::uint64_t id, bool ok) {
  const auto slot = static_cast<std::uint32_t>(id);
  const auto what = static_cast<Ended>(id >> 32);
  if (what != Ended::kBarrier) --moving_;
  switch (what) {
    case Ended::kOutgoing: {
      const Outgoing out = outgoing_[slot];
      free_outgoing(slot);
      if (closing_) return;
      if (!ok) on_broken(out.peer);
      endpoint_->end_send_later(out.token, ok ? ok_status() : peer(out.peer).broken);
      break;
    }
    case Ended::kIncoming:
      incoming_finished(slot, ok);
      break;
    case Ended::kWindowOp:
      window_op_finished(slot, ok);
      break;
    case Ended::kBarrier:
      if (barrier_ != nullptr)
        barrier_->set(ok ? ok_status() : Status(Code::kPeerLost, "[net] the barrier before a window failed"));
      break;
  }
}

bool MpiTransport::work_is_outstanding() const {
  if (recvs_waiting_ > 0 || barrier_ != nullptr || !offered_.empty() || !port_.opened() || !poison_.ok())
    return true;
  return outgoing_.size() > free_outgoing_.size() || incoming_.size() > free_incoming_.size() ||
         window_ops_.size() > free_window_ops_.size() || port_.small_in_flight() > 0;
}

// True: look again at once. Otherwise a timer is set for the next look.
bool MpiTransport::pace(TimeNs now, bool progress) {
  const bool outstanding = work_is_outstanding();
  if (progress) {
    last_progress_ = now;
    sleep_ = kFirstSleep / 2;
  }
  // MPI moves a payload in many small steps, of which no event tells.
  if (moving_ > 0 || (outstanding && now - last_progress_ < kSpin)) {
    next_look_ = 0;
    return true;
  }
  const bool waiting = (outstanding || has_windows_) && now - last_progress_ < kIdleAfter;
  sleep_ = std::min(2 * sleep_, waiting ? kLongestSleep : kIdleSleep);
  next_look_ = now + sleep_;
  look_at_next_look();
  return progress;
}

void MpiTransport::look_at_next_look() {
  if (timer_ != 0 && timer_at_ <= next_look_) return;
  if (timer_ != 0) rt().cancel_timer(timer_);
  timer_at_ = next_look_;
  timer_ = rt().call_at(next_look_, [this] { timer_ = 0; });  // the turn that runs it polls
}

bool MpiTransport::poll_on_loop() {
  if (dead_) return false;
  const TimeNs now = rt().now();
  if (!local_work_ && now < next_look_) {
    look_at_next_look();
    return false;
  }
  bool progress = false;
  if (port_.opened()) progress |= push_local_work();
  progress |= port_.poll(*this);
  pull_old_offers();
  if (port_.opened() && local_work_) progress |= push_local_work();
  end_poison_if_drained();
  const bool again = !dead_ && pace(now, progress);
  return deliver_notices() || again;
}

// The handlers run last and may destroy this.
bool MpiTransport::deliver_notices() {
  const std::shared_ptr<Endpoint> endpoint = endpoint_;
  const auto control = std::exchange(control_in_, {});
  const std::vector<int> ended = std::exchange(ended_peers_, {});
  for (const auto& [from, bytes] : control) endpoint->control_on_loop(from, bytes);
  for (const int from : ended) endpoint->closed_on_loop(from);
  return !control.empty() || !ended.empty();
}

// ---- The end

bool MpiTransport::callers_memory_in_use() const {
  const auto sending = [](const Outgoing& out) { return out.state == Outgoing::State::kSending; };
  const auto receiving = [](const Incoming& in) { return in.state == Incoming::State::kPosted && in.recv; };
  const auto moving = [](const WindowOp& op) { return op.done != nullptr && op.started; };
  return std::any_of(outgoing_.begin(), outgoing_.end(), sending) ||
         std::any_of(incoming_.begin(), incoming_.end(), receiving) ||
         std::any_of(window_ops_.begin(), window_ops_.end(), moving);
}

void MpiTransport::poison(Status reason, Callback drained) {
  if (endpoint_->poisoned()) {
    endpoint_->poison(std::move(reason), std::move(drained));
    return;
  }
  drained_.push_back(std::move(drained));
  if (!poison_.ok()) return;
  poison_ = std::move(reason);
  poison_until_ = rt().now() + kDrainPatience;
  if (barrier_ != nullptr) barrier_->set(poison_);
  for (Peer& p : peers_) p.queue.clear();
  offered_.clear();
  chosen_.clear();
  new_window_ops_.clear();
  if (!callers_memory_in_use()) return end_poison();
  // What a peer has not begun to send can be taken back; the rest ends by itself, or the peer is mute.
  for (std::uint32_t slot = 0; slot < incoming_.size(); ++slot)
    if (incoming_[slot].state == Incoming::State::kPosted)
      port_.cancel_recv(ended_id(Ended::kIncoming, slot));
  next_look_ = 0;
  local_work_ = true;
}

void MpiTransport::end_poison_if_drained() {
  if (poison_.ok() || endpoint_->poisoned()) return;
  const bool in_use = callers_memory_in_use();
  if (in_use && rt().now() < poison_until_) return;
  if (in_use) dead_ = true;
  end_poison();
}

void MpiTransport::end_poison() {
  for (Incoming& in : incoming_) {
    if (in.state == Incoming::State::kFree) continue;
    std::optional<PendingRecv> recv = std::exchange(in.recv, std::nullopt);
    if (in.arrival && in.arrival->recv) recv = std::exchange(in.arrival->recv, std::nullopt);
    if (recv) endpoint_->complete_later(recv->done, recv->cookie, poison_);
  }
  for (WindowOp& op : window_ops_)
    if (op.done != nullptr) endpoint_->complete_later(std::exchange(op.done, nullptr), op.cookie, poison_);
  recvs_waiting_ = 0;
  for (Callback& drained : std::exchange(drained_, {})) endpoint_->poison(poison_, std::move(drained));
}

}  // namespace mpi

runtime::Task<Result<std::unique_ptr<Transport>>> connect_mpi(runtime::Runtime& rt, ConnectOptions options) {
  if (rt.is_virtual())
    co_return error(Code::kUnavailable,
                    "[net] transport 'mpi' needs real processes; use inproc or tcp on a virtual cluster");
  auto environment = mpi::start_environment();
  if (!environment.ok()) co_return environment.status();
  const mpi::MpiEnvironment& mpi = **environment;
  if (options.rank != mpi.rank() || options.world > mpi.world())
    co_return error(
        Code::kInvalid,
        "[net] MPI disagrees on who this is: got rank {} of {}, expected rank {} of {} as mpirun started it; "
        "start as many processes as there are workers",
        options.rank, options.world, mpi.rank(), mpi.world());
  const TimeNs deadline = rt.now() + options.deadline;
  auto transport = std::make_unique<mpi::MpiTransport>(rt, options, std::move(environment).value());
  const Status opened = co_await transport->open(deadline);
  if (!opened.ok()) co_return opened;
  co_return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace trireme::net
