// CodedSum: the sum of all logical shards' vectors, of which only encodings travel. One per bucket.
//
// gather: every shard's message goes to every rank, and each decodes them all. A rank gets V encodings.
// split: the vector is cut into V chunks, one per shard. A rank sends each shard's message of chunk c to the
// owner of shard c, who sums that chunk, encodes the sum with a residual of its own and sends it to everybody
// (both sides are encoded: Seide et al. 2014). A rank gets about two encodings, in twice as many turns.
//
// sparse: as split, but sums travel exactly, as their values that are not zero (codec nonzero): for codecs
// that send few values (the split allgather of Renggli et al., SparCML, SC 2019).
//
// doubling: whole vectors, in rounds: ranks that know the sum of one half of a node of the tree over shards
// trade it for the other half's with ranks that know that one, as values that are not zero, or dense where
// that is shorter (recursive doubling of the same paper). A rank gets one message a round; exact sums.
//
// In all of them, decoded values are added in the order of the fixed tree over shards, every shard has its
// own residual, and chunks belong to shards: the result has the same bits for any number of ranks. What is
// kept from call to call belongs to shards and goes where they go (state(), take_shards()).
#pragma once

#include <memory>

#include "trireme/codec/packer.h"
#include "trireme/comm/group.h"

namespace trireme::comm {

enum class Reducer : std::uint8_t { kGather, kSplit, kSparse, kDoubling };

// By its name in plans; anything else is gather.
Reducer reducer_of(std::string_view name);

struct CodedSumOptions {
  codec::Coding coding;
  codec::Packing packing;
  std::int64_t num_elems = 0;
  std::int32_t num_shards = 1;
  Reducer reducer = Reducer::kGather;
  std::uint64_t key = 0;  // of random draws
};

// A call's identity: `slot` and `size_slot` are its own during the step.
struct CodedCall {
  std::uint32_t step = 0;
  std::uint16_t slot = 0, size_slot = 0;
  std::string label;
  std::vector<collective::LeafRun> owners;  // per rank
};

class CodedSum {
 public:
  CodedSum(runtime::Runtime& rt, Group& group, CodedSumOptions options);
  ~CodedSum();

  // Before the first sum and when this rank's run of shards changes: residuals anew, of zeros.
  Status take_shards(collective::LeafRun run);
  // "residual" (and "velocity", "sums"): [shards of this rank, elements].
  std::vector<std::pair<std::string, Tensor>> state() const;

  // Whether the sum of this step is encoded; otherwise it is made some other way.
  bool encodes_at(std::int64_t step) const;
  // Before a sum that is made some other way: velocities gather what the shards have.
  runtime::Task<Status> watch(std::int64_t step, std::vector<Tensor> shards);
  // `shards`: vectors of this rank's shards, in order; shards[0] receives the sum, the others stay. Vectors
  // that are not sent are undefined there. kCorrupt, as a failure of the group, where a peer's bytes are no
  // encoding.
  runtime::Task<Status> sum(CodedCall call, std::vector<Tensor> shards);

  struct Stats {
    std::int64_t messages = 0;  // encoded here
    double bytes = 0;           // of them
    TimeNs encode_ns = 0, decode_ns = 0;
  };
  const Stats& stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::comm
