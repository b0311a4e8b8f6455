// One-sided access: what every window must do. A transport instantiates it with a type that has
//   static void run(int world, const Body& body);
#include <filesystem>

#include "tests/net/transport_conformance.h"
#include "trireme/net/shm/window.h"

namespace trireme::net::testing {
namespace {

struct ShmThreads {
  static void run(int world, const Body& body) {
    std::string dir = (std::filesystem::temp_directory_path() / "trireme-net-XXXXXX").string();
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    run_real("shm", world, dir, body);
    std::filesystem::remove_all(dir);
  }
};
struct ShmVirtual {
  static void run(int world, const Body& body) { run_virtual("shm", world, body); }
};

template <typename Cluster>
class Windows : public ::testing::Test {};
using Clusters = ::testing::Types<ShmThreads, ShmVirtual>;
TYPED_TEST_SUITE(Windows, Clusters);

Task<std::unique_ptr<Window>> window_of(Node& n, std::uint64_t bytes) {
  auto made = co_await n.transport->make_window(bytes, n.rt.now() + 20 * kSecond);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  co_return made.ok() ? std::move(made).value() : nullptr;
}

TYPED_TEST(Windows, PutsAndGetsReachEveryRank) {
  constexpr std::uint64_t kPart = 3'000'000;  // more than is copied at once
  TypeParam::run(3, [](Node& n) -> Task<void> {
    EXPECT_TRUE(n.transport->capabilities().one_sided);
    auto window = co_await window_of(n, 3 * kPart);
    if (!window) co_return;
    EXPECT_EQ(window->bytes(), 3 * kPart);
    Log log(n.rt);
    // Everybody puts its pattern into everybody's window, at its own place.
    Bytes mine = pattern(kPart, static_cast<std::uint64_t>(n.rank));
    for (int p = 0; p < n.world; ++p)
      window->put(p, static_cast<std::uint64_t>(n.rank) * kPart, view(mine), &log,
                  static_cast<std::uint64_t>(p));
    EXPECT_TRUE(log.entries.empty()) << "completed inside the call";
    co_await log.until(3);
    expect_all_ok(log);
    co_await barrier(n);
    for (int p = 0; p < n.world; ++p) {
      const Bytes there = pattern(kPart, static_cast<std::uint64_t>(p));
      EXPECT_EQ(std::memcmp(window->local() + static_cast<std::uint64_t>(p) * kPart, there.data(), kPart), 0);
      Bytes got(kPart);
      Log fetched(n.rt);
      const int from = (n.rank + 1) % n.world;
      window->get(from, static_cast<std::uint64_t>(p) * kPart, view(got), &fetched, 0);
      co_await fetched.until(1);
      expect_all_ok(fetched);
      EXPECT_EQ(got, there);
    }
    co_await barrier(n);
  });
}

TYPED_TEST(Windows, RefuseWhatIsOutside) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    auto window = co_await window_of(n, 100);
    if (!window) co_return;
    Log log(n.rt);
    Bytes some(60);
    window->put(1 - n.rank, 41, view(some), &log, 0);
    window->get(1 - n.rank, ~std::uint64_t{0}, view(some), &log, 1);
    window->put(2, 0, view(some), &log, 2);
    co_await log.until(3);
    for (const auto& [cookie, status] : log.entries) EXPECT_EQ(status.code(), Code::kInvalid) << cookie;
    co_await barrier(n);
  });
}

TYPED_TEST(Windows, OfDifferentSizesAreAMismatch) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    auto made = co_await n.transport->make_window(n.rank == 0 ? 4096 : 8192, n.rt.now() + 20 * kSecond);
    EXPECT_EQ(made.status().code(), Code::kMismatch) << made.status().to_string();
    co_await barrier(n);
  });
}

TYPED_TEST(Windows, ThatNobodyElseMakesEndAtTheDeadline) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    if (n.rank == 0) {
      auto made = co_await n.transport->make_window(4096, n.rt.now() + 50 * kMilli);
      EXPECT_EQ(made.status().code(), Code::kDeadline) << made.status().to_string();
    }
    co_await barrier(n);
  });
}

TYPED_TEST(Windows, AreGivenBack) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    // Half of what there is, again and again.
    for (int i = 0; i < 6; ++i) {
      auto window = co_await window_of(n, std::uint64_t{400} << 20);
      if (!window) co_return;
      window->local()[0] = std::byte{1};
      co_await barrier(n);
    }
    auto memory = n.transport->allocate_exchange(5'000);
    EXPECT_NE(memory, nullptr);
    EXPECT_EQ(n.transport->allocate_exchange(std::uint64_t{1} << 40), nullptr);
    co_await barrier(n);
  });
}

TYPED_TEST(Windows, AreOfNoUseAfterPoison) {
  TypeParam::run(2, [](Node& n) -> Task<void> {
    auto window = co_await window_of(n, 8 << 20);
    if (!window) co_return;
    co_await barrier(n);
    Log log(n.rt);
    Bytes large(8 << 20);
    window->put(1 - n.rank, 0, view(large), &log, 0);
    runtime::OneShot<bool> drained(n.rt);
    n.transport->poison(error(Code::kCancelled, "[net] the end"), [&] { drained.set(true); });
    window->put(1 - n.rank, 0, view(large), &log, 1);
    co_await log.until(2);
    co_await drained.wait_until(kForever);
    for (const auto& [cookie, status] : log.entries) EXPECT_EQ(status.code(), Code::kCancelled) << cookie;
  });
}

TEST(WindowArea, TakesTheFirstFitAndMergesWhatComesBack) {
  shm::WindowArea area(16 * 4096);
  const auto a = area.take(4096), b = area.take(5000), c = area.take(4096 * 13);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(area.take(1).status().code(), Code::kExhausted);
  area.give_back(*a, 4096);
  EXPECT_FALSE(area.take(8192).ok());
  area.give_back(*b, 5000);
  EXPECT_EQ(area.take(4096 * 3).value(), 0U);
  area.give_back(*c, 4096 * 13);
  EXPECT_EQ(area.take(4096 * 13).value(), 3U * 4096);
}

}  // namespace
}  // namespace trireme::net::testing
