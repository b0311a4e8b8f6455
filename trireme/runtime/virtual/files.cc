// Files of a virtual machine as Tasks: each operation is fault point ("disk", n), n counting the operations
// of its Runtime from 0, waits its turn at the disk, takes its time, and has its effect at the end.
#include "trireme/runtime/files.h"

#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {
namespace {

constexpr TimeNs kDiskOverheadNs = 50 * kMicro;
constexpr double kDiskBytesPerSecond = 1e9;

class InFlight {
 public:
  explicit InFlight(VirtualNode& node) : node_(node) { ++node_.activity_.io_in_flight; }
  ~InFlight() { --node_.activity_.io_in_flight; }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  VirtualNode& node_;
};

class VirtualFiles final : public Files {
 public:
  explicit VirtualFiles(VirtualNode& node) : node_(node) {}

  Task<Result<Bytes>> read(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("read", path));
    Result<Bytes> content = disk().read(path);
    co_await node_.sleep_until(turn(content.ok() ? content->size() : 0));
    co_return disk().read(path);
  }

  Task<Status> write(std::string path, ByteView bytes) override { return put(std::move(path), bytes, false); }
  Task<Status> append(std::string path, ByteView bytes) override { return put(std::move(path), bytes, true); }

  Task<Status> sync(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("sync", path));
    co_await node_.sleep_until(turn(0));
    co_return disk().sync(path);
  }

  Task<Status> rename(std::string from, std::string to) override {
    from = normal_path(from);
    to = normal_path(to);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("rename", from));
    co_await node_.sleep_until(turn(0));
    co_return disk().rename(from, to, node_.index);
  }

  Task<Status> remove_all(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("remove", path));
    co_await node_.sleep_until(turn(0));
    co_return disk().remove_all(path, node_.index);
  }

  Task<Status> make_dirs(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("make directory", path));
    co_await node_.sleep_until(turn(0));
    co_return disk().make_dirs(path);
  }

  Task<Result<std::vector<std::string>>> list(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("list", path));
    co_await node_.sleep_until(turn(0));
    co_return disk().list(path);
  }

  Task<Result<bool>> exists(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("look up", path));
    co_await node_.sleep_until(turn(0));
    co_return disk().exists(path);
  }

  Task<Result<LockAttempt>> try_lock(std::string path, std::string who) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("lock", path));
    co_await node_.sleep_until(turn(0));
    TR_CO_RETURN_IF_ERROR(disk().check_parent(path));
    co_return disk().try_lock(path, std::move(who), node_.index);
  }

  Task<Result<std::optional<std::string>>> lock_holder(std::string path) override {
    path = normal_path(path);
    const InFlight busy(node_);
    TR_CO_RETURN_IF_ERROR(fault("look at the lock", path));
    co_await node_.sleep_until(turn(0));
    co_return disk().lock_holder(path);
  }

 private:
  Task<Status> put(std::string path, ByteView bytes, bool append) {
    path = normal_path(path);
    const InFlight busy(node_);
    const bool was_alive = !node_.dead;
    TR_CO_RETURN_IF_ERROR(fault(append ? "append" : "write", path));
    if (was_alive && node_.dead) disk().tear(path, bytes, append);
    co_await node_.sleep_until(turn(bytes.size()));
    TR_CO_RETURN_IF_ERROR(room_for(path, bytes.size(), append));
    if (append) co_return disk().append(path, bytes, node_.index);
    co_return disk().write(path, bytes, node_.index);
  }

  Disk& disk() { return node_.machine().disk; }

  Status fault(const char* operation, const std::string& path) {
    const bool strikes = node_.fault_point("disk", node_.num_disk_ops++) == FaultAction::kError;
    if (!strikes && (node_.dead || !node_.core.disk_fails(node_.machine_index))) return {};
    return error(Code::kUnavailable, "[files] cannot {} '{}': input/output error (injected); check the disk",
                 operation, path);
  }

  Status room_for(const std::string& path, std::size_t bytes, bool append) {
    const std::uint64_t capacity = node_.core.disk_capacity(node_.machine_index);
    if (capacity == UINT64_MAX) return {};
    const std::uint64_t used = disk().used_bytes(append ? "" : path) + bytes;
    if (used <= capacity) return {};
    return error(Code::kExhausted,
                 "[files] cannot write {} to '{}': no space left on the disk of {} (injected)",
                 format_bytes(bytes), path, format_bytes(capacity));
  }

  // When an operation of `bytes` that begins now is through.
  TimeNs turn(std::size_t bytes) {
    TimeNs& free_at = disk().free_at;
    free_at = std::max(free_at, node_.now()) + kDiskOverheadNs +
              from_seconds(static_cast<double>(bytes) / kDiskBytesPerSecond);
    return free_at;
  }

  VirtualNode& node_;
};

}  // namespace

std::unique_ptr<Files> make_virtual_files(VirtualNode& node) { return std::make_unique<VirtualFiles>(node); }

}  // namespace trireme::runtime::virt
