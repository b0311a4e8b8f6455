// Unix-socket streams, segments and doorbells.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/runtime/temp_dir.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

std::unique_ptr<RealRuntime> small_runtime() {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  return make_real_runtime(options);
}

using StreamBody = std::function<Task<void>(Runtime&, Stream&)>;

// Two Runtimes on two threads, one listening, one connecting.
void with_two_ends(const std::string& path, StreamBody server, StreamBody client) {
  auto serve = [&] {
    auto rt = small_runtime();
    rt->run([](Runtime& r, std::string where, StreamBody& body) -> Task<void> {
      auto listener = r.network().listen_local(where);
      EXPECT_TRUE(listener.ok()) << listener.status().to_string();
      auto stream = co_await (*listener)->accept(kForever);
      EXPECT_TRUE(stream.ok()) << stream.status().to_string();
      co_await body(r, **stream);
    }(*rt, path, server));
  };
  auto connect = [&] {
    auto rt = small_runtime();
    rt->run([](Runtime& r, std::string where, StreamBody& body) -> Task<void> {
      auto stream = co_await r.network().connect_local(where, kForever);
      EXPECT_TRUE(stream.ok()) << stream.status().to_string();
      co_await body(r, **stream);
    }(*rt, path, client));
  };
  run_in_threads({serve, connect});
}

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  return bytes;
}

TEST(RealStream, BytesLargerThanTheSocketBufferPassBothWays) {
  const TempDir dir;
  constexpr std::size_t kSize = 1 << 20;
  with_two_ends(
      dir / "s",
      [](Runtime&, Stream& s) -> Task<void> {
        Bytes got(kSize);
        EXPECT_TRUE((co_await s.read_exact(got, kForever)).ok());
        EXPECT_TRUE((co_await s.write_all(got, kForever)).ok());
      },
      [](Runtime&, Stream& s) -> Task<void> {
        const Bytes sent = pattern(kSize);
        EXPECT_TRUE((co_await s.write_all(sent, kForever)).ok());
        Bytes back(kSize);
        EXPECT_TRUE((co_await s.read_exact(back, kForever)).ok());
        EXPECT_TRUE(back == sent);
        std::byte more{};
        const auto end = co_await s.read_some(MutByteView(&more, 1), kForever);
        EXPECT_EQ(*end, 0U) << "a closed peer is the end of the bytes";
      });
}

TEST(RealStream, SegmentsAndDoorbellsPassInAnyOrderWithTheBytes) {
  const TempDir dir;
  with_two_ends(
      dir / "s",
      [](Runtime& r, Stream& s) -> Task<void> {
        auto segment = r.network().create_segment("test", 10000);
        std::memset((*segment)->data(), 7, 10000);
        auto bell = r.network().make_doorbell();
        EXPECT_TRUE((co_await s.write_all(as_bytes("before"), kForever)).ok());
        EXPECT_TRUE((co_await s.send_segment(**segment, kForever)).ok());
        EXPECT_TRUE((co_await s.send_doorbell(**bell, kForever)).ok());
        EXPECT_TRUE((co_await s.write_all(as_bytes("after"), kForever)).ok());
        std::byte done{};
        EXPECT_TRUE((co_await s.read_exact(MutByteView(&done, 1), kForever)).ok());
        EXPECT_EQ((*segment)->data()[9999], std::byte{9}) << "the memory is shared, not copied";
      },
      [](Runtime&, Stream& s) -> Task<void> {
        auto bell = co_await s.receive_doorbell(kForever);
        EXPECT_TRUE(bell.ok()) << bell.status().to_string();
        auto segment = co_await s.receive_segment(kForever);
        EXPECT_TRUE(segment.ok()) << segment.status().to_string();
        EXPECT_EQ((*segment)->size(), 10000U);
        EXPECT_EQ((*segment)->data()[123], std::byte{7});
        (*segment)->data()[9999] = std::byte{9};
        Bytes text(11);
        EXPECT_TRUE((co_await s.read_exact(text, kForever)).ok());
        EXPECT_EQ(as_text(text), "beforeafter");
        EXPECT_TRUE((co_await s.write_all(as_bytes("!"), kForever)).ok());
      });
}

class WordPoller : public Poller {
 public:
  WordPoller(std::atomic<std::uint32_t>& word, OneShot<bool>& seen) : word_(word), seen_(seen) {}
  bool poll_on_loop() override {
    if (word_.load(std::memory_order_acquire) <= last_) return false;
    last_ = word_.load(std::memory_order_acquire);
    if (last_ == kLast) seen_.set(true);
    return true;
  }
  static constexpr std::uint32_t kLast = 500;

 private:
  std::atomic<std::uint32_t>& word_;
  OneShot<bool>& seen_;
  std::uint32_t last_ = 0;
};

// The peer publishes in shared memory and rings: the blocked loop must notice every time.
TEST(RealStream, ARungDoorbellWakesALoopThatBlocksWhileMemoryIsShared) {
  const TempDir dir;
  with_two_ends(
      dir / "s",
      [](Runtime& r, Stream& s) -> Task<void> {
        auto segment = r.network().create_segment("words", 4096);
        auto bell = r.network().make_doorbell();
        auto& word = *reinterpret_cast<std::atomic<std::uint32_t>*>((*segment)->data());
        OneShot<bool> seen(r);
        WordPoller poller(word, seen);
        r.network().add_poller(&poller);
        EXPECT_TRUE((co_await s.send_segment(**segment, kForever)).ok());
        EXPECT_TRUE((co_await s.send_doorbell(**bell, kForever)).ok());
        co_await seen.wait_until(kForever);
        r.network().remove_poller(&poller);
      },
      [](Runtime&, Stream& s) -> Task<void> {
        auto segment = co_await s.receive_segment(kForever);
        auto bell = co_await s.receive_doorbell(kForever);
        auto& word = *reinterpret_cast<std::atomic<std::uint32_t>*>((*segment)->data());
        for (std::uint32_t i = 1; i <= WordPoller::kLast; ++i) {
          word.store(i, std::memory_order_release);
          (*bell)->ring();
          if (i % 3 == 0) std::this_thread::yield();
        }
      });
}

TEST(RealStream, AClosedPeerFailsWritesAndEndsEarlyReadsAsPeerLost) {
  const TempDir dir;
  with_two_ends(
      dir / "s",
      [](Runtime&, Stream& s) -> Task<void> {
        EXPECT_TRUE((co_await s.write_all(as_bytes("ab"), kForever)).ok());
        s.close();
        EXPECT_EQ((co_await s.write_all(as_bytes("ab"), kForever)).code(), Code::kPeerLost);
      },
      [](Runtime&, Stream& s) -> Task<void> {
        Bytes three(3);
        const Status early = co_await s.read_exact(three, kForever);
        EXPECT_EQ(early.code(), Code::kPeerLost);
        EXPECT_EQ(early.message(), "[network] the stream ended early: got 2 bytes, expected 3");
        const auto segment = co_await s.receive_segment(kForever);
        EXPECT_EQ(segment.status().code(), Code::kPeerLost);
        const Bytes much = pattern(1 << 20);
        EXPECT_EQ((co_await s.write_all(much, kForever)).code(), Code::kPeerLost);
      });
}

TEST(RealStream, EveryWaitEndsAtItsDeadline) {
  const TempDir dir;
  auto rt = small_runtime();
  rt->run([](Runtime& r, std::string root) -> Task<void> {
    const auto nobody = co_await r.network().connect_local(root + "/nobody", r.now() + kMilli);
    EXPECT_EQ(nobody.status().code(), Code::kDeadline);
    EXPECT_NE(nobody.status().message().find("/nobody"), std::string::npos);
    auto listener = r.network().listen_local(root + "/s");
    const auto alone = co_await (*listener)->accept(r.now() + kMilli);
    EXPECT_EQ(alone.status().code(), Code::kDeadline);
    auto client = co_await r.network().connect_local(root + "/s", kForever);
    auto server = co_await (*listener)->accept(kForever);
    Bytes one(1);
    const auto silent = co_await (*client)->read_some(one, r.now() + kMilli);
    EXPECT_EQ(silent.status().code(), Code::kDeadline);
    EXPECT_EQ((co_await (*client)->receive_segment(r.now() + kMilli)).status().code(), Code::kDeadline);
    const Bytes much = pattern(1 << 20);
    EXPECT_EQ((co_await (*client)->write_all(much, r.now() + kMilli)).code(), Code::kDeadline);
    EXPECT_EQ((co_await (*client)->write_all(much, kForever)).code(), Code::kUnavailable)
        << "nothing can follow half a frame";
  }(*rt, dir.path()));
}

TEST(RealStream, PathsTooLongForASocketAddressWorkToo) {
  const TempDir dir;
  const std::string path = dir / std::string(150, 'x');
  with_two_ends(
      path,
      [](Runtime&, Stream& s) -> Task<void> {
        EXPECT_TRUE((co_await s.write_all(as_bytes("x"), kForever)).ok());
      },
      [](Runtime&, Stream& s) -> Task<void> {
        Bytes one(1);
        EXPECT_TRUE((co_await s.read_exact(one, kForever)).ok());
      });
}

TEST(RealStream, ASocketFileLeftByADeadProcessIsReplacedAndALiveOneIsRefused) {
  const TempDir dir;
  const std::string path = dir / "s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(stale, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(stale);
  auto rt = small_runtime();
  auto listener = rt->network().listen_local(path);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  EXPECT_EQ(rt->network().listen_local(path).status().code(), Code::kExists);
  listener->reset();
  struct stat info {};
  EXPECT_NE(stat(path.c_str(), &info), 0) << "a listener removes its socket file";
}

TEST(RealStream, BytesThatAreNoFramesAreCorrupt) {
  const TempDir dir;
  auto rt = small_runtime();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    auto listener = r.network().listen_local(path);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int raw = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(raw, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    auto server = co_await (*listener)->accept(kForever);
    EXPECT_EQ(write(raw, "nonsense frame!!", 16), 16);
    Bytes some(4);
    EXPECT_EQ((co_await (*server)->read_some(some, kForever)).status().code(), Code::kCorrupt);
    EXPECT_EQ((co_await (*server)->receive_segment(kForever)).status().code(), Code::kCorrupt) << "it sticks";
    close(raw);
  }(*rt, dir / "s"));
}

TEST(RealStream, ASegmentWithoutItsDescriptorIsCorrupt) {
  const TempDir dir;
  auto rt = small_runtime();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    auto listener = r.network().listen_local(path);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int raw = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(raw, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    auto server = co_await (*listener)->accept(kForever);
    const std::uint32_t frame[4] = {2, 8, 4096, 0};
    EXPECT_EQ(write(raw, frame, sizeof frame), static_cast<ssize_t>(sizeof frame));
    EXPECT_EQ((co_await (*server)->receive_segment(kForever)).status().code(), Code::kCorrupt);
    close(raw);
  }(*rt, dir / "s"));
}

TEST(RealStream, AnEmptySegmentIsRefused) {
  EXPECT_EQ(small_runtime()->network().create_segment("none", 0).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::runtime
