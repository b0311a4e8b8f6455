#include "trireme/data/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/disk.h"
#include "tests/data/fixture.h"
#include "trireme/data/shown_text.h"

namespace trireme::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Twenty rows of two features with spread, and two classes; `extra` writes a column before the label.
std::string table_with(const std::string& name, const std::function<std::string(int)>& extra) {
  std::string text = "a,b," + name + ",kind\n";
  for (int i = 0; i < 30; ++i)
    text += fmt::format("{},{},{},{}\n", (i * 7) % 11, (i * 5) % 13, extra(i), i % 2 == 0 ? "x" : "y");
  return text;
}

std::vector<std::string> notes_of(const std::string& text, DataSpec spec = {}) {
  DataDisk disk;
  disk.put("t.csv", text);
  spec.kind = "csv";
  spec.path = "t.csv";
  const auto set = disk.load(std::move(spec));
  EXPECT_TRUE(set.ok()) << set.status().to_string();
  return set.ok() ? (*set)->notes : std::vector<std::string>{};
}

TEST(Notes, OfATableInOrderThereAreNone) {
  EXPECT_THAT(notes_of(table_with("c", [](int i) { return std::to_string(i % 3); })), IsEmpty());
  EXPECT_THAT(notes_of(table_with("c", [](int i) { return i == 4 ? "1" : "0"; })), IsEmpty())
      << "a flag that is rare is no outlier";
}

TEST(Notes, NameConstantColumnsIndexColumnsAndOutliers) {
  EXPECT_THAT(notes_of(table_with("unit", [](int) { return "5"; })),
              ElementsAre(HasSubstr("the same value in every row: 'unit'")));
  EXPECT_THAT(notes_of(table_with("", [](int i) { return std::to_string(i); })),
              ElementsAre(HasSubstr("column 2 numbers the rows")));
  EXPECT_THAT(notes_of(table_with("row", [](int i) { return std::to_string(i + 1); })),
              ElementsAre(HasSubstr("column 'row' numbers the rows")));
  EXPECT_THAT(notes_of(table_with("Unnamed: 0", [](int i) { return std::to_string((i * 7) % 30); })),
              ElementsAre(HasSubstr("numbers the rows")))
      << "shuffled rows";
  EXPECT_THAT(notes_of(table_with("c", [](int i) { return i == 4 ? "1e30" : std::to_string(i % 3); })),
              ElementsAre(HasSubstr("column 'c': the value 1e+30 in row 4 is more than 1000 deviations")));
}

TEST(Notes, TellOfOneClassAndOfVeryFewSamples) {
  EXPECT_THAT(notes_of("1,2,x\n2,5,y\n"),
              ElementsAre(HasSubstr("only 1 training and 1 test samples"), HasSubstr("of one class")));
  std::string same;
  for (int i = 0; i < 40; ++i) same += fmt::format("{},{},x\n", (i * 7) % 11, (i * 5) % 13);
  EXPECT_THAT(notes_of(same), ElementsAre(HasSubstr("all 36 training samples are of one class, 'x'")));
  EXPECT_THAT(notes_of(table_with("c", [](int i) { return std::to_string(i % 3); }), {.limit_train = 5}),
              IsEmpty())
      << "few on purpose";
}

std::string why_labels(const std::function<std::string(int)>& label, int rows) {
  std::string text = "a,b,target\n";
  for (int i = 0; i < rows; ++i) text += fmt::format("{},{},{}\n", (i * 7) % 11, (i * 5) % 13, label(i));
  DataDisk disk;
  disk.put("t.csv", text);
  const auto set = disk.load({.kind = "csv", .path = "t.csv"});
  return set.ok() ? "" : set.status().message();
}

TEST(Targets, NumbersWithHundredsOfValuesAreNoClasses) {
  const char* regression = "looks like a target for regression";
  EXPECT_THAT(why_labels([](int i) { return std::to_string(25 + (i * 37) % 640 / 2); }, 440),
              HasSubstr(regression));
  EXPECT_THAT(why_labels([](int i) { return fmt::format("{}.5", i % 30); }, 60), HasSubstr(regression));
  EXPECT_THAT(why_labels([](int i) { return std::to_string(i % 120); }, 300), IsEmpty())
      << "numbers that follow each other are classes";
  EXPECT_THAT(why_labels([](int i) { return fmt::format("c{}", (i * 37) % 320); }, 400), IsEmpty())
      << "words";
  EXPECT_THAT(why_labels([](int i) { return fmt::format("{}.5", i % 10); }, 60), IsEmpty()) << "ratings";
}

TEST(Targets, ClassNumbersWithGapsAreNotedAndAbsurdOnesRefused) {
  std::vector<std::int32_t> labels(100);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  Notes notes;
  EXPECT_TRUE(check_labels_used(labels, "y", notes).ok());
  EXPECT_THAT(notes, IsEmpty());
  labels[5] = 300;
  EXPECT_TRUE(check_labels_used(labels, "y", notes).ok());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("y: 290 of the 301 classes 0 to 300 have no sample")));
  labels[5] = 1000000;
  const Status absurd = check_labels_used(labels, "y", notes);
  EXPECT_EQ(absurd.code(), Code::kInvalid);
  EXPECT_THAT(absurd.message(), HasSubstr("labels reach 1000000, but only 11 different ones occur"));
  EXPECT_TRUE(check_labels_used({}, "y", notes).ok());
}

TEST(Notes, OfArraysTellOfChannelsLastAndOfValuesThatNothingNormalises) {
  Dataset set;
  set.dtype = DType::kF32;
  set.sample_shape = {8, 8, 3};
  for (int i = 0; i < 8 * 8 * 3; ++i) set.features.push_back(static_cast<float>((i * 37) % 256));
  Notes notes;
  note_samples(set, {DType::kI64, {1, 8, 8, 3}}, "x", notes);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_THAT(notes[0], HasSubstr("x: samples of [8, 8, 3] look like images with the channels last"));
  EXPECT_THAT(notes[0], HasSubstr("[3, 8, 8]"));
  EXPECT_THAT(notes[1], HasSubstr("i64 values from 0 to 255 are used as they are"));
  EXPECT_THAT(notes[1], HasSubstr("uint8"));
  for (float& v : set.features) v = v / 255;
  set.sample_shape = {3, 8, 8};
  notes.clear();
  note_samples(set, {DType::kF32, {1, 3, 8, 8}}, "x", notes);
  EXPECT_THAT(notes, IsEmpty());
  set.features = {-5000, 7000};
  note_samples(set, {DType::kF32, {1, 2}}, "x", notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("scale them to about -1 to 1")));
}

// A .npy file of f32 (NEP 1).
Bytes npy_of(const std::string& shape, const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  Bytes out = to_bytes(std::string_view("\x93NUMPY\x01\x00\x76\x00", 10));
  const Bytes text = to_bytes(header);
  out.insert(out.end(), text.begin(), text.end());
  const auto raw = std::as_bytes(std::span(values));
  out.insert(out.end(), raw.begin(), raw.end());
  return out;
}

TEST(Pixels, AsFloatsAreKnownAndReadAsBytesWhereAsked) {
  std::vector<float> pixels(40 * 16), labels(40);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>((i * 37) % 256);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i % 2);
  DataDisk disk;
  disk.put("d/x.npy", npy_of("40, 4, 4", pixels)).put("d/y.npy", npy_of("40,", labels));
  const auto as_they_are = disk.load({.kind = "npy", .path = "d"});
  ASSERT_TRUE(as_they_are.ok()) << as_they_are.status().to_string();
  EXPECT_EQ((*as_they_are)->dtype, DType::kF32);
  EXPECT_TRUE((*as_they_are)->holds_bytes);
  EXPECT_THAT((*as_they_are)->notes, ElementsAre(HasSubstr("are used as they are")));
  const auto bytes = disk.load({.kind = "npy", .path = "d", .options = {{"pixels", "bytes"}}});
  ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
  EXPECT_EQ((*bytes)->dtype, DType::kU8);
  EXPECT_THAT((*bytes)->notes, IsEmpty());
  for (const float v : features_of(**bytes, 3)) EXPECT_LT(std::abs(v), 3) << "normalized";
  pixels[5] = 0.5F;
  disk.put("d/x.npy", npy_of("40, 4, 4", pixels));
  EXPECT_FALSE((*disk.load({.kind = "npy", .path = "d"}))->holds_bytes);
  EXPECT_THAT(disk.why({.kind = "npy", .path = "d", .options = {{"pixels", "bytes"}}}),
              HasSubstr("d(x): some values are not integers from 0 to 255"));
}

TEST(ShownText, HasNoControlBytesAndNothingThatIsNotUtf8) {
  EXPECT_EQ(shown_text("plain é", 40), "plain é");
  EXPECT_EQ(shown_text(std::string_view("a\0b\x1b[2J\xff", 8), 40), "a\\x00b\\x1b[2J\\xff");
  EXPECT_EQ(shown_text("abcdef", 3), "abc...");
  EXPECT_EQ(shown_text("ab\xC3\xA9", 3), "ab...") << "no half of a character";
}

TEST(Sources, WithoutWhatIsMeantSayWhatToGive) {
  DataDisk disk;
  disk.put("tables/iris.csv", "1,2,x\n");
  EXPECT_THAT(
      disk.why({.kind = "csv", .path = "tables"}),
      HasSubstr("a folder without train.csv; set data.path to a .csv file, or to a folder with train.csv "
                "and perhaps test.csv; it has iris.csv"));
  disk.put_fixture("x.npy", "samples.npy");
  EXPECT_THAT(disk.why({.kind = "npy", .path = "x.npy"}),
              HasSubstr("set data.path to a folder with x_train.npy"));
  const auto alone = disk.load({.kind = "npy", .path = "x.npy", .labels = false});
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  EXPECT_EQ((*alone)->num_samples(), 6);
  disk.put("gifs/cat/1.gif", "GIF").put("gifs/cat/2.gif", "GIF").put("gifs/cat/notes.txt", "");
  const std::string gifs = disk.why({.kind = "images", .path = "gifs", .options = {{"shape", "1x8x8"}}});
  EXPECT_THAT(gifs,
              HasSubstr("gifs/cat: no .jpg, .jpeg or .png file in it; it has 2 .gif, 1 .txt; convert them"));
  EXPECT_THAT(gifs, HasSubstr("mogrify -format png *.gif"));
  EXPECT_THAT(gifs, Not(HasSubstr("remove")));
}

}  // namespace
}  // namespace trireme::data
