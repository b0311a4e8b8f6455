// What the rows that add encodings have in common.
#include "trireme/comm/sum/coded_sum.h"
#include "trireme/comm/sum/host_sum.h"

namespace trireme::comm {
namespace {

using runtime::Task;

class Encoded final : public HostSum {
 public:
  Encoded(runtime::Runtime& rt, Group& group, SumSpec spec, std::unique_ptr<CodedSum> coded)
      : HostSum(rt, group, std::move(spec)), coded_(std::move(coded)) {}

  Status take_shards(collective::LeafRun run) override {
    TR_RETURN_IF_ERROR(HostSum::take_shards(run));
    return coded_->take_shards(run);
  }
  NamedState state() const override { return coded_->state(); }
  const SumStats* stats() const override { return &coded_->stats(); }

  Task<Status> sum(SumCall call) override {
    if (!coded_->encodes_at(call.step)) {
      TR_CO_RETURN_IF_ERROR(co_await coded_->watch(call.step, vectors_));
      DenseCall dense;
      dense.step = call.step;
      dense.slot = spec_.slots.first;
      dense.owners = std::move(call.owners);
      co_return co_await add_dense(rt_, group_, spec_, std::move(dense), vectors_);
    }
    CodedCall coded;
    coded.step = call.step;
    coded.slots = spec_.slots.coded;
    coded.label = spec_.label;
    coded.owners = std::move(call.owners);
    co_return co_await coded_->sum(std::move(coded), vectors_);
  }

 private:
  const std::unique_ptr<CodedSum> coded_;
};

}  // namespace

CodedSumOptions coded_options(const SumSpec& spec) {
  CodedSumOptions o;
  o.coding = spec.coding;
  o.packing = spec.packing;
  o.num_elems = spec.num_elems;
  o.num_shards = spec.num_shards;
  o.keys = {spec.key, spec.common_key.value_or(spec.key)};
  return o;
}

std::unique_ptr<GradientSum> make_encoded(runtime::Runtime& rt, Group& group, SumSpec spec,
                                          std::unique_ptr<CodedSum> coded) {
  return std::make_unique<Encoded>(rt, group, std::move(spec), std::move(coded));
}

}  // namespace trireme::comm
