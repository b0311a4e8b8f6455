// soft: `gather` pushes, whoever they are of, become one update; reads wait for nobody (the n-softsync of
// Zhang, Gupta, Lian, Liu 2016, where gather = workers / n).
#include <algorithm>

#include "trireme/server/consistency/consistency.h"
#include "trireme/server/consistency/worker_clocks.h"

namespace trireme::server {
namespace {

class Soft final : public ClockedConsistency {
 public:
  explicit Soft(const ConsistencyOptions& options)
      : ClockedConsistency(options.num_workers), gather_(static_cast<std::size_t>(options.gather)) {}

  OnPush on_push(PushId push) override {
    if (!clocks_.note(push)) return OnPush::kDrop;
    held_.push_back(push);
    return OnPush::kHold;
  }

  // What nobody is left to complete goes as it is.
  std::vector<PushId> ready() override {
    if (held_.size() < gather_ && clocks_.is_anybody_there()) return {};
    const auto end = held_.begin() + static_cast<std::ptrdiff_t>(std::min(gather_, held_.size()));
    std::vector<PushId> pushes(held_.begin(), end);
    held_.erase(held_.begin(), end);
    return pushes;
  }

  bool may_read(int /*worker*/, std::int64_t /*clock*/) const override { return true; }

 private:
  const std::size_t gather_;
  std::vector<PushId> held_;  // in the order in which they came
};

}  // namespace

std::unique_ptr<Consistency> make_soft(const ConsistencyOptions& options) {
  return std::make_unique<Soft>(options);
}

}  // namespace trireme::server
