#include "trireme/engine/bucket_sums.h"

#include "trireme/base/rng.h"
#include "trireme/comm/device/gradient_sums.h"
#include "trireme/comm/sum/factors.h"
#include "trireme/comm/sum/segment_sum.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"
#include "trireme/prepare/own_update.h"
#include "trireme/prepare/stages.h"

namespace trireme::engine {
namespace {

class Maker {
 public:
  Maker(runtime::Runtime& rt, comm::Group& group, const job::Job& job, const prepare::Prepared& prepared,
        const GpuSide& gpu, const BucketSumsOptions& options)
      : rt_(rt), group_(group), job_(job), prepared_(prepared), gpu_(gpu), options_(options) {}

  Result<std::unique_ptr<comm::GradientSum>> make(std::size_t b) {
    const plan::Bucket& bucket = plan().buckets[b];
    if (options_.leased) return make_row("local", local_spec(bucket));
    if (prepared_.stages != nullptr && (!bucket.is_coded() || bucket.num_elems == 0))
      return make_of_segments(b);
    if (options_.device_sum != nullptr)
      return comm::make_device_gradients(options_.device_sum, b, spec_of(b));
    if (gpu_.mirror != nullptr && plan().logical_shards == 1)
      return comm::make_lone_gradients(gpu_.device, bucket.num_elems);
    comm::SumSpec spec = spec_of(b);
    if (bucket.sends_factors()) TR_RETURN_IF_ERROR(add_factors(b, spec));
    TR_ASSIGN_OR_RETURN(auto host, make_row(bucket.sum, std::move(spec)));
    if (gpu_.mirror == nullptr) return host;
    return comm::make_staged_gradients(rt_, gpu_.device, std::move(host));
  }

 private:
  const plan::Plan& plan() const { return prepared_.plan; }

  Result<std::unique_ptr<comm::GradientSum>> make_row(std::string_view name, comm::SumSpec spec) const {
    TR_ASSIGN_OR_RETURN(const comm::SumRow* row, comm::find_sum(name));
    return row->make(rt_, group_, std::move(spec));
  }

  // A bucket of other stages has no elements.
  Result<std::unique_ptr<comm::GradientSum>> make_of_segments(std::size_t b) const {
    const plan::Bucket& bucket = plan().buckets[b];
    if (bucket.num_elems == 0) return make_row("local", local_spec(bucket));
    comm::SegmentSumOptions options;
    options.segments = bucket.segments;
    options.line = options_.stages;
    for (const std::int32_t g : bucket.segments) options.stages.push_back(prepared_.stages->stage_of(g));
    options.dealt = prepared_.deals_shards;
    for (const prepare::StageSegment& s : prepared_.stages->segments)
      for (std::size_t i = 0; options.dealt && i < s.buckets.size(); ++i)
        if (s.buckets[i] == b) options.written_at.push_back(s.written_at[i]);
    std::unique_ptr<comm::GradientSum> sum =
        std::make_unique<comm::SegmentSum>(rt_, group_, spec_of(b), std::move(options));
    return sum;
  }

  static comm::SumSpec local_spec(const plan::Bucket& bucket) {
    comm::SumSpec spec;
    spec.num_elems = bucket.sends_factors() ? bucket.factor_elems : bucket.num_elems;
    return spec;
  }

  comm::SumSpec spec_of(std::size_t b) const {
    const plan::Bucket& bucket = plan().buckets[b];
    const plan::Slots slots{plan().buckets.size()};
    comm::SumSpec spec;
    spec.slots.first = slots.sum(b);
    spec.slots.second = slots.second_sum(b);
    spec.slots.rest = slots.rest();
    spec.slots.read = slots.read(b);
    spec.slots.coded = {slots.turns(slots.sum(b)), slots.turns(slots.sizes(b))};
    spec.label = fmt::format("bucket {}", bucket.slot);
    spec.num_elems = bucket.num_elems;
    spec.num_shards = plan().logical_shards;
    spec.collective = bucket.collective;
    if (options_.turns != nullptr) {
      spec.vectors_in = options_.turns;
      if (prepared_.stages == nullptr) spec.vectors_at = prepared_.places.offsets[b];
    }
    if (options_.scattered) {
      spec.scattered = prepare::parameter_elems(bucket);
      // The room at the end is empty: a bucket without statistics has no rest to add.
      if (bucket.metrics_offset > 0) spec.num_elems = bucket.metrics_offset;
    }
    // Buckets of different tiles have different keys.
    const std::uint64_t tile = static_cast<std::uint64_t>(prepared_.tile) << 32;
    spec.key = mix_key(static_cast<std::uint64_t>(job_.train.seed), tile | b);
    spec.common_key = mix_key(static_cast<std::uint64_t>(job_.train.seed), b);
    spec.coding = prepare::bucket_coding(job_, prepared_.sending, bucket);
    spec.packing = prepare::packing_of_tile(prepared_, bucket, spec.coding.least_elems);
    if (bucket.sum != plan::Bucket::kLowRank) return spec;
    const job::LowRankOptions low_rank = job::low_rank_options(job_);
    spec.matrices = prepare::matrices_of_tile(job_, prepared_, bucket);
    spec.rank = low_rank.rank;
    spec.feedback = low_rank.feedback;
    spec.coding.dense_steps = low_rank.dense_steps;
    return spec;
  }

  Status add_factors(std::size_t b, comm::SumSpec& spec) {
    const plan::Bucket& bucket = plan().buckets[b];
    spec.factor_elems = bucket.factor_elems;
    for (std::size_t p = 0; p < bucket.parameters.size(); ++p)
      spec.products.push_back({prepared_.products[b][p], bucket.factor_offsets[2 * p],
                               bucket.factor_offsets[2 * p + 1], bucket.offsets[p]});
    if (scratch_ == nullptr) {
      std::vector<comm::Product> all;
      for (const auto& of_bucket : prepared_.products)
        all.insert(all.end(), of_bucket.begin(), of_bucket.end());
      const int threads = plan().shard_threads;
      const int at_once = std::max(1, rt_.compute_threads() / std::max(1, threads));
      TR_ASSIGN_OR_RETURN(scratch_,
                          comm::FactorScratch::make(rt_, all, plan().logical_shards, at_once, threads));
    }
    spec.scratch = scratch_;
    return {};
  }

  runtime::Runtime& rt_;
  comm::Group& group_;
  const job::Job& job_;
  const prepare::Prepared& prepared_;
  const GpuSide& gpu_;
  const BucketSumsOptions& options_;
  std::shared_ptr<comm::FactorScratch> scratch_;  // of all buckets of factors
};

}  // namespace

Result<BucketSums> make_sums(runtime::Runtime& rt, comm::Group& group, const job::Job& job,
                             const prepare::Prepared& prepared, const GpuSide& gpu,
                             const BucketSumsOptions& options) {
  Maker maker(rt, group, job, prepared, gpu, options);
  BucketSums sums;
  for (std::size_t b = 0; b < prepared.plan.buckets.size(); ++b) {
    TR_ASSIGN_OR_RETURN(auto sum, maker.make(b));
    sums.push_back(std::move(sum));
  }
  return sums;
}

comm::NamedState shard_state(const BucketSums& sums) {
  comm::NamedState all;
  for (std::size_t b = 0; b < sums.size(); ++b)
    for (auto& [name, tensor] : sums[b]->state()) all.emplace_back(fmt::format("{}/{}", name, b), tensor);
  return all;
}

}  // namespace trireme::engine
