// Seated ranks: a worker that has several parts of the model (tiles) runs a rank for each of them, side by
// side on its one loop. Which ranks a job has depends on its tiles alone, and so do its bits; which worker
// runs them does not matter. Internal to train_rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/job/roles.h"
#include "trireme/train/train_rank.h"

namespace trireme::train {

// How the ranks of the job sit on its workers. The tiles are those of the plan that a run began with, which
// rank 0 tells the others. Collective.
runtime::Task<Result<job::Seating>> agree_on_seating(const RankContext& context, net::Transport& wire);

using TrainAs = runtime::Task<Result<record::Summary>> (*)(RankContext context,
                                                           std::unique_ptr<net::Transport> wire);
// Runs `train` as every rank that this worker has, over its connection. The summary is that of the first; a
// failure names the worker.
runtime::Task<Result<record::Summary>> train_seated(RankContext context, std::unique_ptr<net::Transport> wire,
                                                    job::Seating seating, TrainAs train);

// By rank, its place in the mesh, with its worker where that is another number: for verdicts.
std::vector<std::string> places_of(const RankContext& context);

}  // namespace trireme::train
