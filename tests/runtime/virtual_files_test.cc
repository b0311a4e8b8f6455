// Files of virtual machines: contents, time, injected errors, and what a kill leaves.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trireme/runtime/files.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {
namespace {

WorldSpec machines(int count) {
  WorldSpec spec;
  spec.topology = cost::Topology::single_switch(count, {}, {});
  return spec;
}

FaultSpec disk_fault(FaultSpec::Kind kind, std::uint64_t operation) {
  FaultSpec fault;
  fault.kind = kind;
  fault.runtime = 0;
  fault.site = "disk";
  fault.index = operation;
  return fault;
}

void expect_finished(VirtualWorld& world) {
  const WorldReport report = world.run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
}

// What a second Runtime on the machine finds at `path` now: "-" when there is nothing.
std::string content_of(VirtualWorld& world, std::string path, int machine = 0) {
  Runtime& rt = world.add_runtime(machine, "reader");
  std::string found = "-";
  world.start(rt, [](Runtime& r, std::string p, std::string& out) -> Task<void> {
    const Result<Bytes> bytes = co_await r.files().read(p);
    if (bytes.ok()) out = std::string(as_text(*bytes));
  }(rt, std::move(path), found));
  expect_finished(world);
  return found;
}

Task<void> use_every_operation(Runtime& rt, std::vector<std::string>& notes) {
  Files& files = rt.files();
  const auto note = [&](const Status& s) { notes.emplace_back(code_name(s.code())); };
  note(co_await files.write("runs/a", as_bytes("x")));  // no such directory
  note(co_await files.make_dirs("runs/one"));
  note(co_await files.write("runs/a", as_bytes("hello")));
  note(co_await files.append("./runs//a", as_bytes(" world")));
  note(co_await files.append("/runs/b", as_bytes("b")));
  note(co_await files.rename("runs/b", "runs/a"));
  note(co_await files.write("runs/c", as_bytes("c")));
  const auto names = co_await files.list("runs");
  for (const std::string& name : *names) notes.push_back(name);
  const auto bytes = co_await files.read("runs/a");
  notes.emplace_back(as_text(*bytes));
  const auto gone = co_await files.exists("runs/b");
  notes.emplace_back(*gone ? "there" : "gone");
  note(co_await files.remove_all("runs"));
  note(co_await files.remove_all("runs"));
  const auto left = co_await files.list("/");
  notes.push_back(fmt::format("{} left", left->size()));
  const auto missing = co_await files.read("runs/a");
  notes.push_back(missing.status().message());
}

TEST(VirtualFiles, BehaveLikeFiles) {
  auto world = make_virtual_world(machines(1));
  Runtime& rt = world->add_runtime(0, "a");
  std::vector<std::string> notes;
  world->start(rt, use_every_operation(rt, notes));
  expect_finished(*world);
  const std::string ok(code_name(Code::kOk)), not_found(code_name(Code::kNotFound));
  EXPECT_EQ(notes,
            (std::vector<std::string>{not_found, ok, ok, ok, ok, ok, ok, "a", "c", "one", "b", "gone", ok, ok,
                                      "0 left", "[files] '/runs/a' does not exist; check the path"}));
}

Task<void> write_one(Runtime& rt, std::string path, std::string text, Status& status) {
  status = co_await rt.files().write(path, as_bytes(text));
}

TEST(VirtualFiles, AnOperationTakesFiftyMicrosecondsAndANanosecondPerByteOneAfterTheOther) {
  auto world = make_virtual_world(machines(2));
  Runtime& a = world->add_runtime(0, "a");
  Runtime& b = world->add_runtime(0, "b");
  Status first, second;
  world->start(a, write_one(a, "a", std::string(1'000'000, 'a'), first));
  world->start(b, write_one(b, "b", std::string(500, 'b'), second));
  a.call_at(10, [&] {
    EXPECT_EQ(a.activity().io_in_flight, 1);
    EXPECT_TRUE(a.activity().busy());
  });
  const WorldReport report = world->run(kForever);
  EXPECT_EQ(report.end_time, 2 * 50 * kMicro + 1'000'500);
  EXPECT_FALSE(a.activity().busy());
  EXPECT_EQ(content_of(*world, "b"), std::string(500, 'b'));
  EXPECT_EQ(content_of(*world, "b", 1), "-") << "machines share no files";
}

TEST(VirtualFiles, AnInjectedErrorFailsThatOperationAndHasNoEffect) {
  WorldSpec spec = machines(1);
  spec.faults = {disk_fault(FaultSpec::Kind::kError, 0)};
  auto world = make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "a");
  Status status;
  world->start(rt, write_one(rt, "/a", "text", status));
  expect_finished(*world);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message(), "[files] cannot write '/a': input/output error (injected); check the disk");
  EXPECT_EQ(content_of(*world, "a"), "-");
}

Task<void> two_generations(Runtime& rt, bool append) {
  Files& files = rt.files();
  (void)co_await files.write("a", as_bytes("old-"));
  (void)co_await files.sync("a");
  (void)co_await files.sync("/");
  if (append)
    (void)co_await files.append("a", as_bytes("12345678"));
  else
    (void)co_await files.write("a", as_bytes("12345678"));
  (void)co_await files.write("b", as_bytes("never synced"));
  (void)co_await files.exists("a");
  co_await rt.sleep_until(kForever);
}

std::string after_kill(std::uint64_t operation, bool append, const std::string& path) {
  WorldSpec spec = machines(1);
  spec.faults = {disk_fault(FaultSpec::Kind::kKill, operation)};
  auto world = make_virtual_world(spec);
  Runtime& rt = world->add_runtime(0, "a");
  world->start(rt, two_generations(rt, append));
  expect_finished(*world);
  EXPECT_TRUE(world->is_dead(rt));
  return content_of(*world, path);
}

TEST(VirtualFiles, AKillInsideAWriteLeavesATornFile) {
  EXPECT_EQ(after_kill(3, false, "a"), "1234");
  EXPECT_EQ(after_kill(3, true, "a"), "old-1234");
  EXPECT_EQ(after_kill(0, false, "a"), "ol");
}

TEST(VirtualFiles, AKillTakesWhatItsWriterDidNotSync) {
  EXPECT_EQ(after_kill(1, false, "a"), "-") << "neither content nor name was synced";
  EXPECT_EQ(after_kill(2, false, "a"), "-") << "the name was not synced";
  EXPECT_EQ(after_kill(5, false, "a"), "old-");
  EXPECT_EQ(after_kill(5, true, "a"), "old-");
  EXPECT_EQ(after_kill(5, false, "b"), "-");
}

Task<void> replace_atomically(Runtime& rt) {
  (void)co_await rt.files().make_dirs("d");
  (void)co_await rt.files().write_atomic("d/f", as_bytes("old content"));
  (void)co_await rt.files().write_atomic("d/f", as_bytes("new content"));
  (void)co_await rt.files().exists("d/f");
}

TEST(VirtualFiles, AnAtomicWriteShowsTheOldOrTheNewContentWhereverTheKillComes) {
  bool saw_old = false, saw_new = false, saw_none = false;
  std::uint64_t operation = 0;
  for (bool killed = true; killed; ++operation) {
    WorldSpec spec = machines(1);
    spec.faults = {disk_fault(FaultSpec::Kind::kKill, operation)};
    auto world = make_virtual_world(spec);
    Runtime& rt = world->add_runtime(0, "a");
    world->start(rt, replace_atomically(rt));
    expect_finished(*world);
    killed = world->is_dead(rt);
    const std::string content = content_of(*world, "d/f");
    EXPECT_TRUE(content == "-" || content == "old content" || content == "new content")
        << operation << content;
    EXPECT_FALSE(saw_old && content == "-") << operation;
    EXPECT_FALSE(saw_new && content != "new content") << operation;
    saw_none |= content == "-";
    saw_old |= content == "old content";
    saw_new |= content == "new content";
  }
  EXPECT_TRUE(saw_none && saw_old && saw_new);
  EXPECT_GE(operation, 9U);
}

}  // namespace
}  // namespace trireme::runtime
