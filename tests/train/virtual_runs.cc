#include "tests/train/virtual_runs.h"

#include <gtest/gtest.h>

#include "trireme/job/roles.h"
#include "trireme/record/run_folder.h"

namespace trireme::train::testing {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr int kMachines = 4;

class Recorder : public record::Progress {
 public:
  Recorder(RunOutcome& out, runtime::CancelToken stop, std::int64_t stop_at)
      : out_(out), stop_(std::move(stop)), stop_at_(stop_at) {}
  void on_step(const Step& step) override {
    out_.steps.push_back(step);
    if (step.step == stop_at_) stop_.cancel(Status(Code::kCancelled, "stopped by the test"));
  }
  void on_evaluation(const Evaluation& e) override { out_.evaluations.push_back(e); }

 private:
  RunOutcome& out_;
  runtime::CancelToken stop_;
  std::int64_t stop_at_;
};

// What tests compare of the summary.json of a run that had ended before.
Result<record::Summary> summary_of(const Json& json) {
  record::Summary s;
  TR_ASSIGN_OR_RETURN(s.job, json_get<std::string>(json, "job"));
  TR_ASSIGN_OR_RETURN(s.workers, json_get<int>(json, "workers"));
  TR_ASSIGN_OR_RETURN(s.transport, json_get<std::string>(json, "transport"));
  TR_ASSIGN_OR_RETURN(s.steps, json_get<std::int64_t>(json, "steps"));
  TR_ASSIGN_OR_RETURN(s.samples, json_get<std::int64_t>(json, "samples"));
  TR_ASSIGN_OR_RETURN(s.wall_seconds, json_get<double>(json, "wall_seconds"));
  TR_ASSIGN_OR_RETURN(s.samples_per_second, json_get<double>(json, "samples_per_second"));
  s.has_test = json.contains("test_accuracy");
  if (s.has_test) {
    TR_ASSIGN_OR_RETURN(s.test_accuracy, json_get<double>(json, "test_accuracy"));
  }
  TR_ASSIGN_OR_RETURN(s.parameters_sha256, json_get<std::string>(json, "parameters_sha256"));
  TR_ASSIGN_OR_RETURN(s.finished, json_get<bool>(json, "finished"));
  TR_ASSIGN_OR_RETURN(s.ok, json_get<bool>(json, "ok"));
  return s;
}

// Rank 0 opens the folder before the others need it: it sends them the plan.
Task<void> run_rank(RankContext context, Result<record::Summary>* out) {
  Runtime& rt = *context.rt;
  if (context.connect.rank == 0 && !context.run_dir.empty()) {
    const std::string dir = context.run_dir;
    Result<record::RunFolder> folder = co_await record::open_run_folder(rt, context.job, dir, "runs");
    if (!folder.ok()) {
      *out = folder.status();
      co_return;
    }
    if (folder->finished) {
      *out = summary_of(*folder->finished);
      co_return;
    }
  }
  *out = co_await train_rank(std::move(context));
}

Task<void> read_file(Runtime& rt, std::string path, std::string& out) {
  const Result<Bytes> bytes = co_await rt.files().read(path);
  if (bytes.ok()) out = as_text(*bytes);
}

Task<void> load_checkpoint(Runtime& rt, std::string dir, io::Checkpoint& out) {
  Result<io::Checkpoint> found = co_await io::load_newest_checkpoint(rt, dir);
  EXPECT_TRUE(found.ok()) << found.status().to_string();
  if (found.ok()) out = std::move(*found);
}

Task<void> sleep_for(Runtime& rt, TimeNs duration) { co_await rt.sleep_for(duration); }

}  // namespace

record::Summary RunOutcome::summary() const {
  for (const auto& rank : ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
  return ranks.front().ok() ? *ranks.front() : record::Summary{};
}

VirtualRuns::VirtualRuns(std::vector<runtime::FaultSpec> faults, std::vector<runtime::DiskFault> disk) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(kMachines, {}, {});
  spec.faults = std::move(faults);
  spec.disk_faults = std::move(disk);
  world_ = runtime::make_virtual_world(spec);
}

VirtualRuns::VirtualRuns(cost::MachineModel machine, cost::LinkModel link)
    : machine_(std::move(machine)), link_(link) {
  runtime::WorldSpec spec;
  spec.topology = cost::Topology::single_switch(kMachines, machine_, link_);
  world_ = runtime::make_virtual_world(spec);
}

Runtime& VirtualRuns::add(int machine) {
  return world_->add_runtime(machine, fmt::format("process {}", num_runtimes_++));
}

RunOutcome VirtualRuns::train(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                              const RunOptions& options) {
  const auto world = static_cast<std::size_t>(job::roles_of(job).world);
  RunOutcome out;
  out.ranks.assign(world, Status(Code::kPeerLost, "[test] the rank was killed"));
  const runtime::CancelToken stop;
  Recorder recorder(out, stop, options.stop_at);
  const int base = num_runtimes_;
  Runtime* chief = nullptr;
  for (std::size_t rank = 0; rank < world; ++rank) {
    Runtime& rt = add(options.transport == "shm" ? 0 : static_cast<int>(rank) % kMachines);
    RankContext context;
    context.rt = &rt;
    context.job = job;
    context.connect.rank = static_cast<int>(rank);
    context.connect.world = static_cast<int>(world);
    context.connect.endpoint_base = base;
    context.transport = options.transport;
    context.run_dir = options.run_dir;
    context.data = data;
    context.machine = machine_;
    context.link = link_;
    if (rank == 0) {
      context.progress = &recorder;
      context.stop = stop;
      chief = &rt;
    }
    world_->start(rt, run_rank(std::move(context), &out.ranks[rank]));
  }
  const auto report = world_->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
  out.killed = world_->is_dead(*chief);
  return out;
}

void VirtualRuns::run(Runtime& rt, Task<void> task) {
  world_->start(rt, std::move(task));
  const auto report = world_->run(kForever);
  EXPECT_TRUE(report.finished) << report.stuck;
}

std::string VirtualRuns::read(const std::string& path) {
  std::string text;
  Runtime& rt = add(0);
  run(rt, read_file(rt, path, text));
  return text;
}

void VirtualRuns::sleep(TimeNs duration) {
  Runtime& rt = add(0);
  run(rt, sleep_for(rt, duration));
}

io::Checkpoint VirtualRuns::checkpoint(const std::string& run_dir) {
  io::Checkpoint found;
  Runtime& rt = add(0);
  run(rt, load_checkpoint(rt, run_dir + "/checkpoints", found));
  return found;
}

std::vector<Json> VirtualRuns::metrics(const std::string& run_dir) {
  std::vector<Json> lines;
  const std::string text = read(run_dir + "/metrics.jsonl");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    Result<Json> line = parse_json(text.substr(at, end - at), "metrics.jsonl");
    EXPECT_TRUE(line.ok()) << line.status().to_string();
    if (line.ok()) {
      line->erase("seconds");
      lines.push_back(*line);
    }
    at = end + 1;
  }
  return lines;
}

}  // namespace trireme::train::testing
