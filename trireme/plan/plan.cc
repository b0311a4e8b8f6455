#include "trireme/plan/plan.h"

#include <algorithm>

#include "trireme/base/json_numbers.h"
#include "trireme/comm/sum/gradient_sum.h"
#include "trireme/plan/plan_fields.h"
#include "trireme/plan/slots.h"

namespace trireme::plan {
namespace {

constexpr std::int64_t kAlignElems = 16;  // 64 bytes of f32

std::int64_t align_up(std::int64_t n) { return (n + kAlignElems - 1) / kAlignElems * kAlignElems; }

Json bucket_to_json(const Bucket& b) {
  Json json = {{"slot", b.slot},
               {"parameters", b.parameters},
               {"offsets", b.offsets},
               {"statistics", b.statistics},
               {"statistic_offsets", b.statistic_offsets},
               {"num_elems", b.num_elems},
               {"metrics_offset", b.metrics_offset},
               {"collective", b.collective},
               {"sum", b.sum}};
  if (!b.codec.empty()) json["codec"] = b.codec;
  if (b.sends_factors()) json["factor_offsets"] = b.factor_offsets, json["factor_elems"] = b.factor_elems;
  if (b.segments != std::vector<std::int32_t>{0}) json["segments"] = b.segments;
  if (b.message_bytes > 0) json["message_bytes"] = b.message_bytes, json["code_bytes"] = b.code_bytes;
  return json;
}

// Every factor begins within the vector; how long it is, the model says.
bool has_factors(const Bucket& b) {
  return b.factor_offsets.size() == 2 * b.parameters.size() &&
         std::all_of(b.factor_offsets.begin(), b.factor_offsets.end(),
                     [&](std::int64_t at) { return at >= 0 && at < b.factor_elems; });
}

// Plans of version 1 had one word for both, and the way in which encodings are added beside it, or in the
// plan.
Status read_sum_of_version_1(const Json& json, const std::string& reducer, Bucket& b) {
  TR_ASSIGN_OR_RETURN(const std::string word, json_get<std::string>(json, "codec"));
  if (word == "none") return {};
  if (word == "factors" || word == "powersgd") {
    b.sum = word == "factors" ? Bucket::kFactors : Bucket::kLowRank;
    return {};
  }
  b.codec = word;
  b.sum = reducer;
  if (!json.contains("reducer")) return {};
  TR_ASSIGN_OR_RETURN(b.sum, json_get<std::string>(json, "reducer"));
  return {};
}

// `reducer`: of a plan of version 1; null: a later one.
Result<Bucket> bucket_from_json(const Json& json, const std::string* reducer) {
  Bucket b;
  TR_ASSIGN_OR_RETURN(b.slot, json_get_whole<std::uint16_t>(json, "slot"));
  TR_ASSIGN_OR_RETURN(b.parameters, json_get<std::vector<std::string>>(json, "parameters"));
  TR_ASSIGN_OR_RETURN(b.offsets, json_get_wholes<std::int64_t>(json, "offsets"));
  TR_ASSIGN_OR_RETURN(b.statistics, json_get<std::vector<std::string>>(json, "statistics"));
  TR_ASSIGN_OR_RETURN(b.statistic_offsets, json_get_wholes<std::int64_t>(json, "statistic_offsets"));
  TR_ASSIGN_OR_RETURN(b.num_elems, json_get_whole<std::int64_t>(json, "num_elems"));
  TR_ASSIGN_OR_RETURN(b.metrics_offset, json_get_whole<std::int64_t>(json, "metrics_offset"));
  TR_ASSIGN_OR_RETURN(b.collective, json_get<std::string>(json, "collective"));
  if (reducer != nullptr) {
    TR_RETURN_IF_ERROR(read_sum_of_version_1(json, *reducer, b));
  } else {
    TR_ASSIGN_OR_RETURN(b.sum, json_get<std::string>(json, "sum"));
    if (!comm::find_sum(b.sum).ok())
      return error(Code::kCorrupt, "[plan] bucket {} is summed by '{}', which is not known here", b.slot,
                   b.sum);
  }
  if (reducer == nullptr && json.contains("codec")) {
    TR_ASSIGN_OR_RETURN(b.codec, json_get<std::string>(json, "codec"));
  }
  if (json.contains("segments")) {
    TR_ASSIGN_OR_RETURN(b.segments, json_get_wholes<std::int32_t>(json, "segments"));
  }
  if (json.contains("message_bytes")) {
    TR_ASSIGN_OR_RETURN(b.message_bytes, json_get<double>(json, "message_bytes"));
    TR_ASSIGN_OR_RETURN(b.code_bytes, json_get<double>(json, "code_bytes"));
  }
  if (b.sends_factors()) {
    TR_ASSIGN_OR_RETURN(b.factor_offsets, json_get_wholes<std::int64_t>(json, "factor_offsets"));
    TR_ASSIGN_OR_RETURN(b.factor_elems, json_get_whole<std::int64_t>(json, "factor_elems"));
    if (!has_factors(b))
      return error(Code::kCorrupt,
                   "[plan] bucket {} has {} places in {} elements for the factors of {} parameters", b.slot,
                   b.factor_offsets.size(), b.factor_elems, b.parameters.size());
  }
  if (b.parameters.size() != b.offsets.size() || b.statistics.size() != b.statistic_offsets.size())
    return error(Code::kCorrupt,
                 "[plan] bucket {} has {} parameters but {} offsets, {} statistics but {} offsets", b.slot,
                 b.parameters.size(), b.offsets.size(), b.statistics.size(), b.statistic_offsets.size());
  return b;
}

// Workers that start their exchanges in another order, or not all of them, wait for each other for ever.
Status check_order(const Plan& plan) {
  std::vector<std::int32_t> sorted = plan.exchange_order;
  std::sort(sorted.begin(), sorted.end());
  bool whole = sorted.size() == plan.buckets.size();
  for (std::size_t i = 0; whole && i < sorted.size(); ++i) whole = sorted[i] == static_cast<std::int32_t>(i);
  if (whole || (sorted.empty() && plan.overlap != Overlap::kFull)) return {};
  return error(Code::kCorrupt, "[plan] 'exchange_order' does not name each of the {} buckets once",
               plan.buckets.size());
}

Json choices_to_json(const std::vector<CodecChoice>& choices) {
  Json rows = Json::array();
  for (const CodecChoice& c : choices)
    rows.push_back(
        {{"codec", c.codec}, {"sum", c.sum}, {"seconds", c.seconds}, {"step_seconds", c.step_seconds}});
  return rows;
}

}  // namespace

Json to_json(const Plan& p) {
  Json buckets = Json::array();
  for (const Bucket& b : p.buckets) buckets.push_back(bucket_to_json(b));
  Json json = {{"version", kPlanVersion},
               {"job_sha256", p.job_sha256},
               {"mesh", mesh_to_json(p)},
               {"logical_mesh", logical_mesh_to_json(p)},
               {"owners", owners_to_json(p)},
               {"shard_batch", p.shard_batch},
               {"shard_threads", p.shard_threads},
               {"agreement", p.agreement},
               {"transport", p.transport},
               {"kernel_library", p.kernel_library},
               {"kernels", p.kernels},
               {"layouts", layouts_to_json(p)},
               {"buckets", buckets},
               {"slots", slots_to_json(p)},
               {"shared_weights", p.shared_weights},
               {"timetable", timetable_to_json(p)},
               {"prediction",
                {{"compute_seconds", p.prediction.compute_seconds},
                 {"exchange_seconds", p.prediction.exchange_seconds},
                 {"update_seconds", p.prediction.update_seconds}}}};
  if (p.prediction.one_worker_seconds > 0)
    json["prediction"]["one_worker_seconds"] = p.prediction.one_worker_seconds;
  if (p.prediction.axis_seconds > 0) json["prediction"]["axis_seconds"] = p.prediction.axis_seconds;
  if (p.prediction.bubble_fraction > 0) json["prediction"]["bubble_fraction"] = p.prediction.bubble_fraction;
  if (p.prediction.measured_fraction > 0)
    json["prediction"]["measured_fraction"] = p.prediction.measured_fraction;
  if (p.zero > 0) json["zero"] = p.zero;
  if (p.tiles > 1) json["cuts"] = cuts_to_json(p);
  if (p.segments > 1) json["pipeline"] = pipeline_to_json(p);
  if (!p.data_sha256.empty()) json["data_sha256"] = p.data_sha256;
  if (!p.codec.empty()) {
    json["codec"] = p.codec;
    json["codec_choices"] = choices_to_json(p.choices);
    json["codec_chosen_at"] = p.chosen_at;
  }
  return json;
}

Result<Plan> plan_from_json(const Json& json) {
  using Names = std::map<std::string, std::string>;
  Plan p;
  TR_ASSIGN_OR_RETURN(const int version, json_get_whole<int>(json, "version"));
  if (version != 1 && version != kPlanVersion)
    return error(Code::kCorrupt, "[plan] version {} is not known here, expected 1 or {}", version,
                 kPlanVersion);
  TR_ASSIGN_OR_RETURN(p.job_sha256, json_get<std::string>(json, "job_sha256"));
  if (json.contains("data_sha256")) {  // older plans have none
    TR_ASSIGN_OR_RETURN(p.data_sha256, json_get<std::string>(json, "data_sha256"));
  }
  TR_RETURN_IF_ERROR(version == 1 ? read_whole_replicas(json, p) : read_cells(json, p));
  TR_ASSIGN_OR_RETURN(p.shard_batch, json_get_whole<std::int64_t>(json, "shard_batch"));
  TR_ASSIGN_OR_RETURN(p.shard_threads, json_get_whole<int>(json, "shard_threads"));
  TR_ASSIGN_OR_RETURN(p.agreement, json_get<std::string>(json, "agreement"));
  if (json.contains("codec")) {
    TR_ASSIGN_OR_RETURN(p.codec, json_get<std::string>(json, "codec"));
    if (json.contains("codec_chosen_at")) {  // older plans have none
      TR_ASSIGN_OR_RETURN(p.chosen_at, json_get_whole<std::int64_t>(json, "codec_chosen_at"));
    }
    TR_ASSIGN_OR_RETURN(const Json rows, json_get<Json>(json, "codec_choices"));
    for (const Json& row : rows) {
      CodecChoice c;
      TR_ASSIGN_OR_RETURN(c.codec, json_get<std::string>(row, "codec"));
      TR_ASSIGN_OR_RETURN(c.sum, json_get<std::string>(row, row.contains("sum") ? "sum" : "reducer"));
      TR_ASSIGN_OR_RETURN(c.seconds, json_get<double>(row, "seconds"));
      if (row.contains("step_seconds")) {  // older plans have none
        TR_ASSIGN_OR_RETURN(c.step_seconds, json_get<double>(row, "step_seconds"));
      }
      p.choices.push_back(std::move(c));
    }
  }
  std::string reducer = "gather";
  if (version == 1 && json.contains("reducer")) {  // older ones have none
    TR_ASSIGN_OR_RETURN(reducer, json_get<std::string>(json, "reducer"));
  }
  TR_ASSIGN_OR_RETURN(p.transport, json_get<std::string>(json, "transport"));
  TR_ASSIGN_OR_RETURN(p.kernel_library, json_get<std::string>(json, "kernel_library"));
  TR_ASSIGN_OR_RETURN(p.kernels, json_get<Names>(json, "kernels"));
  TR_ASSIGN_OR_RETURN(const Json buckets, json_get<Json>(json, "buckets"));
  if (!buckets.is_array() || buckets.empty())
    return error(Code::kCorrupt, "[plan] 'buckets' is {}, expected a list with at least one",
                 buckets.is_array() ? "empty" : buckets.type_name());
  for (const Json& b : buckets) {
    TR_ASSIGN_OR_RETURN(Bucket bucket, bucket_from_json(b, version == 1 ? &reducer : nullptr));
    p.buckets.push_back(std::move(bucket));
  }
  if (json.contains("shared_weights")) {  // older plans lack it
    TR_ASSIGN_OR_RETURN(p.shared_weights, json_get<bool>(json, "shared_weights"));
  }
  if (json.contains("zero")) {
    TR_ASSIGN_OR_RETURN(p.zero, json_get_whole<std::int32_t>(json, "zero"));
  }
  // Such plans are of times when one rule was in lock step.
  if (version == 1) p.timetable = p.agreement == "bsp" ? Timetable::kLockStep : Timetable::kLeased;
  TR_RETURN_IF_ERROR(read_timetable(version == 1 ? nullptr : "timetable", json, p));
  TR_RETURN_IF_ERROR(check_order(p));
  TR_ASSIGN_OR_RETURN(const Json prediction, json_get<Json>(json, "prediction"));
  TR_ASSIGN_OR_RETURN(p.prediction.compute_seconds, json_get<double>(prediction, "compute_seconds"));
  TR_ASSIGN_OR_RETURN(p.prediction.exchange_seconds, json_get<double>(prediction, "exchange_seconds"));
  TR_ASSIGN_OR_RETURN(p.prediction.update_seconds, json_get<double>(prediction, "update_seconds"));
  if (prediction.contains("one_worker_seconds")) {  // older plans have none
    TR_ASSIGN_OR_RETURN(p.prediction.one_worker_seconds, json_get<double>(prediction, "one_worker_seconds"));
  }
  if (prediction.contains("axis_seconds")) {  // with several tiles
    TR_ASSIGN_OR_RETURN(p.prediction.axis_seconds, json_get<double>(prediction, "axis_seconds"));
  }
  if (prediction.contains("bubble_fraction")) {  // with several stages
    TR_ASSIGN_OR_RETURN(p.prediction.bubble_fraction, json_get<double>(prediction, "bubble_fraction"));
  }
  if (prediction.contains("measured_fraction")) {  // where the host was measured for the job
    TR_ASSIGN_OR_RETURN(p.prediction.measured_fraction, json_get<double>(prediction, "measured_fraction"));
  }
  TR_RETURN_IF_ERROR(check_num_buckets(p.buckets.size()));
  if (version == 1) return p;
  TR_RETURN_IF_ERROR(check_slots(json, p));
  TR_RETURN_IF_ERROR(check_fields(json, to_json(p)));
  return p;
}

std::int64_t parameter_elems(const Bucket& bucket) {
  return !bucket.statistic_offsets.empty() ? bucket.statistic_offsets.front()
         : bucket.metrics_offset >= 0      ? bucket.metrics_offset
                                           : bucket.num_elems;
}

bool factors_pay(std::int64_t factor_elems, std::int64_t gradient_elems, int num_workers) {
  return num_workers > 1 &&
         static_cast<double>(factor_elems) * num_workers < 2 * static_cast<double>(gradient_elems);
}

std::vector<Bucket> make_buckets(const std::vector<ParameterSize>& parameters, std::int64_t bucket_bytes,
                                 const std::string& collective,
                                 const std::vector<ParameterSize>& statistics) {
  std::vector<Bucket> buckets(1);
  std::map<std::string, std::size_t> open{{"", 0}};
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    const bool factors = p->u_elems > 0;
    const std::string way = factors ? Bucket::kFactors : p->sum + p->codec;
    const auto [at, fresh] = open.emplace(way, buckets.size());
    std::size_t& own = at->second;
    if (fresh) buckets.emplace_back();
    const std::int64_t elems = factors ? buckets[own].factor_elems : buckets[own].num_elems;
    if (!buckets[own].parameters.empty() && elems * 4 >= bucket_bytes) {
      own = buckets.size();
      buckets.emplace_back();
    }
    Bucket& b = buckets[own];
    b.parameters.push_back(p->name);
    b.offsets.push_back(b.num_elems);
    b.num_elems += align_up(p->num_elems);
    if (!p->sum.empty()) b.sum = p->sum;
    b.codec = p->codec;
    if (!factors) continue;
    b.sum = Bucket::kFactors;
    b.codec.clear();
    for (const std::int64_t count : {p->u_elems, p->v_elems}) {
      b.factor_offsets.push_back(b.factor_elems);
      b.factor_elems += align_up(count);
    }
  }
  const auto last_dense = buckets.begin() + static_cast<std::ptrdiff_t>(open[""]);
  std::rotate(last_dense, last_dense + 1, buckets.end());
  Bucket& last = buckets.back();
  for (const ParameterSize& s : statistics) {
    last.statistics.push_back(s.name);
    last.statistic_offsets.push_back(last.num_elems);
    last.num_elems += align_up(s.num_elems);
  }
  last.metrics_offset = last.num_elems;
  last.num_elems += align_up(kNumMetrics);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i].slot = static_cast<std::uint16_t>(i);
    buckets[i].collective = collective;
  }
  return buckets;
}

}  // namespace trireme::plan
