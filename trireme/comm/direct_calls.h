// DirectCalls: which calls of a group run through shared memory, and who waits for them. Every rank decides
// the same by what all ranks give alike: kind, algorithm, slot, leaf runs.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/calls.h"
#include "trireme/comm/direct.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {

class DirectCalls final : private Direct::Listener {
 public:
  // The group that owns it.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_direct_progress() = 0;
    virtual void on_direct_ended() = 0;
    virtual void on_direct_failed(int peer, const std::string& operation, const Status& status) = 0;
  };

  // null: the transport has no memory that all ranks see, or there are too many of them.
  static std::unique_ptr<DirectCalls> make(runtime::Runtime& rt, net::Transport& transport, TimeNs spin_ns,
                                           Owner& owner);
  DirectCalls(runtime::Runtime& rt, net::Window& window, int rank, int world, TimeNs spin_ns, Owner& owner);

  bool takes(const Request& r);
  // Precondition: takes(r), and its tensors were checked. nullopt: under way, wait(). Otherwise it has ended.
  struct Started {
    std::optional<Status> ended;
    std::uint32_t number = 0;
  };
  Started start(Request& r, const net::Identity& id, const net::Fingerprint& fingerprint,
                const Combine& combine, std::uint64_t serial);
  // Ends with the call, or with what end_all was given.
  runtime::Task<Status> wait(std::uint32_t number);

  void end_all(const Status& verdict);

  // The oldest call under way: its serial number (0: there is none), whom it waits for and what it is.
  std::uint64_t oldest_serial() const { return active_.empty() ? 0 : slots_[active_.front()].serial; }
  int waits_for() const;
  std::string operation() const { return slots_[active_.front()].operation(); }
  std::uint64_t bytes_laid() const { return direct_.bytes_laid(); }

 private:
  struct Slot {
    runtime::OneShot<Status>* done = nullptr;  // in the frame of wait(); null: nobody waits
    std::optional<Status> ended;
    std::uint64_t serial = 0;
    int lane = 0;
    collective::Kind kind = collective::Kind::kAllreduce;  // as told to the others
    CallTime time;
    std::string label;
    std::array<Tensor, 2> keep = {};  // what it works on, in case that the caller goes
    std::string operation() const { return operation_text(kind, label, time); }
  };
  struct Order {
    std::vector<collective::LeafRun> runs;
    std::int32_t num_leaves;
    std::unique_ptr<TreeSum> sum;  // null: not for Direct
    std::uint64_t hash = 0;        // of the runs
  };

  const Order& order_of(const Call& call);
  void end(std::uint32_t number, const Status& status);
  void on_direct_ended(std::uint64_t cookie) override;
  void on_direct_failed(std::uint64_t cookie, int peer, const Status& status) override;
  void on_direct_progress() override { owner_.on_direct_progress(); }

  runtime::Runtime& rt_;
  const int world_;
  Owner& owner_;
  Direct direct_;
  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> active_;  // in order of their calls
  std::vector<Order> orders_;
};

}  // namespace trireme::comm
