// What a checkpoint keeps of its data, and what data that changed is read as.
#include "trireme/job/data_record.h"

#include <gtest/gtest.h>

#include "trireme/data/standardise.h"

namespace trireme::job {
namespace {

using data::Dataset;

// Four rows of two features, classes "no" and "yes", standardised by all rows.
Dataset table(std::vector<float> features) {
  Dataset set;
  set.name = "csv";
  set.source = "t.csv";
  set.content_sha256 = "0123456789abcdef";
  set.sample_shape = {2};
  set.dtype = DType::kF32;
  set.num_classes = 2;
  set.class_names = {"no", "yes"};
  set.num_train = 3;
  set.num_test = 1;
  set.features = std::move(features);
  set.labels = {0, 1, 1, 0};
  set.standard = data::measure_features(set);
  data::standardise(set.standard, set.features);
  return set;
}

TrainedOn read_back(const Json& record) {
  const Result<Json> parsed = parse_json(record.dump(), "record");
  EXPECT_TRUE(parsed.ok());
  Result<TrainedOn> back = data_from_record(*parsed);
  EXPECT_TRUE(back.ok()) << back.status().to_string();
  return back.ok() ? std::move(*back) : TrainedOn();
}

TEST(DataRecord, ComesBackAsASetWithoutSamples) {
  const Dataset set = table({1, 2, 3, 5, 8, 13, 21, 34});
  const TrainedOn back = read_back(data_record(set, Job(), "/home/me/t.csv"));
  EXPECT_EQ(back.path, "/home/me/t.csv");
  EXPECT_EQ(back.num_train, 3);
  EXPECT_EQ(back.num_test, 1);
  EXPECT_EQ(back.data->num_samples(), 0);
  EXPECT_EQ(back.data->content_sha256, set.content_sha256);
  EXPECT_EQ(back.data->sample_shape, set.sample_shape);
  EXPECT_EQ(back.data->dtype, DType::kF32);
  EXPECT_EQ(back.data->class_names, set.class_names);
  EXPECT_EQ(back.data->standard.mean, set.standard.mean) << "to the last bit";
  EXPECT_EQ(back.data->standard.scale, set.standard.scale);
}

TEST(DataRecord, KeepsHowPixelsAreNormalized) {
  Dataset set;
  set.sample_shape = {2, 1, 1};
  set.channel_mean = {0.1F, 33.3F};
  set.channel_scale = {1.0F / 3.0F, 0.7F};
  const TrainedOn back = read_back(data_record(set, Job(), ""));
  EXPECT_EQ(back.data->channel_mean, set.channel_mean);
  EXPECT_EQ(back.data->channel_scale, set.channel_scale);
  EXPECT_EQ(back.path, "");
}

TEST(DataRecord, KeepsTokensThatAreNotUtf8) {
  Dataset set;
  set.sample_shape = {8};
  set.dtype = DType::kI32;
  set.label_kind = data::Labels::kNext;
  set.num_classes = 256;
  for (int i = 0; i < 256; ++i) set.class_names.emplace_back(1, static_cast<char>(i));
  const TrainedOn back = read_back(data_record(set, Job(), "caf\xE9.txt"));
  EXPECT_EQ(back.data->class_names, set.class_names);
  EXPECT_EQ(back.data->label_kind, data::Labels::kNext);
  EXPECT_EQ(back.path, "") << "a path that JSON cannot hold is not known";
}

TEST(DataRecord, ThatMakesNoSenseIsCorrupt) {
  const Json whole = data_record(table({1, 2, 3, 5, 8, 13, 21, 34}), Job(), "");
  for (const char* key :
       {"kind", "content_sha256", "sample_shape", "dtype", "labels", "num_classes", "num_train"}) {
    Json json = whole;
    json.erase(key);
    EXPECT_EQ(data_from_record(json).status().code(), Code::kCorrupt) << key;
  }
  for (const auto& [key, value] : {std::pair<const char*, Json>{"labels", "some"},
                                   {"num_classes", 3},
                                   {"feature_mean", Json::array({1})},
                                   {"sample_shape", Json::array({3})}}) {
    Json json = whole;
    json[key] = value;
    EXPECT_FALSE(data_from_record(json).ok()) << key;
  }
  EXPECT_FALSE(data_from_record(Json(3)).ok());
}

TEST(DataThatChanged, IsStandardisedAsInTraining) {
  const Dataset trained = table({1, 2, 3, 5, 8, 13, 21, 34});
  const auto same = std::make_shared<const Dataset>(trained);
  EXPECT_EQ(*as_trained(same, trained), same) << "nothing is copied where nothing differs";
  const auto scaled = std::make_shared<const Dataset>(table({100, 200, 300, 500, 800, 1300, 21, 34}));
  const auto read = as_trained(scaled, trained);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ((*read)->standard.mean, trained.standard.mean);
  for (const std::size_t i : {6, 7}) EXPECT_NEAR((*read)->features[i], trained.features[i], 1e-4) << i;
  std::vector<float> hundred{100, 200};
  data::standardise(trained.standard, hundred);
  for (const std::size_t i : {0, 1}) EXPECT_NEAR((*read)->features[i], hundred[i], 1e-3) << i;
}

TEST(DataThatChanged, HasItsClassesByName) {
  const Dataset trained = table({1, 2, 3, 5, 8, 13, 21, 34});
  Dataset other = trained;
  other.class_names = {"yes", "no"};
  const auto read = as_trained(std::make_shared<const Dataset>(other), trained);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ((*read)->labels, (std::vector<std::int32_t>{1, 0, 0, 1}));
  EXPECT_EQ((*read)->class_names, trained.class_names);
  other.class_names = {"no", "perhaps"};
  const Status unknown = as_trained(std::make_shared<const Dataset>(other), trained).status();
  EXPECT_EQ(unknown.code(), Code::kInvalid);
  EXPECT_NE(unknown.message().find("class 'perhaps' is not one that the model was trained on"),
            std::string::npos)
      << unknown.message();
  other.sample_shape = {4};
  EXPECT_NE(as_trained(std::make_shared<const Dataset>(other), trained)
                .status()
                .message()
                .find("samples of f32[4], the model was trained on f32[2]"),
            std::string::npos);
}

TEST(DataThatChanged, IsToldWithBothHashesAndTheCountsThatDiffer) {
  Dataset now = table({1, 2, 3, 5, 8, 13, 21, 34});
  const TrainedOn trained = read_back(data_record(now, Job(), ""));
  EXPECT_EQ(data_change(trained, now), "");
  now.content_sha256 = "";
  EXPECT_EQ(data_change(trained, now), "") << "not known";
  now.content_sha256 = "fedcba9876543210";
  now.num_train = 4;
  EXPECT_EQ(data_change(trained, now),
            "SHA-256 0123456789ab..., now fedcba987654...; 3 training samples, now 4");
}

}  // namespace
}  // namespace trireme::job
