// DirectCalls: which calls of a group and of its sub-groups run through shared memory, and who waits for
// them. Every rank decides the same by what all ranks give alike: kind, algorithm, slot, leaf runs.
//
// Calls of the whole group in slots below Direct::kLanes have a lane from the start. Other sums whose
// algorithm is named get one per (group, slot, shard) at the first call, when the ranks tell each other by
// messages where they have memory for it; where one has none, such calls go by messages.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
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
  DirectCalls(runtime::Runtime& rt, net::Transport& transport, TimeNs spin_ns, Owner& owner);

  bool takes(const Request& r);
  // Where calls like `r` run. Precondition: takes(r).
  struct Place {
    bool asked = false, known = false;
    int lane = -1;                                     // known and -1: by messages
    std::shared_ptr<std::byte> memory;                 // of the lane, here
    std::deque<runtime::OneShot<bool>*> waiting = {};  // calls that came while the ranks told each other
  };
  Place& place_of(const Request& r);
  // Takes memory for a lane: its offset in this rank's part of the window; -1: there is none.
  std::int64_t take_memory(Place& place);
  // What the ranks of `r` told, by rank. Empty: they could not.
  void settle(Place& place, const Request& r, std::span<const std::int64_t> offsets);
  // Precondition: place_of(r) is known and has a lane, and its tensors were checked. nullopt: under way,
  // wait(). Otherwise it has ended.
  struct Started {
    std::optional<Status> ended;
    std::uint32_t number = 0;
  };
  Started start(Request& r, const net::Identity& id, const net::Fingerprint& fingerprint,
                const Combine& combine, std::uint64_t serial);
  // Ends with the call, or with what end_all was given.
  runtime::Task<Status> wait(std::uint32_t number);

  void end_all(const Status& verdict);
  // Calls in which that rank takes part.
  void end_with(int rank, const Status& why);

  // A bit of the serial numbers of calls that were made ahead: they count as younger than others.
  static constexpr std::uint64_t kAheadSerial = std::uint64_t{1} << 62;
  // The oldest call under way: its serial number (0: there is none), whom it waits for and what it is.
  std::uint64_t oldest_serial() const { return active_.empty() ? 0 : oldest().serial; }
  int waits_for() const;
  std::string operation() const { return oldest().operation(); }
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
    int world;
    std::vector<collective::LeafRun> runs;
    std::int32_t num_leaves;
    std::unique_ptr<TreeSum> sum;  // null: not for Direct
    std::uint64_t hash = 0;        // of the runs
  };

  int world_of(const Request& r) const {
    return r.members == nullptr ? transport_.world() : static_cast<int>(r.members->ranks.size());
  }
  const Slot& oldest() const;
  const Order& order_of(const Request& r);
  void end(std::uint32_t number, const Status& status);
  void on_direct_ended(std::uint64_t cookie) override;
  void on_direct_failed(std::uint64_t cookie, int peer, const Status& status) override;
  void on_direct_progress() override { owner_.on_direct_progress(); }

  runtime::Runtime& rt_;
  net::Transport& transport_;
  Owner& owner_;
  Direct direct_;
  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<std::uint32_t> active_;  // in order of their calls
  std::vector<Order> orders_;
  std::deque<Place> slot_places_;                                // of the whole group, by slot
  std::map<std::tuple<int, int, std::uint32_t>, Place> places_;  // by group, slot and shard
  int num_added_ = 0;                                            // lanes
};

}  // namespace trireme::comm
