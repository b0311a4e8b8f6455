#include "trireme/plan/plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/plan/sample_plan.h"

namespace trireme::plan {
namespace {

TEST(Plan, ComesBackFromItsJsonWithEveryField) {
  const Plan plan = sample_plan();
  const std::string text = to_json(plan).dump(2);
  const Result<Plan> back = plan_from_json(*parse_json(text, "plan.json"));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back).dump(2), text);
  EXPECT_EQ(back->job_sha256, "abc");
  EXPECT_EQ(back->logical_shards, 6);
  EXPECT_EQ(back->shard_batch, 22);
  EXPECT_EQ(back->shard_threads, 2);
  EXPECT_EQ(back->workers(), 4);
  EXPECT_EQ(back->owners[1].first, 2);
  EXPECT_EQ(back->owners[1].count, 2);
  EXPECT_EQ(back->transport, "shm");
  EXPECT_EQ(back->kernel_library, "blas 1.2");
  EXPECT_EQ(back->kernels, plan.kernels);
  EXPECT_EQ(back->layouts, plan.layouts);
  ASSERT_EQ(back->buckets.size(), plan.buckets.size());
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    EXPECT_EQ(back->buckets[i].slot, plan.buckets[i].slot);
    EXPECT_EQ(back->buckets[i].parameters, plan.buckets[i].parameters);
    EXPECT_EQ(back->buckets[i].offsets, plan.buckets[i].offsets);
    EXPECT_EQ(back->buckets[i].num_elems, plan.buckets[i].num_elems);
    EXPECT_EQ(back->buckets[i].metrics_offset, plan.buckets[i].metrics_offset);
    EXPECT_EQ(back->buckets[i].collective, "ring");
    EXPECT_EQ(back->buckets[i].sum, Bucket::kDense);
    EXPECT_EQ(back->buckets[i].codec, "");
  }
  EXPECT_EQ(back->overlap, Overlap::kFull);
  EXPECT_EQ(back->exchange_order, plan.exchange_order);
  EXPECT_EQ(back->prediction.compute_seconds, 0.1);
  EXPECT_EQ(back->prediction.exchange_seconds, 1.0 / 3.0);
  EXPECT_EQ(back->prediction.update_seconds, 1e-9);
}

TEST(Plan, KeepsTheHashOfItsDataAndOneWorkersTimeWhereTheyAreKnown) {
  Plan plan = sample_plan();
  EXPECT_FALSE(to_json(plan).contains("data_sha256"));
  EXPECT_FALSE(to_json(plan)["prediction"].contains("one_worker_seconds"));
  EXPECT_FALSE(to_json(plan)["prediction"].contains("bubble_fraction"));
  plan.data_sha256 = "def";
  plan.prediction.one_worker_seconds = 0.25;
  plan.prediction.bubble_fraction = 0.125;
  plan.prediction.measured_fraction = 0.75;
  const Result<Plan> back = plan_from_json(to_json(plan));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->data_sha256, "def");
  EXPECT_EQ(back->prediction.one_worker_seconds, 0.25);
  EXPECT_EQ(back->prediction.bubble_fraction, 0.125);
  EXPECT_EQ(back->prediction.measured_fraction, 0.75);
  EXPECT_EQ(back->prediction.one_worker_rate(100), 400);
}

TEST(Plan, OneWorkerAloneRunsAllShardsAndExchangesNothing) {
  Plan plan = sample_plan();
  plan.shard_threads = 1;
  const StepCosts costs{.strands = {{.flops = 1e9}},
                        .needed_before = {0, 0},
                        .final_after = {0, 0},
                        .updates = {{.flops = 0}, {.flops = 0}}};
  cost::Rates rates;
  rates.machine = {.name = "one core", .cores = 1, .flops_per_second_per_core = 1e9, .op_overhead_ns = 0};
  rates.comm = cost::CommModel({.latency_ns = 1000000}, rates.machine);
  EXPECT_NEAR(one_worker_seconds(plan, costs, rates), 6, 1e-3) << "six shards of a second each";
  plan.owners = parallel::even_runs(6, 1);
  EXPECT_NEAR(one_worker_seconds(plan, costs, rates), 6, 1e-3) << "whoever shares the work now";
}

TEST(Plan, OfAnUnknownVersionIsRefused) {
  Json json = to_json(sample_plan());
  json["version"] = 3;
  const Status status = plan_from_json(json).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("version 3 is not known here, expected 1 or 2"), std::string::npos)
      << status.message();
}

TEST(Plan, WithAnyKeyMissingIsRefusedByName) {
  const Json whole = to_json(sample_plan());
  const auto expect_missing = [](const Json& json, const std::string& key) {
    const Status status = plan_from_json(json).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << key;
    EXPECT_NE(status.message().find("'" + key + "'"), std::string::npos) << status.message();
  };
  for (const auto& [key, value] : whole.items()) {
    if (key == "shared_weights") continue;  // older plans lack it
    Json json = whole;
    json.erase(key);
    expect_missing(json, key);
  }
  for (const auto& [key, value] : whole["buckets"][0].items()) {
    Json json = whole;
    json["buckets"][0].erase(key);
    expect_missing(json, key);
  }
  for (const auto& [key, value] : whole["prediction"].items()) {
    Json json = whole;
    json["prediction"].erase(key);
    expect_missing(json, key);
  }
}

TEST(Plan, WithAValueOfTheWrongKindIsRefused) {
  const Json whole = to_json(sample_plan());
  for (const auto& [key, value] : whole.items()) {
    Json json = whole;
    json[key] = value.is_string() ? Json(3) : Json("text");
    EXPECT_EQ(plan_from_json(json).status().code(), Code::kCorrupt) << key;
  }
  for (const Json& buckets : {Json(nullptr), Json::array(), Json::object(), Json::array({1})}) {
    Json json = whole;
    json["buckets"] = buckets;
    EXPECT_EQ(plan_from_json(json).status().code(), Code::kCorrupt) << buckets.dump();
  }
  Json json = whole;
  json["buckets"][0]["offsets"] = Json::array();
  EXPECT_EQ(plan_from_json(json).status().code(), Code::kCorrupt) << "parameters without offsets";
  EXPECT_EQ(plan_from_json(Json::array()).status().code(), Code::kCorrupt);
}

TEST(Plan, WhoseOrderOfExchangesIsNotOneOfAllBucketsIsRefused) {
  Json json = to_json(sample_plan());
  for (const Json& order : {Json::array(), Json{0}, Json{0, 0}, Json{1, 2}, Json{0, 1, 1}}) {
    json["timetable"]["exchange_order"] = order;
    const Status status = plan_from_json(json).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << order.dump();
    EXPECT_NE(status.message().find("each of the 2 buckets once"), std::string::npos) << status.message();
  }
  json["timetable"]["overlap"] = "buckets";
  json["timetable"]["exchange_order"] = Json::array();
  EXPECT_TRUE(plan_from_json(json).ok()) << "nobody needs one";
  json["timetable"]["overlap"] = "most";
  EXPECT_EQ(plan_from_json(json).status().code(), Code::kCorrupt);
}

std::vector<ParameterSize> lenet_sizes() {
  return {{"conv1/weight", 400},  {"conv1/bias", 16}, {"conv2/weight", 12800}, {"conv2/bias", 32},
          {"fc1/weight", 200704}, {"fc1/bias", 128},  {"fc2/weight", 1280},    {"fc2/bias", 10}};
}

TEST(MakeBuckets, HoldEveryParameterOnceInReverseOrderOfUse) {
  const auto sizes = lenet_sizes();
  for (const std::int64_t bytes : {1, 64, 1000, 60'000, 1 << 20, 1 << 30}) {
    std::vector<std::string> seen;
    for (const Bucket& b : make_buckets(sizes, bytes, "fixed-tree"))
      seen.insert(seen.end(), b.parameters.begin(), b.parameters.end());
    ASSERT_EQ(seen.size(), sizes.size()) << bytes;
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], sizes[sizes.size() - 1 - i].name);
  }
}

TEST(MakeBuckets, GiveParametersAlignedPlacesThatDoNotOverlap) {
  std::map<std::string, std::int64_t> size_of;
  for (const auto& p : lenet_sizes()) size_of[p.name] = p.num_elems;
  for (const std::int64_t bytes : {1, 1000, 1 << 20})
    for (const Bucket& b : make_buckets(lenet_sizes(), bytes, "fixed-tree")) {
      ASSERT_EQ(b.offsets.size(), b.parameters.size());
      std::int64_t end = 0;
      for (std::size_t i = 0; i < b.offsets.size(); ++i) {
        EXPECT_EQ(b.offsets[i] * 4 % 64, 0);
        EXPECT_GE(b.offsets[i], end);
        end = b.offsets[i] + size_of.at(b.parameters[i]);
      }
      if (b.metrics_offset >= 0) {
        EXPECT_GE(b.metrics_offset, end);
        end = b.metrics_offset + kNumMetrics;
      }
      EXPECT_GE(b.num_elems, end);
      EXPECT_LT(b.num_elems, end + 16) << "more than alignment is wasted";
    }
}

TEST(MakeBuckets, CloseWhenTheyReachTheirSizeAndCarryTheMetricsInTheLast) {
  const auto buckets = make_buckets(lenet_sizes(), 4096, "ring");
  ASSERT_EQ(buckets.size(), 4U);
  EXPECT_EQ(buckets[0].parameters, (std::vector<std::string>{"fc2/bias", "fc2/weight"}));
  EXPECT_EQ(buckets[1].parameters, (std::vector<std::string>{"fc1/bias", "fc1/weight"}));
  EXPECT_EQ(buckets[3].parameters, (std::vector<std::string>{"conv1/bias", "conv1/weight"}));
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    EXPECT_EQ(buckets[i].slot, i);
    EXPECT_EQ(buckets[i].collective, "ring");
    EXPECT_EQ(buckets[i].metrics_offset >= 0, i + 1 == buckets.size());
  }
}

TEST(MakeBuckets, OfAModelWithoutParametersIsOneWithTheMetrics) {
  const auto buckets = make_buckets({}, 4096, "ring");
  ASSERT_EQ(buckets.size(), 1U);
  EXPECT_EQ(buckets[0].metrics_offset, 0);
  EXPECT_GE(buckets[0].num_elems, kNumMetrics);
}

StepPrediction predict_for(int workers, double flops = 1e9, int shard_threads = 1) {
  Plan plan;
  plan.logical_shards = 8;
  plan.shard_threads = shard_threads;
  plan.owners = parallel::even_runs(8, workers);
  plan.buckets = make_buckets(lenet_sizes(), 1 << 20, "fixed-tree");
  StepCosts costs;
  costs.strands = {{.flops = flops, .bytes = 1e3}};
  costs.needed_before.assign(plan.buckets.size(), 0);
  costs.final_after.assign(plan.buckets.size(), 0);
  costs.updates.assign(plan.buckets.size(), {.flops = 1e6, .bytes = 1e6});
  cost::MachineModel machine;
  machine.cores = 2;
  return predict(plan, step_shape(plan, costs, machine, cost::LinkModel{}));
}

TEST(Predict, MoreWorkersComputeLess) {
  double last = predict_for(1).compute_seconds;
  // One core does a shard of 1e9 flops in 20 ms; 8 shards, two at once: four waves.
  EXPECT_NEAR(last, 4 * 0.02, 1e-3);
  for (const int workers : {2, 4}) {
    const double now = predict_for(workers).compute_seconds;
    EXPECT_NEAR(now, last / 2, last * 1e-6) << workers;
    last = now;
  }
  EXPECT_DOUBLE_EQ(predict_for(8).compute_seconds, last) << "one shard cannot use two cores";
}

TEST(Predict, OneWorkerExchangesNothingAndSeveralDo) {
  EXPECT_EQ(predict_for(1).exchange_seconds, 0);
  const double two = predict_for(2).exchange_seconds;
  EXPECT_GT(two, 0.8e6 / 1.25e9) << "the bytes of the last bucket alone take longer";
  EXPECT_LT(two, 1);
  EXPECT_GE(predict_for(8).exchange_seconds, two);
}

TEST(Predict, AStepIsTheSumOfItsPhasesAndGrowsWithTheWork) {
  const StepPrediction p = predict_for(2);
  EXPECT_DOUBLE_EQ(p.step_seconds(), p.compute_seconds + p.exchange_seconds + p.update_seconds);
  EXPECT_GT(p.update_seconds, 0);
  EXPECT_GT(predict_for(2, 2e9).compute_seconds, 1.9 * p.compute_seconds);
}

TEST(Predict, ShardsOfTwoThreadsRunOneAtATimeOnTwoCores) {
  EXPECT_NEAR(predict_for(1, 1e9, 2).compute_seconds, 8 * 0.01, 1e-3);
}

TEST(Buckets, OfFactorsStandBesideThoseOfGradientsAndTheLastOneIsNeverOfFactors) {
  const std::vector<ParameterSize> sizes = {
      {"w0", 1000, 30, 40}, {"b0", 10}, {"w1", 2000, 50, 60}, {"b1", 20}, {"w2", 3000, 70, 80}};
  const auto together = make_buckets(sizes, 1 << 20, "fixed-tree");
  ASSERT_EQ(together.size(), 2U);
  EXPECT_EQ(together[0].sum, Bucket::kFactors);
  EXPECT_EQ(together[0].parameters, (std::vector<std::string>{"w2", "w1", "w0"}));
  EXPECT_EQ(together[0].factor_offsets, (std::vector<std::int64_t>{0, 80, 160, 224, 288, 320}));
  EXPECT_EQ(together[0].factor_elems, 368);
  EXPECT_EQ(together[0].offsets, (std::vector<std::int64_t>{0, 3008, 5008}));
  EXPECT_EQ(together[1].sum, Bucket::kDense);
  EXPECT_EQ(together[1].parameters, (std::vector<std::string>{"b1", "b0"}));
  EXPECT_GE(together[1].metrics_offset, 0);
  const auto apart = make_buckets(sizes, 1, "fixed-tree");
  ASSERT_EQ(apart.size(), 5U);
  for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_EQ(apart[i].slot, i);
  EXPECT_EQ(apart.back().parameters, (std::vector<std::string>{"b0"}));
  const auto alone = make_buckets({{"w", 1000, 30, 40}}, 1, "fixed-tree");
  ASSERT_EQ(alone.size(), 2U) << "the metrics travel as they are";
  EXPECT_TRUE(alone.back().parameters.empty());
}

TEST(Plan, WithFactorsComesBackAsItWasAndBadPlacesAreRefused) {
  Plan p = sample_plan();
  p.exchange_order.clear();
  p.overlap = Overlap::kBuckets;
  p.buckets = make_buckets({{"w", 1000, 30, 40}, {"b", 7}}, 128, "fixed-tree");
  const Json json = to_json(p);
  const Result<Plan> back = plan_from_json(json);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back), json);
  EXPECT_EQ(back->buckets[0].factor_offsets, p.buckets[0].factor_offsets);
  for (const Json& places : {Json::array(), Json{0}, Json{0, 1000}, Json{-1, 0}, Json("text")}) {
    Json bad = json;
    bad["buckets"][0]["factor_offsets"] = places;
    EXPECT_EQ(plan_from_json(bad).status().code(), Code::kCorrupt) << places.dump();
  }
}

TEST(Buckets, OfCodecsStandBesideTheRestAndTheLastIsOneOfTheRest) {
  std::vector<ParameterSize> sizes{{"a", 100}, {"b", 100}, {"c", 100}, {"d", 100}};
  sizes[1].codec = sizes[3].codec = "topk";
  sizes[2].codec = "fp16";
  const std::vector<Bucket> buckets = make_buckets(sizes, 1 << 20, "ring");
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].codec, "topk");
  EXPECT_EQ(buckets[0].parameters, (std::vector<std::string>{"d", "b"}));
  EXPECT_EQ(buckets[1].codec, "fp16");
  EXPECT_EQ(buckets[2].codec, "");
  EXPECT_EQ(buckets[2].parameters, (std::vector<std::string>{"a"}));
  EXPECT_GE(buckets[2].metrics_offset, 0);
}

TEST(Plan, WithSumsOfItsBucketsAndAChoiceComesBack) {
  Plan plan = sample_plan();
  plan.buckets[0].codec = "topk";
  plan.buckets[0].message_bytes = 12;
  plan.buckets[0].code_bytes = 34;
  plan.buckets[0].sum = "sparse";
  plan.codec = "mixed";
  plan.choices = {{"none", "", 2, 3}, {"mixed", "", 1, 2}};
  plan.chosen_at = 200;
  const Json json = to_json(plan);
  const auto back = plan_from_json(json);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back), json);
  for (const char* key : {"sum", "codec", "message_bytes", "code_bytes"}) {
    Json wrong = json;
    wrong["buckets"][0][key] = Json::array();
    EXPECT_EQ(plan_from_json(wrong).status().code(), Code::kCorrupt) << key;
  }
  Json unknown = json;
  unknown["buckets"][0]["sum"] = "magic";
  EXPECT_EQ(plan_from_json(unknown).status().code(), Code::kCorrupt);
}

TEST(BucketBytesSent, AreThoseOfTheCollectiveOrOfTheMessages) {
  Plan plan;
  plan.logical_shards = 4;
  plan.owners = parallel::even_runs(4, 4);
  Bucket bucket;
  bucket.num_elems = 1000;
  bucket.collective = "ring";
  const cost::Rates rates;
  EXPECT_NEAR(bucket_price(plan, bucket, rates).bytes_sent, 2 * 4000 * 0.75, 40);
  bucket.codec = "topk";
  bucket.message_bytes = 400;
  bucket.sum = "gather";
  EXPECT_NEAR(bucket_price(plan, bucket, rates).bytes_sent, 3 * 404, 16);
  bucket.sum = "split";
  EXPECT_LT(bucket_price(plan, bucket, rates).bytes_sent, 2 * 404);
  bucket.sum = "doubling";
  EXPECT_NEAR(bucket_price(plan, bucket, rates).bytes_sent, 400 + 800, 1e-6);
  bucket.message_bytes = 3000;
  EXPECT_NEAR(bucket_price(plan, bucket, rates).bytes_sent, 3000 + 4000, 1e-6) << "sums have filled up";
  plan.logical_shards = 3;
  plan.owners = parallel::even_runs(3, 3);
  EXPECT_NEAR(bucket_price(plan, bucket, rates).bytes_sent, 3000 + 2 * 4000, 1e-6) << "the third serves two";
  plan.owners = parallel::even_runs(3, 1);
  EXPECT_EQ(bucket_price(plan, bucket, rates).bytes_sent, 0);
}

}  // namespace
}  // namespace trireme::plan
