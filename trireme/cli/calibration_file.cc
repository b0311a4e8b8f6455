#include "trireme/cli/calibration_file.h"

#include "trireme/cli/command.h"
#include "trireme/runtime/files.h"

namespace trireme::cli {

std::string state_dir() {
  if (const char* state = environment("XDG_STATE_HOME"); state != nullptr && *state != '\0')
    return std::string(state) + "/trireme";
  if (const char* home = environment("HOME"); home != nullptr && *home != '\0')
    return std::string(home) + "/.local/state/trireme";
  return "";
}

std::string calibration_path() {
  const std::string dir = state_dir();
  return dir.empty() ? "" : dir + "/calibration.json";
}

std::optional<std::string> kernel_cache_path() {
  const char* const named = environment("TRIREME_KERNELS");
  if (named != nullptr && std::string_view(named) == "default") return std::nullopt;
  if (named != nullptr && *named != '\0') return named;
  const std::string dir = state_dir();
  return dir.empty() ? "" : dir + "/kernels.json";
}

std::string text_cache_path() {
  const char* const named = environment("TRIREME_GPU_KERNELS");
  if (named != nullptr && std::string_view(named) == "none") return "";
  if (named != nullptr && *named != '\0') return named;
  const std::string dir = state_dir();
  return dir.empty() ? "" : dir + "/gpu_kernels.bin";
}

runtime::Task<Result<std::optional<cost::Calibration>>> read_calibration(runtime::Runtime& rt,
                                                                         std::string path) {
  const bool named = !path.empty();
  if (!named) path = calibration_path();
  if (path.empty()) co_return std::optional<cost::Calibration>();
  const Result<bool> there = co_await rt.files().exists(path);
  if (!named && (!there.ok() || !*there)) co_return std::optional<cost::Calibration>();
  const Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok())
    co_return error(Code::kInvalid, "{}; write one with trireme calibrate --out {}", bytes.status().message(),
                    path);
  Result<cost::Calibration> calibration = cost::load_calibration(ByteView(*bytes), path);
  if (!calibration.ok()) co_return calibration.status();
  std::optional<cost::Calibration> found(std::move(*calibration));
  co_return found;
}

}  // namespace trireme::cli
