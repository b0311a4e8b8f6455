// Version 1, fields that are not known, and fields that must agree.
#include "trireme/plan/plan_fields.h"

#include <gtest/gtest.h>

#include "tests/plan/sample_plan.h"

namespace trireme::plan {
namespace {

// As version 1 wrote it.
Json in_version_1(const Plan& plan) {
  Json json = to_json(plan);
  json["version"] = 1;
  json["logical_shards"] = plan.logical_shards;
  json["owners"] = Json(json["owners"]["data"]);
  json["overlap"] = Json(json["timetable"]["overlap"]);
  json["exchange_order"] = Json(json["timetable"]["exchange_order"]);
  for (const char* key : {"mesh", "logical_mesh", "slots", "timetable"}) json.erase(key);
  for (Json& bucket : json["buckets"]) {
    bucket.erase("sum");
    if (!bucket.contains("codec")) bucket["codec"] = "none";
  }
  return json;
}

TEST(Plan, OfVersion1IsReadAsReplicasOfTheWholeModel) {
  Plan plan = sample_plan();
  const Result<Plan> back = plan_from_json(in_version_1(plan));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back).dump(2), to_json(plan).dump(2));
  EXPECT_EQ(back->mesh(), parallel::data_mesh(4));
  plan.agreement = "averaging";
  plan.timetable = Timetable::kLeased;
  EXPECT_EQ(to_json(*plan_from_json(in_version_1(plan))).dump(2), to_json(plan).dump(2));
  Json json = in_version_1(plan);
  json["owners"][0][1] = 5;
  EXPECT_EQ(plan_from_json(json).status().code(), Code::kCorrupt);
}

// One word said both how gradients were added and what they were encoded by.
TEST(Plan, OfVersion1SaysInOneWordHowItsBucketsTravel) {
  const auto read = [](const char* codec, const char* of_bucket, const char* of_plan) {
    Json json = in_version_1(sample_plan());
    Json& bucket = json["buckets"][0];
    bucket["codec"] = codec;
    if (*of_bucket != 0) bucket["reducer"] = of_bucket;
    if (*of_plan != 0) json["reducer"] = of_plan;
    const auto plan = plan_from_json(json);
    return plan.ok() ? plan->buckets[0].sum + "/" + plan->buckets[0].codec : plan.status().to_string();
  };
  EXPECT_EQ(read("none", "", "split"), "tree/");
  EXPECT_EQ(read("topk", "", ""), "gather/topk");
  EXPECT_EQ(read("topk", "", "split"), "split/topk");
  EXPECT_EQ(read("topk", "sparse", "split"), "sparse/topk");
  EXPECT_EQ(read("powersgd", "", "two-sums"), "low-rank/");
}

TEST(Plan, WithAFieldThatIsNotKnownIsRefusedByItsName) {
  const Json whole = to_json(sample_plan());
  const auto expect_unknown = [](const Json& json, const std::string& field) {
    const Status status = plan_from_json(json).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << field;
    EXPECT_NE(status.message().find("'" + field + "' is not known here"), std::string::npos)
        << status.message();
  };
  Json json = whole;
  json["zero_level"] = 1;
  expect_unknown(json, "zero_level");
  json = whole;
  json["buckets"][1]["axes"] = "data";
  expect_unknown(json, "buckets/1/axes");
  for (const char* key : {"logical_mesh", "owners", "slots", "timetable", "prediction"}) {
    json = whole;
    json[key]["more"] = 1;
    expect_unknown(json, std::string(key) + "/more");
  }
}

TEST(Plan, OfSeveralAxesComesBackWithItsMeshAndLayouts) {
  Plan plan = sample_plan();
  plan.tiles = 4;
  plan.segments = 3;
  plan.tile_owners = parallel::even_runs(4, 2);
  plan.segment_owners = parallel::even_runs(3, 3);
  plan.segment_cuts = {"block2", "block5"};
  plan.pipeline = "zb-h1";
  plan.segment_train_cuts.resize(3);
  plan.segment_eval_cuts = {{{"r>0"}, {0, 0}}, {}, {{"0>r"}, {0}}};
  plan.layouts = {{"fc/weight", *parallel::Layout::parse("flat at(0,2) shard(1,3)")}};
  const Json json = to_json(plan);
  const Result<Plan> back = plan_from_json(json);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(to_json(*back), json);
  EXPECT_EQ(back->mesh().num_ranks(), 4 * 2 * 3);
  EXPECT_EQ(back->mesh().rank_text(23), "rank 23 (data 3, stage 2, model 1)");
  EXPECT_EQ(back->layouts, plan.layouts);
  EXPECT_EQ(back->segment_cuts, plan.segment_cuts);
  EXPECT_EQ(back->pipeline, "zb-h1");
  EXPECT_EQ(back->segment_eval_cuts, plan.segment_eval_cuts);
}

TEST(Plan, WhoseMeshOwnersLayoutsAndSlotsDisagreeIsRefused) {
  const Json whole = to_json(sample_plan());
  for (const auto& [path, value] :
       std::vector<std::pair<const char*, Json>>{{"/mesh/0/size", 3},
                                                 {"/mesh/0/axis", "model"},
                                                 {"/owners/data/1/1", 1},
                                                 {"/logical_mesh/shards", 7},
                                                 {"/logical_mesh/tiles", 2},
                                                 {"/logical_mesh/segments", 0},
                                                 {"/layouts/fc~1weight", "replicate replicate"},
                                                 {"/layouts/fc~1weight", "replicated"},
                                                 {"/slots/rest", 5},
                                                 {"/timetable/kind", "gpipe"}}) {
    Json json = whole;
    json[Json::json_pointer(path)] = value;
    EXPECT_EQ(plan_from_json(json).status().code(), Code::kCorrupt) << path << " = " << value.dump();
  }
}

}  // namespace
}  // namespace trireme::plan
