#include "trireme/train/worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/comm/group.h"
#include "trireme/data/leases.h"
#include "trireme/io/checkpoint.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/train/job_parts.h"
#include "trireme/train/metrics.h"
#include "trireme/train/replica.h"
#include "trireme/train/start.h"

namespace trireme::train {
namespace {

using runtime::Task;

// One rank's run. Rank 0 also keeps the lease book, the metrics and the checkpoints.
class Worker {
 public:
  Worker(RankContext& context, comm::Group& group, StartState start)
      : c_(context),
        rt_(*context.rt),
        group_(group),
        start_(std::move(start)),
        leases_(start_.prepared->plan.logical_shards),
        metrics_(rt_, context.run_dir) {}

  Task<Result<Summary>> run();

 private:
  bool chief() const { return group_.rank() == 0; }
  bool writes() const { return chief() && !c_.run_dir.empty(); }
  const plan::Plan& plan() const { return start_.prepared->plan; }

  Task<Status> begin();
  Task<Status> loop();
  Task<Status> one_step();
  Task<Status> evaluate();
  Task<Status> checkpoint();
  Status grant_leases();
  Status finish_leases();
  Summary summarise() const;
  bool checkpoint_due() const;

  RankContext& c_;
  runtime::Runtime& rt_;
  comm::Group& group_;
  StartState start_;
  data::LeaseBook leases_;
  MetricsLog metrics_;
  std::unique_ptr<Replica> replica_;
  std::int64_t step_ = 0, total_steps_ = 0, per_epoch_ = 1;  // step_: completed
  std::int64_t samples_ = 0, measured_samples_ = 0, measured_steps_ = 0;
  std::int64_t epoch_samples_ = 0;
  double epoch_loss_ = 0, epoch_correct_ = 0;
  StepOutput totals_;
  EvalOutput eval_;
  TimeNs started_ = 0, train_ns_ = 0;
  bool stopped_ = false;
};

Task<Status> Worker::begin() {
  auto replica = Replica::make(rt_, group_, c_.job, start_.prepared, c_.data);
  if (!replica.ok()) co_return replica.status();
  replica_ = std::move(*replica);
  per_epoch_ = replica_->cut().steps_per_epoch();
  total_steps_ = c_.job.train.steps > 0 ? c_.job.train.steps : c_.job.train.epochs * per_epoch_;
  replica_->initialise(static_cast<std::uint64_t>(c_.job.train.seed));
  if (start_.resume_step > 0) {
    Status restored = co_await restore_state(group_, replica_->state(), start_.restored);
    if (!restored.ok()) co_return restored;
    start_.restored.clear();
    step_ = start_.resume_step;
    samples_ = start_.resume_samples;
    auto book = data::LeaseBook::from_cursor(start_.cursor);
    if (!book.ok()) co_return book.status();
    leases_ = std::move(*book);
  }
  if (chief() && c_.progress != nullptr) {
    std::int64_t parameters = 0;
    for (const auto& p : start_.prepared->parameters) parameters += p.type.shape.num_elems();
    c_.progress->on_start({c_.run_dir, step_, total_steps_, per_epoch_, parameters, &plan()});
  }
  if (writes()) co_return co_await metrics_.open(step_);
  co_return Status();
}

// The coordinator's book: every rank's run of shards is out while the step runs, and done when the exchange
// has proved that everybody finished.
Status Worker::grant_leases() {
  if (!chief()) return {};
  for (int r = 0; r < group_.world(); ++r) {
    const collective::LeafRun run = plan().owners[static_cast<std::size_t>(r)];
    TR_RETURN_IF_ERROR(leases_.grant(step_, {run.first, run.count}, r));
  }
  return {};
}

Status Worker::finish_leases() {
  if (!chief()) return {};
  for (int r = 0; r < group_.world(); ++r) {
    const collective::LeafRun run = plan().owners[static_cast<std::size_t>(r)];
    TR_RETURN_IF_ERROR(leases_.finish(step_, {run.first, run.count}, r));
  }
  return {};
}

Task<Status> Worker::one_step() {
  StepInput input;
  input.step = step_;
  input.epoch = step_ / per_epoch_;
  input.step_in_epoch = step_ % per_epoch_;
  input.stop_wanted = c_.stop.cancelled();
  const std::int64_t count = replica_->cut().samples_in_step(input.step_in_epoch);
  const std::int64_t all_samples = std::max<std::int64_t>(1, total_steps_ * c_.job.train.batch);
  input.learning_rate = static_cast<float>(model::schedule_at(schedule_of(c_.job), samples_, all_samples).lr);
  TR_CO_RETURN_IF_ERROR(grant_leases());
  const TimeNs before = rt_.now();
  Result<StepOutput> result = co_await replica_->run_step(input);
  if (!result.ok()) co_return result.status();
  const StepOutput& out = *result;
  train_ns_ += rt_.now() - before;
  TR_CO_RETURN_IF_ERROR(finish_leases());
  if (!std::isfinite(out.loss))
    co_return error(
        Code::kInternal,
        "[train] the loss is not a number at step {}; try a smaller train.optimizer.lr (now {}) or a longer "
        "train.optimizer.warmup",
        step_, peak_rate(c_.job.train.optimizer));
  ++step_;
  samples_ += count;
  ++measured_steps_;
  measured_samples_ += count;
  epoch_samples_ += count;
  epoch_loss_ += out.loss * static_cast<double>(count);
  epoch_correct_ += out.correct;
  totals_.compute_ns += out.compute_ns;
  totals_.exposed_ns += out.exposed_ns;
  stopped_ = out.stop;
  const double accuracy = count > 0 ? out.correct / static_cast<double>(count) : 0;
  if (chief()) {
    metrics_.add_step(step_, input.epoch, out.loss, accuracy, input.learning_rate, rt_.now() - started_);
    if (c_.progress != nullptr)
      c_.progress->on_step({step_, input.epoch, out.loss, accuracy, count, rt_.now()});
  }
  co_return Status();
}

Task<Status> Worker::evaluate() {
  Result<EvalOutput> result = co_await replica_->evaluate(step_);
  if (!result.ok()) co_return result.status();
  eval_ = *result;
  const std::int64_t epoch = (step_ + per_epoch_ - 1) / per_epoch_;
  if (chief()) {
    metrics_.add_evaluation(step_, epoch, eval_.loss, eval_.accuracy);
    if (c_.progress != nullptr) c_.progress->on_evaluation({step_, epoch, eval_.loss, eval_.accuracy});
  }
  co_return Status();
}

bool Worker::checkpoint_due() const {
  if (stopped_ || step_ == total_steps_) return true;
  const std::int64_t every = c_.job.train.checkpoint_steps > 0 ? c_.job.train.checkpoint_steps : per_epoch_;
  return step_ % every == 0;
}

Task<Status> Worker::checkpoint() {
  if (!writes()) co_return Status();
  TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
  io::Checkpoint saved;
  saved.step = step_;
  saved.state = {{"samples", samples_},
                 {"seed", c_.job.train.seed},
                 {"job_sha256", plan().job_sha256},
                 {"cursor", leases_.cursor()}};
  saved.tensors = replica_->state();
  TR_CO_RETURN_IF_ERROR(co_await io::save_checkpoint(rt_, c_.run_dir + "/checkpoints", saved));
  if (c_.progress != nullptr) c_.progress->on_checkpoint(step_);
  co_return Status();
}

Task<Status> Worker::loop() {
  started_ = rt_.now();
  while (step_ < total_steps_ && !stopped_) {
    if (step_ % per_epoch_ == 0) epoch_loss_ = epoch_correct_ = 0, epoch_samples_ = 0;
    TR_CO_RETURN_IF_ERROR(co_await one_step());
    if (!stopped_ && (step_ % per_epoch_ == 0 || step_ == total_steps_))
      TR_CO_RETURN_IF_ERROR(co_await evaluate());
    if (checkpoint_due()) TR_CO_RETURN_IF_ERROR(co_await checkpoint());
  }
  // A run resumed after its last step has nothing left to do but to be graded.
  if (!stopped_ && measured_steps_ == 0) TR_CO_RETURN_IF_ERROR(co_await evaluate());
  co_return Status();
}

Summary Worker::summarise() const {
  Summary s;
  s.job = c_.job.name;
  s.workers = group_.world();
  s.agreement = plan().agreement;
  s.codec = plan().buckets.front().codec;
  s.transport = group_.world() > 1 ? c_.transport : "none";
  s.steps = step_;
  s.samples = samples_;
  s.epochs = static_cast<double>(step_) / static_cast<double>(per_epoch_);
  s.wall_seconds = to_seconds(rt_.now() - started_);
  const double n = static_cast<double>(std::max<std::int64_t>(1, measured_steps_));
  s.samples_per_second = train_ns_ > 0 ? static_cast<double>(measured_samples_) / to_seconds(train_ns_) : 0;
  const double seen = static_cast<double>(std::max<std::int64_t>(1, epoch_samples_));
  s.train_loss = epoch_loss_ / seen;
  s.train_accuracy = epoch_correct_ / seen;
  s.test_loss = eval_.loss;
  s.test_accuracy = eval_.accuracy;
  s.bytes_sent_per_step = static_cast<double>(group_.stats().bytes_sent) / n;
  for (const plan::Bucket& b : plan().buckets)
    s.bytes_dense_per_step += 4.0 * static_cast<double>(b.num_elems);
  s.compute_seconds = to_seconds(totals_.compute_ns) / n;
  s.exposed_seconds = to_seconds(totals_.exposed_ns) / n;
  s.prediction = plan().prediction;
  s.predicted_step_seconds = plan().prediction.step_seconds();
  s.measured_step_seconds = to_seconds(train_ns_) / n;
  if (!rt_.is_phantom()) s.parameters_sha256 = io::parameters_sha256(replica_->parameters());
  s.finished = step_ >= total_steps_;
  s.ok = true;
  return s;
}

Task<Result<Summary>> Worker::run() {
  TR_CO_RETURN_IF_ERROR(co_await begin());
  TR_CO_RETURN_IF_ERROR(co_await loop());
  const Summary summary = summarise();
  if (writes()) {
    const std::string text = to_json(summary).dump(2) + "\n";
    TR_CO_RETURN_IF_ERROR(co_await metrics_.flush());
    TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(c_.run_dir + "/summary.json", as_bytes(text)));
  }
  co_return summary;
}

}  // namespace

void stop_on_interrupt(runtime::Runtime& rt, runtime::CancelToken stop) {
  rt.on_interrupt([&rt, stop]() mutable {
    stop.cancel(Status(Code::kCancelled, "interrupted"));
    rt.post([&rt] { rt.on_interrupt(nullptr); });  // not here: it would destroy this very handler
  });
}

Task<Result<Summary>> train_rank(RankContext context) {
  runtime::Runtime& rt = *context.rt;
  std::unique_ptr<net::Transport> wire = std::move(context.connected);
  if (wire == nullptr) {
    auto transport = co_await net::connect_transport(rt, context.transport, context.connect);
    if (!transport.ok()) co_return transport.status();
    wire = std::move(*transport);
  }
  if (context.send_log != nullptr) wire = net::make_recording_transport(std::move(wire), context.send_log);
  comm::GroupOptions options;
  options.epoch = context.connect.epoch;
  options.membership.epoch = context.connect.epoch;
  options.membership.deadline = context.job.parallel.deadline_ms * kMilli;
  options.membership.heartbeat = options.membership.deadline / 10;
  options.membership.arrival = options.membership.deadline;  // connecting has shown that everybody is there
  options.model = cost::CommModel(context.link, context.machine);
  if (context.connect.world > runtime::num_cores()) options.spin_ns = 0;
  auto group = comm::make_group(rt, std::move(wire), options);
  if (!group.ok()) co_return group.status();

  Result<Summary> result = Status(Code::kInternal, "[train] not started");
  Result<StartState> start = co_await agree_on_start(context, **group);
  if (start.ok()) {
    Worker worker(context, **group, std::move(*start));
    result = co_await worker.run();
  } else {
    result = start.status();
  }
  // A failure of this rank alone (its disk, its memory) becomes the verdict of all.
  if (!result.ok() && (*group)->verdict().ok()) (*group)->fail("training", result.status().message());
  const Status left = co_await (*group)->leave();
  if (result.ok() && !left.ok()) co_return left;
  co_return result;
}

}  // namespace trireme::train
