// The Transport over a Port. Internal to net/mpi.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/net/buffer_pool.h"
#include "trireme/net/endpoint.h"
#include "trireme/net/factory.h"
#include "trireme/net/mpi/port.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/sync.h"

namespace trireme::net::mpi {

inline constexpr std::uint64_t kMaxHeldBytes = 256U << 20;

// What a Port calls when something ended.
enum class Ended : std::uint8_t { kOutgoing, kIncoming, kWindowOp, kBarrier };
constexpr std::uint64_t ended_id(Ended what, std::uint32_t slot) {
  return (static_cast<std::uint64_t>(what) << 32) | slot;
}

// A message that came before its recv. The Matcher holds it as the payload of an ArrivedMessage.
struct Arrival {
  enum class State : std::uint8_t { kHeld, kOffered, kPulling, kTaken } state = State::kHeld;
  int peer = 0;
  Identity id;
  std::uint64_t fingerprint = 0, bytes = 0;
  std::uint32_t slot = 0, generation = 0;  // of the offer
  TimeNs came_at = 0;
  bool counted = false;             // in held_bytes of the peer
  std::shared_ptr<std::byte> data;  // kHeld: the payload (null: empty or phantom); kPulling: where it goes
  std::optional<PendingRecv> recv;  // came while it was being pulled
};

class MpiTransport final : public Transport, private runtime::Poller, private Port::Listener {
 public:
  MpiTransport(runtime::Runtime& rt, const ConnectOptions& options,
               std::shared_ptr<MpiEnvironment> environment);
  ~MpiTransport() override;

  runtime::Task<Status> open(TimeNs deadline);

  int rank() const override { return endpoint_->rank(); }
  int world() const override { return endpoint_->world(); }
  std::string_view name() const override { return "mpi"; }
  Capabilities capabilities() const override { return {.peer_memory = false, .one_sided = true}; }
  void send(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override;
  void recv(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override;
  void poison(Status reason, Callback drained) override;
  void send_control(int peer, ByteView bytes) override;
  void set_control_handler(std::function<void(int, ByteView)> handler) override;
  void set_closed_handler(std::function<void(int)> handler) override;
  runtime::Task<Result<std::unique_ptr<Window>>> make_window(std::uint64_t bytes, TimeNs deadline) override;
  void visit_waiting(const WaitingVisitor& visit) const override {
    endpoint_->matcher().visit_arrived(visit);
  }
  Motion motion() const override { return {.moved_bytes = 0, .on_the_way = moving_ > 0}; }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

  // For windows; the completion comes from the loop.
  void start_window_op(TriremeMpiWindow* window, bool is_put, int peer, std::uint64_t offset, View view,
                       Completion* done, std::uint64_t cookie);
  Endpoint& endpoint() { return *endpoint_; }

 private:
  struct Queued {
    MpiHeader header;
    const std::byte* data;
    SendToken token;
  };
  struct Peer {
    std::deque<Queued> queue;  // data and offers, in order
    bool data_ended = false, control_ended = false;
    std::uint64_t held_bytes = 0;
    Status broken;
  };
  struct Outgoing {
    int peer = 0;
    const std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    SendToken token;
    std::uint32_t generation = 0;
    enum class State : std::uint8_t { kFree, kOffered, kSending } state = State::kFree;
  };
  struct Incoming {
    int peer = 0;
    std::uint32_t slot = 0, generation = 0;  // of the peer's offer
    std::uint64_t bytes = 0;
    std::optional<PendingRecv> recv;   // filled in place
    std::shared_ptr<Arrival> arrival;  // or kept for a later recv
    enum class State : std::uint8_t { kFree, kChosen, kPosted } state = State::kFree;
  };
  struct WindowOp {
    TriremeMpiWindow* window = nullptr;
    int peer = 0;
    bool is_put = false, started = false;
    std::uint64_t offset = 0;
    View view;
    Completion* done = nullptr;  // null: free
    std::uint64_t cookie = 0;
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  runtime::Runtime& rt() { return endpoint_->rt(); }
  bool poisoning() const { return !poison_.ok() || endpoint_->poisoned(); }

  // Sending (mpi_transport.cc)
  void send_to_self(const Identity& id, std::uint64_t fingerprint, View view, bool phantom, SendToken token);
  std::uint32_t new_outgoing(int peer, View view, SendToken token);
  void free_outgoing(std::uint32_t slot);
  bool push_queue(int rank);
  bool push_control();
  bool push_local_work();
  void answer(Kind kind, int peer, std::uint32_t slot, std::uint32_t generation);

  // Receiving (mpi_receive.cc)
  void arrived(std::shared_ptr<Arrival> arrival);
  void arrived_small(int peer, const MpiHeader& header, ByteView payload);
  void deliver(const PendingRecv& recv, const std::shared_ptr<Arrival>& arrival);
  void choose(const std::shared_ptr<Arrival>& arrival, std::optional<PendingRecv> recv);
  void incoming_finished(std::uint32_t slot, bool ok);
  void pull_old_offers();
  bool start_incoming();
  void break_peer(int rank, Code code, const char* what);

  // Port::Listener
  void on_small(int peer, int tag, const MpiHeader& header, ByteView payload) override;
  void on_finished(std::uint64_t id, bool ok) override;
  void on_nonsense(int peer) override { break_peer(peer, Code::kCorrupt, "nonsense in a message header"); }
  void on_broken(int peer) override;

  bool poll_on_loop() override;
  bool work_is_outstanding() const;
  bool pace(TimeNs now, bool progress);
  void look_at_next_look();
  void release(Arrival& arrival);
  bool deliver_notices();
  bool callers_memory_in_use() const;
  void end_poison();
  void end_poison_if_drained();
  void say_bye();
  void window_op_finished(std::uint32_t slot, bool ok);

  std::shared_ptr<Endpoint> endpoint_;
  BufferPool pool_;
  Port port_;
  std::vector<Peer> peers_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::uint32_t> free_outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<std::uint32_t> free_incoming_;
  std::deque<std::uint32_t> chosen_;              // incoming to be posted and cleared
  std::deque<std::shared_ptr<Arrival>> offered_;  // unmatched offers, oldest first
  std::vector<WindowOp> window_ops_;
  std::vector<std::uint32_t> free_window_ops_;
  std::deque<std::uint32_t> new_window_ops_;
  std::deque<std::pair<int, Bytes>> control_out_, control_in_;
  std::vector<std::pair<int, MpiHeader>> answers_;
  std::vector<int> ended_peers_;
  std::uint64_t recvs_waiting_ = 0, bytes_sent_ = 0;
  int moving_ = 0;  // payloads, puts and gets that MPI has begun
  bool local_work_ = false;
  bool has_windows_ = false;
  std::shared_ptr<runtime::OneShot<Status>> barrier_;  // of a window that is being made
  bool barrier_missed_ = false;                        // ranks no longer agree on which barrier is which

  Status poison_;  // not ok while the callers' memory is still in MPI's hands
  std::vector<Callback> drained_;
  TimeNs poison_until_ = 0;
  bool dead_ = false;     // MPI is not entered any more
  bool closing_ = false;  // only small sends still count

  TimeNs last_progress_ = 0, next_look_ = 0, sleep_ = 0;
  runtime::TimerId timer_ = 0;
  TimeNs timer_at_ = 0;
};

std::unique_ptr<Window> make_mpi_window(MpiTransport& transport, std::shared_ptr<Endpoint> endpoint,
                                        TriremeMpiWindow* window, std::byte* local, std::uint64_t bytes);

}  // namespace trireme::net::mpi
