#include "trireme/data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text_of(const Dataset& set) {
  std::string text;
  for (const std::uint16_t token : set.stream.tokens) text += set.class_names[token];
  return text;
}

TEST(Text, CharactersAreNumberedInTheirOrder) {
  const auto set =
      parse_text("cabbage cabbage cabbage", "t", {.unit = "chars", .context = 2, .held_out = 0.2});
  ASSERT_TRUE(set.ok()) << set.status().to_string();
  EXPECT_THAT(set->class_names, ElementsAre(" ", "a", "b", "c", "e", "g"));
  EXPECT_EQ(set->num_classes, 6);
  EXPECT_EQ(text_of(*set), "cabbage cabbage cabbage");
  EXPECT_TRUE(check_dataset(*set).ok()) << check_dataset(*set).to_string();
}

TEST(Text, ManyByteCharactersAreOneTokenAndBytesAreNot) {
  const std::string text =
      "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x9A\xA3"
      "ab\xC3\xA4\xC3\xA4";
  const auto chars = parse_text(text, "t", {.unit = "chars", .context = 2, .held_out = 0});
  ASSERT_TRUE(chars.ok()) << chars.status().to_string();
  EXPECT_EQ(chars->stream.tokens.size(), 7U);
  EXPECT_THAT(chars->class_names, ElementsAre("a", "b", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x9A\xA3"));
  EXPECT_EQ(text_of(*chars), text);
  const auto bytes = parse_text(text, "t", {.unit = "bytes", .context = 2, .held_out = 0});
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->num_classes, 256);
  EXPECT_EQ(bytes->stream.tokens.size(), text.size());
  EXPECT_EQ(text_of(*bytes), text);
}

TEST(Text, TheLastShareIsHeldOutAndNoWindowCrossesTheCut) {
  const std::string text(1003, 'x');
  const auto set = parse_text(text, "t", {.context = 10});
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->stream.train_tokens, 903);  // 1003 - floor(100.3)
  EXPECT_EQ(set->num_train, 90);             // the 90th starts at 890 and its targets end at 900
  EXPECT_EQ(set->num_test, 9);               // 100 tokens: the tenth would need the 101st
  const auto dense = parse_text(text, "t", {.context = 10, .stride = 1});
  EXPECT_EQ(dense->num_train, 893);
  EXPECT_EQ(dense->num_test, 9) << "held-out windows never overlap";
}

TEST(Text, MistakesAreNamed) {
  const auto why = [](std::string_view text, TextOptions options) {
    return parse_text(text, "t.txt", options).status().message();
  };
  EXPECT_THAT(why("", {}), HasSubstr("t.txt, offset 0: the text ends too early"));
  EXPECT_THAT(why("too short", {}), HasSubstr("offset 9: the text ends too early: 9 tokens to train"));
  EXPECT_THAT(why(std::string(200, 'a'), {.context = 30}), HasSubstr("20 to test, but a window takes 31"));
  EXPECT_THAT(why("abc\xFFxyz", {}), HasSubstr("offset 3: byte 0xff is not UTF-8"));
  EXPECT_THAT(why("a", {.unit = "words"}), HasSubstr("expected chars or bytes"));
  EXPECT_THAT(why("a", {.context = 0}), HasSubstr("context: got 0"));
  EXPECT_THAT(why("a", {.stride = -1}), HasSubstr("stride: got -1"));
  EXPECT_THAT(why("a", {.held_out = 1}), HasSubstr("held-out fraction: got 1"));
}

TEST(Text, WrongUtf8IsRefusedWhereverItIsWrong) {
  const std::string good = "abcdefgh";
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3x", "\xE0\x9F\x80", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x8F\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x9A"}) {
    for (const std::string& tail : {std::string(), good}) {
      const std::string text = good + bad + tail;
      const auto set = parse_text(text, "t", {.context = 2, .held_out = 0});
      ASSERT_FALSE(set.ok()) << text;
      EXPECT_THAT(set.status().message(), HasSubstr("offset 8:"));
    }
  }
}

TEST(Text, MoreCharactersThanTokensHaveNumbersAreRefused) {
  std::string text;
  for (unsigned c = 0x10000; c < 0x10000 + 65537; ++c) {
    text += static_cast<char>(0xF0 | (c >> 18U));
    text += static_cast<char>(0x80 | ((c >> 12U) & 63U));
    text += static_cast<char>(0x80 | ((c >> 6U) & 63U));
    text += static_cast<char>(0x80 | (c & 63U));
  }
  EXPECT_THAT(parse_text(text, "t", {}).status().message(),
              HasSubstr("more than 65536 different characters"));
  text.resize(text.size() - 4);
  EXPECT_TRUE(parse_text(text, "t", {}).ok());
}

}  // namespace
}  // namespace trireme::data
