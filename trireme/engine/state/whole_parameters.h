// WholeParameters: what every rank of a replica has whole of a model that is cut over them: parameters, and
// statistics of batch norm. Each of them hears of the other replicas' work when it does; where that is no
// matter of steps, the first rank's values are the replica's, and the others take them over.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// Elements of a bucket.
struct WholeRun {
  std::size_t bucket = 0;
  std::int64_t begin = 0, count = 0;
};
// Those that every rank of a replica has.
std::vector<WholeRun> whole_runs(const prepare::Prepared& prepared);

// On the loop of one Runtime; all that it is made of outlives it.
class WholeParameters {
 public:
  // `replica`: the ranks that hold the parts of the model. Null where there is nothing to take over.
  static std::unique_ptr<WholeParameters> make(runtime::Runtime& rt, comm::Group& replica,
                                               const prepare::Prepared& prepared);

  // By how much elements of a bucket from `begin` on have changed.
  using Moved = std::function<void(std::size_t bucket, std::int64_t begin, std::span<const float> by)>;
  // In `vectors`, one per bucket, which may be racy (agree/mechanism/racy.h). All ranks of the replica call
  // it with the same slot and number.
  runtime::Task<Status> take_over(std::vector<Tensor> vectors, std::uint16_t slot, std::int64_t number,
                                  Moved moved = {});

 private:
  WholeParameters(runtime::Runtime& rt, comm::Group& replica) : rt_(rt), replica_(replica) {}

  runtime::Runtime& rt_;
  comm::Group& replica_;
  std::vector<WholeRun> runs_;
  std::int64_t num_elems_ = 0;
};

}  // namespace trireme::engine
