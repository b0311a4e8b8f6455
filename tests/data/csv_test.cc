#include "trireme/data/read/csv.h"

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

TEST(Csv, AHeaderOfNumbersIsNoSample) {
  const std::string rows = "5.1,3.5,1.4,a\n4.9,3.0,1.4,a\n6.3,3.3,6.0,b\n5.8,2.7,5.1,b\n";
  const auto years = parse_csv("2019,2020,2021,target\n" + rows, "t", {});
  ASSERT_TRUE(years.ok()) << years.status().to_string();
  EXPECT_EQ(years->num_rows, 4);
  EXPECT_THAT(years->columns, ElementsAre("2019", "2020", "2021"));
  EXPECT_THAT(years->labels, ElementsAre("a", "a", "b", "b"));
  EXPECT_EQ(years->features.size(), 12U);
  EXPECT_EQ(years->features[0], 5.1F);
  EXPECT_THAT(years->notes, ElementsAre(HasSubstr("(2019, 2020, 2021, target) is read as a header")));
  EXPECT_EQ(parse_csv("0,1,2,target\n" + rows, "t", {})->num_rows, 4) << "pandas without names";
  EXPECT_EQ(parse_csv("2019,2020,2021,target\n" + rows, "t", {.header = "no"})->num_rows, 5);
  EXPECT_EQ(parse_csv("1,2,3,4\n0,0,0,0\n0.5,0,0,0\n0,1,0,1\n0,0,1,1\n", "t", {})->num_rows, 4)
      << "0,1 as labels";
  EXPECT_EQ(parse_csv("x1,7,y,kind\n" + rows, "t", {})->num_rows, 4) << "a name above a number";
  EXPECT_EQ(parse_csv("7,8.5,9,kind\n" + rows, "t", {.label = "kind"})->num_rows, 4)
      << "it has the label's name";
}

TEST(Csv, AFirstSampleOfItsOwnClassStays) {
  const std::string rows = "5.1,3.5,1.4,a\n4.9,3.0,1.4,a\n6.3,3.3,6.0,b\n5.8,2.7,5.1,b\n";
  const auto alone = parse_csv("5.5,3.1,2.2,c\n" + rows, "t", {});
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->num_rows, 5);
  EXPECT_THAT(alone->notes, ElementsAre(HasSubstr("only the first line has the label 'c'")));
  EXPECT_THAT(parse_csv(rows, "t", {})->notes, ::testing::IsEmpty());
  EXPECT_THAT(why("?,1,x\n1,2,y\n"), HasSubstr("column 0: got '?'")) << "a missing value makes no header";
}

TEST(Csv, MessagesNameTheRealCause) {
  EXPECT_THAT(why("a,b,kind,\n1,2,x,\n"),
              HasSubstr("line 2, offset 16: the label is empty: the line ends with a "
                        "separator"));
  EXPECT_THAT(why("a,b,kind\n1,2,x,\n"),
              HasSubstr("got 4 fields, expected 3: the line ends with a separator"));
  EXPECT_THAT(why("a;b;kind\n5,8;1,2;x\n", {.separator = ';'}),
              HasSubstr("column 0: got '5,8', expected a finite number; numbers have a decimal point"));
  EXPECT_THAT(why("a,b,kind\n1,,x\n"), HasSubstr("a missing value must be filled in"));
  EXPECT_THAT(why("1,2,x\n1,\x1b[2J,y\n"), HasSubstr("got '\\x1b[2J'"));
}

TEST(Csv, Utf16AndOtherFilesWithZeroBytesAreRefused) {
  const auto text = [](std::string_view s) { return std::string(s); };
  const char* says = "the file is UTF-16";
  EXPECT_THAT(why(text({"\xFF\xFE"
                        "1\0,\0002\0\n\0",
                        10})),
              HasSubstr(says));
  EXPECT_THAT(why(text({"1\0,\0002\0\n\0", 8})), HasSubstr(says)) << "without a mark at the start";
  EXPECT_THAT(why(text({"\xFE\xFF\0001\0,\0002", 8})), HasSubstr(says));
  EXPECT_THAT(why(text({"1,2\n3,\0004\n", 9})), HasSubstr("offset 6: a zero byte"));
}

TEST(Csv, TheSeparatorIsACharacterOrATabAsPeopleWriteIt) {
  EXPECT_EQ(separator_of(";"), ';');
  EXPECT_EQ(separator_of("\t"), '\t');
  EXPECT_EQ(separator_of("\\t"), '\t');
  EXPECT_EQ(separator_of("tab"), '\t');
  for (const char* none : {"", ",,", "\"", "\n"}) EXPECT_FALSE(separator_of(none)) << none;
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
