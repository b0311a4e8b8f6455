#include "trireme/job/option_keys.h"

#include <algorithm>
#include <deque>

#include "trireme/agree/agree.h"
#include "trireme/codec/coding.h"
#include "trireme/data/source.h"
#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"

namespace trireme::job {
namespace {

// A row and its options; without a name: options of every row.
struct Owner {
  std::string_view name;
  std::span<const OptionSpec> options;
};

std::vector<Owner> rules() {
  std::vector<Owner> owners;
  for (const agree::AgreementRow& row : agree::agreement_table()) owners.push_back({row.name, row.options});
  return owners;
}

std::vector<Owner> data_kinds() {
  std::vector<Owner> owners;
  for (const data::DataKind& row : data::data_kinds()) owners.push_back({row.name, row.options});
  return owners;
}

std::vector<Owner> optimizers() {
  std::vector<Owner> owners;
  for (const model::OptimizerRow& row : model::optimizer_table()) owners.push_back({row.name, row.options});
  return owners;
}

std::vector<Owner> codecs() {
  std::vector<Owner> owners;
  for (const codec::CodecRow& row : codec::codec_table()) owners.push_back({row.name, row.options});
  owners.push_back({kLowRankWord, {&kRank, 1}});
  owners.push_back({"", codec::kLinkOptions});
  return owners;
}

// Hashes of jobs are made in the order of the keys. These were keys before rows listed them and keep their
// order; other options follow, in the order of the tables.
constexpr std::string_view kFirstOfRules[] = {
    "period",           "elasticity",     "staleness", "fetch_steps", "push_steps", "in_flight",
    "warm_start_steps", "local_replicas", "gather",    "fraction",    "outer",      "outer_lr",
    "outer_momentum",   "neighbors",      "proximity", "locked"};
constexpr std::string_view kFirstOfCodecs[] = {"fraction",    "tau",          "bits",     "clip",
                                               "rank",        "feedback",     "momentum", "least",
                                               "dense_steps", "warmup_steps", "pull"};
constexpr std::string_view kFirstOfData[] = {"shape",   "label",  "header",  "separator", "pixels",  "tokens",
                                             "context", "stride", "classes", "num_train", "num_test"};
constexpr std::string_view kFirstOfOptimizers[] = {
    "momentum", "dampening",   "beta1",           "beta2",      "eps",         "alpha",      "trust",
    "lr_decay", "initial_sum", "weight_decay",    "nesterov",   "rate_inside", "eps_inside", "eps_hat",
    "amsgrad",  "centered",    "bias_correction", "decay_by_lr"};
// These have always been written with their defaults, so hashes hold them. Options that come later are
// written where a job gives them.
constexpr std::string_view kWrittenOfData[] = {"shape",   "label",  "header",  "separator", "tokens",
                                               "context", "stride", "classes", "num_train", "num_test"};

struct Family {
  OptionsOf family;
  std::string_view after;   // the key that its keys follow
  std::string_view prefix;  // of its keys
  std::vector<Owner> (*owners)();
  std::span<const std::string_view> first;
  std::span<const std::string_view> written = {};
  std::string_view apart = {};        // an option whose key follows another one
  std::string_view apart_after = {};  // that one
};
constexpr Family kFamilies[] = {
    {OptionsOf::kAgreement, "parallel.agreement", "parallel.", rules, kFirstOfRules},
    {OptionsOf::kCodec, "parallel.codec_tolerance", "parallel.codec_", codecs, kFirstOfCodecs},
    {OptionsOf::kData, "data.prefetch", "data.", data_kinds, kFirstOfData, kWrittenOfData},
    {.family = OptionsOf::kOptimizer,
     .after = "train.optimizer.lr",
     .prefix = "train.optimizer.",
     .owners = optimizers,
     .first = kFirstOfOptimizers,
     .apart = "fixed_after",
     .apart_after = "train.optimizer.correct_momentum"},
};

// The texts that keys view.
std::string_view kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

struct Option {
  const OptionSpec* spec;
  std::vector<std::pair<std::size_t, std::string_view>> rows;  // where the row lists it, and the row's name
};

std::vector<Option> options_of(const std::vector<Owner>& owners) {
  std::vector<Option> all;
  for (const Owner& owner : owners)
    for (std::size_t i = 0; i < owner.options.size(); ++i) {
      const OptionSpec& spec = owner.options[i];
      auto at = std::ranges::find_if(
          all, [&](const Option& o) { return std::string_view(o.spec->name) == spec.name; });
      if (at == all.end()) at = all.insert(all.end(), Option{&spec, {}});
      if (!owner.name.empty()) at->rows.emplace_back(i, owner.name);
    }
  return all;
}

// A row lists its own options before those that it shares, so those whose own it is come first.
std::string names_of(std::vector<std::pair<std::size_t, std::string_view>> rows) {
  std::ranges::stable_sort(rows, {}, [](const auto& row) { return row.first; });
  std::string names;
  for (const auto& row : rows) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.second);
  return names;
}

// The keys of the family that follow the key `after`.
void add_keys(const Family& family, std::string_view after, std::vector<JobKey>& keys) {
  if (after != family.after && after != family.apart_after) return;
  std::vector<Option> options = options_of(family.owners());
  std::ranges::stable_sort(options, {}, [&](const Option& o) {
    return std::ranges::find(family.first, std::string_view(o.spec->name)) - family.first.begin();
  });
  for (const Option& o : options) {
    const std::string_view name = o.spec->name, old = o.spec->old_name;
    if (after != (name == family.apart ? family.apart_after : family.after)) continue;
    const bool written = std::ranges::find(family.written, name) != family.written.end();
    keys.push_back({.path = kept(fmt::format("{}{}", family.prefix, name)),
                    .doc = o.spec->doc,
                    .field = OptionField{family.family, o.spec, kept(names_of(o.rows)), written},
                    .decides_result = o.spec->decides_bits,
                    .old_path = old.empty() ? old : kept(fmt::format("{}{}", family.prefix, old))});
  }
}

std::string_view section_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// The job's own options of a section.
void add_own(std::string_view section, std::vector<JobKey>& keys) {
  for (const OptionSpec& spec : kJobOptions)
    if (section_of(spec.name) == section)
      keys.push_back({.path = spec.name,
                      .doc = spec.doc,
                      .field = OptionField{OptionsOf::kJob, &spec, "", !spec.decides_bits},
                      .decides_result = spec.decides_bits,
                      .old_path = spec.old_name});
}

}  // namespace

OptionValues& options_of(Job& job, OptionsOf family) {
  switch (family) {
    case OptionsOf::kAgreement:
      return job.parallel.agreement_options;
    case OptionsOf::kCodec:
      return job.parallel.codec_options;
    case OptionsOf::kData:
      return job.data.options;
    case OptionsOf::kOptimizer:
      return job.train.optimizer.options;
    case OptionsOf::kJob:
      break;
  }
  return job.options;
}
const OptionValues& options_of(const Job& job, OptionsOf family) {
  return options_of(const_cast<Job&>(job), family);
}

std::vector<JobKey> with_options(std::span<const JobKey> fields) {
  std::vector<JobKey> keys;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    keys.push_back(fields[i]);
    for (const Family& family : kFamilies) add_keys(family, fields[i].path, keys);
    const std::string_view section = section_of(fields[i].path);
    if (i + 1 == fields.size() || section_of(fields[i + 1].path) != section) add_own(section, keys);
  }
  return keys;
}

}  // namespace trireme::job
