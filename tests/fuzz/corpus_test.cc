// Replays the corpora of all fuzz targets, and walks the table of targets: each has a program, a row and a
// corpus. Fuzzing itself belongs to ./run test --full.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "tests/fuzz/arrays_target.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/csv_target.h"
#include "tests/fuzz/frame_target.h"
#include "tests/fuzz/graph_target.h"
#include "tests/fuzz/image_target.h"
#include "tests/fuzz/job_target.h"
#include "tests/fuzz/manifest_target.h"
#include "tests/fuzz/packer_target.h"
#include "tests/fuzz/plan_target.h"
#include "tests/fuzz/safetensors_target.h"
#include "tests/fuzz/text_target.h"
#include "tests/fuzz/topology_target.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Target {
  std::string name;
  std::function<bool(ByteView)> run;
};

const Target kTargets[] = {{"csv", data::run_csv_target},
                           {"frame", [](ByteView b) { return net::run_frame_target(b) > 0; }},
                           {"graph", graph::run_graph_target},
                           {"idx", data::run_idx_target},
                           {"image", data::run_image_target},
                           {"job", train::run_job_target},
                           {"manifest", io::run_manifest_target},
                           {"npy", data::run_npy_target},
                           {"packer", codec::run_packer_target},
                           {"plan", plan::run_plan_target},
                           {"safetensors", io::run_safetensors_target},
                           {"text", data::run_text_target},
                           {"topology", cost::run_topology_target}};

// Those above, and one for each codec.
std::vector<Target> all_targets() {
  std::vector<Target> targets(std::begin(kTargets), std::end(kTargets));
  for (const codec::CodecRow& row : codec::codec_table())
    targets.push_back({std::string("codec_") + row.name, [&row](ByteView bytes) {
                         return codec::run_codec_target(row, codec::fuzz_codecs(row), bytes);
                       }});
  return targets;
}

class FuzzCorpus : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, IsReadAsItsNamesSayAndSmall) {
  int valid = 0, bad = 0;
  std::size_t total_bytes = 0;
  const auto replay = [&](const Bytes& bytes) {
    total_bytes += bytes.size();
    const bool read = GetParam().run(bytes);
    ++(read ? valid : bad);
    return read;
  };
  for (const fs::path& path : fuzz::named_units(GetParam().name)) {
    const std::string name = path.filename().string();
    const bool read = replay(fuzz::contents(path));
    if (name.starts_with("valid_") || name.starts_with("bad_")) {
      EXPECT_EQ(read, name.starts_with("valid_")) << path;
    }
  }
  for (const Bytes& unit : fuzz::found_units(GetParam().name)) replay(unit);
  EXPECT_GE(valid, 3);
  EXPECT_GE(bad, 2);
  EXPECT_LT(total_bytes, 300'000U);
}

// So that merging again what is there changes nothing.
TEST_P(FuzzCorpus, FoundUnitsAreSortedBySizeThenContentWithoutRepeats) {
  const std::vector<Bytes> units = fuzz::found_units(GetParam().name);
  for (std::size_t i = 1; i < units.size(); ++i) {
    const Bytes &before = units[i - 1], &unit = units[i];
    EXPECT_TRUE(before.size() < unit.size() || (before.size() == unit.size() && before < unit))
        << "unit " << i << " of " << units.size();
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus, ::testing::ValuesIn(all_targets()),
                         [](const auto& info) { return info.param.name; });

TEST(FuzzTargets, TableProgramsAndCorporaAreTheSameSet) {
  std::set<std::string> here, sources, rows, programs, corpora;
  for (const Target& target : all_targets()) {
    here.insert(target.name);
    sources.insert(target.name.starts_with("codec_") ? "codec" : target.name);
  }
  std::ifstream table(fuzz::fuzz_folder() / "targets.txt");
  for (std::string line; std::getline(table, line);)
    if (!line.empty() && line[0] != '#') rows.insert(line.substr(0, line.find(' ')));
  for (const auto& entry : fs::directory_iterator(fuzz::fuzz_folder())) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with("_fuzz.cc")) programs.insert(name.substr(0, name.size() - 8));
  }
  for (const auto& entry : fs::directory_iterator(fuzz::fuzz_folder() / "corpus")) {
    if (entry.is_directory())
      corpora.insert(entry.path().filename().string());
    else
      EXPECT_TRUE(here.contains(entry.path().stem().string()) && entry.path().extension() == ".found")
          << entry.path() << " belongs to no target";
  }
  EXPECT_EQ(rows, here);
  EXPECT_EQ(programs, sources);
  EXPECT_EQ(corpora, here);
}

}  // namespace
}  // namespace trireme
