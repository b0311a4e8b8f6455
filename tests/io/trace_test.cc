#include "trireme/io/trace.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme::io {
namespace {

TraceSpan span(std::string name, TimeNs begin, TimeNs end, int tid = 0) {
  TraceSpan s;
  s.name = std::move(name);
  s.category = "matmul";
  s.begin_ns = begin;
  s.end_ns = end;
  s.tid = tid;
  return s;
}

Json events_of(const std::string& text) {
  const Result<Json> json = parse_json(text, "trace");
  EXPECT_TRUE(json.ok()) << json.status().to_string();
  return json.ok() ? (*json)["traceEvents"] : Json();
}

std::vector<Json> of_phase(const Json& events, const char* phase) {
  std::vector<Json> found;
  for (const Json& e : events)
    if (e["ph"] == phase) found.push_back(e);
  return found;
}

TEST(Trace, RanksAreProcessesAndTimesAreMicroseconds) {
  RankTrace first, second;
  first.spans = {span("a", 1500, 4000)};
  first.thread_names = {{0, "main"}, {3, "strand 3"}};
  second.rank = 1;
  second.name = "the second";
  second.clock_offset_ns = -1'000;
  second.spans = {span("b", 2000, 2500, 3)};
  second.spans[0].args = Json{{"flops", 12}};
  second.counters = {{"loss", 3000, 2.5}};
  const RankTrace ranks[] = {first, second};
  const Json events = events_of(merged_trace(ranks));
  const auto spans = of_phase(events, "X");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(
      spans[0],
      (Json{
          {"name", "a"}, {"cat", "matmul"}, {"ph", "X"}, {"ts", 1.5}, {"dur", 2.5}, {"pid", 0}, {"tid", 0}}));
  EXPECT_EQ(spans[1]["pid"], 1);
  EXPECT_EQ(spans[1]["tid"], 3);
  EXPECT_EQ(spans[1]["ts"], 1.0);
  EXPECT_EQ(spans[1]["args"]["flops"], 12);
  const auto counters = of_phase(events, "C");
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0]["ts"], 2.0);
  EXPECT_EQ(counters[0]["args"]["value"], 2.5);
  std::vector<std::string> names;
  for (const Json& e : of_phase(events, "M"))
    if (e["args"].contains("name")) names.push_back(e["args"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0", "main", "strand 3", "the second"}));
}

TEST(Trace, IsWellFormedWhateverTheNamesAndValues) {
  RankTrace rank;
  rank.name = std::string("zero \0 byte", 11);
  rank.thread_names = {{1, "\xFF\xFE not UTF-8"}};
  for (const char* name :
       {"", "quote \" and \\", "new\nline", "\xC3", "</script>", "\u00e9\U0001F600", "\x01"})
    rank.spans.push_back(span(name, 0, 1));
  rank.spans.push_back(span("backwards", 10, 5));
  rank.counters = {{"nan", 0, std::numeric_limits<double>::quiet_NaN()},
                   {"inf", 0, std::numeric_limits<double>::infinity()},
                   {"tiny", 0, 1e-300}};
  const Json events = events_of(merged_trace({&rank, 1}));
  EXPECT_EQ(of_phase(events, "X").size(), 8U);
  EXPECT_EQ(of_phase(events, "X")[1]["name"], "quote \" and \\");
  EXPECT_EQ(of_phase(events, "X")[7]["dur"], 0.0);
  EXPECT_EQ(of_phase(events, "C").size(), 1U);
}

TEST(Trace, OfNobodyIsEmpty) { EXPECT_EQ(events_of(merged_trace({})), Json::array()); }

TEST(Trace, TextsAreJoined) {
  RankTrace a, b;
  a.spans = {span("a", 0, 1)};
  b.rank = 1;
  b.spans = {span("b", 0, 1)};
  const std::string texts[] = {merged_trace({&a, 1}), merged_trace({&b, 1})};
  const RankTrace both[] = {a, b};
  const auto joined = join_traces(texts);
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(events_of(*joined), events_of(merged_trace(both)));
  for (const char* bad : {"", "[]", "{}", R"({"traceEvents": 1})"}) {
    const std::string mixed[] = {texts[0], bad};
    const auto refused = join_traces(mixed);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_NE(refused.status().message().find("trace 1"), std::string::npos) << refused.status().message();
  }
}

}  // namespace
}  // namespace trireme::io
