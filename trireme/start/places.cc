#include "trireme/start/places.h"

#include <string_view>

namespace trireme::start {
namespace {

// $`variable`/trireme or ~/`below_home`/trireme; empty when neither is set.
std::string user_dir(const launch::Lookup& get, const char* variable, std::string_view below_home) {
  if (const char* dir = get(variable); dir != nullptr && *dir != '\0') return std::string(dir) + "/trireme";
  const char* home = get("HOME");
  if (home == nullptr || *home == '\0') return "";
  return std::string(home) + "/" + std::string(below_home) + "/trireme";
}

std::string file_in(const std::string& dir, const char* name) { return dir.empty() ? "" : dir + "/" + name; }

}  // namespace

Places usual_places(const launch::Lookup& get) {
  Places places;
  places.cache_dir = user_dir(get, "XDG_CACHE_HOME", ".cache");
  places.state_dir = user_dir(get, "XDG_STATE_HOME", ".local/state");
  if (const char* dir = get("TMPDIR"); dir != nullptr && *dir != '\0') places.temp_dir = dir;
  const char* const kernels = get("TRIREME_KERNELS");
  if (kernels == nullptr || *kernels == '\0')
    places.kernel_cache = file_in(places.state_dir, "kernels.json");
  else if (std::string_view(kernels) != "default")
    places.kernel_cache = kernels;
  const char* const texts = get("TRIREME_GPU_KERNELS");
  if (texts == nullptr || *texts == '\0')
    places.text_cache = file_in(places.state_dir, "gpu_kernels.bin");
  else if (std::string_view(texts) != "none")
    places.text_cache = texts;
  return places;
}

}  // namespace trireme::start
