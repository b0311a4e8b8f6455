// One virtual machine whose processes come one after the other and share its disk.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/runtime/files.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::io {

class Machine {
 public:
  explicit Machine(std::vector<runtime::FaultSpec> faults = {}, std::vector<runtime::DiskFault> disk = {});

  // Runs a process to its end, or to the fault that kills it. `body` stays where it is until then.
  void run(const std::function<runtime::Task<void>(runtime::Runtime&)>& body);
  bool was_killed() const;               // the last process
  std::vector<std::string> log() const;  // of the last process
  TimeNs end_time() const { return end_time_; }

  void write(const std::string& path, Bytes bytes);  // makes the folders
  Bytes read(const std::string& path);               // a missing file fails the test
  std::vector<std::string> list(const std::string& path);
  // Every file of a folder of files.
  std::map<std::string, Bytes> read_folder(const std::string& path);

 private:
  std::unique_ptr<runtime::VirtualWorld> world_;
  runtime::Runtime* rt_ = nullptr;
  TimeNs end_time_ = 0;
};

// The fault that strikes process `process` (from 0) at its file operation `operation`.
runtime::FaultSpec disk_fault(runtime::FaultSpec::Kind kind, int process, std::uint64_t operation);

}  // namespace trireme::io
