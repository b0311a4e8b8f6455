// gather: every shard's message goes to every rank, and each decodes them all. A rank gets V encodings.
#include "trireme/comm/sum/coded_sum.h"

namespace trireme::comm {
namespace {

using runtime::Task;

class Gather final : public CodedSum {
 public:
  using CodedSum::CodedSum;

 private:
  Task<Status> add(const CodedCall& call, const std::vector<Tensor>& shards) override {
    std::vector<Encoding> mine = whole_encodings(call, shards);
    TR_CO_ASSIGN_OR_RETURN(Mail own, co_await work_.encode(std::move(mine), out_));
    const codec::Packer& packer = packers_[0];
    const std::vector<std::size_t> known(static_cast<std::size_t>(o_.num_shards), size_unseen(packer));
    TR_CO_ASSIGN_OR_RETURN(const Mail all,
                           co_await gather(call, std::move(own), packer.is_fixed(), known, kFirst, in_));
    std::vector<Decoding> sums(1);
    sums[0] = {&packer, messages_of(all), values_of(shards[0])};
    co_return co_await work_.decode(std::move(sums));
  }
};

SumPrice price(const SumShape& shape, const cost::Rates& rates) {
  SumPrice p = gather_seconds(shape, {floats(shape.message_bytes)}, rates);
  p.code_seconds = coding_seconds(shape, shape.most_shards() + shape.num_shards, rates);
  return p;
}

std::unique_ptr<CodedSum> make_coded(runtime::Runtime& rt, Group& group, CodedSumOptions options) {
  return std::make_unique<Gather>(rt, group, std::move(options));
}

}  // namespace

extern const SumRow kGatherSum;
constinit const SumRow kGatherSum{
    .name = "gather",
    .doc = "every worker gets the encodings of all shards and adds them",
    .price = price,
    .held_bytes = [](const SumShape& shape) { return shape.num_shards * shape.message_bytes; },
    .make = make_encoded_by<make_coded>,
    .make_coded = make_coded};

}  // namespace trireme::comm
