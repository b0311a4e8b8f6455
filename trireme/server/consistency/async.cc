// async: every push is an update the moment it comes, and reads wait for nobody (Dean et al. 2012).
#include "trireme/server/consistency/consistency.h"
#include "trireme/server/consistency/worker_clocks.h"

namespace trireme::server {
namespace {

class Async final : public ClockedConsistency {
 public:
  using ClockedConsistency::ClockedConsistency;
  OnPush on_push(PushId push) override { return clocks_.note(push) ? OnPush::kApply : OnPush::kDrop; }
  std::vector<PushId> ready() override { return {}; }
  bool may_read(int /*worker*/, std::int64_t /*clock*/) const override { return true; }
};

}  // namespace

std::unique_ptr<Consistency> make_async(const ConsistencyOptions& options) {
  return std::make_unique<Async>(options.num_workers);
}

}  // namespace trireme::server
