// `inspect timetable`, as a user meets it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

TEST(InspectTimetable, ListsThemWithoutAKind) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "timetable"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "async", "2bw"})
    EXPECT_NE(ran.out.find(name), std::string::npos) << name;
  const Result<Json> rows = parse_json(w.run({"inspect", "timetable", "--json"}).out, "standard output");
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->size(), 7U);
  EXPECT_TRUE((*rows)[3].value("splits_weights", false));
}

TEST(InspectTimetable, PricesProvesAndDrawsOne) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "timetable", "--kind", "zb-h1", "--stages", "4", "--micro-batches", "8",
                         "--svg", "timetable.svg"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* text : {"zb-h1: 4 stages, 8 micro-batches", "a step: 27, of which 11.1 % are waits",
                           "stage 3           F0 B0 F1 B1 F2 B2 F3 B3 W0", "Proved: "})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << " is not in:\n" << ran.out;
  EXPECT_EQ(w.read("timetable.svg").find("<svg "), 0U);
}

// docs/how_to_pipeline.md shows them.
TEST(InspectTimetable, DrawsThePicturesOfTheDocuments) {
  const Workspace w;
  const char* const root = std::getenv("TRIREME_SOURCE_DIR");
  const Result<Json> rows = parse_json(w.run({"inspect", "timetable", "--json"}).out, "standard output");
  ASSERT_TRUE(rows.ok());
  for (const Json& row : *rows) {
    const std::string kind = row.value("name", ""), picture = "timetable-" + kind + ".svg";
    const bool has_steps = row.value("synchronous", false);
    const Ran ran = w.run({"inspect", "timetable", "--kind", kind, "--stages", "4", "--micro-batches", "8",
                           "--virtual-stages", kind == "interleaved" ? "2" : "1", "--times",
                           has_steps ? "1,1,1,0" : "1,1,1,0,0.5", "--svg", picture});
    ASSERT_EQ(ran.code, 0) << ran.err;
    std::ifstream kept(std::string(root != nullptr ? root : ".") + "/docs/images/" + picture);
    EXPECT_EQ(w.read(picture), std::string(std::istreambuf_iterator<char>(kept), {})) << picture;
  }
}

TEST(InspectTimetable, GivesJson) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "timetable", "--kind", "interleaved", "--stages", "2", "--micro-batches",
                         "4", "--virtual-stages", "2", "--times", "2,2,2,0,0.5", "--json"});
  const Result<Json> parsed = parse_json(ran.out, "standard output");
  ASSERT_TRUE(parsed.ok()) << ran.out << ran.err;
  const Json& json = *parsed;
  EXPECT_TRUE(json.value("verified", false));
  EXPECT_EQ(json.value("step_time", 0.0), 4 * 6 + 0.5 + 3);
  EXPECT_DOUBLE_EQ(json.value("bubble_fraction", 0.0), 3 / 27.5);
  EXPECT_EQ(json["peak_in_flight"], Json({5, 3}));
  ASSERT_EQ(json["actions"].size(), 2U);
  EXPECT_EQ(json["actions"][1].size(), 4U * 2 * 3 + 2);
  EXPECT_EQ(json["actions"][1][0],
            (Json{{"kind", "F"}, {"micro_batch", 0}, {"virtual_stage", 1}, {"start", 1.0}, {"end", 2.0}}));
}

TEST(InspectTimetable, SaysWhatIsWrong) {
  const Workspace w;
  const auto with = [](std::vector<std::string> more) {
    std::vector<std::string> args{"inspect", "timetable"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  expect_refused(
      w,
      {{with({"--kind", "zbh1"}), 2, "no timetable is called 'zbh1'; did you mean zb-h1?"},
       {with({"--stages", "4"}), 2, "--kind"},
       {with({"--kind", "1f1b", "--stages", "0"}), 2, "--stages"},
       {with({"--kind", "1f1b", "--virtual-stages", "2"}), 2, "use interleaved"},
       {with({"--kind", "interleaved", "--micro-batches", "7"}), 2, "the nearest is 8"},
       {with({"--kind", "1f1b", "--times", "1,1,1"}), 2, "expected F,B,W,LINK"},
       {with({"--kind", "1f1b", "--times", "1,1,1,-1"}), 2, "expected F,B,W,LINK"},
       {with({"--kind", "1f1b", "--times", "1,1,1,1,1,1"}), 2, "expected F,B,W,LINK"},
       {with({"--kind", "1f1b", "--times", "0,0,0,1"}), 2, "expected F,B,W,LINK"},
       {with({"--kind", "1f1b", "--update-every", "4"}), 2, "use 2bw"},
       {with({"--kind", "1f1b", "--stages", "1024", "--micro-batches", "65536"}), 2, "actions are too many"},
       {with({"--kind", "gpipe", "--micro-batches", "4000", "--svg", "a.svg"}), 2, "readable drawing"}});
}

}  // namespace
}  // namespace trireme::system_test
