// Updater: makes the updates of one slice, by a graph or by plain addition. One update at a time.
#pragma once

#include "trireme/server/push.h"
#include "trireme/server/row_updater.h"
#include "trireme/server/stored_slice.h"

namespace trireme::server {

class Updater {
 public:
  // `make_update` null: values are added. kInvalid: the graph reads something that no server can give it.
  static Result<std::unique_ptr<Updater>> make(runtime::Runtime& rt, StoredSlice slice,
                                               const MakeUpdate& make_update, TensorPool& pool);

  const StoredSlice& stored() const { return slice_; }
  // The update from (sum of the addends, in their order) / divisor. The addends' pushes have values and
  // outlive the Task.
  runtime::Task<Status> apply(std::vector<Addend> addends, float divisor, float learning_rate);
  // Parts, states and steps, live.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  Updater(runtime::Runtime& rt, StoredSlice slice, TensorPool& pool)
      : rt_(rt), pool_(pool), slice_(std::move(slice)) {}
  Status set_up(const MakeUpdate& make_update);
  std::int64_t next_step() const;
  runtime::Task<Status> add(Tensor gradient);
  runtime::Task<Status> run_graph(Tensor gradient, float learning_rate, std::int64_t step);

  runtime::Runtime& rt_;
  TensorPool& pool_;
  StoredSlice slice_;
  exec::Variables variables_;
  std::vector<UpdateSpec::State> states_;
  std::unique_ptr<exec::Execution> execution_;  // null: plain addition
  UpdateScalars scalars_;
  Tensor steps_;  // i64 [1]: updates made, of earlier starts too
  bool reads_step_ = false;
  std::vector<bool> reads_gradient_;  // per part
  std::unique_ptr<RowUpdater> rows_;  // null: the slice has no rows
};

}  // namespace trireme::server
