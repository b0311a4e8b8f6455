#include "tests/io/machine.h"

#include <gtest/gtest.h>

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

Task<void> list_into(Runtime& rt, std::string path, std::vector<std::string>& out) {
  Result<std::vector<std::string>> names = co_await rt.files().list(path);
  if (names.ok()) out = *names;
}

Task<void> write_file(Runtime& rt, std::string path, const Bytes& bytes) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  const Status made = co_await rt.files().make_dirs(folder);
  EXPECT_TRUE(made.ok()) << made.to_string();
  const Status written = co_await rt.files().write(path, bytes);
  EXPECT_TRUE(written.ok()) << written.to_string();
}

Task<void> read_file(Runtime& rt, std::string path, Bytes& out) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  if (bytes.ok()) out = *bytes;
}

}  // namespace

Machine::Machine(std::vector<runtime::FaultSpec> faults, std::vector<runtime::DiskFault> disk) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(1, {}, {});
  spec.faults = std::move(faults);
  spec.disk_faults = std::move(disk);
  world_ = runtime::make_virtual_world(spec);
}

void Machine::run(const std::function<Task<void>(Runtime&)>& body) {
  rt_ = &world_->add_runtime(0, "process");
  world_->start(*rt_, body(*rt_));
  const auto report = world_->run(kForever);
  end_time_ = report.end_time;
  ASSERT_TRUE(report.finished) << report.stuck;
}

bool Machine::was_killed() const { return world_->is_dead(*rt_); }
std::vector<std::string> Machine::log() const { return world_->log_of(*rt_); }

void Machine::write(const std::string& path, Bytes bytes) {
  run([&](Runtime& rt) { return write_file(rt, path, bytes); });
}

Bytes Machine::read(const std::string& path) {
  Bytes bytes;
  run([&](Runtime& rt) { return read_file(rt, path, bytes); });
  return bytes;
}

std::vector<std::string> Machine::list(const std::string& path) {
  std::vector<std::string> names;
  run([&](Runtime& rt) { return list_into(rt, path, names); });
  return names;
}

std::map<std::string, Bytes> Machine::read_folder(const std::string& path) {
  std::map<std::string, Bytes> files;
  for (const std::string& name : list(path)) files[name] = read(path + "/" + name);
  return files;
}

runtime::FaultSpec disk_fault(runtime::FaultSpec::Kind kind, int process, std::uint64_t operation) {
  runtime::FaultSpec fault;
  fault.kind = kind;
  fault.runtime = process;
  fault.site = "disk";
  fault.index = operation;
  return fault;
}

}  // namespace trireme::io
