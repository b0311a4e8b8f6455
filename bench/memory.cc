// The memory estimate of `inspect model` beside what training holds. usage: bench_memory [CASE...]
//
// Every case is a fresh process that trains a few steps with evaluation and a checkpoint. Two figures are
// measured over the run, the samples being loaded before: *tensors*, the peak of what the CPU's device has
// given out (tensor/host_memory.h; transports and vectors use other memory), and *resident*,
// the peak of the resident set above what it was before. The estimate is of tensors and must be within 5 % of
// them; resident memory beside it also has code and primitives that kernel libraries make, stacks and the
// allocator's own, and lacks pages that nobody touched. Exits 1 when an estimate is off.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/start/in_process.h"
#include "trireme/tensor/host_memory.h"

namespace trireme {
namespace {

constexpr double kAllowed = 0.05;

struct Case {
  const char* name;
  std::vector<std::string> sets;
};

std::vector<Case> cases() {
  const std::string pictures = "data.kind=synthetic";
  return {
      {"lenet", {pictures, "model.name=lenet", "train.batch=256"}},
      {"lenet-shards", {pictures, "model.name=lenet", "train.batch=256", "train.logical_shards=8"}},
      {"mnist-mlp", {pictures, "model.name=mnist-mlp", "train.batch=128", "train.optimizer.kind=adam"}},
      {"mnist-cnn", {pictures, "model.name=mnist-cnn", "train.batch=64", "train.optimizer.clip_norm=1"}},
      {"growing",
       {pictures, "model.name=mlp", "train.batch=64", "train.optimizer.max_batch_multiplier=4",
        "train.optimizer.warmup=0"}},
      {"resnet18", {pictures, "data.shape=3x32x32", "model.name=resnet18", "train.batch=64"}},
      {"char-gpt", {"data.kind=text", "model.name=char-gpt", "train.batch=8", "train.optimizer.kind=adamw"}},
      {"char-lstm", {"data.kind=text", "model.name=char-lstm", "train.batch=16"}},
      {"autoencoder", {pictures, "model.name=autoencoder", "train.batch=256"}},
  };
}

// A line of /proc/self/status, in bytes.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  return 0;
}

Result<job::Job> job_of(const Case& c, const std::string& folder) {
  job::Job job;
  job.name = c.name;
  job.train.steps = 3;
  job.data.options.set("num_train", 2000);
  job.data.options.set("num_test", 300);
  for (const std::string& set : c.sets) TR_RETURN_IF_ERROR(job::set_job_key(job, set));
  if (job.data.kind == "text") {
    job.data.path = folder + "/text.txt";
    std::ofstream text(job.data.path);
    for (int i = 0; i < 100'000; ++i) text << static_cast<char>('!' + i * 7919 % 65);
  }
  TR_RETURN_IF_ERROR(job::check_job(job));
  return job;
}

runtime::Task<void> load(runtime::Runtime& rt, data::DataSpec spec,
                         Result<std::shared_ptr<const data::Dataset>>& out) {
  out = co_await data::make_dataset(rt, std::move(spec));
}

// Prints a row; whether the estimate is near enough.
Result<bool> measure(const Case& c, const std::string& folder) {
  TR_ASSIGN_OR_RETURN(const job::Job job, job_of(c, folder));
  Result<std::shared_ptr<const data::Dataset>> data = Status(Code::kInternal, "not loaded");
  {
    const auto rt = runtime::make_real_runtime({});
    rt->run(load(*rt, job::data_spec(job, ""), data));
  }
  TR_RETURN_IF_ERROR(data.status());
  TR_ASSIGN_OR_RETURN(const model::ModelInput input, job::model_input(job, **data));
  TR_ASSIGN_OR_RETURN(const prepare::MemoryEstimate estimate,
                      prepare::estimate_memory(job, input, runtime::num_cores()));
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak of the resident set starts anew
  const std::int64_t live = host_memory().live_bytes, resident = status_bytes("VmRSS");
  restart_host_peak();
  start::InProcessOptions options;
  options.job = job;
  options.run_dir = folder;
  options.data = *data;
  for (const auto& rank : start::train_in_process(options)) TR_RETURN_IF_ERROR(rank.status());
  const std::int64_t tensors = host_memory().peak_bytes - live,
                     peak_resident = status_bytes("VmHWM") - resident;
  const double off = static_cast<double>(estimate.total_bytes()) / static_cast<double>(tensors) - 1;
  fmt::print("{:<13} {:>11} {:>11} {:>+7.2f} % {:>11} {:>+7.1f} %\n", c.name,
             format_bytes(static_cast<std::uint64_t>(estimate.total_bytes())),
             format_bytes(static_cast<std::uint64_t>(tensors)), 100 * off,
             format_bytes(static_cast<std::uint64_t>(peak_resident)),
             100 * (static_cast<double>(estimate.total_bytes()) / static_cast<double>(peak_resident) - 1));
  return std::abs(off) <= kAllowed;
}

int run_case(const Case& c) {
  std::string folder = (std::filesystem::temp_directory_path() / "trireme-memory-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const Result<bool> near = measure(c, folder);
  std::filesystem::remove_all(folder);
  if (!near.ok()) fmt::print("{:<13} {}\n", c.name, near.status().message());
  std::fflush(stdout);
  return near.ok() && *near ? 0 : 1;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  fmt::print("{:<13} {:>11} {:>11} {:>9} {:>11} {:>9}\n", "case", "estimate", "tensors", "off", "resident",
             "off");
  std::fflush(stdout);
  int failed = 0, found = 0;
  for (const trireme::Case& c : trireme::cases()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), c.name) == wanted.end()) continue;
    ++found;
    const pid_t child = fork();
    if (child == 0) _exit(trireme::run_case(c));
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++failed;
  }
  if (found == 0) fmt::print("no such case\n");
  return failed == 0 && found > 0 ? 0 : 1;
}
