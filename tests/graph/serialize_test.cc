// docs/format_graph.md: each test names the section it holds the code to.
#include "trireme/graph/serialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/graph_target.h"
#include "tests/graph/random_graph.h"
#include "tests/graph/run_pass.h"
#include "trireme/base/json.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32;

Graph small_graph() {
  Graph g;
  const Value x =
      *g.add(op::kInput, {}, {{"name", std::string("x")}, {"shape", std::vector<std::int64_t>{2}}});
  const Value y = *g.add(op::kScale, {x}, {{"factor", 0.5}}, "s", "a/b.cc:1");
  g.add_control(x.node, y.node);
  g.set_output("y", y);
  return g;
}

// Sections "Binary", "Node" and "Attribute", byte by byte.
TEST(GraphFormat, IsTheOneThatIsDocumented) {
  Bytes expected;
  const auto text = [&](std::string_view s) {
    append_le(expected, static_cast<std::uint32_t>(s.size()));
    for (const char c : s) append_le(expected, c);
  };
  const auto u32 = [&](std::uint32_t v) { append_le(expected, v); };
  const auto u8 = [&](std::uint8_t v) { append_le(expected, v); };
  const auto i64 = [&](std::int64_t v) { append_le(expected, v); };
  const auto type_f32_2 = [&] { u32(1), u8(0), u8(1), i64(2); };
  u32(2);
  text("input"), text("x"), text("");
  u32(0), u32(0);
  u32(3);
  text("name"), u8(3), text("x");
  text("dtype"), u8(5), u8(0);
  text("shape"), u8(4), u32(1), i64(2);
  type_f32_2();
  text("scale"), text("s"), text("a/b.cc:1");
  u32(1), u32(0), u32(0);
  u32(1), u32(0);
  u32(1), text("factor"), u8(1), append_le(expected, 0.5);
  type_f32_2();
  u32(1), text("y"), u32(1), u32(0);
  Bytes whole = trireme::to_bytes("TRGRAPH\n");
  append_le(whole, std::uint32_t{1});
  append_le(whole, static_cast<std::uint64_t>(expected.size()));
  whole.insert(whole.end(), expected.begin(), expected.end());
  EXPECT_EQ(to_hex(to_bytes(small_graph())), to_hex(whole));
}

// Section "JSON".
TEST(GraphFormat, JsonIsTheOneThatIsDocumented) {
  const Json json = *parse_json(*to_json(small_graph()), "graph");
  const Json expected = *parse_json(R"({"format": "trireme.graph", "version": 1,
      "nodes": [{"op": "input", "name": "x", "inputs": [], "attrs": {"name": "x", "dtype": "f32", "shape": [2]},
                 "types": ["f32[2]"]},
                {"op": "scale", "name": "s", "site": "a/b.cc:1", "inputs": [[0, 0]], "after": [0],
                 "attrs": {"factor": 0.5}, "types": ["f32[2]"]}],
      "outputs": [{"name": "y", "value": [1, 0]}]})",
                                    "expected");
  EXPECT_EQ(json, expected);
}

TEST(Serialize, RandomGraphsComeBackAsTheyWere) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Graph g = random_graph(seed, 40, /*with_hosts=*/true, Flavour::kRich).graph;
    if (seed % 2 == 1) g = *run_pass("fuse", *run_pass("fold", g));
    const Bytes bytes = to_bytes(g);
    const Result<Graph> again = parse_graph(bytes);
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    EXPECT_EQ(again->to_text(), g.to_text());
    EXPECT_EQ(to_bytes(*again), bytes);
    const Result<Graph> from_json = parse_graph_json(*to_json(g));
    ASSERT_TRUE(from_json.ok()) << from_json.status().to_string();
    EXPECT_EQ(to_bytes(*from_json), bytes);
  }
}

TEST(Serialize, FloatsThatAreNoNumbersSurvive) {
  Graph g;
  Builder b(g);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double v : {inf, -inf, nan, -0.0, 5e-324, 0.1}) b.fill(v, kF32, {2});
  ASSERT_TRUE(verify(g).ok()) << verify(g).to_string();
  const Bytes bytes = to_bytes(g);
  EXPECT_EQ(to_bytes(*parse_graph(bytes)), bytes);
  EXPECT_EQ(to_bytes(*parse_graph_json(*to_json(g))), bytes);
}

TEST(Serialize, TextsThatJsonCannotHoldAreRefusedByJsonOnly) {
  Graph g;
  Builder b(g);
  b.input("caf\xE9", kF32, {2});
  EXPECT_TRUE(parse_graph(to_bytes(g)).ok());
  EXPECT_THAT(to_json(g).status().message(), HasSubstr("UTF-8"));
}

// Section "Limits".
TEST(Serialize, EveryTruncationIsRefused) {
  const Bytes bytes = to_bytes(small_graph());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const Status s = parse_graph(ByteView(bytes).first(n)).status();
    EXPECT_EQ(s.code(), Code::kCorrupt) << n;
  }
  Bytes longer = bytes;
  longer.push_back({});
  EXPECT_EQ(parse_graph(longer).status().code(), Code::kCorrupt);
}

TEST(Serialize, CountsBeyondTheBytesAreRefusedBeforeAllocating) {
  Bytes bytes = to_bytes(small_graph());
  for (std::size_t at = 20; at + 4 <= bytes.size(); ++at) {
    Bytes hostile = bytes;
    std::fill_n(hostile.begin() + static_cast<std::ptrdiff_t>(at), 4, std::byte{0xFF});
    run_graph_target(hostile);  // must neither crash nor take gigabytes
  }
  std::fill_n(bytes.begin() + 20, 4, std::byte{0xFF});
  EXPECT_THAT(parse_graph(bytes).status().message(), HasSubstr("nodes: got a count of 4294967295"));
}

std::string parse_edited(std::string_view from, std::string_view to) {
  std::string text = *to_json(small_graph());
  const std::size_t at = text.find(from);
  TR_CHECK(at != std::string::npos, "no '{}' in {}", from, text);
  text.replace(at, from.size(), to);
  return parse_graph_json(text).status().message();
}

TEST(Serialize, WhatIsWrongIsNamed) {
  EXPECT_THAT(parse_edited("\"version\": 1", "\"version\": 3"), HasSubstr("got version 3, expected 1 to 2"));
  EXPECT_THAT(parse_edited("\"version\": 1", "\"version\": 2"), HasSubstr("got version 2, expected 1"));
  EXPECT_THAT(parse_edited("\"scale\"", "\"scald\""), HasSubstr("no op 'scald'"));
  EXPECT_THAT(parse_edited("\"factor\": 0.5", "\"factor\": \"x\""), HasSubstr("'factor'"));
  EXPECT_THAT(parse_edited("\"factor\": 0.5", ""), HasSubstr("expected all attributes of 'scale'"));
  EXPECT_THAT(parse_edited("f32[2]", "f32[3]"), HasSubstr("'x' (input): its outputs are [f32[3]]"));
  EXPECT_THAT(parse_edited("\"s\"", "\"x\""), HasSubstr("another node has that name"));
  EXPECT_THAT(parse_edited("\"name\": \"y\"", "\"nome\": \"y\""), HasSubstr("'name'"));
  EXPECT_THAT(parse_edited("    1,\n    0\n", "    7,\n    0\n"), HasSubstr("stored output 'y'"));
  Bytes other = to_bytes(small_graph());
  other[8] = std::byte{9};
  EXPECT_THAT(parse_graph(other).status().message(), HasSubstr("got 9, expected 1 to 2"));
  other[0] = std::byte{'t'};
  EXPECT_THAT(parse_graph(other).status().message(), HasSubstr("no graph"));
}

// A pooling of bf16 images with the channels last, in f32.
Graph formed_graph() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", DType::kBF16, {1, 4, 4, 2});
  const std::int64_t two = 2;
  b.output("y", *g.add(op::kMaxPool2d, {x},
                       {{"window_h", two}, {"window_w", two}, {"stride_h", two}, {"stride_w", two}}, "p", "",
                       *op::parse_forms("f32/nhwc>bf16/nhwc")));
  return g;
}

TEST(Serialize, FormsOfOperandsMakeAGraphOfVersionTwo) {
  const Graph g = formed_graph();
  const Bytes bytes = to_bytes(g);
  EXPECT_EQ(bytes[8], std::byte{2});
  const Result<Graph> again = parse_graph(bytes), from_json = parse_graph_json(*to_json(g));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  ASSERT_TRUE(from_json.ok()) << from_json.status().to_string();
  EXPECT_EQ(again->to_text(), g.to_text());
  EXPECT_EQ(again->node(1).forms, g.node(1).forms);
  EXPECT_EQ(from_json->node(1).forms, g.node(1).forms);
  EXPECT_EQ(to_bytes(*again), bytes);
  EXPECT_EQ(to_bytes(*from_json), bytes);
  const Json json = *parse_json(*to_json(g), "graph");
  EXPECT_EQ(json["version"], 2);
  EXPECT_FALSE(json["nodes"][0].contains("forms"));
  EXPECT_EQ(json["nodes"][1]["forms"], "f32/nhwc>bf16/nhwc");
}

TEST(Serialize, FormsThatDoNotFitAreRefused) {
  const auto parse_with = [](std::string_view forms) {
    std::string text = *to_json(formed_graph());
    const std::string_view own = "f32/nhwc>bf16/nhwc";
    text.replace(text.find(own), own.size(), forms);
    return parse_graph_json(text).status().message();
  };
  EXPECT_EQ(parse_with("f32/nhwc>bf16/nhwc"), "");
  EXPECT_THAT(parse_with("f32/nhwc>f16/nhwc"), HasSubstr("inference gives [f16["));
  EXPECT_THAT(parse_with("f32/nhwc,->bf16/nhwc"), HasSubstr("got 2 for the inputs, expected 1"));
  EXPECT_THAT(parse_with("f32/nhwc"), HasSubstr("expected inputs, '>', outputs"));
  EXPECT_THAT(parse_with("f32/hwcn>-"), HasSubstr("got order 'hwcn'"));
  EXPECT_THAT(parse_with("->-"), HasSubstr("its forms are '->-'"));
}

TEST(Serialize, AGraphThatDoesNotVerifyIsRefused) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {2});
  b.add_node(op::kAssignAdd, {x, x});
  const Status s = parse_graph(to_bytes(g)).status();
  EXPECT_EQ(s.code(), Code::kCorrupt);
  EXPECT_THAT(s.message(), HasSubstr("no variable"));
}

// ---- The corpus of the fuzz target
TEST(GraphFuzz, TheCorpusIsReadAsItsNamesSay) {
  int valid = 0;
  for (const auto& path : fuzz::named_units("graph")) {
    const bool expected = path.filename().string().starts_with("valid_");
    EXPECT_EQ(run_graph_target(fuzz::contents(path)), expected) << path;
    valid += expected;
  }
  EXPECT_GE(valid, 4);
}

TEST(GraphFuzz, ThousandsOfMutationsNeverCrash) {
  std::vector<Bytes> seeds;
  for (const auto& path : fuzz::named_units("graph")) seeds.push_back(fuzz::contents(path));
  Philox rng(2024);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(rng.next_below(static_cast<std::uint32_t>(std::max<std::size_t>(n, 1))));
  };
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    Bytes bytes = seeds[below(seeds.size())];
    const Bytes& other = seeds[below(seeds.size())];
    for (std::size_t edits = 1 + below(3); edits > 0 && !bytes.empty(); --edits) {
      const std::size_t at = below(bytes.size());
      const auto where = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      switch (below(5)) {
        case 0:
          *where ^= static_cast<std::byte>(1U << below(8));
          break;
        case 1:
          *where = std::array{std::byte{0}, std::byte{0xFF}, std::byte{0x7F}, std::byte{0x80}}[below(4)];
          break;
        case 2:
          bytes.erase(where, where + static_cast<std::ptrdiff_t>(std::min(bytes.size() - at, 1 + below(9))));
          break;
        case 3:
          bytes.insert(where, other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
          break;
        default:
          std::copy_n(other.begin(), std::min(other.size(), bytes.size() - at), where);
      }
    }
    if (bytes.size() > 20 && below(2) == 0) {  // make the length right again, to get past it
      const std::uint64_t size = bytes.size() - 20;
      std::memcpy(bytes.data() + 12, &size, sizeof size);
    }
    accepted += run_graph_target(bytes);
  }
  EXPECT_GT(accepted, 10) << "mutations should sometimes leave a graph";
  EXPECT_LT(accepted, 3900);
}

}  // namespace
}  // namespace trireme::graph
