// Which model `inspect model` and `inspect graph` are about.
#include <fmt/format.h>
#include <algorithm>
#include <cstdio>

#include "trireme/base/edit_distance.h"
#include "trireme/cli/inspect_parts.h"
#include "trireme/model/zoo.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::cli {
namespace {

bool is_file_name(std::string_view text) { return text.find_first_of("./") != std::string_view::npos; }

// A job around a model of the zoo whose data nobody named: the model reads what it was published with.
Result<train::Job> job_of_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const model::ZooRow& row : model::zoo()) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    const model::ModelInput input = row.input();
    train::Job job;
    job.name = job.model.name = name;
    const bool reads_text = input.task == model::ModelTask::kLanguage;
    job.data.kind = reads_text ? "text" : "idx";
    if (reads_text) job.data.context = input.sample_shape[0];
    return job;
  }
  return error(
      Code::kInvalid,
      "[inspect] no model is called '{}'; did you mean {}? `trireme inspect models` lists them all, a "
      "job file is given as a path like ./{}.toml",
      name, joined(nearest_names(name, names)), name);
}

runtime::Task<void> load_file(runtime::Runtime& rt, const std::string& path, Result<train::Job>& out) {
  out = co_await read_job(rt, path);
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string_view> names) {
  constexpr std::size_t kMost = 3, kLongest = 64;
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string_view n : names) {
    const bool within = n.find(name) != std::string_view::npos || name.find(n) != std::string_view::npos;
    ranked.emplace_back(within && !name.empty() ? 0 : edit_distance(name.substr(0, kLongest), n), n);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (const auto& [d, n] : ranked)
    if (nearest.size() < kMost && d <= ranked.front().first + 1) nearest.push_back(n);
  return nearest;
}

std::string joined(std::span<const std::string> items) { return fmt::format("{}", fmt::join(items, ", ")); }

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void add_inspect_source(CLI::App& app, InspectSource& args) {
  app.add_option("job", args.source.path, "Job file (TOML) or model of the zoo; default: the built-in job");
  app.add_option("--set", args.source.sets, "Override a key of the job: model.options={width=64}")
      ->type_name("KEY=VALUE");
  app.add_option("--batch", args.batch, "Samples per step, over all workers (train.batch)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app.add_option("--shape", args.shape, "Shape of a sample, like 3x64x64, where the data would say it");
  app.add_option("--classes", args.classes, "Classes, or the vocabulary, where the data would say it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
}

Result<InspectedModel> load_inspected(const InspectSource& args) {
  runtime::RealOptions real;
  real.name = "inspect";
  const auto rt = runtime::make_real_runtime(real);
  Result<train::Job> job = train::Job{};
  const std::string& path = args.source.path;
  if (is_file_name(path)) {
    rt->run(load_file(*rt, path, job));
  } else if (!path.empty()) {
    job = job_of_model(path);
  }
  TR_RETURN_IF_ERROR(job.status());
  for (const std::string& set : args.source.sets) TR_RETURN_IF_ERROR(train::set_job_key(*job, set));
  if (args.batch > 0) job->train.batch = args.batch;
  InspectedModel out{.job = std::move(*job), .input = {}};
  TR_ASSIGN_OR_RETURN(out.input, train::assume_input(out.job, args.shape, args.classes));
  out.compute_threads = std::max(1, rt->compute_threads());
  return out;
}

}  // namespace trireme::cli
