#include "trireme/start/calibration_file.h"

#include "trireme/lower/kernel_cache.h"
#include "trireme/runtime/files.h"

namespace trireme::start {
namespace {

// Op times that make no sense, or are of another processor or other kernels: with a word.
runtime::Task<void> leave_out_foreign(runtime::Runtime& rt, std::string path,
                                      cost::Calibration& calibration) {
  constexpr const char* kAnew = "; trireme calibrate JOB measures them anew";
  if (!calibration.ignored.empty())
    rt.log(fmt::format("warning: {}: {} of the measured op times are ignored ({}){}", path,
                       calibration.ignored.size(), calibration.ignored.front(), kAnew));
  if (calibration.op_times.is_empty()) co_return;
  const std::string here = co_await lower::machine_text(rt);
  if (calibration.op_times.processor == here) co_return;
  rt.log(fmt::format("warning: {}: the measured op times are ignored: they are of {}, and this is {}{}", path,
                     calibration.op_times.processor, here, kAnew));
  calibration.op_times = cost::OpTimes();
}

}  // namespace

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
  co_await leave_out_foreign(rt, path, *found);
  co_return found;
}

}  // namespace trireme::start
