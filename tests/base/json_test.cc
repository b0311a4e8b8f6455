#include "trireme/base/json.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":2})", "x")->dump(), R"({"b":1,"a":2})");
}

TEST(Json, AParseErrorNamesTheSourceAndThePlace) {
  const auto bad = parse_json("{\"a\": ]", "plan.json");
  EXPECT_EQ(bad.status().code(), Code::kCorrupt);
  EXPECT_TRUE(bad.status().message().starts_with("[json] plan.json is not valid JSON at byte 7:"))
      << bad.status().message();
  EXPECT_FALSE(parse_json("", "x").ok());
  EXPECT_FALSE(parse_json("{} {}", "x").ok());
}

TEST(Json, DeeplyNestedListsAreRefusedAndDeepTextsAreNot) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(parse_json(deep, "x").status().code(), Code::kCorrupt);
  const std::string text = "[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]";
  EXPECT_TRUE(parse_json(text, "x").ok());
  const std::string fine = std::string(400, '[') + std::string(400, ']');
  EXPECT_TRUE(parse_json(fine, "x").ok());
}

TEST(Json, MembersAreTypedAndMissingOnesAreNamed) {
  const Json object = *parse_json(R"({"n": 3, "s": "t"})", "x");
  EXPECT_EQ(*json_get<int>(object, "n"), 3);
  EXPECT_EQ(*json_get<std::string>(object, "s"), "t");
  EXPECT_EQ(json_get<int>(object, "q").status().message(), "[json] key 'q' is missing");
  EXPECT_EQ(json_get<int>(object, "s").status().message(), "[json] key 's' has the wrong type: got string");
}

}  // namespace
}  // namespace trireme
