#include "trireme/train/seated.h"

#include <algorithm>
#include <cstring>

#include "trireme/net/early_words.h"
#include "trireme/net/seats.h"
#include "trireme/plan/plan.h"

namespace trireme::train {
namespace {

using runtime::Task;

// A run that goes on keeps the tiles of its plan. A plan that cannot be read is reported by who needs it.
Task<std::int32_t> tiles_on_chief(const RankContext& c) {
  const std::int32_t asked = job::tiles_of(c.job);
  if (c.run_dir.empty() || c.rt->is_phantom()) co_return asked;
  const Result<Bytes> bytes = co_await c.rt->files().read(c.run_dir + "/plan.json");
  if (!bytes.ok()) co_return asked;
  const Result<Json> json = parse_json(as_text(*bytes), "plan.json");
  if (!json.ok()) co_return asked;
  const Result<plan::Plan> plan = plan::plan_from_json(*json);
  co_return plan.ok() ? plan->tiles : asked;
}

RankContext context_of(const RankContext& c, const job::Seating& seating, int rank) {
  RankContext seat;
  seat.rt = c.rt;
  seat.job = c.job;
  seat.job.parallel.workers = seating.mesh.num_ranks();
  seat.job.parallel.mesh = mesh_text(seating.mesh);
  seat.transport = c.transport;
  seat.connect = c.connect;
  seat.connect.rank = rank;
  seat.connect.world = static_cast<int>(seating.workers.size());
  seat.local_rank = c.local_rank;
  seat.may_spin = false;  // the ranks of a worker have one loop
  seat.run_dir = c.run_dir;
  seat.data = c.data;
  seat.prepared = c.prepared;
  seat.workers = seating.workers;
  seat.kernel_cache = c.kernel_cache;
  seat.machine = c.machine;
  seat.link = c.link;
  seat.rates = c.rates;
  seat.stop = c.stop;
  seat.progress = c.progress;
  return seat;
}

Task<Status> train_one(Task<Result<record::Summary>> run, Result<record::Summary>& out) {
  out = co_await run;
  co_return out.status();
}

// Beyond the job's ranks errors speak of workers.
Status of_worker(const Status& failure, const std::vector<int>& workers) {
  const std::optional<int> peer = failure.context().peer;
  if (!peer || *peer < 0 || *peer >= static_cast<int>(workers.size())) return failure;
  auto context = failure.context();
  context.peer = workers[static_cast<std::size_t>(*peer)];
  return Status(failure.code(), failure.message(), std::move(context));
}

}  // namespace

Task<Result<job::Seating>> agree_on_seating(const RankContext& c, net::Transport& wire) {
  std::int32_t tiles = job::tiles_of(c.job);
  const bool may_differ = !c.job.parallel.mesh.empty() || c.job.train.logical_tiles.has_value();
  if (wire.rank() == 0 && (may_differ || wire.world() == 1)) tiles = co_await tiles_on_chief(c);
  if (may_differ && !c.rt->is_phantom()) {
    Bytes word(sizeof(tiles));
    std::memcpy(word.data(), &tiles, sizeof(tiles));
    TR_CO_RETURN_IF_ERROR(co_await net::spread_from_first(*c.rt, wire, net::EarlyWord::kTiles, word));
    std::memcpy(&tiles, word.data(), sizeof(tiles));
  }
  if (tiles == job::tiles_of(c.job) && !may_differ) {  // servers may be among the ranks
    job::Seating plain;
    plain.num_workers = plain.mesh.num_ranks();
    co_return plain;
  }
  co_return job::seating_of(c.job, tiles);
}

Task<Result<record::Summary>> train_seated(RankContext context, std::unique_ptr<net::Transport> wire,
                                           job::Seating seating, TrainAs train) {
  TR_CO_ASSIGN_OR_RETURN(const auto seats, net::Seats::make(*context.rt, std::move(wire), seating.workers,
                                                            context.connect.epoch));
  const std::size_t count = seats->own().size();
  std::vector<Result<record::Summary>> ends(count, Status(Code::kInternal, "[train] not started"));
  std::vector<Task<Status>> running;
  for (std::size_t i = 0; i < count; ++i) {
    RankContext seat = context_of(context, seating, seats->own()[i]);
    if (i > 0) seat.progress = nullptr;
    running.push_back(train_one(train(std::move(seat), seats->take(seats->own()[i])), ends[i]));
  }
  const Status status = co_await runtime::when_all(*context.rt, std::move(running));
  if (!status.ok()) co_return of_worker(status, seating.workers);
  co_return std::move(ends[0]);
}

std::vector<std::string> places_of(const RankContext& c) {
  std::vector<std::string> places = job::roles_of(c.job).places();
  for (std::size_t rank = 0; rank < c.workers.size() && rank < places.size(); ++rank)
    places[rank] += fmt::format("{}worker {}", places[rank].empty() ? "" : ", ", c.workers[rank]);
  return places;
}

}  // namespace trireme::train
