#include "trireme/train/train_rank.h"

#include "trireme/comm/group.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/train/leased_worker.h"
#include "trireme/train/lock_step_worker.h"
#include "trireme/train/seated.h"

namespace trireme::train {
using runtime::Task;

void stop_on_interrupt(runtime::Runtime& rt, runtime::CancelToken stop) {
  rt.on_interrupt([&rt, stop]() mutable {
    stop.cancel(Status(Code::kCancelled, "interrupted"));
    rt.post([&rt] { rt.on_interrupt(nullptr); });  // not here: it would destroy this very handler
  });
}

namespace {

// One rank of the job's group, over its transport.
Task<Result<record::Summary>> train_as(RankContext context, std::unique_ptr<net::Transport> wire) {
  runtime::Runtime& rt = *context.rt;
  comm::GroupOptions options;
  options.epoch = context.connect.epoch;
  options.membership.epoch = context.connect.epoch;
  options.membership.deadline = context.job.parallel.deadline_ms * kMilli;
  options.membership.heartbeat = options.membership.deadline / 10;
  options.membership.arrival = options.membership.deadline;  // connecting has shown that everybody is there
  options.membership.names.coordinates = places_of(context);
  options.model = cost::CommModel(context.link, context.machine);
  if (!context.may_spin.value_or(context.connect.world <= runtime::num_cores())) options.spin_ns = 0;
  auto group = comm::make_group(rt, std::move(wire), options);
  if (!group.ok()) co_return group.status();

  KeepUntilLeft keep;
  Result<record::Summary> result = Status(Code::kInternal, "[train] not started");
  Result<StartState> start = co_await agree_on_start(context, **group);
  const auto row = agree::find_agreement(context.job.parallel.agreement);
  if (start.ok() && row.ok() && (*row)->pace != agree::Pace::kStep) {
    result = co_await run_leased(context, **group, std::move(*start), keep);
  } else if (start.ok()) {
    const auto worker = std::make_shared<LockStepWorker>(context, **group, std::move(*start), keep);
    keep.push_back(worker);
    result = co_await worker->run();
  } else {
    result = start.status();
  }
  // A failure of this rank alone (its disk, its memory) becomes the verdict of all.
  if (!result.ok() && (*group)->verdict().ok()) (*group)->fail("training", result.status().message());
  const Status left = co_await (*group)->leave();
  if (result.ok() && !left.ok()) co_return left;
  co_return result;
}

}  // namespace

Task<Result<record::Summary>> train_rank(RankContext context) {
  runtime::Runtime& rt = *context.rt;
  std::unique_ptr<net::Transport> wire = std::move(context.connected);
  if (wire == nullptr) {
    auto transport = co_await net::connect_transport(rt, context.transport, context.connect);
    if (!transport.ok()) co_return transport.status();
    wire = std::move(*transport);
  }
  if (context.send_log != nullptr) wire = net::make_recording_transport(std::move(wire), context.send_log);
  TR_CO_ASSIGN_OR_RETURN(const job::Seating seating, co_await agree_on_seating(context, *wire));
  if (seating.is_plain()) co_return co_await train_as(std::move(context), std::move(wire));
  co_return co_await train_seated(std::move(context), std::move(wire), seating, train_as);
}

}  // namespace trireme::train
