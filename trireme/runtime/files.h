// Files of one machine. Real: the operating system, on an I/O thread. Virtual: in memory, with disk faults.
// Paths are '/'-separated; relative ones start at the working directory. Errors name the path and the reason.
#pragma once

#include <memory>
#include <optional>
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

// Held while the object lives, and at most as long as its process, however that ends. It may outlive the
// Runtime that took it.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct LockAttempt {
  std::unique_ptr<FileLock> lock;     // null: it was not taken
  std::optional<std::string> holder;  // somebody else holds it: what that one wrote
  bool has_locks = true;              // false: the file system knows no locks
};

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

  // Takes the lock `path` for everybody who asks through the same file system, or says who holds it; never
  // waits. Real: a file of that name with the text `who`, there while the lock is held (a killed holder
  // leaves the file, which then means nothing).
  virtual Task<Result<LockAttempt>> try_lock(std::string path, std::string who) = 0;
  // What the holder of a lock wrote; nothing: nobody holds it. Takes nothing. kUnavailable: the file system
  // knows no locks.
  virtual Task<Result<std::optional<std::string>>> lock_holder(std::string path) = 0;

  // Temporary file beside `path`, sync, rename, sync of the directory: readers see the old or the new
  // content. Names that people give for their results stay what they are: a link is followed and the file it
  // names is replaced; a FIFO, a device or a descriptor (/dev/stdout) is written into.
  Task<Status> write_atomic(std::string path, ByteView bytes);
  // What write_atomic would say of `path` before it writes: for commands that work long before they do.
  Task<Status> check_output(std::string path);

 protected:
  struct Output {
    std::string path;
    bool in_place = false;  // nothing that a rename may replace
  };
  // Where the bytes for `path` go. Here: where it says.
  virtual Task<Result<Output>> find_output(std::string path);
};

}  // namespace trireme::runtime
