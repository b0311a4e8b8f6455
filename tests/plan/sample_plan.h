// A plan with a value in most of its fields.
#pragma once

#include "trireme/plan/plan.h"

namespace trireme::plan {

inline Plan sample_plan() {
  Plan p;
  p.job_sha256 = "abc";
  p.logical_shards = 6;
  p.shard_batch = 22;
  p.shard_threads = 2;
  p.owners = parallel::even_runs(6, 4);
  p.agreement = "bsp";
  p.transport = "shm";
  p.kernel_library = "blas 1.2";
  p.kernels = {{"conv2d", "im2col"}, {"matmul", "gemm"}};
  p.layouts = {{"fc/weight", parallel::Layout::replicate(p.mesh())}};
  p.buckets = make_buckets({{"a", 100}, {"b", 7}, {"c", 33}}, 128, "ring");
  p.overlap = Overlap::kFull;
  p.exchange_order = {1, 0};
  p.prediction = {0.1, 1.0 / 3.0, 1e-9};
  return p;
}

}  // namespace trireme::plan
