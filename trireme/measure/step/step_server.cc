#include "trireme/measure/step/step_server.h"

#include <algorithm>
#include <charconv>

#include "trireme/base/json.h"
#include "trireme/comm/group.h"
#include "trireme/engine/replica.h"
#include "trireme/exec/device_queue.h"
#include "trireme/job/job_parts.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/measure/collective/work.h"
#include "trireme/measure/step/kernel_times.h"
#include "trireme/measure/step/profile_rows.h"
#include "trireme/measure/step/workloads.h"
#include "trireme/net/factory.h"
#include "trireme/prepare/measured_kernels.h"
#include "trireme/prepare/prepare.h"
#include "trireme/runtime/files.h"

namespace trireme::measure {
namespace {

using runtime::Task;

constexpr TimeNs kArrival = 60 * kSecond;
constexpr TimeNs kIdle = 4 * 3600 * kSecond;  // others are measured meanwhile
constexpr std::size_t kMostKinds = 40;        // that a profile names
constexpr std::int64_t kEndless = std::int64_t{1} << 40;

// A number of /proc/self/status, in bytes; 0 where there is none.
Task<std::int64_t> status_bytes(runtime::Runtime& rt, std::string key) {
  Result<Bytes> read = co_await rt.files().read("/proc/self/status");
  if (!read.ok()) co_return 0;
  const std::string_view text = as_text(*read);
  const std::size_t at = text.find("\n" + key + ":");
  if (at == std::string_view::npos) co_return 0;
  std::string_view number = text.substr(at + key.size() + 2);
  number.remove_prefix(std::min(number.size(), number.find_first_not_of(" \t")));
  std::int64_t kib = 0;
  std::from_chars(number.data(), number.data() + number.size(), kib);
  co_return kib * 1024;
}

class Steps {
 public:
  Steps(runtime::Runtime& rt, StepServerOptions options) : rt_(rt), options_(std::move(options)) {}

  Task<Status> prepare();
  // Makes the replica before its first step.
  Task<Result<std::vector<TimeNs>>> run(std::int64_t count);
  Task<Result<std::int64_t>> memory();
  Task<Result<Json>> profile(std::int64_t count);
  Task<Result<Json>> gaps(std::int64_t count);  // on a GPU: how long it has nothing to do
  Task<Result<Json>> kernels() { return measure_kernels(rt_, *prepared_, options_.dtype); }
  std::string describe() const {
    return fmt::format("{} parameters in {} tensors", num_parameters_, prepared_->parameters.size());
  }

 private:
  Task<Status> make_replica();

  runtime::Runtime& rt_;
  StepServerOptions options_;
  job::Job job_;
  std::shared_ptr<const data::Dataset> data_;
  std::shared_ptr<kernel::cuda::CudaDevice> gpu_;  // null: the host
  std::shared_ptr<const prepare::Prepared> prepared_;
  std::unique_ptr<comm::Group> group_;
  std::unique_ptr<engine::Replica> replica_;
  std::int64_t num_parameters_ = 0, step_ = 0;
  std::int64_t resident_before_ = 0;
  engine::StepOutput totals_;
};

// As `train_rank` does for one worker.
Task<Status> Steps::prepare() {
  TR_CO_ASSIGN_OR_RETURN(const auto workloads, parse_workloads(options_.workload, options_.device));
  TR_CO_ASSIGN_OR_RETURN(job_, make_job(*workloads.front(), options_.dtype, options_.device, options_.quick));
  if (options_.profile) {
    job_.train.trace_steps = 1;
    job_.parallel.overlap = "none";
  }
  TR_CO_ASSIGN_OR_RETURN(data_, make_samples(job_));
  TR_CO_ASSIGN_OR_RETURN(const model::ModelInput input, job::model_input(job_, *data_));
  prepare::PrepareOptions with;
  with.compute_threads = rt_.compute_threads();
  with.transport = "none";
  with.machine.cores = rt_.compute_threads();
  if (options_.device == "cuda") {
    TR_CO_ASSIGN_OR_RETURN(gpu_, kernel::cuda::open_device(0));
    with.device = std::shared_ptr<Device>(gpu_, &kernel::cuda::as_device(*gpu_));
  }
  TR_CO_ASSIGN_OR_RETURN(prepared_, prepare::prepare(job_, input, with));
  if (options_.kernel_cache) {
    TR_CO_ASSIGN_OR_RETURN(plan::Plan plan,
                           co_await prepare::with_measured_kernels(rt_, prepared_, *options_.kernel_cache));
    with.fixed = std::make_shared<const plan::Plan>(std::move(plan));
    TR_CO_ASSIGN_OR_RETURN(prepared_, prepare::prepare(job_, input, with));
  }
  for (const model::Parameter& p : prepared_->parameters) num_parameters_ += p.type.shape.num_elems();
  net::ConnectOptions connect;
  auto transport = co_await net::connect_transport(rt_, "inproc", connect);
  if (!transport.ok()) co_return transport.status();
  comm::GroupOptions group;
  TR_CO_ASSIGN_OR_RETURN(group_, comm::make_group(rt_, std::move(*transport), group));
  co_return Status();
}

Task<Status> Steps::make_replica() {
  const std::string restart = "5";  // the peak of the resident set starts anew
  (void)co_await rt_.files().write("/proc/self/clear_refs", as_bytes(restart));
  resident_before_ = co_await status_bytes(rt_, "VmRSS");
  engine::ReplicaLinks links;
  links.one_batch = gpu_ != nullptr;  // as PyTorch's side, whose batch is on the GPU
  TR_CO_ASSIGN_OR_RETURN(replica_,
                         engine::Replica::make(rt_, *group_, job_, prepared_, data_, std::move(links)));
  co_await replica_->clear();
  TR_CO_RETURN_IF_ERROR(co_await replica_->initialise(static_cast<std::uint64_t>(job_.train.seed)));
  TR_CO_RETURN_IF_ERROR(replica_->publish());
  replica_->start_feed(0, kEndless);
  co_return Status();
}

Task<Result<std::vector<TimeNs>>> Steps::run(std::int64_t count) {
  if (replica_ == nullptr) TR_CO_RETURN_IF_ERROR(co_await make_replica());
  std::vector<TimeNs> times;
  for (std::int64_t i = 0; i < count; ++i, ++step_) {
    engine::StepInput input;
    input.step = input.first_batch = input.applied = step_;
    input.num_samples = job_.train.batch;
    input.learning_rate = static_cast<float>(*job_.train.optimizer.lr);
    const TimeNs begin = rt_.now();
    Result<engine::StepOutput> out = co_await replica_->run_step(input);
    if (!out.ok()) co_return out.status();
    // On a GPU a step ends while the one before runs: the time between two ends is that of a step.
    if (replica_->gpu_queue() == nullptr || i + 1 == count) {
      const auto late = co_await replica_->drain();
      if (!late.ok()) co_return late.status();
    }
    times.push_back(rt_.now() - begin);
    totals_.compute_ns += out->compute_ns;
    totals_.exposed_ns += out->exposed_ns;
    totals_.data_ns += out->data_ns;
  }
  co_return times;
}

// What a step needs beyond weights and one batch, as with PyTorch, which has made just these before step 1.
// On a GPU: all of it, likewise.
Task<Result<std::int64_t>> Steps::memory() {
  if (gpu_ != nullptr) co_return static_cast<std::int64_t>(kernel::cuda::peak_bytes(*gpu_));
  const std::int64_t peak = co_await status_bytes(rt_, "VmHWM");
  const std::int64_t batch = job_.train.batch * (data_->sample_elems() + data_->label_elems());
  co_return std::max<std::int64_t>(0, peak - resident_before_ - 4 * (num_parameters_ + batch));
}

Task<Result<Json>> Steps::profile(std::int64_t count) {
  const auto current = [this] {
    std::vector<exec::Profile> all = replica_->profiles();
    return all.empty() ? exec::Profile{} : std::move(all.front());
  };
  exec::Profile before;
  if (replica_ != nullptr) before = current();
  totals_ = {};
  Result<std::vector<TimeNs>> times = co_await run(count);
  if (!times.ok()) co_return times.status();
  const exec::Profile after = current();
  const graph::Graph& graph = prepared_->train->graph();
  TimeNs step_ns = 0;
  for (const TimeNs t : *times) step_ns += t;
  const TimeNs kernel_ns = after.node_ns() - before.node_ns();
  const double step_ms = per_step_ms(step_ns, count), kernel_ms = per_step_ms(kernel_ns, count),
               update_ms = per_step_ms(totals_.exposed_ns, count);
  co_return Json{{"steps", count},
                 {"step_ms", step_ms},
                 {"kernel_ms", kernel_ms},
                 {"update_ms", update_ms},
                 {"data_ms", per_step_ms(totals_.data_ns, count)},
                 {"overhead_ms", step_ms - kernel_ms - update_ms},
                 {"nodes", after.nodes.size()},
                 {"memory", profile_memory(prepared_->train->memory())},
                 {"ops", profile_by_op(graph, before, after, count)},
                 {"kinds", profile_by_kind(graph, before, after, count, kMostKinds)}};
}

Task<Result<Json>> Steps::gaps(std::int64_t count) {
  exec::DeviceQueue* const queue = replica_ != nullptr ? replica_->gpu_queue() : nullptr;
  if (queue == nullptr)
    co_return error(Code::kInvalid, "[bench] gaps are asked for before a step, or not of a GPU");
  TR_CO_ASSIGN_OR_RETURN(const double launch_ns, kernel::cuda::launch_ns(*gpu_));
  queue->watch();
  Result<std::vector<TimeNs>> times = co_await run(count);
  if (!times.ok()) co_return times.status();
  TR_CO_ASSIGN_OR_RETURN(const exec::DeviceQueue::Watched seen, queue->watched());
  const auto steps = static_cast<double>(count);
  co_return Json{{"steps", count},
                 {"launches", static_cast<double>(seen.launches) / steps},
                 {"launch_us", launch_ns * 1e-3},
                 {"busy_ms", seen.busy_ns * 1e-6 / steps},
                 {"idle_ms", seen.idle_ns * 1e-6 / steps}};
}

Result<std::int64_t> count_of(std::string_view line) {
  const std::size_t space = line.find(' ');
  std::int64_t count = 0;
  if (space != std::string_view::npos)
    std::from_chars(line.data() + space + 1, line.data() + line.size(), count);
  if (count < 1) return error(Code::kCorrupt, "[bench] a line makes no sense: got '{}'", line.substr(0, 200));
  return count;
}

Task<Result<std::string>> answer(Steps& steps, std::string line) {
  if (line == "memory") {
    TR_CO_ASSIGN_OR_RETURN(const std::int64_t bytes, co_await steps.memory());
    co_return fmt::format("memory {}", bytes);
  }
  if (line == "kernels") {
    TR_CO_ASSIGN_OR_RETURN(const Json json, co_await steps.kernels());
    co_return "kernels " + json.dump();
  }
  TR_CO_ASSIGN_OR_RETURN(const std::int64_t count, count_of(line));
  if (line.starts_with("profile ")) {
    TR_CO_ASSIGN_OR_RETURN(const Json json, co_await steps.profile(count));
    co_return "profile " + json.dump();
  }
  if (line.starts_with("gaps ")) {
    TR_CO_ASSIGN_OR_RETURN(const Json json, co_await steps.gaps(count));
    co_return "gaps " + json.dump();
  }
  TR_CO_ASSIGN_OR_RETURN(const std::vector<TimeNs> times, co_await steps.run(count));
  co_return times_line(times);
}

Task<Status> serve(runtime::Runtime& rt, runtime::Stream& stream, StepServerOptions options) {
  Steps steps(rt, std::move(options));
  TR_CO_RETURN_IF_ERROR(co_await steps.prepare());
  std::string ready = "ready " + steps.describe();
  TR_CO_RETURN_IF_ERROR(co_await write_line(stream, std::move(ready), rt.now() + kArrival));
  LineReader lines(stream);
  for (;;) {
    Result<std::string> line = co_await lines.next(rt.now() + kIdle);
    if (!line.ok()) co_return line.status();
    if (*line == "quit") co_return Status();
    Result<std::string> reply = co_await answer(steps, *line);
    if (!reply.ok()) co_return reply.status();
    TR_CO_RETURN_IF_ERROR(co_await write_line(stream, *reply, rt.now() + kArrival));
  }
}

}  // namespace

Task<Status> serve_steps(runtime::Runtime& rt, StepServerOptions options) {
  auto stream = co_await rt.network().connect_local(options.driver, rt.now() + kArrival);
  if (!stream.ok()) co_return stream.status();
  Status status = co_await serve(rt, **stream, std::move(options));
  if (!status.ok()) {
    std::string line = "error " + status.message();
    (void)co_await write_line(**stream, std::move(line), rt.now() + kArrival);
  }
  co_return status;
}

}  // namespace trireme::measure
