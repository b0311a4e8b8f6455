#include "trireme/start/places.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme::start {
namespace {

Places places_of(std::map<std::string, std::string> variables) {
  return usual_places([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Places, AreBelowTheHomeFolderUnlessNamed) {
  const Places home = places_of({{"HOME", "/home/me"}});
  EXPECT_EQ(home.cache_dir, "/home/me/.cache/trireme");
  EXPECT_EQ(home.calibration(), "/home/me/.local/state/trireme/calibration.json");
  EXPECT_EQ(home.kernel_cache, "/home/me/.local/state/trireme/kernels.json");
  EXPECT_EQ(home.text_cache, "/home/me/.local/state/trireme/gpu_kernels.bin");
  EXPECT_EQ(home.temp_dir, "/tmp");
  const Places named = places_of(
      {{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "/c"}, {"XDG_STATE_HOME", "/s"}, {"TMPDIR", "/scratch"}});
  EXPECT_EQ(named.cache_dir, "/c/trireme");
  EXPECT_EQ(named.state_dir, "/s/trireme");
  EXPECT_EQ(named.temp_dir, "/scratch");
}

TEST(Places, WithoutAHomeNothingIsKept) {
  const Places none = places_of({});
  EXPECT_EQ(none.cache_dir, "");
  EXPECT_EQ(none.calibration(), "");
  EXPECT_EQ(none.kernel_cache, "");  // measured, and forgotten
  EXPECT_EQ(none.text_cache, "");
}

TEST(Places, FilesOfKernelsAreNamedOrLeftOut) {
  const Places off =
      places_of({{"HOME", "/h"}, {"TRIREME_KERNELS", "default"}, {"TRIREME_GPU_KERNELS", "none"}});
  EXPECT_EQ(off.kernel_cache, std::nullopt);
  EXPECT_EQ(off.text_cache, "");
  const Places own = places_of({{"HOME", "/h"}, {"TRIREME_KERNELS", "/k"}, {"TRIREME_GPU_KERNELS", "/g"}});
  EXPECT_EQ(own.kernel_cache, "/k");
  EXPECT_EQ(own.text_cache, "/g");
}

}  // namespace
}  // namespace trireme::start
