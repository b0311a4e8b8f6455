#include "trireme/lower/kernel_cache.h"

#include "trireme/base/json.h"
#include "trireme/kernel/kernel.h"
#include "trireme/runtime/files.h"

namespace trireme::lower {

using runtime::Task;

namespace {

constexpr const char* kFormat = "trireme kernels 1";

Result<KernelChoices> parse_choices(const Bytes& bytes, const std::string& path) {
  TR_ASSIGN_OR_RETURN(const Json json, parse_json(as_text(bytes), path));
  TR_ASSIGN_OR_RETURN(const std::string format, json_get<std::string>(json, "format"));
  if (format != kFormat)
    return error(Code::kCorrupt, "{}: format is '{}', expected '{}'", path, format, kFormat);
  return json_get<KernelChoices>(json, "kernels");
}

}  // namespace

Task<KernelChoices> read_choices(runtime::Runtime& rt, std::string path) {
  KernelChoices none;
  if (path.empty()) co_return none;
  const Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok() && bytes.status().code() == Code::kNotFound) co_return none;
  Result<KernelChoices> choices =
      bytes.ok() ? parse_choices(*bytes, path) : Result<KernelChoices>(bytes.status());
  if (choices.ok()) co_return std::move(*choices);
  rt.log(fmt::format("warning: remembered kernels are ignored and measured anew: {}",
                     choices.status().message()));
  co_return none;
}

Task<void> write_choices(runtime::Runtime& rt, std::string path, KernelChoices choices) {
  const std::size_t slash = path.rfind('/');
  Status done;
  if (slash != std::string::npos && slash > 0) done = co_await rt.files().make_dirs(path.substr(0, slash));
  const Json json = {{"format", kFormat}, {"kernels", choices}};
  const std::string text = json.dump(1) + "\n";
  if (done.ok()) done = co_await rt.files().write_atomic(path, as_bytes(text));
  if (!done.ok()) rt.log(fmt::format("warning: measured kernels are not remembered: {}", done.message()));
}

Task<std::string> machine_text(runtime::Runtime& rt) {
  std::string processor = "unknown";
  const Result<Bytes> info = co_await rt.files().read("/proc/cpuinfo");
  if (info.ok()) {
    const std::string_view text = as_text(*info);
    const std::size_t at = text.find("model name");
    const std::size_t colon = at == std::string_view::npos ? at : text.find(": ", at);
    if (colon != std::string_view::npos)
      processor = std::string(text.substr(colon + 2, text.find('\n', colon) - colon - 2));
  }
  co_return fmt::format("{}|{}", processor, kernel::cpu_kernel_library());
}

}  // namespace trireme::lower
