// What a job's plan has its gradients travel in, tensor by tensor, beside what else could carry them. Nothing
// is trained: for `trireme plan`.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/prepare/codec_choice.h"

namespace trireme::prepare {

struct TensorReport {
  TensorPrices prices;
  job::Sending sending;    // as it travels
  std::string sum;         // of its messages
  double dense_bytes = 0;  // of the gradient itself
  double bytes_sent = 0;   // by a worker in a step; with servers, to it too
  double seconds = 0;      // what it adds to the exchanges of a step
  std::string why;
};

struct PlanReport {
  plan::Plan plan;
  job::Sending asked;  // parallel.codec
  int servers = 0;
  bool calibrated = false;
  std::vector<job::Sending> candidates;  // that were priced, dense first
  std::vector<TensorReport> tensors;     // in order of use
  double bytes_sent = 0, dense_bytes = 0;
  std::string verdict;  // one sentence
};

Result<PlanReport> report_plan(const job::Job& job, const model::ModelInput& input,
                               const PrepareOptions& options);

Json to_json(const PlanReport& report);
// A table, the prices of whole plans, and the verdict.
std::string to_text(const PlanReport& report);

}  // namespace trireme::prepare
