#include "trireme/job/option_keys.h"

#include <algorithm>
#include <deque>

#include "trireme/agree/agree.h"
#include "trireme/codec/coding.h"
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

struct Family {
  OptionsOf family;
  std::string_view after;   // the key that its keys follow
  std::string_view prefix;  // of its keys
  std::vector<Owner> (*owners)();
  std::span<const std::string_view> first;
};
constexpr Family kFamilies[] = {
    {OptionsOf::kAgreement, "parallel.agreement", "parallel.", rules, kFirstOfRules},
    {OptionsOf::kCodec, "parallel.codec_tolerance", "parallel.codec_", codecs, kFirstOfCodecs},
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

void add_keys(const Family& family, std::vector<JobKey>& keys) {
  std::vector<Option> options = options_of(family.owners());
  std::ranges::stable_sort(options, {}, [&](const Option& o) {
    return std::ranges::find(family.first, std::string_view(o.spec->name)) - family.first.begin();
  });
  for (const Option& o : options) {
    const std::string_view old = o.spec->old_name;
    keys.push_back({.path = kept(fmt::format("{}{}", family.prefix, o.spec->name)),
                    .doc = o.spec->doc,
                    .field = OptionField{family.family, o.spec, kept(names_of(o.rows))},
                    .decides_result = o.spec->decides_bits,
                    .old_path = old.empty() ? old : kept(fmt::format("{}{}", family.prefix, old))});
  }
}

}  // namespace

OptionValues& options_of(Job& job, OptionsOf family) {
  return family == OptionsOf::kCodec ? job.parallel.codec_options : job.parallel.agreement_options;
}
const OptionValues& options_of(const Job& job, OptionsOf family) {
  return options_of(const_cast<Job&>(job), family);
}

std::vector<JobKey> with_options(std::span<const JobKey> own) {
  std::vector<JobKey> keys;
  for (const JobKey& key : own) {
    keys.push_back(key);
    for (const Family& family : kFamilies)
      if (family.after == key.path) add_keys(family, keys);
  }
  return keys;
}

}  // namespace trireme::job
