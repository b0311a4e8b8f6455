// Port: one communicator as the transport sees it: small messages in both directions, payloads of any size in
// pieces, a barrier, windows. MPI is entered from here only. Internal to net/mpi.
#pragma once

#include <memory>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/net/mpi/environment.h"
#include "trireme/net/mpi/wire.h"

namespace trireme::net::mpi {

class Port {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // The header was checked: magic, kind, and sizes that fit what came.
    virtual void on_small(int peer, int tag, const MpiHeader& header, ByteView payload) = 0;
    virtual void on_finished(std::uint64_t id, bool ok) = 0;
    virtual void on_nonsense(int peer) = 0;
    virtual void on_broken(int peer) = 0;  // MPI cannot reach it
  };

  Port(std::shared_ptr<MpiEnvironment> environment, int world);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  ~Port();  // forgets what is outstanding

  // Starts to make the communicator; opened() after all ranks did and poll() saw it.
  Status open();
  bool opened() const { return opened_; }
  MpiEnvironment& environment() { return *environment_; }
  std::uint32_t max_slots() const { return max_slots_; }  // tags for payloads

  // Copies. `payload` has at most kInlineBytes.
  void send_small(int peer, int tag, const MpiHeader& header, ByteView payload);
  int small_in_flight(int peer) const { return in_flight_[static_cast<std::size_t>(peer)]; }
  int small_in_flight() const { return all_in_flight_; }

  // Straight from and into `data`, in pieces where MPI's counts end. on_finished(id) once.
  void send_payload(int peer, std::uint32_t slot, const std::byte* data, std::uint64_t bytes,
                    std::uint64_t id);
  void recv_payload(int peer, std::uint32_t slot, std::byte* data, std::uint64_t bytes, std::uint64_t id);
  void cancel_recv(std::uint64_t id);  // on_finished comes all the same
  void barrier(std::uint64_t id);

  Result<TriremeMpiWindow*> allocate(std::uint64_t bytes, std::byte** local);
  void put(TriremeMpiWindow* window, int peer, std::uint64_t offset, const std::byte* from,
           std::uint64_t bytes, std::uint64_t id);
  void get(TriremeMpiWindow* window, int peer, std::uint64_t offset, std::byte* into, std::uint64_t bytes,
           std::uint64_t id);
  bool flush(TriremeMpiWindow* window, int peer) { return calls_.win_flush(window, peer) == 0; }

  // Moves what can be moved; true when something did.
  bool poll(Listener& listener);

 private:
  enum class Use : std::uint8_t { kOpen, kInbox, kSmallSend, kOp };
  static constexpr std::uint64_t cookie(Use use, std::size_t index) {
    return (static_cast<std::uint64_t>(use) << 56) | index;
  }

  // A message matches the recvs in the order they were posted, so they are emptied in that order too.
  struct InboxSlot {
    std::unique_ptr<std::byte[]> data;
    std::uint64_t bytes = 0;
    int source = 0;
    bool arrived = false;
  };
  struct Inbox {
    int tag = 0;
    std::vector<InboxSlot> slots;
    std::size_t head = 0;
  };
  struct SmallSend {
    std::unique_ptr<std::byte[]> data;
    int peer = 0;
  };
  struct Op {
    std::uint64_t id = 0;
    std::uint32_t pieces = 0;  // outstanding; 0: free
    bool failed = false;
  };

  void post(std::size_t inbox, std::size_t slot);
  std::size_t new_op(std::uint64_t id);
  void note_piece(std::size_t op, int failure);
  void end_if_empty(std::size_t op);
  void handle(const TriremeMpiEvent& event, Listener& listener);
  void opened_on_loop();
  bool drain(std::size_t inbox, Listener& listener);
  bool deliver(const InboxSlot& slot, int tag, Listener& listener);

  std::shared_ptr<MpiEnvironment> environment_;
  const TriremeMpiCalls& calls_;
  const int world_;
  TriremeMpi* mpi_ = nullptr;
  bool opened_ = false;
  std::uint32_t max_slots_ = 0;
  Inbox inboxes_[2];  // data, control
  std::vector<SmallSend> sends_;
  std::vector<std::size_t> free_sends_;
  std::vector<int> in_flight_;  // small messages, per peer
  int all_in_flight_ = 0;
  std::vector<Op> ops_;
  std::vector<std::size_t> free_ops_;
  std::vector<std::pair<std::uint64_t, bool>> finished_;  // ended without an event of MPI
  std::vector<TriremeMpiEvent> events_;
};

}  // namespace trireme::net::mpi
