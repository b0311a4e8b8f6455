// WholeParameters: what every rank of a replica has whole of a model that is cut over them. Each of them
// hears of the other replicas' work when it does; where that is no matter of steps, the first rank's values
// are the replica's, and the others take them over.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// On the loop of one Runtime; all that it is made of outlives it.
class WholeParameters {
 public:
  // `replica`: the ranks that hold the parts of the model. Null where there is nothing to take over.
  static std::unique_ptr<WholeParameters> make(runtime::Runtime& rt, comm::Group& replica,
                                               const prepare::Prepared& prepared);

  // In `vectors`, one per bucket. All ranks of the replica call it with the same slot and number.
  runtime::Task<Status> take_over(std::vector<Tensor> vectors, std::uint16_t slot, std::int64_t number);

 private:
  struct Run {
    std::size_t bucket = 0;
    std::int64_t begin = 0, count = 0;  // elements
  };
  WholeParameters(runtime::Runtime& rt, comm::Group& replica) : rt_(rt), replica_(replica) {}

  runtime::Runtime& rt_;
  comm::Group& replica_;
  std::vector<Run> runs_;
  std::int64_t num_elems_ = 0;
};

}  // namespace trireme::engine
