// Replays the corpora of the fuzz targets of data files, and mutations of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/arrays_target.h"
#include "tests/fuzz/csv_target.h"
#include "tests/fuzz/image_target.h"
#include "tests/fuzz/text_target.h"
#include "trireme/base/rng.h"

namespace trireme::data {
namespace {

struct Target {
  const char* name;
  bool (*run)(ByteView);
  int mutations;
};

class DataFuzz : public ::testing::TestWithParam<Target> {
 protected:
  static std::vector<std::filesystem::path> corpus() {
    const char* root = std::getenv("TRIREME_SOURCE_DIR");
    const auto dir =
        std::filesystem::path(root != nullptr ? root : ".") / "tests/fuzz/corpus" / GetParam().name;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
  static Bytes contents(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return to_bytes(std::string(std::istreambuf_iterator<char>(in), {}));
  }
};

TEST_P(DataFuzz, TheCorpusIsReadAsItsNamesSay) {
  int valid = 0, bad = 0;
  for (const auto& path : corpus()) {
    const std::string name = path.filename().string();
    if (!name.starts_with("valid_") && !name.starts_with("bad_")) {  // found by fuzzing: only must not crash
      GetParam().run(contents(path));
      continue;
    }
    const bool expected = name.starts_with("valid_");
    EXPECT_EQ(GetParam().run(contents(path)), expected) << path;
    ++(expected ? valid : bad);
  }
  EXPECT_GE(valid, 3);
  EXPECT_GE(bad, 4);
}

TEST_P(DataFuzz, ThousandsOfMutationsNeverCrash) {
  std::vector<Bytes> seeds;
  for (const auto& path : corpus())
    if (Bytes bytes = contents(path); !bytes.empty()) seeds.push_back(std::move(bytes));
  Philox rng(2024);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(rng.next_below(static_cast<std::uint32_t>(std::max<std::size_t>(n, 1))));
  };
  int accepted = 0;
  for (int i = 0; i < GetParam().mutations; ++i) {
    Bytes bytes = seeds[below(seeds.size())];
    const Bytes& other = seeds[below(seeds.size())];
    for (std::size_t edits = 1 + below(3); edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = below(bytes.size());
      const auto where = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      switch (below(5)) {
        case 0:
          *where ^= static_cast<std::byte>(1U << below(8));
          break;
        case 1:
          *where = static_cast<std::byte>(below(256));
          break;
        case 2:
          bytes.erase(where, where + static_cast<std::ptrdiff_t>(std::min(bytes.size() - at, 1 + below(9))));
          break;
        case 3:
          bytes.insert(where, other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
          break;
        default:
          std::copy_n(other.begin(), std::min(other.size(), bytes.size() - at), where);
      }
    }
    accepted += GetParam().run(bytes);
  }
  EXPECT_GT(accepted, GetParam().mutations / 100) << "mutations should sometimes leave a file";
  EXPECT_LT(accepted, GetParam().mutations);
}

INSTANTIATE_TEST_SUITE_P(All, DataFuzz,
                         ::testing::Values(Target{"idx", run_idx_target, 4000},
                                           Target{"npy", run_npy_target, 4000},
                                           Target{"csv", run_csv_target, 4000},
                                           Target{"image", run_image_target, 2000},
                                           Target{"text", run_text_target, 2000}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace trireme::data
