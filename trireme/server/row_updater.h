// RowUpdater: updates of some rows of one part (an embedding). Only these rows and their state are read and
// written: they are gathered side by side, updated there by the same graph, and put back.
#pragma once

#include <map>

#include "trireme/server/push.h"
#include "trireme/server/update_graph.h"

namespace trireme::server {

class RowUpdater {
 public:
  // `slice` has rows; `states` are of its row part, `variables` has them. All outlive it.
  RowUpdater(runtime::Runtime& rt, const StoredSlice& slice, const exec::Variables& variables,
             MakeUpdate make_update)
      : rt_(rt), slice_(slice), variables_(variables), make_update_(std::move(make_update)) {}

  // Applies addends that have rows. A row that several have, or one has twice, is added up in their order.
  // kInvalid: the update is one whose state moves in rows that get no gradient.
  runtime::Task<Status> apply(std::vector<Addend> addends, float divisor, float learning_rate,
                              std::int64_t step);

 private:
  // Rows side by side. Sizes are powers of two, so that few graphs are compiled; the rest is zeros.
  struct Bench {
    Tensor values, gradient;
    std::vector<std::pair<Tensor, Tensor>> states;  // of the whole part, of the rows
    exec::Variables variables;
    UpdateScalars scalars;
    std::unique_ptr<exec::Execution> execution;  // null: plain addition
  };
  Result<Bench*> bench_for(std::size_t num_rows);
  Status add_graph(Bench& bench, std::int64_t elems) const;
  const StoredPart& part() const { return slice_.parts[slice_.rows->part]; }

  runtime::Runtime& rt_;
  const StoredSlice& slice_;
  const exec::Variables& variables_;
  const MakeUpdate make_update_;  // null: plain addition
  std::map<std::size_t, std::unique_ptr<Bench>> benches_;
  std::vector<std::int64_t> touched_;  // ascending
};

}  // namespace trireme::server
