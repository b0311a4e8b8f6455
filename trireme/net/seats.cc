#include "trireme/net/seats.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/net/endpoint_transport.h"

namespace trireme::net {
namespace {

// A group of the job in the low bits, then the place of the sender among the seats of its process, then that
// of the receiver.
constexpr int kGroupBits = 6, kPlaceBits = 5;
static_assert(kMostSeats == 1 << kPlaceBits && kGroupBits + 2 * kPlaceBits == 16);
// Groups above the others are counted from the end: letters have one.
constexpr std::uint16_t kLowGroups = 48, kHighGroups = (1 << kGroupBits) - kLowGroups;

std::uint16_t group_code(std::uint16_t group) {
  if (group < kLowGroups) return group;
  const int from_end = 0xFFFF - group;
  TR_CHECK(from_end < kHighGroups, "group {} cannot go between seats", group);
  return static_cast<std::uint16_t>(kLowGroups + from_end);
}
std::uint16_t group_of(std::uint16_t code) {
  return code < kLowGroups ? code : static_cast<std::uint16_t>(0xFFFF - (code - kLowGroups));
}

struct Way {
  int from = 0, to = 0;  // places among the seats of their processes
};
std::uint16_t packed(std::uint16_t group, Way way) {
  return static_cast<std::uint16_t>(group_code(group) | way.from << kGroupBits |
                                    way.to << (kGroupBits + kPlaceBits));
}
Way way_of(std::uint16_t packed) {
  const int mask = kMostSeats - 1;
  return {packed >> kGroupBits & mask, packed >> (kGroupBits + kPlaceBits) & mask};
}

// Ranks of sender and receiver, before a control message.
struct ControlHead {
  std::uint16_t from = 0, to = 0;
};

}  // namespace

// What a seat has under way with other processes. Completions reach whoever waits as long as the seat is
// there.
class Relay final : public Completion {
 public:
  std::uint64_t add(Completion* done, std::uint64_t cookie) {
    ++outstanding_;
    const Slot slot{done, cookie};
    if (free_.empty()) {
      slots_.push_back(slot);
      return slots_.size() - 1;
    }
    const std::uint64_t at = free_.back();
    free_.pop_back();
    slots_[at] = slot;
    return at;
  }
  // Nobody waits any more.
  void close() {
    for (Slot& slot : slots_) slot.done = nullptr;
  }
  bool is_idle() const { return outstanding_ == 0; }

  void on_complete(std::uint64_t at, const Status& status) override {
    const Slot slot = slots_[at];
    free_.push_back(at);
    --outstanding_;
    if (slot.done != nullptr) slot.done->on_complete(slot.cookie, status);
  }
  void on_piece(std::uint64_t at, std::uint64_t bytes) override {
    if (slots_[at].done != nullptr) slots_[at].done->on_piece(slots_[at].cookie, bytes);
  }

 private:
  struct Slot {
    Completion* done = nullptr;
    std::uint64_t cookie = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> free_;
  std::size_t outstanding_ = 0;
};

// What the seats of a process share. It hands control messages and closed processes on.
class SeatHub {
 public:
  SeatHub(runtime::Runtime& rt, std::unique_ptr<Transport> transport, std::vector<int> processes,
          std::uint32_t epoch)
      : rt_(rt), processes_(std::move(processes)), epoch_(epoch), transport_(std::move(transport)) {
    std::vector<int> seated(static_cast<std::size_t>(transport_->world()), 0);
    for (const int process : processes_) places_.push_back(seated[static_cast<std::size_t>(process)]++);
    seats_.resize(processes_.size());
    relays_.resize(processes_.size());
    transport_->set_control_handler([this](int, ByteView bytes) { control_on_loop(bytes); });
    transport_->set_closed_handler([this](int process) { closed_on_loop(process); });
  }

  runtime::Runtime& rt() { return rt_; }
  Transport& transport() { return *transport_; }
  std::uint32_t epoch() const { return epoch_; }
  int world() const { return static_cast<int>(processes_.size()); }
  int process_of(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  bool is_here(int rank) const { return process_of(rank) == transport_->rank(); }
  Way way(int from, int to) const {
    return {places_[static_cast<std::size_t>(from)], places_[static_cast<std::size_t>(to)]};
  }
  std::vector<int> ranks_of(int process) const {
    std::vector<int> ranks;
    for (int r = 0; r < world(); ++r)
      if (process_of(r) == process) ranks.push_back(r);
    return ranks;
  }
  Relay& relay(int rank) { return relays_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<Endpoint> seat(int rank) const { return seats_[static_cast<std::size_t>(rank)].lock(); }
  void sit(int rank, const std::shared_ptr<Endpoint>& endpoint) {
    seats_[static_cast<std::size_t>(rank)] = endpoint;
  }

  // Messages of other processes for that rank, which no recv has taken.
  void visit_waiting(int rank, const Transport::WaitingVisitor& visit) const {
    transport_->visit_waiting([&](int process, const Identity& id, const Fingerprint& fingerprint) {
      const Way way = way_of(id.group);
      if (way.to != places_[static_cast<std::size_t>(rank)]) return;
      Identity plain = id;
      plain.group = group_of(id.group & ((1 << kGroupBits) - 1));
      for (const int from : ranks_of(process))
        if (places_[static_cast<std::size_t>(from)] == way.from) visit(from, plain, fingerprint);
    });
  }

  void send_control(int from, int to, ByteView bytes) {
    const ControlHead head{static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to)};
    Bytes all(sizeof(head) + bytes.size());
    std::memcpy(all.data(), &head, sizeof(head));
    if (!bytes.empty()) std::memcpy(all.data() + sizeof(head), bytes.data(), bytes.size());
    transport_->send_control(process_of(to), all);
  }

 private:
  void control_on_loop(ByteView bytes) const {
    ControlHead head;
    if (bytes.size() < sizeof(head)) return;
    std::memcpy(&head, bytes.data(), sizeof(head));
    if (head.from >= world() || head.to >= world() || !is_here(head.to)) return;
    if (const auto endpoint = seat(head.to))
      endpoint->control_on_loop(head.from, bytes.subspan(sizeof(head)));
  }
  void closed_on_loop(int process) const {
    for (const int seated : ranks_of(transport_->rank()))
      if (const auto endpoint = seat(seated))
        for (const int gone : ranks_of(process)) endpoint->closed_on_loop(gone);
  }

  runtime::Runtime& rt_;
  const std::vector<int> processes_;  // by rank
  const std::uint32_t epoch_;
  std::vector<int> places_;  // by rank, among the seats of its process
  std::vector<std::weak_ptr<Endpoint>> seats_;
  std::vector<Relay> relays_;                   // by rank
  const std::unique_ptr<Transport> transport_;  // goes first: it knows the relays
};

namespace {

class Seat final : public EndpointTransport {
 public:
  Seat(std::shared_ptr<SeatHub> hub, int rank)
      : EndpointTransport(hub->rt(), rank, hub->world(), hub->epoch()), hub_(std::move(hub)) {
    hub_->sit(rank, endpoint_);
  }
  // Memory of what is under way is not this seat's any more: nothing of the process goes on.
  ~Seat() override {
    endpoint_->close();
    Relay& relay = hub_->relay(rank());
    relay.close();
    if (!relay.is_idle())
      hub_->transport().poison(error(Code::kCancelled, "[net] rank {} ended before its messages", rank()),
                               {});
  }

  std::string_view name() const override { return hub_->transport().name(); }
  Capabilities capabilities() const override { return {}; }
  int host_of(int peer) const override {
    const auto host = [this](int r) { return hub_->transport().host_of(hub_->process_of(r)); };
    int first = 0;
    while (host(first) != host(peer)) ++first;
    return first;
  }

  void send(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(peer, id, done, cookie)) return;
    if (hub_->is_here(peer)) return send_here(peer, id, fp, view, done, cookie);
    bytes_sent_ += view.bytes + kHeaderBytes;
    hub_->transport().send(hub_->process_of(peer), between(rank(), peer, id), fp, view, &hub_->relay(rank()),
                           hub_->relay(rank()).add(done, cookie));
  }

  void recv(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(peer, id, done, cookie)) return;
    if (hub_->is_here(peer))
      endpoint_->recv(peer, id, fp.pack(), view, done, cookie);
    else
      hub_->transport().recv(hub_->process_of(peer), between(peer, rank(), id), fp, view,
                             &hub_->relay(rank()), hub_->relay(rank()).add(done, cookie));
  }

  // A verdict is about the whole job: no seat of the process goes on.
  void poison(Status reason, Callback drained) override {
    const auto left = std::make_shared<int>(2);
    const auto last = std::make_shared<Callback>(std::move(drained));
    const auto one = [left, last] {
      if (--*left == 0 && *last) (*last)();
    };
    hub_->transport().poison(reason, one);
    endpoint_->poison(std::move(reason), one);
  }

  std::size_t most_control_bytes() const override { return kMaxControlBytes - sizeof(ControlHead); }
  void send_control(int peer, ByteView bytes) override {
    TR_CHECK(peer >= 0 && peer < world() && bytes.size() <= most_control_bytes(), "peer {}, {} bytes", peer,
             bytes.size());
    hub_->send_control(rank(), peer, bytes);
  }

  void visit_waiting(const WaitingVisitor& visit) const override {
    EndpointTransport::visit_waiting(visit);
    hub_->visit_waiting(rank(), visit);
  }
  Motion motion() const override { return hub_->transport().motion(); }  // of all seats of the process

 private:
  static constexpr std::uint64_t kHeaderBytes = 48;

  Identity between(int from, int to, Identity id) const {
    id.group = packed(id.group, hub_->way(from, to));
    return id;
  }

  void send_here(int peer, const Identity& id, const Fingerprint& fp, const View& view, Completion* done,
                 std::uint64_t cookie) {
    auto message = std::make_shared<ArrivedMessage>(ArrivedMessage{fp.pack(), nullptr, view.bytes});
    if (view.bytes > 0 && !is_phantom(view)) {
      auto copy = pool_.take(view.bytes);
      std::memcpy(copy.get(), view.data, view.bytes);
      message->payload = std::move(copy);
    }
    endpoint_->rt().post([hub = hub_, from = rank(), peer, id, message] {
      if (const auto to = hub->seat(peer)) to->arrived_on_loop(from, id, std::move(*message));
    });
    endpoint_->end_send_later(endpoint_->begin_send(done, cookie), ok_status());
  }

  const std::shared_ptr<SeatHub> hub_;
};

}  // namespace

Seats::Seats(std::shared_ptr<SeatHub> hub)
    : hub_(std::move(hub)), own_(hub_->ranks_of(hub_->transport().rank())) {}

Result<std::unique_ptr<Seats>> Seats::make(runtime::Runtime& rt, std::unique_ptr<Transport> transport,
                                           std::vector<int> processes, std::uint32_t epoch) {
  for (int p = 0; p < transport->world(); ++p) {
    const auto seats = std::count(processes.begin(), processes.end(), p);
    if (seats < 1 || seats > kMostSeats)
      return error(Code::kInvalid, "[net] process {} has {} ranks, expected 1 to {}", p, seats, kMostSeats);
  }
  const bool known = std::all_of(processes.begin(), processes.end(),
                                 [&](int p) { return p >= 0 && p < transport->world(); });
  TR_CHECK(known && processes.size() <= UINT16_MAX, "{} ranks in {} processes", processes.size(),
           transport->world());
  return std::unique_ptr<Seats>(
      new Seats(std::make_shared<SeatHub>(rt, std::move(transport), std::move(processes), epoch)));
}

std::unique_ptr<Transport> Seats::take(int rank) {
  TR_CHECK(hub_->is_here(rank) && hub_->seat(rank) == nullptr, "rank {} has no free seat here", rank);
  return std::make_unique<Seat>(hub_, rank);
}

}  // namespace trireme::net
