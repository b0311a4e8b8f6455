// A virtual machine whose disk the test fills, and what loading gives there.
#pragma once

#include "trireme/data/source.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::data {

class DataDisk {
 public:
  // Faults strike the machine's only Runtime, 0.
  explicit DataDisk(std::vector<runtime::FaultSpec> faults = {});
  DataDisk& put(std::string path, const Bytes& bytes);
  DataDisk& put(const std::string& path, std::string_view text) { return put(path, to_bytes(text)); }
  // Copies fixtures under other names.
  DataDisk& put_fixture(const std::string& path, const std::string& name);

  Bytes get(std::string path);
  std::vector<std::string> list(std::string path);
  const std::vector<std::string>& log() { return world_->log_of(*rt_); }

  Result<std::shared_ptr<const Dataset>> load(DataSpec spec);
  // The message of a load that must fail.
  std::string why(DataSpec spec);

 private:
  void run(runtime::Task<void> task);
  std::unique_ptr<runtime::VirtualWorld> world_;
  runtime::Runtime* rt_;
};

// All of a sample, as training sees it.
std::vector<float> features_of(const Dataset& set, std::int64_t id);

}  // namespace trireme::data
