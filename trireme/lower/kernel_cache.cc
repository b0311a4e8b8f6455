#include "trireme/lower/kernel_cache.h"

#include <fmt/ranges.h>

#include "trireme/base/json.h"
#include "trireme/runtime/files.h"

namespace trireme::lower {

using runtime::Task;

namespace {

constexpr const char* kFormat = "trireme kernels 1";

std::string attribute_text(const op::AttrValue& value) {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("{}", fmt::join(*list, "x"));
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "yes" : "no";
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return std::string(dtype_name(std::get<DType>(value)));
}

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

std::string node_text(const op::Attrs& attrs, std::span<const TensorType> types) {
  std::string text;
  for (const auto& [name, value] : attrs.items()) text += fmt::format(" {}={}", name, attribute_text(value));
  for (const TensorType& t : types) text += " " + t.to_string();
  return text;
}

}  // namespace trireme::lower
