// The files of one virtual machine and what of them survives a crash of their writer.
//
// Names and contents are kept twice: as every Runtime of the machine sees them now, and as they were last
// synced. sync(file) keeps its content, sync(directory) keeps the names in it. When a Runtime is killed,
// names and contents that it was the last to change go back to the synced ones; a torn write leaves half of
// its bytes, synced. Locks are no files: they end with their holder.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"
#include "trireme/base/units.h"
#include "trireme/runtime/files.h"

namespace trireme::runtime::virt {

// Paths are absolute and normal: see normal_path. Not a Task: the caller charges the time.
class Disk {
 public:
  Result<Bytes> read(const std::string& path) const;
  Status write(const std::string& path, ByteView bytes, int writer);
  Status append(const std::string& path, ByteView bytes, int writer);
  Status sync(const std::string& path);
  Status rename(const std::string& from, const std::string& to, int writer);
  Status remove_all(const std::string& path, int writer);
  Status make_dirs(const std::string& path);
  Result<std::vector<std::string>> list(const std::string& path) const;
  bool exists(const std::string& path) const { return dirs_.count(path) > 0 || names_.count(path) > 0; }

  // Whether a file may be made there.
  Status check_parent(const std::string& path) const;
  LockAttempt try_lock(const std::string& path, std::string who, int holder);
  std::optional<std::string> lock_holder(const std::string& path) const;
  void drop_locks(int holder);  // of a Runtime that ended

  std::uint64_t used_bytes(const std::string& without) const;  // of all files but one

  // What the kill of a Runtime leaves.
  void lose_unsynced(int writer);
  // After lose_unsynced: half of `bytes` made it to the disk, replacing or following the content.
  void tear(const std::string& path, ByteView bytes, bool append);

  TimeNs free_at = 0;  // the disk does one operation at a time

 private:
  struct Held {
    int holder = -1;
    std::uint64_t id = 0;  // of the FileLock
    std::string who;
  };
  using Locks = std::map<std::string, Held>;
  class Lock;
  struct Inode {
    Bytes content, synced;
    int dirty_by = -1;  // the last Runtime to change the content since the last sync
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  void touch(const std::string& path, int writer) { unsynced_names_[path] = writer; }

  Names names_, synced_names_;
  std::map<std::string, int> unsynced_names_;  // name -> last Runtime to make, replace or remove it
  std::set<std::string> dirs_{"/"};            // directories survive from the moment they are made
  std::shared_ptr<Locks> locks_ = std::make_shared<Locks>();  // a FileLock may outlive the disk
  std::uint64_t num_locks_ = 0;
};

// "/a/b" for "a//b/", "./a/b" and "/a/./b": relative paths start at "/".
std::string normal_path(const std::string& path);

}  // namespace trireme::runtime::virt
