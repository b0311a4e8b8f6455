// The training steps that `trireme bench train` measures: models of the zoo as jobs, on data made up once.
// bench/peers/torch_steps.py has the same models in PyTorch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"
#include "trireme/model/zoo.h"

namespace trireme::measure {

struct Workload {
  const char* name;
  const char* doc;
  std::int64_t batch;                 // on processors; 0: not among those measured there
  std::int64_t cuda_batch;            // on a GPU; likewise
  std::span<const char* const> keys;  // of the job, as `--set` takes them
};
std::span<const Workload> workload_table();
// Names or none (all that are measured on `device`), separated by commas. kInvalid lists what there is.
Result<std::vector<const Workload*>> parse_workloads(std::string_view names, std::string_view device);

// Samples per step; `quick`: few, to see that it works.
std::int64_t batch_of(const Workload& workload, std::string_view device, bool quick);
// dtype: "f32", "tf32" or "bf16".
Result<job::Job> make_job(const Workload& workload, std::string_view dtype, std::string_view device,
                          bool quick);
// One batch of random samples, over and over.
Result<std::shared_ptr<const data::Dataset>> make_samples(const job::Job& job);

// Whether this processor multiplies bf16 by itself (avx512_bf16, AMX).
bool has_bf16_units();

}  // namespace trireme::measure
