// The corpora of the fuzz targets: named units are files of tests/fuzz/corpus/<target>/, those that fuzzing
// found are in one file, <target>.found, as a u32 length (little endian) and that many bytes each. tools/fuzz
// --merge writes it, by size and then by content.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"

namespace trireme::fuzz {

inline std::filesystem::path fuzz_folder() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::filesystem::path(root != nullptr ? root : ".") / "tests/fuzz";
}

inline Bytes contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return to_bytes(std::string(std::istreambuf_iterator<char>(in), {}));
}

// Paths of the named units, sorted.
inline std::vector<std::filesystem::path> named_units(const std::string& target) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(fuzz_folder() / "corpus" / target))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Empty where the target has no file; a file that is cut off fails the test.
inline std::vector<Bytes> found_units(const std::string& target) {
  std::vector<Bytes> units;
  const std::filesystem::path path = fuzz_folder() / "corpus" / (target + ".found");
  const Bytes all = contents(path);
  for (ByteView rest(all); !rest.empty();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4 && i < rest.size(); ++i)
      size |= static_cast<std::size_t>(rest[i]) << (8 * i);
    if (rest.size() < 4 || rest.size() - 4 < size) {
      ADD_FAILURE() << path << " is cut off in unit " << units.size();
      break;
    }
    const ByteView unit = rest.subspan(4, size);
    units.emplace_back(unit.begin(), unit.end());
    rest = rest.subspan(4 + size);
  }
  return units;
}

}  // namespace trireme::fuzz
