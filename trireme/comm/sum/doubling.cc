// doubling: whole vectors, in rounds: ranks that know the sum of one half of a node of the tree over shards
// trade it for the other half's with ranks that know that one, as values that are not zero, or dense where
// that is shorter (recursive doubling of SparCML, doubling_rounds.h). A rank gets one message a round; sums
// are exact.
#include <algorithm>

#include "trireme/comm/sum/coded_sum.h"
#include "trireme/comm/sum/doubling_rounds.h"

namespace trireme::comm {
namespace {

using runtime::Task;

class Doubling final : public CodedSum {
 public:
  Doubling(runtime::Runtime& rt, Group& group, CodedSumOptions options)
      : CodedSum(rt, group, std::move(options)), rounds_(rt, group, work_, o_.num_shards, o_.num_elems) {}

 private:
  bool sums_exactly() const override { return true; }

  Task<Status> add(const CodedCall& call, const std::vector<Tensor>& shards) override {
    std::vector<Encoding> mine = whole_encodings(call, shards);
    TR_CO_ASSIGN_OR_RETURN(Mail own, co_await work_.encode(std::move(mine), out_));
    DoublingCall rounds{call.step, call.slots.encodings[kFirst], call.owners, &packers_[0], &exact_[0]};
    co_return co_await rounds_.sum(std::move(rounds), std::move(own), shards[0]);
  }

  DoublingSum rounds_;
};

// Messages that a worker sends one after the other, in bytes. In the last round of a world that is no power
// of two those of the smaller half serve several.
std::vector<double> rounds_of(const SumShape& shape) {
  const double dense = 4.0 * static_cast<double>(shape.num_elems);
  std::vector<double> rounds;
  const double own = static_cast<double>(shape.num_shards) / shape.workers();
  for (int known = 1; known < shape.workers(); known *= 2) {
    const int others = std::min(known, shape.workers() - known);
    const double times = known * 2 < shape.workers() ? 1 : (known + others - 1) / others;
    rounds.push_back(times * std::min(dense, known * own * shape.message_bytes));
  }
  return rounds;
}

SumPrice price(const SumShape& shape, const cost::Rates& rates) {
  SumPrice p;
  const std::vector<double> rounds = rounds_of(shape);
  const cost::LinkModel& link = rates.comm.link;
  for (const double bytes : rounds) {
    p.wire_seconds +=
        bytes / link.bytes_per_second + to_seconds(link.latency_ns + 2 * link.message_overhead_ns);
    p.bytes_sent += bytes;
  }
  p.code_seconds =
      coding_seconds(shape, 2.0 * shape.most_shards() + 2 * static_cast<double>(rounds.size()), rates);
  return p;
}

std::unique_ptr<CodedSum> make_coded(runtime::Runtime& rt, Group& group, CodedSumOptions options) {
  return std::make_unique<Doubling>(rt, group, std::move(options));
}

}  // namespace

extern const SumRow kDoublingSum;
constinit const SumRow kDoublingSum{.name = "doubling",
                                    .doc = "pairs of workers exchange sparse sums, in rounds",
                                    .price = price,
                                    .held_bytes =
                                        [](const SumShape& shape) {
                                          return 4.0 * static_cast<double>(shape.num_elems) *
                                                 static_cast<double>(rounds_of(shape).size());
                                        },
                                    .make = make_encoded_by<make_coded>,
                                    .make_coded = make_coded,
                                    .for_few_values = true};

}  // namespace trireme::comm
