#include "trireme/job/data_record.h"

#include <algorithm>
#include <map>

#include "trireme/base/json_numbers.h"
#include "trireme/base/utf8.h"
#include "trireme/data/standardise.h"

namespace trireme::job {
namespace {

using data::Dataset;
using data::Labels;

constexpr std::pair<Labels, const char*> kLabels[] = {
    {Labels::kClass, "class"}, {Labels::kNext, "next"}, {Labels::kNone, "none"}};

// JSON holds UTF-8 only; tokens that are bytes are not. Every byte as the character of that number.
std::string widen(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out.push_back(c);
    } else {
      out.push_back(static_cast<char>(0xC0U | (byte >> 6U)));
      out.push_back(static_cast<char>(0x80U | (byte & 0x3FU)));
    }
  }
  return out;
}

Result<std::string> narrow(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      out.push_back(text[i]);
      continue;
    }
    if ((first & 0xFCU) != 0xC0U || ++i == text.size())
      return error(Code::kCorrupt, "[checkpoint] data: '{}' is no class name of bytes", text);
    out.push_back(static_cast<char>(((first & 0x03U) << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU)));
  }
  return out;
}

template <typename T>
Result<std::vector<T>> numbers(const Json& record, const char* key) {
  if (!record.contains(key)) return std::vector<T>();
  return json_get<std::vector<T>>(record, key);
}

Status read_names(const Json& record, Dataset& set) {
  if (!record.contains("class_names")) return {};
  TR_ASSIGN_OR_RETURN(set.class_names, json_get<std::vector<std::string>>(record, "class_names"));
  if (record.value("class_names_are_bytes", false))
    for (std::string& name : set.class_names) {
      TR_ASSIGN_OR_RETURN(name, narrow(name));
    }
  return {};
}

Status check_sizes(const Dataset& set) {
  const auto elems = static_cast<std::size_t>(std::max<std::int64_t>(0, set.sample_elems()));
  const std::size_t channels =
      set.sample_shape.rank() == 3 ? static_cast<std::size_t>(set.sample_shape[0]) : 1;
  const auto fits = [](std::size_t a, std::size_t b, std::size_t expected) {
    return a == b && (a == 0 || a == expected);
  };
  if (elems > 0 && set.num_classes > 0 &&
      (set.class_names.empty() || set.class_names.size() == static_cast<std::size_t>(set.num_classes)) &&
      fits(set.channel_mean.size(), set.channel_scale.size(), channels) &&
      fits(set.standard.mean.size(), set.standard.scale.size(), elems))
    return {};
  return error(Code::kCorrupt, "[checkpoint] data: shape, classes and normalization do not fit together");
}

// New numbers of the classes of `from`; -1: not one of `to`.
std::vector<std::int32_t> renumbered(const std::vector<std::string>& from,
                                     const std::vector<std::string>& to) {
  std::map<std::string_view, std::int32_t> at;
  for (std::size_t i = 0; i < to.size(); ++i) at.emplace(to[i], static_cast<std::int32_t>(i));
  std::vector<std::int32_t> out;
  for (const std::string& name : from) {
    const auto found = at.find(name);
    out.push_back(found == at.end() ? -1 : found->second);
  }
  return out;
}

Status unknown_class(const Dataset& set, const std::string& name, std::string_view word) {
  return error(Code::kInvalid, "[data] {}: {} '{}' is not one that the model was trained on", set.source,
               word, name);
}

Status take_classes(const Dataset& trained, Dataset& set) {
  const bool language = set.dtype == DType::kI32;
  if (!trained.class_names.empty() && !set.class_names.empty()) {
    const std::vector<std::int32_t> to = renumbered(set.class_names, trained.class_names);
    for (std::int32_t& label : set.labels) {
      const auto at = static_cast<std::size_t>(label);
      if (to[at] < 0) return unknown_class(set, set.class_names[at], "class");
      label = to[at];
    }
    for (std::uint16_t& token : set.stream.tokens) {
      if (to[token] < 0) return unknown_class(set, set.class_names[token], language ? "token" : "class");
      token = static_cast<std::uint16_t>(to[token]);
    }
  } else {
    for (const std::int32_t label : set.labels)
      if (label >= trained.num_classes) return unknown_class(set, fmt::format("{}", label), "class");
  }
  set.class_names = trained.class_names;
  set.num_classes = trained.num_classes;
  return {};
}

void take_standard(const data::Standard& standard, Dataset& set) {
  if (!set.standard.mean.empty()) {
    data::Standard back;  // v = (s - (-mean scale)) / scale
    for (std::size_t j = 0; j < set.standard.mean.size(); ++j) {
      back.mean.push_back(-set.standard.mean[j] * set.standard.scale[j]);
      back.scale.push_back(1 / set.standard.scale[j]);
    }
    data::standardise(back, set.features);
  }
  if (!standard.mean.empty()) data::standardise(standard, set.features);
  set.standard = standard;
}

bool same_standard(const data::Standard& a, const data::Standard& b) {
  return a.mean == b.mean && a.scale == b.scale;
}

}  // namespace

Json data_record(const Dataset& data, const Job& job, const std::string& path) {
  Json record = {{"kind", job.data.kind}, {"content_sha256", data.content_sha256}};
  if (!path.empty() && is_utf8(path)) record["path"] = path;
  const auto dims = data.sample_shape.dims();
  record["sample_shape"] = std::vector<std::int64_t>(dims.begin(), dims.end());
  record["dtype"] = dtype_name(data.dtype);
  for (const auto& [kind, name] : kLabels)
    if (kind == data.label_kind) record["labels"] = name;
  record["num_classes"] = data.num_classes;
  if (!data.class_names.empty()) {
    std::vector<std::string> names = data.class_names;
    if (!std::ranges::all_of(names, is_utf8)) {
      for (std::string& name : names) name = widen(name);
      record["class_names_are_bytes"] = true;
    }
    record["class_names"] = std::move(names);
  }
  record["num_train"] = data.num_train;
  record["num_test"] = data.num_test;
  record["num_validation"] = data.num_validation;
  record["split"] = {{"seed", job.data.seed},
                     {"test", job.data.test},
                     {"validation", job.data.validation},
                     {"limit_train", job.data.limit_train},
                     {"limit_test", job.data.limit_test}};
  if (data.dtype == DType::kU8) {
    record["mean"] = data.mean;
    record["scale"] = data.scale;
    if (!data.channel_mean.empty())
      record["channel_mean"] = data.channel_mean, record["channel_scale"] = data.channel_scale;
  }
  if (!data.standard.mean.empty())
    record["feature_mean"] = data.standard.mean, record["feature_scale"] = data.standard.scale;
  return record;
}

Result<TrainedOn> data_from_record(const Json& record) {
  TrainedOn out;
  auto set = std::make_shared<Dataset>();
  TR_ASSIGN_OR_RETURN(set->name, json_get<std::string>(record, "kind"));
  set->source = set->name;
  if (record.contains("path")) {
    TR_ASSIGN_OR_RETURN(out.path, json_get<std::string>(record, "path"));
    set->source = out.path;
  }
  TR_ASSIGN_OR_RETURN(set->content_sha256, json_get<std::string>(record, "content_sha256"));
  TR_ASSIGN_OR_RETURN(const auto dims, json_get_wholes<std::int64_t>(record, "sample_shape"));
  TR_ASSIGN_OR_RETURN(set->sample_shape, Shape::checked(dims));
  TR_ASSIGN_OR_RETURN(const std::string dtype, json_get<std::string>(record, "dtype"));
  TR_ASSIGN_OR_RETURN(set->dtype, parse_dtype(dtype));
  TR_ASSIGN_OR_RETURN(const std::string labels, json_get<std::string>(record, "labels"));
  const auto* const kind = std::ranges::find_if(kLabels, [&](const auto& k) { return labels == k.second; });
  if (kind == std::end(kLabels))
    return error(Code::kCorrupt, "[checkpoint] data: labels '{}', expected class, next or none", labels);
  set->label_kind = kind->first;
  TR_ASSIGN_OR_RETURN(set->num_classes, json_get_whole<int>(record, "num_classes"));
  TR_RETURN_IF_ERROR(read_names(record, *set));
  TR_ASSIGN_OR_RETURN(out.num_train, json_get_whole<std::int64_t>(record, "num_train"));
  TR_ASSIGN_OR_RETURN(out.num_test, json_get_whole<std::int64_t>(record, "num_test"));
  TR_ASSIGN_OR_RETURN(out.num_validation, json_get_whole<std::int64_t>(record, "num_validation"));
  if (record.contains("mean")) {
    TR_ASSIGN_OR_RETURN(set->mean, json_get<float>(record, "mean"));
    TR_ASSIGN_OR_RETURN(set->scale, json_get<float>(record, "scale"));
  }
  TR_ASSIGN_OR_RETURN(set->channel_mean, numbers<float>(record, "channel_mean"));
  TR_ASSIGN_OR_RETURN(set->channel_scale, numbers<float>(record, "channel_scale"));
  TR_ASSIGN_OR_RETURN(set->standard.mean, numbers<double>(record, "feature_mean"));
  TR_ASSIGN_OR_RETURN(set->standard.scale, numbers<double>(record, "feature_scale"));
  TR_RETURN_IF_ERROR(check_sizes(*set));
  out.data = std::move(set);
  return out;
}

Result<std::shared_ptr<const Dataset>> as_trained(std::shared_ptr<const Dataset> data,
                                                  const Dataset& trained) {
  if (data->sample_shape != trained.sample_shape || data->dtype != trained.dtype)
    return error(Code::kInvalid, "[data] {}: samples of {}{}, the model was trained on {}{}", data->source,
                 dtype_name(data->dtype), data->sample_shape.to_string(), dtype_name(trained.dtype),
                 trained.sample_shape.to_string());
  const bool classes = data->class_names == trained.class_names && data->num_classes == trained.num_classes;
  const bool pixels = data->mean == trained.mean && data->scale == trained.scale &&
                      data->channel_mean == trained.channel_mean &&
                      data->channel_scale == trained.channel_scale;
  const bool features = same_standard(data->standard, trained.standard);
  if (classes && (data->dtype != DType::kU8 || pixels) && features) return data;
  auto set = std::make_shared<Dataset>(*data);
  if (!classes) TR_RETURN_IF_ERROR(take_classes(trained, *set));
  if (!features && !set->generate) take_standard(trained.standard, *set);
  set->mean = trained.mean;
  set->scale = trained.scale;
  set->channel_mean = trained.channel_mean;
  set->channel_scale = trained.channel_scale;
  return std::shared_ptr<const Dataset>(std::move(set));
}

std::string data_change(const std::string& trained_sha256, const Dataset& now) {
  const std::string& sha256 = now.content_sha256;
  if (trained_sha256.empty() || sha256.empty() || trained_sha256 == sha256) return "";
  constexpr std::size_t kShown = 12;
  return fmt::format("SHA-256 {}..., now {}...", trained_sha256.substr(0, kShown), sha256.substr(0, kShown));
}

std::string data_change(const TrainedOn& trained, const Dataset& now) {
  std::string text = data_change(trained.data->content_sha256, now);
  if (text.empty()) return text;
  const auto add = [&](std::int64_t was, std::int64_t is, std::string_view part) {
    if (was != is) text += fmt::format("; {} {} samples, now {}", was, part, is);
  };
  add(trained.num_train, now.num_train, "training");
  add(trained.num_test, now.num_test, "test");
  add(trained.num_validation, now.num_validation, "validation");
  return text;
}

}  // namespace trireme::job
