// Inputs of the fuzz targets of array files: IDX (gzip or not), NPY and NPZ. Shared by the libFuzzer programs
// and by the test that replays their corpora.
#pragma once

#include "trireme/data/read/idx.h"
#include "trireme/data/read/inflate.h"
#include "trireme/data/read/npy.h"

namespace trireme::data {

inline constexpr std::size_t kFuzzMaxBytes = std::size_t{1} << 20;

inline void check_array(const FileArray& array) {
  TR_CHECK(array.bytes.size() == array.type.num_bytes());
  Dataset samples, labelled;
  if (append_arrays(samples, {&array, nullptr, "x", {}}).ok()) {
    samples.num_train = array.type.shape[0];
    TR_CHECK(check_dataset(samples).ok(), "{}", check_dataset(samples).to_string());
  }
  (void)append_arrays(labelled, {&array, &array, "x", "y"});
}

inline bool run_idx_target(ByteView bytes) {
  Bytes unpacked(bytes.begin(), bytes.end());
  if (is_gzip(bytes)) {
    Result<Bytes> content = gunzip(bytes, "x.gz", kFuzzMaxBytes);
    if (!content.ok()) return false;
    TR_CHECK(content->size() <= kFuzzMaxBytes);
    unpacked = std::move(*content);
  }
  const Result<FileArray> array = parse_idx(unpacked, "x.idx");
  if (!array.ok()) return false;
  check_array(*array);
  return true;
}

inline bool run_npy_target(ByteView bytes) {
  if (!bytes.empty() && bytes[0] == std::byte{'P'}) {
    const Result<NamedArrays> arrays = parse_npz(bytes, "x.npz", kFuzzMaxBytes);
    if (!arrays.ok()) return false;
    for (const auto& [name, array] : *arrays) check_array(array);
    return true;
  }
  const Result<FileArray> array = parse_npy(bytes, "x.npy");
  if (!array.ok()) return false;
  check_array(*array);
  return true;
}

}  // namespace trireme::data
