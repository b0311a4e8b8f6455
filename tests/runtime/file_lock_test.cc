// Locks of both Runtimes: one holder, known by what it wrote, gone with it.
#include <gtest/gtest.h>

#include "tests/runtime/temp_dir.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

// One after the other in `path`: taken, refused, looked at, given back, taken again.
Task<void> take_turns(Runtime& rt, std::string path) {
  Files& files = rt.files();
  Result<LockAttempt> first = co_await files.try_lock(path, "first");
  EXPECT_TRUE(first.ok()) << first.status().to_string();
  if (!first.ok()) co_return;
  EXPECT_NE(first->lock, nullptr);
  EXPECT_FALSE(first->holder.has_value());
  const Result<LockAttempt> second = co_await files.try_lock(path, "second");
  EXPECT_TRUE(second.ok()) << second.status().to_string();
  if (!second.ok()) co_return;
  EXPECT_EQ(second->lock, nullptr);
  EXPECT_EQ(second->holder, "first");
  for (int i = 0; i < 2; ++i) {
    const auto seen = co_await files.lock_holder(path);
    EXPECT_EQ(*seen, "first") << "looking takes nothing";
  }
  first->lock.reset();
  const auto nobody = co_await files.lock_holder(path);
  EXPECT_FALSE(nobody->has_value());
  const Result<LockAttempt> third = co_await files.try_lock(path, "3");
  EXPECT_NE(third->lock, nullptr);
  const auto last = co_await files.lock_holder(path);
  EXPECT_EQ(*last, "3") << "nothing of a longer text is left";
}

std::unique_ptr<RealRuntime> real_runtime() {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  return make_real_runtime(options);
}

TEST(RealLock, HasOneHolderAtATime) {
  const TempDir dir;
  const auto rt = real_runtime();
  rt->run(take_turns(*rt, dir / "lock"));
}

TEST(RealLock, OutlivesTheRuntimeThatTookItAndLeavesNoFile) {
  const TempDir dir;
  std::unique_ptr<FileLock> lock;
  {
    const auto rt = real_runtime();
    rt->run([](Runtime& r, std::string path, std::unique_ptr<FileLock>& out) -> Task<void> {
      Result<LockAttempt> attempt = co_await r.files().try_lock(path, "me");
      if (attempt.ok()) out = std::move(attempt->lock);
    }(*rt, dir / "lock", lock));
  }
  ASSERT_NE(lock, nullptr);
  const auto look = [](Runtime& r, std::string path, std::string& holder, bool& there) -> Task<void> {
    const auto seen = co_await r.files().lock_holder(path);
    holder = seen.ok() ? seen->value_or("nobody") : seen.status().to_string();
    const Result<bool> exists = co_await r.files().exists(path);
    there = exists.ok() && *exists;
  };
  const auto rt = real_runtime();
  std::string holder;
  bool there = false;
  rt->run(look(*rt, dir / "lock", holder, there));
  EXPECT_EQ(holder, "me");
  EXPECT_TRUE(there);
  lock.reset();
  rt->run(look(*rt, dir / "lock", holder, there));
  EXPECT_EQ(holder, "nobody");
  EXPECT_FALSE(there);
}

TEST(RealLock, AFileThatAKilledHolderLeftIsTakenOver) {
  const TempDir dir;
  const auto rt = real_runtime();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    EXPECT_TRUE((co_await r.files().write(path, as_bytes("somebody who was killed"))).ok());
    const auto nobody = co_await r.files().lock_holder(path);
    EXPECT_TRUE(nobody.ok() && !nobody->has_value());
    const Result<LockAttempt> mine = co_await r.files().try_lock(path, "me");
    EXPECT_TRUE(mine.ok() && mine->lock != nullptr);
    const auto me = co_await r.files().lock_holder(path);
    EXPECT_EQ(*me, "me");
  }(*rt, dir / "lock"));
}

TEST(RealLock, AFolderThatIsNotThereIsAnError) {
  const TempDir dir;
  const auto rt = real_runtime();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    const Result<LockAttempt> attempt = co_await r.files().try_lock(path, "me");
    EXPECT_EQ(attempt.status().code(), Code::kNotFound);
    const auto nobody = co_await r.files().lock_holder(path);
    EXPECT_TRUE(nobody.ok() && !nobody->has_value());
  }(*rt, dir / "none/lock"));
}

std::unique_ptr<VirtualWorld> one_machine() {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  return make_virtual_world(spec);
}

TEST(VirtualLock, HasOneHolderAtATime) {
  const auto world = one_machine();
  Runtime& rt = world->add_runtime(0, "rank");
  world->start(rt, take_turns(rt, "lock"));
  EXPECT_TRUE(world->run(kForever).finished);
}

Task<void> hold(Runtime& rt) {
  const Result<LockAttempt> attempt = co_await rt.files().try_lock("lock", "first");
  EXPECT_TRUE(attempt.ok() && attempt->lock != nullptr);
  co_await rt.sleep_for(10 * kSecond);
}

TEST(VirtualLock, EndsWithARuntimeThatIsKilled) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  FaultSpec kill;
  kill.kind = FaultSpec::Kind::kKill;
  kill.runtime = 0;
  kill.at = 2 * kSecond;
  spec.faults.push_back(kill);
  const auto world = make_virtual_world(spec);
  Runtime& holder = world->add_runtime(0, "holder");
  Runtime& other = world->add_runtime(0, "other");
  world->start(holder, hold(holder));
  world->start(other, [](Runtime& rt) -> Task<void> {
    co_await rt.sleep_for(kSecond);
    const Result<LockAttempt> early = co_await rt.files().try_lock("lock", "second");
    EXPECT_EQ(early->holder, "first");
    co_await rt.sleep_for(2 * kSecond);
    const Result<LockAttempt> late = co_await rt.files().try_lock("lock", "second");
    EXPECT_NE(late->lock, nullptr);
  }(other));
  EXPECT_TRUE(world->run(kForever).finished);
}

}  // namespace
}  // namespace trireme::runtime
