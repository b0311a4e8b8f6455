#include "trireme/base/utf8.h"

#include <gtest/gtest.h>

#include "trireme/base/json.h"

namespace trireme {
namespace {

TEST(Utf8, CharactersOfEveryLengthAreKnown) {
  EXPECT_EQ(utf8_length("a"), 1U);
  EXPECT_EQ(utf8_length("\xc3\xa9"), 2U);          // e with an acute accent
  EXPECT_EQ(utf8_length("\xe2\x82\xac!"), 3U);     // the sign of the euro
  EXPECT_EQ(utf8_length("\xf0\x9f\x9a\xa2"), 4U);  // a ship
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_TRUE(is_utf8(std::string_view("\0 and \xc3\xa9", 8)));
}

TEST(Utf8, WhatTheStandardForbidsIsNone) {
  for (const char* bad : {"\xe9", "\x80", "\xc0\xaf", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xff", "\xf0\x80\x80\x80", "caf\xe9 au lait"})
    EXPECT_FALSE(is_utf8(bad)) << escape_bytes(bad);
}

TEST(Utf8, EscapedBytesAreUtf8AndComeBack) {
  for (const std::string& text :
       {std::string("caf\xe9.csv"), std::string("plain"), std::string("a\\xe9"), std::string("\\\xff\\"),
        std::string("\xc3\xa9\xc3"), std::string("\0\x80", 2)}) {
    const std::string escaped = escape_bytes(text);
    EXPECT_TRUE(is_utf8(escaped)) << escaped;
    EXPECT_EQ(*unescape_bytes(escaped), text) << escaped;
  }
  EXPECT_EQ(escape_bytes("caf\xe9"), "caf\\xe9");
  for (const char* bad : {"\\", "a\\n", "\\x", "\\x1", "\\xg0"})
    EXPECT_EQ(unescape_bytes(bad).status().code(), Code::kCorrupt) << bad;
}

TEST(JsonBytes, StringsAndKeysThatAreNotUtf8AreWrittenEscaped) {
  Json json;
  json["path"] = "caf\xe9.csv";
  json["classes"] = {"\xc3\xa9", "\xe9"};
  json["per class"]["\xe9"] = 3;
  EXPECT_EQ(json.dump(), R"({"path":"caf\\xe9.csv","classes":["é","\\xe9"],"per class":{"\\xe9":3}})");
  const Result<Json> back = parse_json(json.dump(2), "it");
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*unescape_bytes(back->value("path", "")), "caf\xe9.csv");
}

TEST(JsonBytes, OtherValuesAreWrittenAsTheLibraryDoes) {
  const Json json = {{"a", {1, 2.5, nullptr, true}}, {"b", "\xc3\xa9\n"}};
  EXPECT_EQ(json.dump(), "{\"a\":[1,2.5,null,true],\"b\":\"\xc3\xa9\\n\"}");
  EXPECT_EQ(json.dump(-1, ' ', true), R"({"a":[1,2.5,null,true],"b":"\u00e9\n"})");
  EXPECT_EQ(Json({{"a", 1}}).dump(2), "{\n  \"a\": 1\n}");
  EXPECT_EQ(Json("\xe9").dump(-1, ' ', false, Json::error_handler_t::replace), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace trireme
