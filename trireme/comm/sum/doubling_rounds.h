// DoublingSum: the sum of all logical shards' encoded vectors in rounds of pairs (recursive doubling of
// index-value streams: Renggli et al., SparCML, SC 2019), in the order of the fixed tree. Internal to comm.
//
// Vocabulary: a node of the tree over shards is *known* to the ranks that own shards of it: they know its
// sum. A node's halves are known to ranks A and B. Those of B alone need the left sum, the j-th of them from
// the (j mod |A|)-th of A; and the other way round. Then the node is known too. So after ceil(log2 V) rounds
// everybody knows the root, for any number of ranks and any runs of shards. A rank that owns shards of both
// halves needs nobody.
//
// What travels is asked for: a letter to who knows it, answered when it is known. Sums are sent as what is
// not zero in them, or whole where that is shorter; single shards as they were encoded. Bytes that a rank
// sends: at most sum over rounds k of min(dense, 2^k messages), and more in the last round of a world that is
// no power of two.
#pragma once

#include <map>

#include "trireme/comm/mailbox.h"
#include "trireme/comm/sum/coded_work.h"

namespace trireme::comm {

// To who knows the sum of a node. Kinds above all of letter_kinds.h: one per bucket, by its slot. The answer
// is the sum, or the message of a single shard.
struct NodeHead {
  static constexpr std::uint16_t kFirstKind = 0x4000;
  std::int64_t step = 0, node = 0;
  static constexpr auto kFields = head_fields(at<8>(&NodeHead::step), at<16>(&NodeHead::node));
  using Answer = EmptyHead;
};

struct DoublingCall {
  std::uint32_t step = 0;
  std::uint16_t slot = 0;
  std::vector<collective::LeafRun> owners;  // per rank
  const codec::Packer* shards = nullptr;    // of the shards' messages
  const codec::Packer* sums = nullptr;      // exact
};

// On the loop. One call at a time.
class DoublingSum {
 public:
  DoublingSum(runtime::Runtime& rt, Group& group, CodedWork& work, std::int32_t num_shards,
              std::int64_t num_elems);
  ~DoublingSum();

  // `own`: the messages of this rank's shards, in order, until the end of the call. `into` gets the sum.
  runtime::Task<Status> sum(DoublingCall call, Mail own, Tensor into);

 private:
  using Key = std::pair<std::int64_t, std::int64_t>;  // step, node
  // A known sum, kept until everybody who will ask has asked.
  struct Stream {
    Tensor bytes;
    std::size_t size = 0;
  };
  struct Shelf {
    std::shared_ptr<const Stream> stream;
    std::size_t left = 0;
  };
  struct Node {
    std::int32_t first = 0, level = 0;
  };
  struct Asked;  // what an ask brought

  std::int32_t end_of(Node node) const;
  std::vector<int> knowing(Node node) const;
  bool know(Node node) const;
  std::int64_t key_of(Node node) const;
  // Ranks that get `half` of a node from this one.
  std::size_t num_served(Node half, Node other) const;
  int source_of(Node half, Node own) const;

  runtime::Task<Status> make(Node node, Tensor into);
  runtime::Task<Status> make_half(Node half, Node other, Tensor into);
  runtime::Task<Status> ask(Node half, int source, Asked* asked);
  runtime::Task<Status> offer(Node half, Tensor values, std::size_t readers);
  void listen(int slot);
  void on_asked(int peer, const Letter<NodeHead>& letter);
  void answer(int peer, const Letter<NodeHead>& letter, std::shared_ptr<const Stream> stream);
  std::span<float> values_of(const Tensor& t) const;

  runtime::Runtime& rt_;
  Group& group_;
  CodedWork& work_;
  const std::int32_t num_shards_;
  const std::int64_t num_elems_;
  int listens_to_ = -1;  // a slot; -1: none yet
  DoublingCall call_;    // under way
  Mail own_;
  Room out_;
  std::map<std::int32_t, Room> in_;         // by level
  std::map<std::int32_t, Tensor> scratch_;  // by level
  std::map<Key, Shelf> shelves_;
  std::map<Key, std::vector<std::pair<int, Letter<NodeHead>>>> early_;  // asked for before it is known
};

}  // namespace trireme::comm
