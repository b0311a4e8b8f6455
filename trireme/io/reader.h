// Reading checkpoints for tools and for models that start from another: describe, load, verify.
//
// A path is one of
//   a run folder          (it has checkpoints/): its newest whole generation,
//   a checkpoints folder  (it has step-<n>/): the same,
//   a generation          (it has manifest.json),
//   a file                *.safetensors, of any program.
// kNotFound when it is none of these.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/io/checkpoint.h"
#include "trireme/io/compare.h"
#include "trireme/io/manifest.h"

namespace trireme::io {

struct CheckpointInfo {
  std::string path;                                           // the generation's folder, or the file
  bool is_generation = false;                                 // false: a bare file, without step and state
  Manifest manifest;                                          // of a bare file: version 0, one file
  std::vector<std::pair<std::string, std::string>> metadata;  // of a bare file: what its writer noted
  std::vector<std::int64_t> generations;  // steps of all in the checkpoints folder, newest first

  std::int64_t num_elems() const;
  std::uint64_t tensor_bytes() const;
};

// What is there, without checking tensors against hashes. In a folder the newest generation with a readable
// manifest is described. The hash of a bare file is computed.
runtime::Task<Result<CheckpointInfo>> describe_checkpoint(runtime::Runtime& rt, std::string path);

// The tensors, every hash checked. In a folder damaged generations are skipped with a line in the log.
runtime::Task<Result<NamedTensors>> load_tensors(runtime::Runtime& rt, std::string path);

// What is wrong with one generation or file; nothing: empty lists.
struct VerifiedCheckpoint {
  struct NonFinite {
    std::string tensor;
    NonFiniteCount count;
  };
  std::string path;
  std::int64_t step = -1;  // -1: a bare file, or the manifest is not readable
  std::size_t num_files = 0, num_tensors = 0;
  std::uint64_t bytes = 0;  // of the files that were read
  std::vector<std::string>
      damages;  // a message per file that is missing, changed or not as its manifest says
  std::vector<NonFinite> non_finite;  // tensors that hold NaN or infinity
  std::vector<std::string> notes;     // no damage, but worth knowing: files that nothing names
  bool finished = true;               // false: no manifest, the process that wrote it ended too early

  bool ok() const { return finished && damages.empty() && non_finite.empty(); }
};
// Is every finished one ok, and is there one? What a crash left half-written is harmless beside others.
bool all_ok(const std::vector<VerifiedCheckpoint>& checkpoints);

// Every file, hash and value of all generations that `path` leads to, newest first. Fails only when there is
// nothing to verify.
runtime::Task<Result<std::vector<VerifiedCheckpoint>>> verify_checkpoint(runtime::Runtime& rt,
                                                                         std::string path);

struct CheckpointDiff {
  std::string first_path, second_path;             // the generations' folders, or files
  std::int64_t first_step = -1, second_step = -1;  // -1: a bare file
  std::vector<TensorDiff> tensors;
};
// Loads both as load_tensors does.
runtime::Task<Result<CheckpointDiff>> diff_checkpoints(runtime::Runtime& rt, std::string first,
                                                       std::string second);

}  // namespace trireme::io
