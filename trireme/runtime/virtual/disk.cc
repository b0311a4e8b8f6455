#include "trireme/runtime/virtual/disk.h"

#include <utility>

namespace trireme::runtime::virt {
namespace {

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

bool is_below(const std::string& path, const std::string& dir) {
  if (dir == "/") return path != "/";
  return path.size() > dir.size() && path.compare(0, dir.size(), dir) == 0 && path[dir.size()] == '/';
}

Status missing(const std::string& path) {
  return error(Code::kNotFound, "[files] '{}' does not exist; check the path", path);
}

}  // namespace

std::string normal_path(const std::string& path) {
  std::string out;
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == "..")
      out.resize(out.empty() ? 0 : out.rfind('/'));
    else if (!part.empty() && part != ".")
      out += "/" + part;
    at = end + 1;
  }
  return out.empty() ? "/" : out;
}

Status Disk::check_parent(const std::string& path) const {
  if (dirs_.count(path) > 0)
    return error(Code::kInvalid, "[files] '{}' is a directory, expected a file", path);
  const std::string parent = parent_of(path);
  if (dirs_.count(parent) == 0) return missing(parent);
  return {};
}

Result<Bytes> Disk::read(const std::string& path) const {
  const auto found = names_.find(path);
  if (found == names_.end()) return missing(path);
  return found->second->content;
}

Status Disk::write(const std::string& path, ByteView bytes, int writer) {
  TR_RETURN_IF_ERROR(check_parent(path));
  std::shared_ptr<Inode>& inode = names_[path];
  if (!inode) {
    inode = std::make_shared<Inode>();
    touch(path, writer);
  }
  inode->content.assign(bytes.begin(), bytes.end());
  inode->dirty_by = writer;
  return {};
}

Status Disk::append(const std::string& path, ByteView bytes, int writer) {
  TR_RETURN_IF_ERROR(check_parent(path));
  if (names_.count(path) == 0) return write(path, bytes, writer);
  Inode& inode = *names_[path];
  inode.content.insert(inode.content.end(), bytes.begin(), bytes.end());
  inode.dirty_by = writer;
  return {};
}

Status Disk::sync(const std::string& path) {
  if (const auto found = names_.find(path); found != names_.end()) {
    found->second->synced = found->second->content;
    found->second->dirty_by = -1;
    return {};
  }
  if (dirs_.count(path) == 0) return missing(path);
  for (auto it = unsynced_names_.begin(); it != unsynced_names_.end();) {
    const std::string& name = it->first;
    // A name in a directory that was removed goes with the directory that held it.
    const bool orphan = is_below(name, path) && dirs_.count(parent_of(name)) == 0;
    if (parent_of(name) != path && !orphan) {
      ++it;
      continue;
    }
    if (const auto live = names_.find(name); live != names_.end())
      synced_names_[name] = live->second;
    else
      synced_names_.erase(name);
    it = unsynced_names_.erase(it);
  }
  return {};
}

Status Disk::rename(const std::string& from, const std::string& to, int writer) {
  if (dirs_.count(from) > 0)
    return error(Code::kInvalid, "[files] '{}' is a directory: virtual machines rename files only", from);
  const auto found = names_.find(from);
  if (found == names_.end()) return missing(from);
  TR_RETURN_IF_ERROR(check_parent(to));
  if (from == to) return {};
  std::shared_ptr<Inode> inode = std::move(found->second);
  names_.erase(found);
  names_[to] = std::move(inode);
  touch(from, writer);
  touch(to, writer);
  return {};
}

Status Disk::remove_all(const std::string& path, int writer) {
  for (auto it = names_.begin(); it != names_.end();) {
    if (it->first == path || is_below(it->first, path)) {
      touch(it->first, writer);
      it = names_.erase(it);
    } else {
      ++it;
    }
  }
  std::erase_if(dirs_,
                [&](const std::string& dir) { return dir != "/" && (dir == path || is_below(dir, path)); });
  return {};
}

Status Disk::make_dirs(const std::string& path) {
  for (std::string dir = path; dir != "/"; dir = parent_of(dir)) {
    if (names_.count(dir) > 0)
      return error(Code::kExists, "[files] cannot make directory '{}': '{}' is a file", path, dir);
    dirs_.insert(dir);
  }
  return {};
}

Result<std::vector<std::string>> Disk::list(const std::string& path) const {
  if (dirs_.count(path) == 0) return missing(path);
  std::set<std::string> found;
  const std::size_t skip = path == "/" ? 1 : path.size() + 1;
  for (const auto& [name, inode] : names_)
    if (parent_of(name) == path) found.insert(name.substr(skip));
  for (const std::string& dir : dirs_)
    if (dir != "/" && parent_of(dir) == path) found.insert(dir.substr(skip));
  return std::vector<std::string>(found.begin(), found.end());
}

class Disk::Lock final : public FileLock {
 public:
  Lock(std::shared_ptr<Locks> locks, std::string path, std::uint64_t id)
      : locks_(std::move(locks)), path_(std::move(path)), id_(id) {}
  ~Lock() override {
    const auto found = locks_->find(path_);
    if (found != locks_->end() && found->second.id == id_) locks_->erase(found);
  }

 private:
  const std::shared_ptr<Locks> locks_;
  const std::string path_;
  const std::uint64_t id_;
};

LockAttempt Disk::try_lock(const std::string& path, std::string who, int holder) {
  LockAttempt attempt;
  attempt.holder = lock_holder(path);
  if (attempt.holder) return attempt;
  const std::uint64_t id = ++num_locks_;
  (*locks_)[path] = {holder, id, std::move(who)};
  attempt.lock = std::make_unique<Lock>(locks_, path, id);
  return attempt;
}

std::optional<std::string> Disk::lock_holder(const std::string& path) const {
  const auto found = locks_->find(path);
  if (found == locks_->end()) return std::nullopt;
  return found->second.who;
}

void Disk::drop_locks(int holder) {
  std::erase_if(*locks_, [holder](const auto& entry) { return entry.second.holder == holder; });
}

std::uint64_t Disk::used_bytes(const std::string& without) const {
  std::uint64_t bytes = 0;
  for (const auto& [name, inode] : names_)
    if (name != without) bytes += inode->content.size();
  return bytes;
}

void Disk::lose_unsynced(int writer) {
  for (auto it = unsynced_names_.begin(); it != unsynced_names_.end();) {
    if (it->second != writer) {
      ++it;
      continue;
    }
    if (const auto synced = synced_names_.find(it->first); synced != synced_names_.end()) {
      names_[it->first] = synced->second;
      for (std::string dir = parent_of(it->first); dir != "/"; dir = parent_of(dir)) dirs_.insert(dir);
    } else {
      names_.erase(it->first);
    }
    it = unsynced_names_.erase(it);
  }
  for (auto& [name, inode] : names_)
    if (inode->dirty_by == writer) {
      inode->content = inode->synced;
      inode->dirty_by = -1;
    }
}

void Disk::tear(const std::string& path, ByteView bytes, bool append) {
  if (!check_parent(path).ok()) return;
  std::shared_ptr<Inode>& inode = names_[path];
  if (!inode) inode = std::make_shared<Inode>();
  if (!append) inode->content.clear();
  const ByteView half = bytes.first(bytes.size() / 2);
  inode->content.insert(inode->content.end(), half.begin(), half.end());
  inode->synced = inode->content;
  inode->dirty_by = -1;
  synced_names_[path] = inode;
  unsynced_names_.erase(path);
}

}  // namespace trireme::runtime::virt
