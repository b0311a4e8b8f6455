#include "trireme/prepare/coded_buckets.h"

#include <algorithm>

#include "trireme/comm/device_sum.h"
#include "trireme/job/job_parts.h"
#include "trireme/prepare/own_update.h"

namespace trireme::prepare {
namespace {

const model::Parameter* find(const std::vector<model::Parameter>& list, const std::string& name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const auto& p) { return p.name == name; });
  return at == list.end() ? nullptr : &*at;
}

}  // namespace

// What of a bucket's vectors codecs take; statistics and metrics travel as they are.
codec::Packing packing_of(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                          std::int64_t least_elems) {
  std::vector<codec::Piece> tensors, plain;
  for (std::size_t p = 0; p < bucket.parameters.size(); ++p)
    if (const model::Parameter* found = find(parameters, bucket.parameters[p]))
      tensors.push_back({bucket.offsets[p], found->type.shape.num_elems()});
  const std::int64_t end = parameter_elems(bucket);
  if (end < bucket.num_elems) plain.push_back({end, bucket.num_elems - end});
  return codec::packing_of(tensors, plain, least_elems);
}

// Parameters that take at most half of their values as two thin matrices.
std::vector<agree::Matrix> matrices_of(const plan::Bucket& bucket,
                                       const std::vector<model::Parameter>& parameters,
                                       const agree::RuleOptions& options) {
  std::vector<agree::Matrix> all;
  for (std::size_t p = 0; p < bucket.parameters.size() && options.low_rank > 0; ++p) {
    const model::Parameter* found = find(parameters, bucket.parameters[p]);
    if (found == nullptr || found->type.shape.rank() < 2) continue;
    const std::int64_t count = found->type.shape.num_elems(), rows = found->type.shape[0];
    if (count < options.coding.least_elems || rows == 0) continue;
    const agree::Matrix m{bucket.offsets[p], rows, count / rows};
    if (2 * options.low_rank * (m.rows + m.cols) <= count) all.push_back(m);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return all;
}

agree::RuleOptions bucket_options(const job::Job& job, const plan::Plan& plan, const plan::Bucket& bucket) {
  job::Job own = job;
  own.parallel.codec = bucket.codec;
  agree::RuleOptions options = job::rule_options(own);
  if (bucket.codec != job.parallel.codec) {  // chosen by cost: it may change, the optimiser does not
    options.coding.momentum = 0;
    options.coding.dense_steps = job.parallel.codec_options.integer(codec::kDenseSteps);
  }
  options.reducer = bucket.reducer.empty() ? plan.reducer : bucket.reducer;
  return options;
}

namespace {

// How long the messages of a bucket are, and what making one costs; its codec is set.
Status measure(const job::Job& job, const std::vector<model::Parameter>& parameters, const plan::Plan& plan,
               plan::Bucket& bucket) {
  const agree::RuleOptions options = bucket_options(job, plan, bucket);
  if (options.low_rank > 0) {
    double sent = static_cast<double>(bucket.num_elems);
    for (const agree::Matrix& m : matrices_of(bucket, parameters, options)) {
      const double rank = static_cast<double>(std::min({options.low_rank, m.rows, m.cols}));
      sent += rank * static_cast<double>(m.rows + m.cols) - static_cast<double>(m.rows * m.cols);
      bucket.code_bytes += 4 * rank * static_cast<double>(m.rows * m.cols);
    }
    bucket.message_bytes = 4 * sent;
    return {};
  }
  if (options.coding.row == nullptr) return {};
  TR_ASSIGN_OR_RETURN(const codec::Packer packer,
                      codec::Packer::make(*options.coding.row, options.coding.options, 0,
                                          packing_of(bucket, parameters, options.coding.least_elems)));
  bucket.message_bytes = packer.usual_bytes();
  bucket.code_bytes = packer.work_bytes();
  return {};
}

// To choose from. Sums of few values stay short for a while, and need not be encoded again.
// Sums that are encoded again keep a residual, which has no place where the next differences contain it
// (easgd).
std::vector<const char*> reducers_for(const job::Job& job, const std::string& codec) {
  std::vector<const char*> names{"gather"};
  if (job.parallel.agreement != "easgd") names.push_back("split");
  if (codec == "topk" || codec == "randomk" || codec == "threshold")
    names.insert(names.end(), {"sparse", "doubling"});
  return names;
}

}  // namespace

void choose_reducer(const job::Job& job, const plan::Plan& plan, plan::Bucket& bucket,
                    const cost::Rates& rates) {
  bucket.reducer = bucket.codec == job::kPowerSgd ? "two-sums" : job.parallel.reducer;
  if (bucket.reducer != "auto") return;
  double least = 0;
  std::string best;
  for (const char* reducer : reducers_for(job, bucket.codec)) {
    bucket.reducer = reducer;
    const double seconds = plan::coded_seconds(plan, bucket, rates);
    if (best.empty() || seconds < least) best = reducer, least = seconds;
  }
  bucket.reducer = best;
}

bool codes_on_gpu(const job::Job& job, const std::string& reducer) {
  return job.parallel.agreement == "bsp" && (reducer == "gather" || reducer == "auto") &&
         comm::codes_on_device(job::coding_of(job));
}

Status code_buckets(const job::Job& job, const std::vector<model::Parameter>& parameters,
                    const cost::Rates& rates, bool on_gpu, plan::Plan& plan) {
  const bool mixed = job.parallel.codec == plan::kMixed;
  const agree::RuleOptions options = job::rule_options(job);
  const bool low_rank = options.low_rank > 0;
  if (!mixed && !low_rank && options.coding.row == nullptr) return {};
  for (plan::Bucket& bucket : plan.buckets) {
    if (!mixed) bucket.codec = job.parallel.codec;
    if (bucket.codec == plan::kFactors) continue;
    TR_RETURN_IF_ERROR(measure(job, parameters, plan, bucket));
    if (mixed && bucket.message_bytes > 0) choose_reducer(job, plan, bucket, rates);
  }
  if (mixed) return {};
  plan.reducer = low_rank ? "two-sums" : job.parallel.reducer;
  if (plan.reducer != "auto") return {};
  if (on_gpu && codes_on_gpu(job, plan.reducer)) {
    plan.reducer = "gather";
    return {};
  }
  if (job.train.logical_shards > 0) {  // the same choice for any workers: by the messages that everybody gets
    constexpr std::int32_t kManyShards = 4;
    const bool split = plan.logical_shards > kManyShards && job.parallel.agreement != "easgd";
    plan.reducer = split ? "split" : "gather";
    return {};
  }
  double least = 0;
  std::string best;
  for (const char* reducer : reducers_for(job, job.parallel.codec)) {
    plan.reducer = reducer;
    double seconds = 0;
    for (const plan::Bucket& b : plan.buckets) seconds += plan::coded_seconds(plan, b, rates);
    if (best.empty() || seconds < least) best = reducer, least = seconds;
  }
  plan.reducer = best;
  return {};
}

}  // namespace trireme::prepare
