#include "trireme/start/calibration_file.h"

#include "trireme/runtime/files.h"

namespace trireme::start {

runtime::Task<Result<std::optional<cost::Calibration>>> read_calibration(runtime::Runtime& rt, Places places,
                                                                         std::string path) {
  const bool named = !path.empty();
  if (!named) path = places.calibration();
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

}  // namespace trireme::start
