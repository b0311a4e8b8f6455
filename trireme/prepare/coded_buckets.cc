#include "trireme/prepare/coded_buckets.h"

#include <algorithm>

#include "trireme/agree/agree.h"
#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/comm/device/device_sum.h"
#include "trireme/prepare/laid_out.h"
#include "trireme/prepare/own_update.h"

namespace trireme::prepare {
namespace {

const model::Parameter* find(const std::vector<model::Parameter>& list, const std::string& name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const auto& p) { return p.name == name; });
  return at == list.end() ? nullptr : &*at;
}

// `is_common`: whether others encode a parameter of that name too.
codec::Packing pack(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                    std::int64_t least_elems, const auto& is_common) {
  std::vector<codec::ElementRange> tensors, plain;
  for (std::size_t p = 0; p < bucket.parameters.size(); ++p)
    if (const model::Parameter* found = find(parameters, bucket.parameters[p]))
      tensors.push_back({bucket.offsets[p], found->type.shape.num_elems(), is_common(found->name)});
  const std::int64_t end = parameter_elems(bucket);
  if (end < bucket.num_elems) plain.push_back({end, bucket.num_elems - end});
  return codec::packing_of(tensors, plain, least_elems);
}

}  // namespace

codec::Packing packing_of(const plan::Bucket& bucket, const std::vector<model::Parameter>& parameters,
                          std::int64_t least_elems) {
  return pack(bucket, parameters, least_elems, [](const std::string&) { return false; });
}

codec::Packing packing_of_tile(const Prepared& prepared, const plan::Bucket& bucket,
                               std::int64_t least_elems) {
  return pack(bucket, prepared.parameters, least_elems,
              [&](const std::string& name) { return prepared.plan.tiles > 1 && !is_cut(prepared, name); });
}

std::vector<comm::Matrix> matrices_of(const plan::Bucket& bucket,
                                      const std::vector<model::Parameter>& parameters,
                                      const job::LowRankOptions& options) {
  std::vector<comm::Matrix> all;
  for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
    const model::Parameter* found = find(parameters, bucket.parameters[p]);
    if (found == nullptr || found->type.shape.rank() < 2) continue;
    const std::int64_t count = found->type.shape.num_elems(), rows = found->type.shape[0];
    if (count < options.least_elems || rows == 0) continue;
    const comm::Matrix m{bucket.offsets[p], rows, count / rows};
    if (2 * options.rank * (m.rows + m.cols) <= count) all.push_back(m);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return all;
}

std::vector<comm::Matrix> matrices_of_tile(const job::Job& job, const Prepared& prepared,
                                           const plan::Bucket& bucket) {
  const job::LowRankOptions options = job::low_rank_options(job);
  if (prepared.plan.tiles == 1) return matrices_of(bucket, prepared.parameters, options);
  std::vector<model::Parameter> largest;  // the first tile's
  for (const model::Parameter& p : prepared.parameters)
    if (std::find(bucket.parameters.begin(), bucket.parameters.end(), p.name) != bucket.parameters.end())
      largest.push_back(at_tile(prepared, p, 0));
  std::vector<comm::Matrix> all = matrices_of(bucket, largest, options);
  for (comm::Matrix& m : all) {
    const auto at = std::find(bucket.offsets.begin(), bucket.offsets.end(), m.offset);
    const std::string& name = bucket.parameters[static_cast<std::size_t>(at - bucket.offsets.begin())];
    const Shape own = find(prepared.parameters, name)->type.shape;
    m.rows = own[0];
    m.cols = own[0] > 0 ? own.num_elems() / own[0] : 0;
    // Tiles that have all of a matrix draw the same.
    const auto tile = static_cast<std::uint64_t>(is_cut(prepared, name) ? prepared.tile : 0);
    m.key = mix_key(static_cast<std::uint64_t>(job.train.seed), hash_text(name), tile);
  }
  return all;
}

job::Sending sending_of(const plan::Bucket& bucket) {
  using Kind = job::Sending::Kind;
  if (bucket.sends_factors()) return {Kind::kFactors, nullptr};
  if (bucket.sum == plan::Bucket::kLowRank) return {Kind::kLowRank, nullptr};
  const auto codec = codec::find_codec(bucket.codec);
  return codec.ok() ? job::Sending{Kind::kCoded, *codec} : job::Sending();
}

codec::Coding bucket_coding(const job::Job& job, const job::Sending& sending, const plan::Bucket& bucket) {
  const job::Sending own = sending_of(bucket);
  codec::Coding coding = job::coding_of(job, own);
  if (own == sending || own.codec == nullptr) return coding;
  coding.momentum = 0;  // chosen by cost: it may change, the optimiser does not
  coding.dense_steps = job.parallel.codec_options.integer(codec::kDenseSteps);
  return coding;
}

namespace {

// How long the messages of a bucket are, and what making one costs; how it travels is set.
Status measure(const job::Job& job, const job::Sending& sending,
               const std::vector<model::Parameter>& parameters, plan::Bucket& bucket) {
  if (bucket.sum == plan::Bucket::kLowRank) {
    const job::LowRankOptions options = job::low_rank_options(job);
    double sent = static_cast<double>(bucket.num_elems);
    for (const comm::Matrix& m : matrices_of(bucket, parameters, options)) {
      const double rank = static_cast<double>(std::min({options.rank, m.rows, m.cols}));
      sent += rank * static_cast<double>(m.rows + m.cols) - static_cast<double>(m.rows * m.cols);
      bucket.code_bytes += 4 * rank * static_cast<double>(m.rows * m.cols);
    }
    bucket.message_bytes = 4 * sent;
    return {};
  }
  const codec::Coding coding = bucket_coding(job, sending, bucket);
  if (coding.row == nullptr) return {};
  TR_ASSIGN_OR_RETURN(const codec::Packer packer,
                      codec::Packer::make(*coding.row, coding.options, 0,
                                          packing_of(bucket, parameters, coding.least_elems)));
  bucket.message_bytes = packer.usual_bytes();
  bucket.code_bytes = packer.work_bytes();
  return {};
}

constexpr const char* kChosen = "auto";  // of parallel.reducer
constexpr const char* kEverybody = "gather";

bool sends_differences(const job::Job& job) {
  const auto rule = agree::find_agreement(job.parallel.agreement);
  return rule.ok() && (*rule)->sends_differences;
}

// To choose from. Sums of few values stay short for a while, and need not be encoded again. Sums that are
// encoded again keep a residual, which has no place where the next differences contain it.
std::vector<const char*> sums_for(const job::Job& job, const codec::CodecRow& codec) {
  std::vector<const char*> names;
  for (const comm::SumRow& row : comm::sum_table())
    if (row.make_coded != nullptr && (!row.for_few_values || codec.sends_few) &&
        (!row.encodes_sums || !sends_differences(job)))
      names.push_back(row.name);
  return names;
}

// The one by which `seconds_by` says that a step's sums take least.
std::string cheapest_sum(const job::Job& job, const codec::CodecRow& codec, const auto& seconds_by) {
  double least = 0;
  std::string best;
  for (const char* sum : sums_for(job, codec)) {
    const double seconds = seconds_by(sum);
    if (best.empty() || seconds < least) best = sum, least = seconds;
  }
  return best;
}

}  // namespace

void choose_sum(const job::Job& job, const plan::Plan& plan, plan::Bucket& bucket, const cost::Rates& rates) {
  const job::Sending own = sending_of(bucket);
  if (own.codec == nullptr) return;
  bucket.sum = job.parallel.reducer;
  if (bucket.sum != kChosen) return;
  bucket.sum = cheapest_sum(job, *own.codec, [&](const char* sum) {
    bucket.sum = sum;
    return plan::bucket_seconds(plan, bucket, rates);
  });
}

bool codes_on_gpu(const job::Job& job, const job::Sending& sending, const std::string& sum) {
  const auto rule = agree::find_agreement(job.parallel.agreement);
  return rule.ok() && (*rule)->pace == agree::Pace::kStep && (sum == kEverybody || sum == kChosen) &&
         comm::codes_on_device(job::coding_of(job, sending));
}

Status code_buckets(const job::Job& job, const job::Sending& sending,
                    const std::vector<model::Parameter>& parameters, const cost::Rates& rates, bool on_gpu,
                    plan::Plan& plan) {
  using Kind = job::Sending::Kind;
  if (!sending.is(Kind::kMixed) && !sending.is(Kind::kLowRank) && !sending.is(Kind::kCoded)) return {};
  for (plan::Bucket& bucket : plan.buckets) {
    if (bucket.segments.size() > 1) continue;  // its gradients are added in 32 bits, segment by segment
    if (sending.is(Kind::kLowRank)) bucket.sum = plan::Bucket::kLowRank;
    if (sending.is(Kind::kCoded)) bucket.codec = sending.codec->name;
    if (bucket.sends_factors()) continue;
    TR_RETURN_IF_ERROR(measure(job, sending, parameters, bucket));
    if (sending.is(Kind::kMixed)) choose_sum(job, plan, bucket, rates);
  }
  if (!sending.is(Kind::kCoded)) return {};
  const auto set = [&](const std::string& sum) {
    for (plan::Bucket& bucket : plan.buckets)
      if (bucket.segments.size() == 1) bucket.sum = sum;
  };
  if (job.parallel.reducer != kChosen) {
    set(job.parallel.reducer);
  } else if (on_gpu && codes_on_gpu(job, sending, kChosen)) {
    set(kEverybody);
  } else if (job.train.logical_shards > 0) {
    // The same choice for any workers: by the messages that everybody gets.
    constexpr std::int32_t kManyShards = 4;
    set(plan.logical_shards > kManyShards && !sends_differences(job) ? "split" : kEverybody);
  } else {
    set(cheapest_sum(job, *sending.codec, [&](const char* sum) {
      set(sum);
      double seconds = 0;
      for (const plan::Bucket& b : plan.buckets) seconds += plan::bucket_seconds(plan, b, rates);
      return seconds;
    }));
  }
  return {};
}

}  // namespace trireme::prepare
