// `inspect schedule` and `calibrate`, as a user meets them.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

TEST(InspectSchedule, ListsTheCandidatesTheChoiceAndWhy) {
  const Workspace w;
  const Ran ran =
      w.run({"inspect", "schedule", "--collective", "allreduce", "--world", "6", "--bytes", "1MB"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* text :
       {"allreduce of 1.0 MiB (262144 x f32) over 6 ranks", "rabenseifner", "does not apply",
        "choice: two-shot: ", "; next is ", "bound: ", "two-shot: proved"})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << " is not in:\n" << ran.out;
}

TEST(InspectSchedule, DrawsTextAndSvgAndGivesJson) {
  const Workspace w;
  const Ran text =
      w.run({"inspect", "schedule", "--world", "4", "--algorithm", "ring", "--draw", "text", "--rank", "2"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("ring: proved"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("rank 2: 12 steps"), std::string::npos) << text.out;
  ASSERT_EQ(w.run({"inspect", "schedule", "--world", "8", "--groups", "4", "--algorithm", "hierarchical",
                   "--draw", "svg", "--out", "schedule.svg"})
                .code,
            0);
  EXPECT_EQ(w.read("schedule.svg").find("<svg "), 0U);
  const Ran json =
      w.run({"inspect", "schedule", "--world", "5", "--collective", "barrier", "--draw", "text", "--json"});
  const Result<Json> parsed = parse_json(json.out, "standard output");
  ASSERT_TRUE(parsed.ok()) << json.out;
  EXPECT_EQ(parsed->value("choice", ""), "dissemination");
  EXPECT_TRUE(parsed->value("verified", false));
  EXPECT_EQ((*parsed)["messages"].size(), 15U);
}

TEST(InspectSchedule, PricesByATopology) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "schedule", "--world", "16", "--bytes", "64K", "--topology", "fat-tree",
                         "--link", "1gbit,50us,3us"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("the typical way between two machines of fat-tree"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("3 us per message"), std::string::npos) << ran.out;
  EXPECT_EQ(w.run({"inspect", "schedule", "--topology", "moebius"}).code, 2);
}

TEST(InspectSchedule, SaysWhatIsWrong) {
  const Workspace w;
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases{
      {{"--collective", "sum"}, "no such collective"},
      {{"--algorithm", "star"}, "no allreduce algorithm 'star'"},
      {{"--bytes", "lots"}, "lots"},
      {{"--groups", "1,2"}, "group"},
      {{"--world", "20", "--draw", "svg"}, "too many for a readable drawing"},
      {{"--calibration", "missing.json"}, "missing.json"},
      {{"--draw", "text", "--rank", "4"}, "--rank"}};
  for (const auto& [more, expected] : cases) {
    std::vector<std::string> args{"inspect", "schedule"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = w.run(args);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_NE(ran.err.find(expected), std::string::npos) << ran.err;
  }
}

TEST(Calibrate, MeasuresAndStoresWhatPricesAreMadeOf) {
  const Workspace w;
  const Ran ran = w.run({"calibrate", "--quick", "--transport", "inproc,shm", "--out", "c.json", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json stored = w.json("c.json");
  ASSERT_FALSE(stored.is_null());
  EXPECT_EQ(ran.out, stored.dump(2) + "\n");
  // Shared memory comes with sums through it.
  std::vector<std::string> names;
  for (const Json& t : stored["transports"]) names.push_back(t.value("transport", ""));
  EXPECT_EQ(names, (std::vector<std::string>{"inproc", "shm", "direct"}));
  for (const Json& t : stored["transports"]) {
    EXPECT_GT(t["link"]["bytes_per_second"].get<double>(), 0) << t.dump(2);
    EXPECT_GE(t["blocking_latency_ns"].get<TimeNs>(), t["link"]["latency_ns"].get<TimeNs>());
    EXPECT_GE(t["measured"].size(), 2U);
  }
  const Ran priced =
      w.run({"inspect", "schedule", "--world", "2", "--transport", "shm", "--calibration", "c.json"});
  ASSERT_EQ(priced.code, 0) << priced.err;
  EXPECT_NE(priced.out.find("shm on "), std::string::npos) << priced.out;
  const Ran missing = w.run({"inspect", "schedule", "--transport", "tcp", "--calibration", "c.json"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("run trireme calibrate --transport tcp"), std::string::npos) << missing.err;
  const Ran wrong = w.run({"calibrate", "--transport", "carrier-pigeon"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("expected one of inproc, shm"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace trireme::system_test
