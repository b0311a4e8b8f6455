// Files of the operating system through a real Runtime.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/runtime/temp_dir.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

std::unique_ptr<RealRuntime> runtime_with(std::vector<RealFault> faults = {}) {
  RealOptions options;
  options.compute_threads = 1;
  options.spin_ns = 0;
  options.faults = std::move(faults);
  return make_real_runtime(options);
}

TEST(RealFiles, WhatIsWrittenAndAppendedIsReadBack) {
  const TempDir dir;
  auto rt = runtime_with();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    Files& files = r.files();
    EXPECT_FALSE(*co_await files.exists(path));
    EXPECT_TRUE((co_await files.write(path, as_bytes("one"))).ok());
    EXPECT_TRUE((co_await files.append(path, as_bytes("two"))).ok());
    EXPECT_TRUE((co_await files.sync(path)).ok());
    EXPECT_TRUE(*co_await files.exists(path));
    const Result<Bytes> back = co_await files.read(path);
    EXPECT_EQ(as_text(*back), "onetwo");
    EXPECT_TRUE((co_await files.write(path, as_bytes("x"))).ok());
    const Result<Bytes> replaced = co_await files.read(path);
    EXPECT_EQ(as_text(*replaced), "x");
  }(*rt, dir / "file"));
}

TEST(RealFiles, LargeFilesAndFilesWithoutAKnownSizeAreReadWhole) {
  const TempDir dir;
  auto rt = runtime_with();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    Bytes big(600'000);
    for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<std::byte>(i * 7 + i / 256);
    EXPECT_TRUE((co_await r.files().write(path, big)).ok());
    const Result<Bytes> back = co_await r.files().read(path);
    EXPECT_TRUE(*back == big);
    const Result<Bytes> proc = co_await r.files().read("/proc/self/status");
    EXPECT_TRUE(proc.ok() && !proc->empty());
  }(*rt, dir / "big"));
}

TEST(RealFiles, AMappedFileIsReadInPlaceAndOutlivesItsName) {
  const TempDir dir;
  auto rt = runtime_with();
  rt->run([](Runtime& r, std::string path, std::string folder) -> Task<void> {
    EXPECT_TRUE((co_await r.files().write(path, as_bytes("some bytes"))).ok());
    const Result<FileView> mapped = co_await r.files().map(path);
    EXPECT_TRUE(mapped.ok()) << mapped.status().to_string();
    EXPECT_TRUE((co_await r.files().remove_all(path)).ok());
    if (!mapped.ok()) co_return;
    EXPECT_EQ(as_text(mapped->bytes), "some bytes");
    const Result<FileView> gone = co_await r.files().map(path);
    EXPECT_EQ(gone.status().code(), Code::kNotFound);
    const Result<FileView> no_file = co_await r.files().map(folder);
    EXPECT_FALSE(no_file.ok());
    EXPECT_TRUE((co_await r.files().write(path, {})).ok());
    const Result<FileView> empty = co_await r.files().map(path);
    EXPECT_TRUE(empty.ok() && empty->bytes.empty());
  }(*rt, dir / "rows", dir / "."));
}

TEST(RealFiles, DirectoriesAreMadeListedSortedRenamedAndRemoved) {
  const TempDir dir;
  auto rt = runtime_with();
  rt->run([](Runtime& r, std::string root) -> Task<void> {
    Files& files = r.files();
    EXPECT_TRUE((co_await files.make_dirs(root + "/a/b")).ok());
    EXPECT_TRUE((co_await files.make_dirs(root + "/a/b")).ok());
    EXPECT_TRUE((co_await files.write(root + "/a/z", as_bytes("1"))).ok());
    EXPECT_TRUE((co_await files.write(root + "/a/c", as_bytes("2"))).ok());
    EXPECT_TRUE((co_await files.rename(root + "/a/z", root + "/a/c")).ok());
    const auto names = co_await files.list(root + "/a");
    EXPECT_EQ(*names, (std::vector<std::string>{"b", "c"}));
    const Result<Bytes> content = co_await files.read(root + "/a/c");
    EXPECT_EQ(as_text(*content), "1");
    EXPECT_TRUE((co_await files.remove_all(root + "/a")).ok());
    EXPECT_TRUE((co_await files.remove_all(root + "/a")).ok()) << "a missing path is fine";
    EXPECT_FALSE(*co_await files.exists(root + "/a"));
  }(*rt, dir.path()));
}

TEST(RealFiles, FailuresNameThePathAndTheReason) {
  auto rt = runtime_with();
  rt->run([](Runtime& r) -> Task<void> {
    const Result<Bytes> read = co_await r.files().read("/nowhere/x");
    EXPECT_EQ(read.status().code(), Code::kNotFound);
    EXPECT_EQ(read.status().message(), "[files] cannot read '/nowhere/x': No such file or directory");
    const Status write = co_await r.files().write("/nowhere/x", {});
    EXPECT_EQ(write.message(), "[files] cannot write '/nowhere/x': No such file or directory");
    const Status rename = co_await r.files().rename("/nowhere/x", "/nowhere/y");
    EXPECT_EQ(rename.message(),
              "[files] cannot rename '/nowhere/x' to '/nowhere/y': No such file or directory");
    const auto list = co_await r.files().list("/nowhere");
    EXPECT_EQ(list.status().message(), "[files] cannot list '/nowhere': No such file or directory");
  }(*rt));
}

TEST(RealFiles, AFullDiskIsExhausted) {
  auto rt = runtime_with();
  rt->run([](Runtime& r) -> Task<void> {
    const Status full = co_await r.files().write("/dev/full", as_bytes("x"));
    EXPECT_EQ(full.code(), Code::kExhausted);
    EXPECT_EQ(full.message(), "[files] cannot write '/dev/full': No space left on device");
  }(*rt));
}

TEST(RealFiles, AnInjectedDiskFaultStrikesOneOperation) {
  const TempDir dir;
  auto rt = runtime_with({{RealFault::Kind::kError, "disk", 1}});
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    EXPECT_TRUE((co_await r.files().write(path, as_bytes("old"))).ok());
    EXPECT_EQ((co_await r.files().write(path, as_bytes("new"))).code(), Code::kExhausted);
    const Result<Bytes> back = co_await r.files().read(path);
    EXPECT_EQ(as_text(*back), "old");
  }(*rt, dir / "file"));
}

// write_atomic is write, sync, rename, sync: whichever fails, readers see the old or the new content.
TEST(RealFiles, AnAtomicWriteThatFailsAnywhereLeavesTheOldOrTheNewContentAndNoTemporary) {
  for (std::uint64_t failing = 0; failing <= 4; ++failing) {
    const TempDir dir;
    auto rt = runtime_with({{RealFault::Kind::kError, "disk", failing + 1}});
    rt->run([](Runtime& r, std::string root, std::uint64_t at) -> Task<void> {
      const std::string path = root + "/file";
      EXPECT_TRUE((co_await r.files().write(path, as_bytes("old"))).ok());
      const Status done = co_await r.files().write_atomic(path, as_bytes("new"));
      EXPECT_EQ(done.ok(), at >= 4);
      if (at == 4) (void)co_await r.files().exists(path);  // takes the fault
      const Result<Bytes> back = co_await r.files().read(path);
      EXPECT_EQ(as_text(*back), at >= 3 ? "new" : "old") << "fault at operation " << at;
      const auto names = co_await r.files().list(root);
      EXPECT_EQ(*names, std::vector<std::string>{"file"});
    }(*rt, dir.path(), failing));
  }
}

TEST(RealFiles, OperationsInFlightCountAsActivityAndTheLoopGoesOn) {
  const TempDir dir;
  auto rt = runtime_with();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    const Bytes bytes(1 << 20);
    Task<Status> write = r.files().write(path, bytes);
    bool turned = false;
    r.post([&] {
      EXPECT_EQ(r.activity().io_in_flight, 1);
      turned = true;
    });
    EXPECT_TRUE((co_await write).ok());
    EXPECT_TRUE(turned);
    EXPECT_FALSE(r.activity().busy());
  }(*rt, dir / "file"));
}

// The operation refers to the destroyed frame: it must have ended or never start.
TEST(RealFiles, ATaskDestroyedDuringAnOperationIsSafe) {
  const TempDir dir;
  auto rt = runtime_with();
  rt->run([](Runtime& r, std::string path) -> Task<void> {
    for (int i = 0; i < 50; ++i) {
      auto first = std::make_unique<Bytes>(1 << 16), second = std::make_unique<Bytes>(1 << 16);
      auto run = [](Runtime& r2, std::string p, ByteView bytes) -> Task<void> {
        (void)co_await r2.files().write(p, bytes);
      };
      Task<void> a = run(r, path, *first), b = run(r, path, *second);
      a.start();
      b.start();
      b = Task<void>();
      a = Task<void>();
    }
    EXPECT_FALSE(r.activity().busy());
    co_await r.sleep_for(0);
  }(*rt, dir / "file"));
}

}  // namespace
}  // namespace trireme::runtime
