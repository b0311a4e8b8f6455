// Texts of GPU kernels that were compiled, for all GPUs of this process and for the next start: whoever opens
// a GPU takes the file's, whoever has compiled a job's graphs writes it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace trireme::kernel {

class CompiledTexts {
 public:
  // What was compiled of the text with this key (64 characters of a hash of all that decides it).
  std::optional<std::string> find(const std::string& key);
  void add(const std::string& key, std::string compiled);
  int num_added() const;

  // All of them as bytes; empty where none was added. Beyond 64 MiB those that this process did not use are
  // left out.
  std::string to_keep() const;
  void take(std::string_view bytes);  // damaged bytes are left alone

  // Where they are kept; empty: nowhere. Set before threads start.
  void set_file(std::string path) { file_ = std::move(path); }
  const std::string& file() const { return file_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> texts_;
  std::set<std::string> used_;
  int num_added_ = 0;
  std::string file_;
};

CompiledTexts& compiled_texts();  // of this process

}  // namespace trireme::kernel
