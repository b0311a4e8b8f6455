// Predictions: the user's own files are seen as training samples were.
#include "trireme/apply/predict.h"

#include "tests/train/trained_runs.h"
#include "trireme/apply/predict_sheet.h"
#include "trireme/data/read/image_encode.h"

namespace trireme::train {
namespace {

using runtime::Runtime;
using runtime::Task;

class Predict : public testing::TrainedRuns {
 protected:
  Result<apply::Samples> read(const apply::LoadedModel& model, const std::string& file) {
    Result<apply::Samples> out = Status(Code::kInternal, "not run");
    run([&](Runtime& rt) { return read_into(rt, model, file, out); });
    return out;
  }
  std::vector<apply::Prediction> predict(const apply::LoadedModel& model, const apply::Samples& samples,
                                         std::int64_t most = 0) {
    Result<std::vector<apply::Prediction>> out = Status(Code::kInternal, "not run");
    run([&](Runtime& rt) { return classify_into(rt, model, samples, most, out); });
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    return out.ok() ? *out : std::vector<apply::Prediction>();
  }
  apply::Reconstructions rebuild(const apply::LoadedModel& model, const apply::Samples& samples,
                                 std::int64_t most) {
    Result<apply::Reconstructions> out = Status(Code::kInternal, "not run");
    run([&](Runtime& rt) { return rebuild_into(rt, model, samples, most, out); });
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    return out.ok() ? *out : apply::Reconstructions();
  }

  static Task<void> read_into(Runtime& rt, const apply::LoadedModel& model, std::string file,
                              Result<apply::Samples>& out) {
    out = co_await apply::read_samples(rt, model, std::move(file));
  }
  static Task<void> classify_into(Runtime& rt, const apply::LoadedModel& model, const apply::Samples& samples,
                                  std::int64_t most, Result<std::vector<apply::Prediction>>& out) {
    out = co_await apply::classify(rt, model, samples, most);
  }
  static Task<void> rebuild_into(Runtime& rt, const apply::LoadedModel& model, const apply::Samples& samples,
                                 std::int64_t most, Result<apply::Reconstructions>& out) {
    out = co_await apply::reconstruct(rt, model, samples, most);
  }

  // The bytes of a test sample of the digits.
  static std::vector<std::uint8_t> pixels_of(const apply::LoadedModel& model, std::int64_t index) {
    const auto at = model.data->row_of(model.data->num_train + index) * model.data->sample_elems();
    const auto begin = model.data->pixels.begin() + at;
    return {begin, begin + model.data->sample_elems()};
  }
  void write_digit(const apply::LoadedModel& model, std::int64_t index, const std::string& name) {
    const auto png = data::encode_png({28, 28, 1, pixels_of(model, index)});
    ASSERT_TRUE(png.ok()) << png.status().to_string();
    write(name, std::string(as_text(*png)));
  }
  static void expect_same(const apply::Prediction& a, const apply::Prediction& b) {
    EXPECT_EQ(a.best, b.best);
    EXPECT_EQ(a.second, b.second);
    EXPECT_NEAR(a.probability, b.probability, 1e-5);
  }
};

// Version 1.0 of the format: numpy.org/neps/nep-0001-npy-format.html.
std::string npy(const std::string& dtype, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

TEST_F(Predict, PicturesAndArraysOfTestSamplesAreSeenAsThoseSamples) {
  train("run", testing::digits_job());
  const apply::LoadedModel model = load("run");
  const auto expected = predict(model, apply::samples_of_part(model, engine::Part::kTest), 50);
  ASSERT_EQ(expected.size(), 50U);
  write_digit(model, 3, "pictures/b.png");
  write_digit(model, 41, "pictures/more/a.png");
  write("pictures/notes.txt", "no picture");
  const Result<apply::Samples> folder = read(model, path("pictures"));
  ASSERT_TRUE(folder.ok()) << folder.status().to_string();
  EXPECT_TRUE(folder->notes.empty());
  const auto found = predict(model, *folder);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, path("pictures/b.png"));
  EXPECT_EQ(found[0].label, -1);
  expect_same(found[0], expected[3]);
  expect_same(found[1], expected[41]);
  std::string bytes;
  for (const std::int64_t i : {7, 8, 9})
    for (const std::uint8_t v : pixels_of(model, i)) bytes += static_cast<char>(v);
  write("three.npy", npy("|u1", "(3, 28, 28)", bytes));
  const Result<apply::Samples> array = read(model, path("three.npy"));
  ASSERT_TRUE(array.ok()) << array.status().to_string();
  const auto three = predict(model, *array);
  ASSERT_EQ(three.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) expect_same(three[i], expected[7 + i]);
}

TEST_F(Predict, ProbabilitiesAreThoseOfASoftmaxAndLabelsAreKnown) {
  train("run", testing::digits_job());
  const apply::LoadedModel model = load("run");
  for (const apply::Prediction& p : predict(model, apply::samples_of_part(model, engine::Part::kTest))) {
    EXPECT_GE(p.probability, p.second_probability);
    EXPECT_LE(p.probability + p.second_probability, 1 + 1e-9);
    EXPECT_GE(p.probability, 0.1);
    EXPECT_GE(p.label, 0);
    EXPECT_NE(p.best, p.second);
  }
}

TEST_F(Predict, APictureOfAnotherSizeIsFittedAndSaysSo) {
  train("run", testing::digits_job());
  const apply::LoadedModel model = load("run");
  const auto png = data::encode_png({56, 60, 3, std::vector<std::uint8_t>(56 * 60 * 3, 200)});
  ASSERT_TRUE(png.ok());
  write("large.png", std::string(as_text(*png)));
  const Result<apply::Samples> samples = read(model, path("large.png"));
  ASSERT_TRUE(samples.ok()) << samples.status().to_string();
  ASSERT_EQ(samples->notes.size(), 1U);
  EXPECT_NE(samples->notes[0].find("56 x 60"), std::string::npos) << samples->notes[0];
  const data::Pixels& pixels = samples->data->pixels;
  EXPECT_EQ(std::vector(pixels.begin(), pixels.end()), std::vector<std::uint8_t>(28 * 28, 200));
}

TEST_F(Predict, TablesAreStandardisedByTheTrainingRows) {
  std::string table = "x,y,kind\n", bare = "x,y\n";
  for (int i = 0; i < 60; ++i) {
    const std::string row = fmt::format("{},{}", 100 + i % 7 * 10, i % 3);
    table += row + (i % 7 > 3 ? ",high\n" : ",low\n");
    bare += row + "\n";
  }
  write("table.csv", table);
  write("bare.csv", bare);
  job::Job job = testing::digits_job();
  job.model.name = "mlp";
  job.data = job::Job::Data();
  job.data.kind = "csv";
  job.data.path = path("table.csv");
  job.train.steps = 20;
  train("run", job);
  const apply::LoadedModel model = load("run");
  ASSERT_NE(model.data, nullptr);
  const auto parts = predict(model, apply::samples_of_part(model, engine::Part::kTest));
  for (const char* file : {"table.csv", "bare.csv"}) {
    const Result<apply::Samples> samples = read(model, path(file));
    ASSERT_TRUE(samples.ok()) << samples.status().to_string();
    const auto rows = predict(model, *samples);
    ASSERT_EQ(rows.size(), 60U);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto row = model.data->row_of(model.data->num_train + static_cast<std::int64_t>(i));
      expect_same(rows[static_cast<std::size_t>(row)], parts[i]);
    }
    EXPECT_EQ(rows[5].label, std::string(file) == "bare.csv" ? -1 : 0) << "row 5 is high, the first class";
  }
  write("wide.csv", "x,y,z,w\n1,2,3,4\n");
  EXPECT_NE(read(model, path("wide.csv")).status().message().find("the model was trained on 2"),
            std::string::npos);
}

TEST_F(Predict, FilesThatDoNotFitAreRefused) {
  train("run", testing::digits_job());
  const apply::LoadedModel model = load("run");
  write("empty/readme.txt", "nothing");
  write("small.npy", npy("|u1", "(2, 14, 14)", std::string(392, 'x')));
  write("floats.npy", npy("<f4", "(28, 28)", std::string(3136, '\0')));
  write("none.png", "this is no picture");
  write("a.csv", "1,2\n");
  const std::pair<const char*, const char*> cases[] = {
      {"empty", "no .png"},          {"small.npy", "expected samples of"}, {"floats.npy", "expected bytes"},
      {"none.png", "none.png"},      {"a.csv", "not rows of a table"},     {"missing", "--input"},
      {"missing.png", "missing.png"}};
  for (const auto& [file, says] : cases) {
    const Result<apply::Samples> samples = read(model, path(file));
    ASSERT_FALSE(samples.ok()) << file;
    EXPECT_NE(samples.status().message().find(says), std::string::npos) << samples.status().message();
  }
}

TEST_F(Predict, SheetsShowTheBytesOfTheOriginalsAndTheFirstLayer) {
  train("run", testing::autoencoder_job());
  const apply::LoadedModel model = load("run");
  const apply::Reconstructions found = rebuild(model, apply::samples_of_part(model, engine::Part::kTest), 11);
  ASSERT_EQ(found.names.size(), 11U);
  const Result<data::Picture> sheet = apply::reconstruction_sheet(found, *model.data);
  ASSERT_TRUE(sheet.ok()) << sheet.status().to_string();
  // 8 columns, 2 x 2 rows, tiles of 3 x 28 pixels with 4 between them.
  EXPECT_EQ(sheet->width, 8 * 88 + 4);
  EXPECT_EQ(sheet->height, 4 * 88 + 4);
  const auto pixel = [&](std::int64_t y, std::int64_t x) {
    return sheet->pixels[static_cast<std::size_t>(y * sheet->width + x)];
  };
  const std::vector<std::uint8_t> tenth = pixels_of(model, 9);  // second block, second column
  for (std::int64_t y = 0; y < 28; ++y)
    for (std::int64_t x = 0; x < 28; ++x)
      EXPECT_NEAR(pixel(4 + 2 * 88 + 3 * y + 1, 4 + 88 + 3 * x + 2),
                  tenth[static_cast<std::size_t>(28 * y + x)], 1);
  const Result<data::Picture> filters = apply::filter_sheet(model);
  ASSERT_TRUE(filters.ok()) << filters.status().to_string();
  EXPECT_EQ(filters->width, 4 * 32 + 4) << "16 units in 4 columns";
  EXPECT_EQ(filters->height, 4 * 32 + 4);
  const Tensor weights = *model.variables->get("encoder/weight");
  EXPECT_EQ(filters->pixels[static_cast<std::size_t>(4 * filters->width + 4)] > 127,
            *weights.data<float>() > 0);
}

TEST_F(Predict, AModelDoesWhatItWasTrainedFor) {
  train("run", testing::autoencoder_job());
  const apply::LoadedModel model = load("run");
  Result<std::vector<apply::Prediction>> out = Status(Code::kInternal, "not run");
  const apply::Samples samples = apply::samples_of_part(model, engine::Part::kTest);
  run([&](Runtime& rt) { return classify_into(rt, model, samples, 1, out); });
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().code(), Code::kInvalid);
}

TEST(PredictReport, CommasAndQuotesInNamesAreQuoted) {
  apply::LoadedModel model;
  auto set = std::make_shared<data::Dataset>();
  set->class_names = {"a \"b\"", "c"};
  model.data = set;
  apply::Prediction p;
  p.name = "x,y.png";
  p.best = 0;
  p.second = 1;
  p.probability = 0.75;
  p.second_probability = 0.25;
  EXPECT_EQ(apply::to_csv({p}, model),
            "sample,class,probability,second,second_probability,label\n"
            "\"x,y.png\",\"a \"\"b\"\"\",0.75,c,0.25,\n");
}

}  // namespace
}  // namespace trireme::train
