// Vectors of several tensors as messages: what is coded and what is not, sums in the order of the tree.
#include "trireme/codec/packer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trireme/base/rng.h"

namespace trireme::codec {
namespace {

std::vector<float> random_vector(std::size_t n, std::uint64_t key) {
  Philox random(key);
  std::vector<float> v(n);
  for (float& x : v) x = random.next_normal() * std::ldexp(1.0F, static_cast<int>(random.next_below(8)) - 4);
  return v;
}

// Two tensors that are coded, a short one and statistics that are not, and gaps that are not sent.
Packing example() { return packing_of({{0, 3000}, {3008, 20}, {3040, 2000}}, {{5056, 3}}, 1024); }
constexpr std::size_t kElems = 5072;

Packer packer(const char* codec, const Options& options = {}, double momentum = 0) {
  return *Packer::make(**find_codec(codec), options, momentum, example());
}

std::vector<std::byte> pack(const Packer& p, std::span<const float> values, const Carry& carry,
                            std::uint64_t key) {
  std::vector<std::byte> out(p.max_bytes());
  out.resize(p.pack(values, carry, key, out));
  if (p.is_fixed()) {
    EXPECT_EQ(out.size(), p.max_bytes());
  }
  return out;
}

TEST(Packer, LongTensorsAreCodedInPartsAndShortOnesTravelAsTheyAre) {
  const Packing p = packing_of({{0, 10}, {16, 2 * kMostElems + 5}}, {{4 * kMostElems, 3}}, 11);
  ASSERT_EQ(p.coded.size(), 3U);
  EXPECT_EQ(p.coded[0].offset, 16);
  EXPECT_EQ(p.coded[2].offset + p.coded[2].count, 16 + 2 * kMostElems + 5);
  EXPECT_EQ(p.plain.size(), 2U);
}

TEST(Packer, EveryCodecSendsWhatItKeepsNotAndPlainValuesExactly) {
  for (const CodecRow& row : codec_table()) {
    const Packer p = packer(row.name);
    const std::vector<float> values = random_vector(kElems, 1);
    std::vector<float> residual(kElems, 0.0F), got(kElems, 0.0F);
    const std::vector<std::byte> message = pack(p, values, {residual, {}}, 5);
    ASSERT_TRUE(p.add(message, got).ok()) << row.name;
    for (std::size_t i = 0; i < kElems; ++i) {
      const bool coded = i < 3000 || (i >= 3040 && i < 5040),
                 plain = (i >= 3008 && i < 3028) || (i >= 5056 && i < 5059);
      if (coded)
        ASSERT_NEAR(got[i] + residual[i], values[i],
                    1e-5F * std::max(1.0F, std::abs(values[i]) + std::abs(got[i])))
            << row.name << " " << i;
      else
        ASSERT_EQ(got[i], plain ? values[i] : 0.0F) << row.name << " " << i;
    }
    EXPECT_NEAR(p.usual_bytes(), static_cast<double>(message.size()), 0.5 * p.usual_bytes()) << row.name;
  }
}

// Others may have more or fewer tensors before the one that all of them have.
TEST(Packer, WhatOthersEncodeTooIsDrawnByWhatTheyHaveInCommon) {
  const std::vector<float> values = random_vector(8192, 3);
  const auto decoded = [&](const char* codec, const std::vector<ElementRange>& tensors, DrawKeys keys) {
    const Packer p = *Packer::make(**find_codec(codec), {}, 0, packing_of(tensors, {}, 1024));
    std::vector<std::byte> out(p.max_bytes());
    out.resize(p.pack(values, {}, keys, out));
    std::vector<float> got(values.size(), 0.0F);
    EXPECT_TRUE(p.add(out, got).ok()) << codec;
    return std::vector<float>(got.begin() + 4096, got.end());
  };
  for (const char* codec : {"qsgd", "terngrad", "randomk"}) {
    const std::vector<float> first = decoded(codec, {{0, 2048}, {2048, 2048}, {4096, 4096, true}}, {1, 7});
    EXPECT_EQ(decoded(codec, {{0, 2048}, {2048, 100}, {4096, 4096, true}}, {2, 7}), first) << codec;
    EXPECT_NE(decoded(codec, {{0, 2048}, {2048, 2048}, {4096, 4096}}, {2, 7}), first) << codec;
  }
}

TEST(Packer, SumsAreThoseOfTheFixedTree) {
  const Packer p = packer("topk", {{"fraction", 0.3}});
  for (std::size_t n = 1; n <= 9; ++n) {
    std::vector<std::vector<std::byte>> messages;
    std::vector<std::vector<ByteView>> parts;
    std::vector<std::vector<float>> decoded;
    for (std::size_t m = 0; m < n; ++m) {
      messages.push_back(pack(p, random_vector(kElems, 10 + m), {}, m));
      decoded.emplace_back(kElems, 0.0F);
      ASSERT_TRUE(p.add(messages.back(), decoded.back()).ok());
    }
    for (const auto& m : messages) parts.push_back(*p.parts_of(m));
    for (std::size_t stride = 1; stride < n; stride *= 2)
      for (std::size_t i = 0; i + stride < n; i += 2 * stride)
        for (std::size_t k = 0; k < kElems; ++k) decoded[i][k] += decoded[i + stride][k];
    std::vector<float> sum(kElems, 0.0F);
    for (std::size_t part = 0; part < p.num_parts(); ++part) ASSERT_TRUE(p.sum_part(part, parts, sum).ok());
    ASSERT_EQ(sum, decoded[0]) << n;
  }
}

TEST(Packer, MomentumCorrectionSendsVelocitiesAndForgetsThoseOfWhatWasSent) {
  const Packer p = packer("topk", {{"fraction", 0.5}}, 0.5);
  std::vector<float> residual(kElems, 0.0F), velocity(kElems, 0.0F), sent(kElems, 0.0F);
  const std::vector<float> g = random_vector(kElems, 3);
  (void)pack(p, g, {residual, velocity}, 0);
  for (std::size_t i = 0; i < 3000; ++i) {
    ASSERT_TRUE(residual[i] == 0 || residual[i] == g[i]);
    ASSERT_EQ(velocity[i], residual[i] == 0 ? 0.0F : g[i]);
  }
  const std::vector<std::byte> second = pack(p, g, {residual, velocity}, 1);
  ASSERT_TRUE(p.add(second, sent).ok());
  // What waited: its residual and 1.5 times the gradient. What was sent before: the gradient.
  for (std::size_t i = 0; i < 3000; ++i)
    if (sent[i] != 0) {
      ASSERT_TRUE(sent[i] == g[i] || sent[i] == g[i] + (0.5F * g[i] + g[i])) << i;
    }
}

TEST(Packer, DamagedMessagesAreRefused) {
  const Packer p = packer("topk");
  const std::vector<std::byte> message = pack(p, random_vector(kElems, 4), {}, 0);
  std::vector<float> into(kElems);
  for (const std::size_t n : {std::size_t{0}, std::size_t{7}, message.size() - 1})
    EXPECT_EQ(p.add(ByteView(message).subspan(0, n), into).code(), Code::kCorrupt) << n;
  std::vector<std::byte> longer = message;
  longer.push_back({});
  EXPECT_EQ(p.add(longer, into).code(), Code::kCorrupt);
  longer = message;
  longer[3] = std::byte{0xFF};  // a length beyond everything
  EXPECT_EQ(p.add(longer, into).code(), Code::kCorrupt);
}

TEST(Coding, BeginsDenseAndFallsToItsFractionInEqualFactors) {
  Coding c;
  c.row = *find_codec("topk");
  c.options.set("fraction", 0.01);
  c.dense_steps = 2;
  c.warmup_steps = 4;
  EXPECT_FALSE(c.encodes_at(1));
  EXPECT_TRUE(c.encodes_at(2));
  EXPECT_DOUBLE_EQ(c.fraction_at(2), 0.25);
  EXPECT_NEAR(c.fraction_at(4), 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(c.fraction_at(6), 0.01);
}

}  // namespace
}  // namespace trireme::codec
