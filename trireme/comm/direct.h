// Direct: sums through memory that all ranks have mapped (Transport::exchange), without messages.
//
// A call runs in a lane: memory of every rank that takes part. The whole group has one per plan slot below
// kLanes; others are added. Small: every rank lays its input in its lane, says so, waits for
// the others' and adds them all itself (one round). Large: block by block, every rank lays down what the
// others own, adds the chunk that it owns, lays down the sum, and takes the other chunks (two rounds per
// block, several blocks under way). Where everybody's tensors lie in the window themselves
// (Group::allocate), nothing is laid down: every rank adds its chunk of the vector from where the inputs are
// and writes the sum to where the results go. Chunks are added along the fixed tree, so the bits are those of
// the fixed-tree schedule whatever the size.
//
// Who may overwrite what: a rank starts call n + 1 of a lane after it ended call n, and ends call n only when
// everybody has started it. So two places for what a call lays down once are enough. A rank lays block b only
// when it has taken block b - kDepth, so whoever sees block b knows that its sum of block b - kDepth was read
// by that rank. Calls of one slot must start in the same order
// on every rank. Another call in its place is found by the identity and fingerprint that everybody lays down
// first.
//
// Nobody can go on before the last rank has reached a mark, so it alone wakes those that block. A rank that
// has written its mark looks, behind a full fence, whether all others have: of ranks that come at once, at
// least the last one through its fence sees all. The rest pay no system call, and who blocks is woken once.
//
// Everything happens on the loop: in start(), which looks again for a short while, and from the poller.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/store_policy.h"
#include "trireme/comm/tree_sum.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/network.h"

namespace trireme::comm {

struct DirectCall {
  net::Identity id;
  net::Fingerprint fingerprint;
  const std::byte* in = nullptr;  // the caller keeps it and `out` until the call has ended
  std::byte* out = nullptr;       // may be `in`
  std::int64_t count = 0, elem_bytes = 4;
  Combine combine;
  int divide_by = 0;                 // mean: the number of ranks
  TreeSum* order = nullptr;          // outlives the call
  bool two_rounds = false;           // even if it is small
  bool own_chunk = false;            // Call::own_chunk
  std::uint64_t algorithm_hash = 0;  // algorithm and leaf runs, hashed: what else ranks must agree on
  std::uint64_t cookie = 0;          // the caller's
};

struct BlockPartition;
struct LaneMemory;

class Direct final : private runtime::Poller {
 public:
  static constexpr int kLanes = 64;

  class Listener {
   public:
    virtual ~Listener() = default;
    // From the poller. Not for calls that start() reported as ended.
    virtual void on_direct_ended(std::uint64_t cookie) = 0;
    virtual void on_direct_failed(std::uint64_t cookie, int peer, const Status& status) = 0;
    virtual void on_direct_progress() = 0;
  };

  // `window` is the transport's and at least window_bytes(). `spin_ns`: how long start() looks again.
  Direct(runtime::Runtime& rt, net::Window& window, int rank, int world, TimeNs spin_ns, Listener& listener);
  ~Direct() override;
  static std::uint64_t window_bytes();

  // Whether a call of so many bytes may be done in one round.
  static bool is_small(std::int64_t bytes, int world);
  // Memory of a further lane, in this rank's part of the window: so many bytes, cleared before others see it.
  static std::uint64_t lane_bytes();
  static void clear_lane(std::byte* at);
  // A lane of these ranks, this one among them; `offsets`: where each of them has its memory in the window.
  int add_lane(std::span<const int> ranks, std::span<const std::uint64_t> offsets);
  bool is_in_lane(int lane, int rank) const;
  // No elements: a barrier. Precondition: two ranks at least, not abandoned. True: it has ended; otherwise
  // the listener hears. A lane that is taken makes the call wait for its turn.
  bool start(int lane, DirectCall call);
  // The lowest rank that the call in this lane waits for, as of now; -1: for nobody.
  int waits_for(int lane) const;
  // Ends all calls without a word; the window is not touched any more.
  void abandon();
  void abandon_lane(int lane);  // one that is not used again
  std::uint64_t bytes_laid() const { return bytes_laid_; }

 private:
  struct Lane {
    std::vector<int> ranks;           // who takes part
    int me = 0;                       // this rank among them
    std::vector<std::byte*> at;       // memory of each of them
    std::vector<std::byte*> windows;  // the whole part of each of them
    int world() const { return static_cast<int>(ranks.size()); }

    bool active = false, is_small = false;
    DirectCall call;
    std::uint64_t number = 0;         // of calls so far
    std::uint64_t blocks_before = 0;  // of the calls before
    std::uint64_t ring_at = 0;        // where the places of this call begin, in bytes
    std::uint64_t block_bytes = 0, num_places = 0;
    std::int64_t num_blocks = 0, laid = 0, added = 0, taken = 0;
    std::uint64_t own_in_at = 0, own_out_at = 0;
    bool in_place = false;           // everybody's memory is in the window
    std::int64_t next = 0, end = 0;  // in place: what is left of this rank's chunk
    bool streaming = false;          // laid down past the caches
    TimeNs started = 0;              // when everybody was there
    bool checked = false;            // everybody's header was checked
    int first_missing = 0;           // members below have come to this call
    bool charging = false, failed = false;
    std::deque<DirectCall> waiting;  // for the call before

    // The number of a block of this call among those of all calls.
    std::uint64_t number_of(std::int64_t block) const {
      return blocks_before + static_cast<std::uint64_t>(block);
    }
    // The place of a block of this call in the rings.
    std::uint64_t place(std::int64_t block) const {
      return (ring_at / block_bytes + static_cast<std::uint64_t>(block)) % num_places;
    }
  };

  static LaneMemory memory(const Lane& l, int member);
  static BlockPartition partition_of(const Lane& l);
  bool begin(int lane, DirectCall call);
  bool advance(int lane, std::int64_t budget_bytes);
  bool advance_small(Lane& l);
  bool advance_large(Lane& l, std::int64_t budget_bytes);
  bool advance_in_place(Lane& l, std::int64_t budget_bytes);
  void add_in_place(Lane& l, std::int64_t count);
  std::uint64_t offset_of(const std::byte* at, std::int64_t bytes) const;
  bool is_in_window(std::uint64_t offset, std::int64_t bytes) const;
  bool check_headers(Lane& l);
  // What a rank says as it goes on with a call: its header, blocks laid down, sums laid down.
  enum class Mark { header, laid, summed };
  static bool has_reached(const Lane& l, int member, Mark mark, std::uint64_t count);
  // The first member from `from` on that has not; world(): all have.
  static int first_behind(const Lane& l, Mark mark, std::uint64_t count, int from = 0);
  static bool everybody_reached(const Lane& l, Mark mark, std::uint64_t count);
  void lay_block(Lane& l);
  static void lay(const Lane& l, std::byte* to, const std::byte* from, std::int64_t bytes);
  void add_block(Lane& l);
  void take_block(Lane& l);
  void publish_header(Lane& l);
  void wake_others(const Lane& l, Mark mark, std::uint64_t count);
  void finish_on_loop(int lane);
  void start_next(int lane);
  bool poll_on_loop() override;

  runtime::Runtime& rt_;
  net::Window& window_;
  const int rank_;
  const TimeNs spin_ns_;
  Listener& listener_;
  std::deque<Lane> lanes_;
  std::vector<int> active_;
  StorePolicy store_policy_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::uint64_t bytes_laid_ = 0;
  bool abandoned_ = false;
};

}  // namespace trireme::comm
