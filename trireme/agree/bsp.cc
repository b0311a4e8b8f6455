// Bulk-synchronous: every step ends with the same sum of all logical shards' gradients on every rank (Valiant
// 1990). How they are added is the bucket's sum (comm/sum).
#include "trireme/agree/agree.h"

namespace trireme::agree {
namespace {

class Bsp final : public Agreement {
 public:
  explicit Bsp(const RuleContext& context) : sums_(context.sums) {}

  runtime::Task<Status> exchange(BucketExchange bucket) override {
    comm::SumCall call;
    call.step = bucket.step;
    call.owners = std::move(bucket.owners);
    return sums_[bucket.bucket]->sum(std::move(call));
  }

  RuleReport report() const override {
    RuleReport r;
    comm::SumStats all;
    bool coded = false;
    for (const comm::GradientSum* sum : sums_) {
      const comm::SumStats* own = sum->stats();
      if (own == nullptr) continue;
      coded = true;
      all.messages += own->messages;
      all.bytes += own->bytes;
      all.encode_ns += own->encode_ns;
      all.decode_ns += own->decode_ns;
    }
    if (!coded) return r;
    r.more = {{"encoded_messages", static_cast<double>(all.messages)},
              {"encoded_bytes", all.bytes},
              {"encode_seconds", to_seconds(all.encode_ns)},
              {"decode_seconds", to_seconds(all.decode_ns)}};
    return r;
  }

 private:
  const std::vector<comm::GradientSum*> sums_;
};

}  // namespace

extern const AgreementRow kBsp{
    .name = "bsp",
    .doc = "Every step applies the same sum of all logical shards' gradients everywhere.",
    .paper = "Valiant, A bridging model for parallel computation, CACM 1990",
    .synchronous = true,
    .pace = Pace::kStep,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Bsp>(context);
    },
    .traffic =
        [](const OptionValues&, int) {
          cost::Traffic t;
          t.path = cost::Traffic::Path::kAllreduce;
          t.gradients = true;
          return t;
        },
    .no_codec = nullptr};

}  // namespace trireme::agree
