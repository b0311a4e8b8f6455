// The header of a .npy file: a Python dictionary with three known keys. Used by npy.cc only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::data {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// `offset` is where the text starts in `source`, for errors.
Result<NpyHeader> parse_npy_header(std::string_view text, std::string_view source, std::size_t offset);

}  // namespace trireme::data
