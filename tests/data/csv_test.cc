#include "trireme/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/fixture.h"

namespace trireme::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string why(std::string_view text, CsvOptions options = {}) {
  return parse_csv(text, "t.csv", options).status().message();
}

TEST(Csv, ReadsATableWithHeaderQuotesAndTextLabels) {
  const Bytes file = fixture("flowers.csv");
  const auto table = parse_csv(as_text(file), "flowers.csv", {});
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(table->num_rows, 12);
  EXPECT_THAT(table->columns, ElementsAre("petal length", "petal, width"));
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(table->features[2 * i], 0.5F * static_cast<float>(i));
    EXPECT_EQ(table->features[2 * i + 1], -static_cast<float>(i));
  }
  EXPECT_EQ(table->labels[2], "so-called \"lily\",\nreally");
  EXPECT_THAT(class_names_of(table->labels), ElementsAre("rose", "so-called \"lily\",\nreally", "tulip"));
}

TEST(Csv, ReadsNumbersWithoutAHeaderAndAnyLabelColumn) {
  const Bytes file = fixture("numbers.csv");
  const auto table =
      parse_csv(as_text(file), "numbers.csv", {.label = "0", .header = "auto", .separator = ';'});
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_THAT(table->columns, ElementsAre("1", "2"));
  EXPECT_THAT(table->features, ElementsAre(0, 0, 0.1F, 1, 0.2F, 2, 0.3F, 3));
  EXPECT_THAT(table->labels, ElementsAre("10", "9", "8", "7"));
  EXPECT_THAT(class_names_of(table->labels), ElementsAre("7", "8", "9", "10")) << "by value, not as text";
}

TEST(Csv, TakesTheLabelByNameOrNoneAtAll) {
  const auto by_name = parse_csv("a,b,c\n1,2,3\n", "t", {.label = "b"});
  ASSERT_TRUE(by_name.ok());
  EXPECT_THAT(by_name->features, ElementsAre(1, 3));
  EXPECT_THAT(by_name->labels, ElementsAre("2"));
  const auto none = parse_csv("1,2,3", "t", {.label = "none"});
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(none->features, ElementsAre(1, 2, 3));
  EXPECT_TRUE(none->labels.empty());
}

TEST(Csv, EndsOfLinesBlankLinesAndAMarkAtTheStartDoNotMatter) {
  for (const char* text : {"1,2\n3,4", "1,2\r\n3,4\r\n", "\n\n1,2\n\n3,4\n\n",
                           "\xEF\xBB\xBF"
                           "1,2\n3,4\n",
                           "1,\"2\"\n\"3\",4"}) {
    const auto table = parse_csv(text, "t", {.label = "none"});
    ASSERT_TRUE(table.ok()) << text << table.status().to_string();
    EXPECT_THAT(table->features, ElementsAre(1, 2, 3, 4)) << text;
  }
}

TEST(Csv, MistakesNameLineAndOffset) {
  EXPECT_THAT(why(""), HasSubstr("t.csv, line 1, offset 0: the file is empty"));
  EXPECT_THAT(why("\n\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(why("a,b\n"), HasSubstr("no rows below the header"));
  EXPECT_THAT(why("1,2\n3\n"), HasSubstr("line 2, offset 4: got 1 fields, expected 2"));
  EXPECT_THAT(why("1,2\n3,4,5\n"), HasSubstr("line 2, offset 4: got 3 fields"));
  EXPECT_THAT(why("1,2\nx,4\n"), HasSubstr("line 2, offset 4: column 0: got 'x', expected a finite number"));
  EXPECT_THAT(why("1,2\n,4\n"), HasSubstr("got ''"));
  EXPECT_THAT(why("1,2\nnan,4\n"), HasSubstr("got 'nan'"));
  EXPECT_THAT(why("1,2\n1e39,4\n"), HasSubstr("got '1e39'"));
  EXPECT_THAT(why("1,2\n3,\n"), HasSubstr("offset 6: the label is empty"));
  EXPECT_THAT(why("1,2\n3,\"4\n5,6\n"), HasSubstr("line 2, offset 6: a quote that never closes"));
  EXPECT_THAT(why("1,2\n3,\"4\"5\n"), HasSubstr("line 2, offset 9: text after a closing quote"));
  EXPECT_THAT(why("1,2\n3,4\"\n"), HasSubstr("line 2, offset 7: a quote within a field"));
  EXPECT_THAT(why("1\n2\n"), HasSubstr("no columns beside the label"));
  EXPECT_THAT(why("a,b\n1,2\n", {.label = "z"}),
              HasSubstr("no label column 'z'; expected 0 to 1 or one of a, b"));
  EXPECT_THAT(why("1,2\n", {.label = "2"}), HasSubstr("no label column '2'"));
  EXPECT_THAT(why("1,2\n", {.header = "perhaps"}), HasSubstr("expected auto, yes or no"));
  EXPECT_THAT(why("1,2\n3,4\n5,\"6\n\",7\n"), HasSubstr("line 3, offset 8: got 3 fields"));
}

TEST(Csv, CutAnywhereItIsAShorterTableOrAnError) {
  const Bytes file = fixture("flowers.csv");
  const auto whole = *parse_csv(as_text(file), "whole", {});
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Bytes part = cut_at(file, size);
    const auto table = parse_csv(as_text(part), "cut.csv", {});
    if (!table.ok()) {
      EXPECT_THAT(table.status().message(), HasSubstr("cut.csv, line "));
      continue;
    }
    ASSERT_LE(table->num_rows, whole.num_rows);
    EXPECT_EQ(table->features.size(), static_cast<std::size_t>(table->num_rows) * 2);
  }
}

}  // namespace
}  // namespace trireme::data
