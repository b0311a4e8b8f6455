// Where results go that people name: links, FIFOs and devices stay what they are.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/runtime/temp_dir.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

enum class How { kWrite, kCheck };

Status output(const std::string& path, const std::string& text, How how = How::kWrite) {
  RealOptions options;
  options.compute_threads = 1;
  const auto rt = make_real_runtime(options);
  Status status;
  const auto body = [&](Files& files) -> Task<void> {
    if (how == How::kCheck)
      status = co_await files.check_output(path);
    else
      status = co_await files.write_atomic(path, as_bytes(text));
  };
  rt->run(body(rt->files()));
  return status;
}

TEST(Outputs, ALinkStaysALinkAndItsFileIsReplaced) {
  const TempDir dir;
  fs::create_directory(dir / "far");
  std::ofstream(dir / "far/target") << "old";
  fs::create_symlink("far/target", dir / "link");
  fs::create_symlink("link", dir / "second");
  EXPECT_TRUE(output(dir / "second", "new").ok());
  EXPECT_TRUE(fs::is_symlink(dir / "second"));
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(content_of(dir / "far/target"), "new");
  for (const auto& entry : fs::directory_iterator(dir / "far")) EXPECT_EQ(entry.path().filename(), "target");
}

TEST(Outputs, ALinkToNothingMakesItsFile) {
  const TempDir dir;
  fs::create_symlink(dir / "to come", dir / "link");
  EXPECT_TRUE(output(dir / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(content_of(dir / "to come"), "new");
}

TEST(Outputs, LinksInACircleAreRefused) {
  const TempDir dir;
  fs::create_symlink("a", dir / "b");
  fs::create_symlink("b", dir / "a");
  const Status status = output(dir / "a", "new");
  EXPECT_NE(status.message().find("symbolic links"), std::string::npos) << status.to_string();
}

TEST(Outputs, AFifoIsWrittenInto) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = content_of(dir / "fifo"); });
  EXPECT_TRUE(output(dir / "fifo", "through").ok());
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(dir / "fifo"));
}

TEST(Outputs, ADeviceIsWrittenIntoAndItsErrorsAreTold) {
  EXPECT_TRUE(output("/dev/null", "gone").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(output("/dev/full", "more").code(), Code::kExhausted);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(Outputs, WhatCannotBeWrittenIsKnownBefore) {
  const TempDir dir;
  std::ofstream(dir / "file") << "x";
  EXPECT_TRUE(output(dir / "new", "", How::kCheck).ok());
  EXPECT_TRUE(output(dir / "file", "", How::kCheck).ok());
  EXPECT_FALSE(fs::exists(dir / "new")) << "looked at only";
  const Status missing = output(dir / "nodir/x.json", "", How::kCheck);
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.message(),
            fmt::format("[files] cannot write '{}': No such file or directory", dir / "nodir/x.json"));
  EXPECT_EQ(output(dir.path(), "", How::kCheck).code(), Code::kInvalid) << "a directory";
  EXPECT_FALSE(output(dir / "file/x", "", How::kCheck).ok());
}

}  // namespace
}  // namespace trireme::runtime
