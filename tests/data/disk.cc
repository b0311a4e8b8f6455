#include "tests/data/disk.h"

#include <gtest/gtest.h>

#include "tests/data/fixture.h"

namespace trireme::data {
namespace {

using runtime::Runtime;
using runtime::Task;

Task<void> write_file(Runtime& rt, std::string path, const Bytes& bytes) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos) {
    const Status made = co_await rt.files().make_dirs(path.substr(0, slash));
    EXPECT_TRUE(made.ok()) << made.to_string();
  }
  const Status written = co_await rt.files().write(path, bytes);
  EXPECT_TRUE(written.ok()) << written.to_string();
}

Task<void> read_file(Runtime& rt, std::string path, Bytes& out) {
  Result<Bytes> file = co_await rt.files().read(path);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  if (file.ok()) out = std::move(*file);
}

Task<void> list_folder(Runtime& rt, std::string path, std::vector<std::string>& out) {
  auto names = co_await rt.files().list(path);
  EXPECT_TRUE(names.ok()) << names.status().to_string();
  if (names.ok()) out = std::move(*names);
}

Task<void> load_set(Runtime& rt, DataSpec spec, Result<std::shared_ptr<const Dataset>>& out) {
  out = co_await make_dataset(rt, std::move(spec));
}

}  // namespace

DataDisk::DataDisk(std::vector<runtime::FaultSpec> faults) {
  runtime::WorldSpec spec;
  spec.faults = std::move(faults);
  spec.topology = cost::Topology::single_switch(1, {}, {});
  world_ = runtime::make_virtual_world(spec);
  rt_ = &world_->add_runtime(0, "rank");
}

void DataDisk::run(Task<void> task) {
  world_->start(*rt_, std::move(task));
  const auto report = world_->run(kForever);
  ASSERT_TRUE(report.finished) << report.stuck;
}

DataDisk& DataDisk::put(std::string path, const Bytes& bytes) {
  run(write_file(*rt_, std::move(path), bytes));
  return *this;
}

DataDisk& DataDisk::put_fixture(const std::string& path, const std::string& name) {
  return put(path, fixture(name));
}

Bytes DataDisk::get(std::string path) {
  Bytes out;
  run(read_file(*rt_, std::move(path), out));
  return out;
}

std::vector<std::string> DataDisk::list(std::string path) {
  std::vector<std::string> out;
  run(list_folder(*rt_, std::move(path), out));
  return out;
}

Result<std::shared_ptr<const Dataset>> DataDisk::load(DataSpec spec) {
  Result<std::shared_ptr<const Dataset>> out = error(Code::kInternal, "nothing was loaded");
  run(load_set(*rt_, std::move(spec), out));
  return out;
}

std::string DataDisk::why(DataSpec spec) { return load(std::move(spec)).status().message(); }

std::vector<float> features_of(const Dataset& set, std::int64_t id) {
  std::vector<float> features(static_cast<std::size_t>(set.sample_elems())), weights(1);
  fill_batch(set, std::span(&id, 1), {}, {features, {}, {}, weights});
  return features;
}

}  // namespace trireme::data
