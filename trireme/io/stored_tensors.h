// StoredTensors: the tensors of a checkpoint or of a safetensors file, read piece by piece. Whoever holds a
// part of a tensor reads that part, however the tensor was cut when it was written.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/io/reader.h"

namespace trireme::io {

// Belongs to the loop of one Runtime; one call at a time. One file at a time is open: mapped where the
// Runtime maps files, else in memory.
class StoredTensors {
 public:
  // `path` as in reader.h; in a folder the newest generation whose manifest is right. Nothing of a tensor is
  // read yet.
  static runtime::Task<Result<std::shared_ptr<StoredTensors>>> open(runtime::Runtime& rt, std::string path);

  const CheckpointInfo& info() const { return info_; }
  // Ranks that have the same text see the same tensors.
  std::string content_sha256() const { return io::content_sha256(info_.manifest); }
  // The type of the whole tensor; nothing: there is none of that name.
  std::optional<TensorType> type_of(const std::string& name) const;

  // Reads a piece of a tensor that has the type `piece.whole`; `to` is contiguous and has as many elements.
  // What is read is checked against the hash of its file, or of the pieces that it is made of where the
  // manifest has them. kNotFound: there is no such tensor, or of another type. kCorrupt: a file is damaged.
  runtime::Task<Status> read(parallel::Piece piece, Tensor to);
  // Every hash, without keeping anything.
  runtime::Task<Status> verify();
  // Somebody has verified the same files of the same disk: hashes are not checked again.
  void take_as_verified() { verified_ = true; }

 private:
  struct File {
    std::size_t index = 0;
    runtime::FileView view;
    SafetensorsHeader header;
  };

  StoredTensors(runtime::Runtime& rt, CheckpointInfo info) : rt_(rt), info_(std::move(info)) {}
  const Manifest& manifest() const { return info_.manifest; }
  std::string path_of(std::size_t file) const;
  runtime::Task<Status> open_file(std::size_t index);
  // Checks a piece of the file that is open.
  runtime::Task<Status> check_piece(std::size_t tensor);
  runtime::Task<Status> copy_from(std::size_t tensor, parallel::Piece piece, Tensor to);

  runtime::Runtime& rt_;
  CheckpointInfo info_;
  std::map<std::string, std::vector<std::size_t>> entries_;  // of the manifest, by the tensor's name
  std::vector<std::size_t> places_;                          // per entry: its place in the header of its file
  std::shared_ptr<File> file_;                               // the one that is open
  bool verified_ = false;
  std::set<std::size_t> checked_files_, checked_pieces_;  // their hashes are right
};

// A generation that was found to be damaged when it was read.
struct DamagedCheckpoint {
  std::int64_t step = std::numeric_limits<std::int64_t>::max();
  std::string damage = {};
};
// The newest generation in `dir` before `newer`, a damaged one, whose manifest is right; others are skipped
// with a line in the log. kNotFound when none was ever finished; kCorrupt when all that were are damaged.
runtime::Task<Result<std::shared_ptr<StoredTensors>>> open_newest(runtime::Runtime& rt, std::string dir,
                                                                  DamagedCheckpoint newer);
// The newest generation in `dir` with every hash checked, and otherwise as open_newest.
runtime::Task<Result<std::shared_ptr<StoredTensors>>> open_newest_verified(runtime::Runtime& rt,
                                                                           std::string dir);
// As StoredTensors::open, with every hash checked; in a folder damaged generations are skipped with a line in
// the log.
runtime::Task<Result<std::shared_ptr<StoredTensors>>> open_verified(runtime::Runtime& rt, std::string path);

}  // namespace trireme::io
