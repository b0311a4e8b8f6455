// Files of tests/data/fixtures, and systematic damage.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/bytes.h"

namespace trireme::data {

Bytes fixture(const std::string& name);
std::string fixture_path(const std::string& name);

// The same bytes cut at `size`, and with one byte changed.
Bytes cut_at(const Bytes& bytes, std::size_t size);
Bytes flipped_at(Bytes bytes, std::size_t at, unsigned mask = 0xFF);

}  // namespace trireme::data
