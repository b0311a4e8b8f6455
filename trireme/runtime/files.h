// Files of one machine. Real: the operating system, on an I/O thread. Virtual: in memory, with disk faults.
// Paths are '/'-separated; relative ones start at the working directory. Errors name the path and the reason.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// The content of a file that `owner` keeps in memory.
struct FileView {
  ByteView bytes;
  std::shared_ptr<const void> owner;
};

FileView view_of(Bytes bytes);

class Files {
 public:
  virtual ~Files() = default;
  virtual Task<Result<Bytes>> read(std::string path) = 0;
  // The same to read only. Real: mapped, so that all processes of the host that map it share the memory; the
  // file must be replaced by rename, never written in place. Here: a copy.
  virtual Task<Result<FileView>> map(std::string path);
  // Creates or replaces; not atomic and not synced. The bytes must stay until the task ends.
  virtual Task<Status> write(std::string path, ByteView bytes) = 0;
  virtual Task<Status> append(std::string path, ByteView bytes) = 0;
  // Makes the content (and for a directory the entries) survive a crash.
  virtual Task<Status> sync(std::string path) = 0;
  virtual Task<Status> rename(std::string from, std::string to) = 0;  // atomic replace
  virtual Task<Status> remove_all(std::string path) = 0;              // a missing path is fine
  virtual Task<Status> make_dirs(std::string path) = 0;
  virtual Task<Result<std::vector<std::string>>> list(std::string path) = 0;  // names, sorted
  virtual Task<Result<bool>> exists(std::string path) = 0;
  // The same place, from any working directory. Here: the path itself.
  virtual std::string absolute(std::string path) const { return path; }

  // Temporary file beside `path`, sync, rename, sync of the directory: readers see the old or the new
  // content.
  Task<Status> write_atomic(std::string path, ByteView bytes);
};

}  // namespace trireme::runtime
