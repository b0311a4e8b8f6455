// What must hold of every codec, over the table: sizes, bounds, conservation, damage, and bytes that stay.
#include "trireme/codec/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/codec/loops.h"
#include "trireme/codec/select.h"

namespace trireme::codec {
namespace {

using Values = std::vector<float>;

Values gradient(std::size_t count, std::uint64_t seed, float scale = 0.01F) {
  Philox rng(seed);
  Values v(count);
  for (float& x : v) x = rng.next_normal() * scale;
  return v;
}

const std::size_t kSizes[] = {0, 1, 7, 15, 16, 17, 511, 512, 513, 2047, 2048, 2049, 10'000, 70'001};

class EveryCodec : public ::testing::TestWithParam<const CodecRow*> {
 protected:
  const CodecRow& row() const { return *GetParam(); }
  std::string_view name() const { return row().name; }
  std::unique_ptr<Codec> make(Options options = {}) const {
    auto made = row().make(options);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::move(*made);
  }
};

struct Sent {
  Bytes bytes;
  Values decoded;
};
Sent send(const Codec& codec, std::span<const float> values, const Memory& memory, std::uint64_t key = 1) {
  Sent s;
  s.bytes.resize(codec.max_bytes(static_cast<std::int64_t>(values.size())));
  const std::size_t used = codec.encode(values, memory, key, s.bytes);
  EXPECT_LE(used, s.bytes.size());
  s.bytes.resize(used);
  s.decoded.assign(values.size(), -7);
  const Status decoded = codec.decode(s.bytes, s.decoded);
  EXPECT_TRUE(decoded.ok()) << decoded.to_string();
  return s;
}

double length(std::span<const float> v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

float ulp(float v) { return std::nextafter(std::fabs(v), 1e38F) - std::fabs(v); }

TEST_P(EveryCodec, LosesNothing) {
  const bool exact = name() == "topk" || name() == "randomk" || name() == "fp16" || name() == "bf16";
  const auto codec = make();
  for (const std::size_t count : kSizes) {
    Values residual = gradient(count, 5, 0.003F);
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Values values = gradient(count, 10 + step);
      const Values before = residual;
      const Sent sent = send(*codec, values, {residual}, step);
      for (std::size_t i = 0; i < count; ++i) {
        const float input = values[i] + before[i], whole = sent.decoded[i] + residual[i];
        if (exact)
          ASSERT_EQ(whole, input) << count << " values, " << i;
        else
          ASSERT_NEAR(whole, input, ulp(std::max(std::fabs(sent.decoded[i]), std::fabs(input))))
              << count << " values, " << i;
      }
    }
  }
}

TEST_P(EveryCodec, KeepsWhatItPromises) {
  const auto codec = make();
  const Values values = gradient(6000, 3);
  const Sent sent = send(*codec, values, {});
  Values lost(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) lost[i] = values[i] - sent.decoded[i];
  if (row().bound == Bound::kExact) {
    EXPECT_EQ(sent.decoded, values);
  } else if (row().bound == Bound::kRounding) {
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_LE(std::fabs(lost[i]),
                std::fabs(values[i]) * (name() == "bf16" ? 0x1p-8F : 0x1p-11F) + 0x1p-25F);
  } else if (row().bound == Bound::kContraction) {
    EXPECT_LT(length(lost), length(values));
  } else if (row().bound == Bound::kUnbiased) {
    Options unclipped;
    unclipped.set("clip", 0);
    const auto whole = make(unclipped);
    constexpr int kDraws = 400;
    std::vector<double> mean(values.size());
    double spread = 0;
    for (int d = 0; d < kDraws; ++d) {
      const Sent one = send(*whole, values, {}, 100 + static_cast<std::uint64_t>(d));
      for (std::size_t i = 0; i < values.size(); ++i) {
        mean[i] += static_cast<double>(one.decoded[i]) / kDraws;
        spread = std::max(spread, std::fabs(static_cast<double>(one.decoded[i]) - values[i]));
      }
    }
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::fabs(mean[i] - values[i]));
    EXPECT_LT(worst, 5.5 * spread / std::sqrt(kDraws));  // of 6000 means
  }
}

TEST_P(EveryCodec, TakesTheBytesThatItsPriceSays) {
  const auto codec = make();
  const Values values = gradient(200'000, 8);
  Values residual(values.size());
  const Sent sent = send(*codec, values, {residual});
  const auto bytes = static_cast<double>(sent.bytes.size());
  EXPECT_NEAR(row().bytes({}, 200'000) / bytes, 1, name() == "threshold" ? 0.35 : 0.1);
}

TEST_P(EveryCodec, StaysWithinItsRoomWhateverTheValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto codec = make();
  for (const std::size_t count : kSizes)
    for (const float special : {0.0F, -0.0F, 1.0F, 1e-42F, 3e38F, -inf, nan})
      for (const bool all : {true, false}) {
        Values values = all ? Values(count, special) : gradient(count, 2);
        if (!all && count > 3) values[count / 2] = special;
        Values residual(count);
        for (const Memory& memory : {Memory{}, Memory{residual}}) send(*codec, values, memory);
      }
}

TEST_P(EveryCodec, FindsDamage) {
  const auto codec = make();
  for (const std::size_t count : {1UL, 40UL, 3000UL}) {
    const Values values = gradient(count, 4);
    const Sent sent = send(*codec, values, {});
    Values out(count);
    for (std::size_t size = 0; size < sent.bytes.size(); size += 1 + sent.bytes.size() / 200) {
      const Status cut = codec->decode(ByteView(sent.bytes).subspan(0, size), out);
      EXPECT_EQ(cut.code(), Code::kCorrupt) << size << " of " << sent.bytes.size();
    }
    Bytes longer = sent.bytes;
    longer.push_back(std::byte{1});
    EXPECT_EQ(codec->decode(longer, out).code(), Code::kCorrupt);
    for (std::size_t at = 0; at < 8; ++at) {  // the header
      Bytes bad = sent.bytes;
      bad[at] ^= std::byte{0x41};
      const Status status = codec->decode(bad, out);
      EXPECT_TRUE(status.code() == Code::kCorrupt || at == 1) << at;
    }
    Values fewer(count - 1);
    EXPECT_EQ(codec->decode(sent.bytes, fewer).code(), Code::kCorrupt);
    Philox rng(9);
    for (int i = 0; i < 300; ++i) {  // anything else is a value or an error
      Bytes bad = sent.bytes;
      bad[rng.next_below(static_cast<std::uint32_t>(bad.size()))] ^=
          static_cast<std::byte>(1U << rng.next_below(8));
      (void)codec->decode(bad, out);
    }
  }
}

// Recorded: other machines, and checkpoints, hold such bytes.
TEST_P(EveryCodec, WritesTheSameBytesForEver) {
  const std::map<std::string_view, std::string_view> recorded{
#include "tests/codec/recorded.inc"
  };
  const auto codec = make({{"fraction", 0.01}});
  Values values(1000), residual(1000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>(i * 7919 % 2003) - 1001) / 4096;
    residual[i] = static_cast<float>(static_cast<int>(i * 104729 % 1009) - 504) / 65536;
  }
  const Sent sent = send(*codec, values, {residual}, 42);
  EXPECT_EQ(sha256_hex(sent.bytes).substr(0, 16), recorded.at(name())) << name();
}

INSTANTIATE_TEST_SUITE_P(Table, EveryCodec, ::testing::ValuesIn([] {
                           std::vector<const CodecRow*> rows;
                           for (const CodecRow& row : codec_table()) rows.push_back(&row);
                           return rows;
                         }()),
                         [](const auto& info) { return "c" + std::string(info.param->name); });

TEST(CodecTable, HasNamesAndWireIdsOfItsOwn) {
  std::map<std::string, int> ids;
  std::set<int> different;
  for (const CodecRow& row : codec_table()) {
    ids[row.name] = row.wire_id;
    different.insert(row.wire_id);
    EXPECT_GT(std::string_view(row.doc).size(), 20U);
    EXPECT_GT(std::string_view(row.paper).size(), 10U);
    EXPECT_EQ(*find_codec(row.name), &row);
  }
  EXPECT_EQ(different.size(), codec_table().size());
  EXPECT_EQ(ids, (std::map<std::string, int>{{"fp16", 1},
                                             {"bf16", 2},
                                             {"1bit", 3},
                                             {"qsgd", 4},
                                             {"terngrad", 5},
                                             {"threshold", 6},
                                             {"topk", 7},
                                             {"randomk", 8},
                                             {"nonzero", 9}}));
  EXPECT_NE(find_codec("zip").status().message().find("expected one of: fp16, bf16"), std::string::npos);
}

TEST(CodecLoops, GiveTheSameBitsOnEveryProcessor) {
  const Loops &fast = loops(), &plain = baseline_loops();
  for (const std::size_t n : kSizes) {
    const Values values = gradient(n, 21, 3.0F);
    Values r1 = gradient(n, 22), r2 = r1;
    std::vector<std::uint8_t> b1(n / 8 + 2), b2(n / 8 + 2), l1(n), l2(n);
    float s1[2], s2[2];
    std::int64_t n1 = 0, n2 = 0;
    fast.split_signs(values.data(), r1.data(), n, b1.data(), s1, &n1);
    plain.split_signs(values.data(), r2.data(), n, b2.data(), s2, &n2);
    EXPECT_EQ(r1, r2);
    EXPECT_EQ(b1, b2);
    EXPECT_EQ(n1, n2);
    EXPECT_EQ(s1[0], s2[0]);
    EXPECT_EQ(s1[1], s2[1]);
    fast.subtract_signs(r1.data(), n, b1.data(), 1.5F, -0.7F);
    plain.subtract_signs(r2.data(), n, b1.data(), 1.5F, -0.7F);
    fast.quantise(values.data(), n, 4.0F, 7, 99, 3, l1.data());
    plain.quantise(values.data(), n, 4.0F, 7, 99, 3, l2.data());
    EXPECT_EQ(l1, l2);
    EXPECT_EQ(fast.accumulate(values.data(), r1.data(), n), plain.accumulate(values.data(), r2.data(), n));
    EXPECT_EQ(r1, r2);
    std::vector<std::uint16_t> h1(n), h2(n);
    fast.to_f16(values.data(), h1.data(), n);
    plain.to_f16(values.data(), h2.data(), n);
    EXPECT_EQ(h1, h2);
    fast.add_f16(h1.data(), r1.data(), n);
    plain.add_f16(h1.data(), r2.data(), n);
    EXPECT_EQ(r1, r2);
    std::vector<std::uint32_t> p1(n), p2(n);
    EXPECT_EQ(fast.find_large(values.data(), n, 4.0F, 5, p1.data()),
              plain.find_large(values.data(), n, 4.0F, 5, p2.data()));
  }
}

TEST(Select, FindsExactlyTheLargestAndOfEqualOnesTheFirst) {
  for (const std::size_t n : {1UL, 5UL, 1000UL, 50'000UL})
    for (const int kind : {0, 1, 2}) {
      Values v = gradient(n, n + static_cast<std::size_t>(kind));
      if (kind == 1)
        for (float& x : v) x = std::round(x * 100) / 100;  // many equal
      if (kind == 2) std::fill(v.begin(), v.end(), -3.0F);
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, n / 100, n / 3, n}) {
        std::vector<std::uint32_t> order(n);
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return std::fabs(v[a]) > std::fabs(v[b]); });
        order.resize(std::min(k, n));
        std::sort(order.begin(), order.end());
        EXPECT_EQ(largest(v, std::min(k, n)), order) << n << " values, " << k << " of them, kind " << kind;
      }
    }
}

TEST(ThresholdCodec, AdaptsTauToTheWantedShareAndKeepsAFixedOne) {
  Options options;
  options.set("fraction", 0.02);
  const auto codec = std::move(*(*find_codec("threshold"))->make(options));
  constexpr std::size_t kCount = 20'000;
  Values residual(kCount);
  std::size_t sent = 0;
  for (std::uint64_t step = 0; step < 60; ++step) {
    const Values values = gradient(kCount, step, step < 20 ? 0.1F : 0.001F);  // gradients shrink
    const Sent s = send(*codec, values, {residual});
    sent = static_cast<std::size_t>(
        std::count_if(s.decoded.begin(), s.decoded.end(), [](float x) { return x != 0; }));
  }
  EXPECT_GT(sent, kCount / 100);
  EXPECT_LT(sent, kCount / 20);
  options.set("tau", 0.05);
  const auto fixed = std::move(*(*find_codec("threshold"))->make(options));
  Values three{0.02F, -0.13F, 0.05F}, left(3);
  EXPECT_EQ(send(*fixed, three, {left}).decoded, (Values{0, -0.05F, 0.05F}));
  EXPECT_FLOAT_EQ(left[1], -0.08F);  // not set to zero
}

TEST(OneBitCodec, SendsTheMeansOfBothSigns) {
  const auto codec = std::move(*(*find_codec("1bit"))->make({}));
  const Values values{1, 3, -2, -6, -1};
  EXPECT_EQ(send(*codec, values, {}).decoded, (Values{2, 2, -3, -3, -3}));
}

TEST(OneBitCodec, SmallTensorsHaveShortBlocks) {
  const auto codec = std::move(*(*find_codec("1bit"))->make({}));
  const auto block = [&](std::size_t count) {
    const Sent sent = send(*codec, Values(count, 1.0F), {});
    EXPECT_EQ(sent.bytes.size(), codec->max_bytes(static_cast<std::int64_t>(count)));
    const auto own = static_cast<unsigned>(sent.bytes[1]);
    return own == 0 ? 2048U : 1U << own;
  };
  EXPECT_EQ(block(100), 64U);
  EXPECT_EQ(block(51'200), 128U);
  EXPECT_EQ(block(262'144), 1024U);
  EXPECT_EQ(block(1 << 20), 2048U);
  Values values(128, 1.0F);
  std::fill(values.begin() + 64, values.end(), 5.0F);
  EXPECT_EQ(send(*codec, values, {}).decoded, values);  // a mean for each half
}

// Before blocks followed the size all were of 2,048: the own byte is 0.
TEST(OneBitCodec, ReadsLongBlocksOfSmallTensorsToo) {
  const auto codec = std::move(*(*find_codec("1bit"))->make({}));
  Bytes bytes(8 + 8 + 13, std::byte{0});  // 100 values
  const float means[] = {2, -3};
  bytes[0] = std::byte{3};
  bytes[4] = std::byte{100};
  std::memcpy(bytes.data() + 8, means, sizeof(means));
  bytes[16 + 12] = std::byte{8};  // value 99 is negative
  Values out(100), expected(100, 2.0F);
  expected[99] = -3;
  ASSERT_TRUE(codec->decode(bytes, out).ok());
  EXPECT_EQ(out, expected);
  bytes[1] = std::byte{5};  // blocks of 32
  EXPECT_EQ(codec->decode(bytes, out).code(), Code::kCorrupt);
}

TEST(Codecs, RefuseOptionsThatMakeNoSense) {
  Options o;
  o.set("fraction", 0);
  for (const char* name : {"topk", "randomk", "threshold"})
    EXPECT_EQ((*find_codec(name))->make(o).status().code(), Code::kInvalid) << name;
  o.set("bits", 3);
  EXPECT_EQ((*find_codec("qsgd"))->make(o).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::codec
