// Decoded samples of bytes in a file, so that the ranks of a host decode a set once.
// docs/format_checkpoint.md, section 9.
#pragma once

#include <string>
#include <string_view>

#include "trireme/data/dataset.h"

namespace trireme::data {

// Puts pixels and labels of a kU8 set with classes into `folder`/rows-<key>.bin: written beside it, then
// renamed, so that nobody sees half a file. `key` names the content: another one, another file.
runtime::Task<Status> write_rows_cache(runtime::Runtime& rt, std::string folder, std::string key,
                                       const Dataset& set);

// Whether `folder` has a file that may hold the rows of a set whose shape and counts are set already: one of
// the right length. False: read_rows_cache would find nothing under any key.
runtime::Task<bool> may_have_rows(runtime::Runtime& rt, std::string folder, const Dataset& set);

// Fills pixels and labels of a set whose shape and counts are set already. False: there is no such file, or
// it is damaged or of another key, shape or count.
runtime::Task<bool> read_rows_cache(runtime::Runtime& rt, std::string folder, std::string key, Dataset& set);

// What the file holds, of bytes in memory: the digest, then every number of the header must fit.
// The pixels stay where they are: the set keeps the file's owner.
bool decode_rows(const runtime::FileView& mapped, std::string_view key, Dataset& set);

}  // namespace trireme::data
