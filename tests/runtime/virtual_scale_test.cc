// How fast a virtual world turns: 1,024 ranks, 2 million phantom packets. Prints the rate, asserts only the
// count.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "trireme/runtime/network.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

// Each rank keeps a few packets in flight to ranks that walk over the world, and answers nothing.
class Talker {
 public:
  Talker(Runtime& rt, int rank, int world_size, int rounds)
      : rank_(rank),
        world_size_(world_size),
        left_(rounds),
        box_(std::move(rt.network().open_endpoint(rank)).value()) {
    box_->set_handlers([this](int, Packet) { next(); }, [](int) {});
  }
  void next() {
    ++received_;
    if (left_ == 0) return;
    --left_;
    hop_ = hop_ * 5 % world_size_;  // 5 is coprime to every power of two: walks without settling
    box_->send((rank_ + hop_ + 1) % world_size_, {.header = {1}, .payload = nullptr, .bytes = 4096});
  }
  int received() const { return received_; }

 private:
  int rank_, world_size_, left_, hop_ = 1, received_ = 0;
  std::unique_ptr<FabricEndpoint> box_;
};

// Sanitizers slow this tenfold and look at the same code after a fraction of the packets.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 128;
#else
constexpr int kRounds = 2048;
#endif

TEST(VirtualScale, AThousandRanksExchangeTwoMillionPackets) {
  constexpr int kRanks = 1024;
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(kRanks, {}, {});
  spec.phantom = true;
  auto world = make_virtual_world(spec);
  std::vector<std::unique_ptr<Talker>> talkers;
  for (int i = 0; i < kRanks; ++i)
    talkers.push_back(std::make_unique<Talker>(world->add_runtime(i, "rank"), i, kRanks, kRounds));
  for (auto& talker : talkers)
    for (int i = 0; i < 4; ++i) talker->next();

  const auto begin = std::chrono::steady_clock::now();
  WorldReport report = world->run(kForever);
  // A rank that nobody happens to write to falls silent with packets left: push it on.
  while (report.num_messages < static_cast<std::uint64_t>(kRanks) * kRounds) {
    for (auto& talker : talkers) talker->next();
    report = world->run(kForever);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(report.num_messages, static_cast<std::uint64_t>(kRanks) * kRounds);
  EXPECT_EQ(report.num_bytes, report.num_messages * (4096 + 48));
  fmt::print("{} messages, {} events in {:.2f} s: {:.2f} M messages/s, {:.2f} M events/s\n",
             report.num_messages, report.num_events, seconds,
             static_cast<double>(report.num_messages) / seconds * 1e-6,
             static_cast<double>(report.num_events) / seconds * 1e-6);
}

}  // namespace
}  // namespace trireme::runtime
