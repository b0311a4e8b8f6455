// CodedSum: the sum of all logical shards' vectors, of which only encodings travel. One per bucket; the ways
// to do it are gather.cc, split.cc and doubling.cc.
//
// In all of them, decoded values are added in the order of the fixed tree over shards, every shard has its
// own residual, and chunks belong to shards: the result has the same bits for any number of ranks. What is
// kept from call to call belongs to shards and goes where they go (state(), take_shards()).
#pragma once

#include <memory>

#include "trireme/comm/sum/coded_work.h"
#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

struct CodedSumOptions {
  codec::Coding coding;
  codec::Packing packing;
  std::int64_t num_elems = 0;
  std::int32_t num_shards = 1;
  codec::DrawKeys keys;  // of random draws
};

// A call's identity: the slots are its own during the step.
struct CodedCall {
  std::uint32_t step = 0;
  CodedSlots slots;
  std::string label;
  std::vector<collective::LeafRun> owners;  // per rank
};

class CodedSum {
 public:
  CodedSum(runtime::Runtime& rt, Group& group, CodedSumOptions options)
      : rt_(rt), group_(group), o_(std::move(options)), work_(rt, stats_) {}
  virtual ~CodedSum() = default;

  // Before the first sum and when this rank's run of shards changes: residuals anew, of zeros.
  virtual Status take_shards(collective::LeafRun run);
  // "residual" (and "velocity", "sums"): [shards of this rank, elements].
  virtual NamedState state() const;

  // Whether the sum of this step is encoded; otherwise it is made some other way.
  bool encodes_at(std::int64_t step) const { return o_.coding.encodes_at(step); }
  // Before a sum that is made some other way: velocities gather what the shards have.
  runtime::Task<Status> watch(std::int64_t step, std::vector<Tensor> shards);
  // `shards`: vectors of this rank's shards, in order; shards[0] receives the sum, the others stay. Vectors
  // that are not sent are undefined there. kCorrupt, as a failure of the group, where a peer's bytes are no
  // encoding.
  runtime::Task<Status> sum(CodedCall call, std::vector<Tensor> shards);

  const SumStats& stats() const { return stats_; }

 protected:
  enum Turn : std::uint8_t { kFirst, kSecond };  // places in CodedSlots

  // The packers of the step are there.
  virtual runtime::Task<Status> add(const CodedCall& call, const std::vector<Tensor>& shards) = 0;
  virtual bool cuts() const { return false; }          // shards' vectors travel in chunks, one per shard
  virtual bool sums_exactly() const { return false; }  // sums travel as their values that are not zero

  Chunk chunk(std::int32_t c) const {
    return {o_.num_elems * c / o_.num_shards, o_.num_elems * (c + 1) / o_.num_shards};
  }
  Encoding encoding_of(const CodedCall& call, const std::vector<Tensor>& shards, std::size_t s,
                       std::int32_t c) const;
  std::vector<Encoding> whole_encodings(const CodedCall& call, const std::vector<Tensor>& shards) const;
  std::span<float> row(const Tensor& of, std::size_t shard, Chunk part) const;
  std::span<float> values_of(const Tensor& t) const {
    return rt_.is_phantom() ? std::span<float>() : t.values<float>();
  }
  // What a shard's draws in a step follow from; `what` is which of its encodings.
  codec::DrawKeys keys_of(const CodedCall& call, std::uint64_t shard, std::uint64_t what) const;
  Call call_of(const CodedCall& call, bool sizes, Turn turn) const;
  // Lengths of all ranks' messages, in rank order: `per_shard` for each shard of a rank. `sizes`: what they
  // are where nothing is computed.
  runtime::Task<Result<std::vector<std::size_t>>> share_sizes(const CodedCall& call,
                                                              const std::vector<std::size_t>& own,
                                                              std::size_t per_shard,
                                                              std::vector<std::size_t> sizes, Turn turn);
  // Every shard's message to everybody: lengths and bytes, in shard order. `known`: lengths where they are
  // fixed, or nothing is computed.
  runtime::Task<Result<Mail>> gather(const CodedCall& call, Mail own, bool fixed,
                                     const std::vector<std::size_t>& known, Turn turn, Room& room);
  std::vector<ByteView> messages_of(const Mail& mail) const;

  runtime::Runtime& rt_;
  Group& group_;
  const CodedSumOptions o_;
  SumStats stats_;
  collective::LeafRun run_;
  std::vector<codec::Packer> packers_;  // one, or one per chunk
  std::vector<codec::Packer> exact_;    // of sums, where they travel exactly
  Room out_, in_;
  CodedWork work_;

 private:
  Status make_packers(std::int64_t step);

  Tensor residual_, velocity_;
  double fraction_ = -1;
};

// The row's GradientSum: the coding's first steps are summed as they are.
std::unique_ptr<GradientSum> make_encoded(runtime::Runtime& rt, Group& group, SumSpec spec,
                                          std::unique_ptr<CodedSum> coded);
CodedSumOptions coded_options(const SumSpec& spec);
template <auto kMakeCoded>  // SumRow::make of a row whose make_coded it is
std::unique_ptr<GradientSum> make_encoded_by(runtime::Runtime& rt, Group& group, SumSpec spec) {
  CodedSumOptions options = coded_options(spec);
  return make_encoded(rt, group, std::move(spec), kMakeCoded(rt, group, std::move(options)));
}

}  // namespace trireme::comm
