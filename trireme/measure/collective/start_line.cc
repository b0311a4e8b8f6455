#include "trireme/measure/collective/start_line.h"

namespace trireme::measure {
namespace {

constexpr std::uint64_t kGone = UINT64_MAX;
constexpr TimeNs kCrowdedSleep = 20 * kMicro;
constexpr int kLooksPerClock = 1024;

}  // namespace

std::atomic<std::uint64_t>& StartLine::counter(int rank) const {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(page_.data() +
                                                        static_cast<std::size_t>(rank) * kStartLineStride);
}

int StartLine::first_missing() const {
  for (int r = 0; r < world_; ++r)
    if (counter(r).load(std::memory_order_acquire) < round_) return r;
  return -1;
}

runtime::Task<Status> StartLine::meet(runtime::Runtime& rt, bool crowded, TimeNs deadline) {
  counter(rank_).store(++round_, std::memory_order_release);
  int missing = first_missing();
  for (int looks = 0; missing >= 0; missing = first_missing()) {
    if (crowded) co_await rt.sleep_for(kCrowdedSleep);
    if ((crowded || ++looks % kLooksPerClock == 0) && rt.now() > deadline)
      co_return error(Code::kDeadline, "[bench] rank {} did not come to the start line", missing);
  }
  for (int r = 0; r < world_; ++r)
    if (counter(r).load(std::memory_order_relaxed) == kGone)
      co_return error(Code::kCancelled, "[bench] rank {} gave up", r);
  co_return Status();
}

void StartLine::give_up() { counter(rank_).store(kGone, std::memory_order_release); }

}  // namespace trireme::measure
