#include "trireme/io/manifest.h"

#include <gtest/gtest.h>

#include "trireme/base/hash.h"
#include "trireme/io/shards.h"

namespace trireme::io {
namespace {

Manifest example() {
  Manifest m;
  m.step = 469;
  for (std::size_t i = 0; i < 2; ++i) m.files.push_back({shard_name(i, 2), 100 + i, sha256_hex({})});
  m.tensors = {{"conv/weight", 0, {DType::kF32, {32, 1, 5, 5}}},
               {"odd \"name\"\n", 0, {DType::kBool, {}}},
               {"empty", 1, {DType::kBF16, {0, 7}}}};
  m.state = Json{{"samples", 60032}, {"cursor", {{"open", Json::array()}}}};
  return m;
}

// The text with its seal made anew, so that what is tested is not the seal.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = manifest_text(example());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const std::size_t seal = text.find(",\n  \"manifest_sha256\"");
  const std::string before = text.substr(0, seal);
  return before + ",\n  \"manifest_sha256\": \"" + sha256_hex(as_bytes(before)) + "\"\n}\n";
}

TEST(Manifest, ComesBackAsItWas) {
  const Manifest m = example();
  const Result<Manifest> back = parse_manifest(manifest_text(m), "test");
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->version, 2);
  EXPECT_EQ(back->step, 469);
  EXPECT_EQ(back->state, m.state);
  ASSERT_EQ(back->files.size(), 2U);
  EXPECT_EQ(back->files[1].name, "tensors-00002-of-00002.safetensors");
  EXPECT_EQ(back->files[1].bytes, 101U);
  EXPECT_EQ(back->files[1].sha256, m.files[1].sha256);
  ASSERT_EQ(back->tensors.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back->tensors[i].name, m.tensors[i].name);
    EXPECT_EQ(back->tensors[i].file, m.tensors[i].file);
    EXPECT_EQ(back->tensors[i].type, m.tensors[i].type);
  }
}

TEST(Manifest, AnyCutAndAnyFlippedBitIsFound) {
  const std::string text = manifest_text(example());
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(parse_manifest(text.substr(0, size), "test").ok()) << size;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_FALSE(parse_manifest(flipped, "test").ok()) << "byte " << i << " bit " << bit;
    }
}

TEST(Manifest, WhatMakesNoSenseIsRefusedWithItsSource) {
  const struct {
    const char *from, *to, *said;
  } cases[] = {
      {"\"version\": 2", "\"version\": 4", "version 4, expected 1 to 3"},
      {"\"version\": 2", "\"version\": \"2\"", "got string"},
      {"\"step\": 469", "\"step\": -1", "'step' is -1"},
      {"\"step\": 469", "\"stop\": 469", "'step' is missing"},
      {"tensors-00001-of-00002", "../../../etc/passwd", "expected 'tensors-00001-of-00002.safetensors'"},
      {"\"bytes\":100", "\"bytes\":\"100\"", "got string"},
      {"e3b0c442", "E3B0C442", "64 hexadecimal digits"},
      {"\"file\":\"tensors-00001", "\"file\":\"tensors-00009", "which is not listed"},
      {"\"file\":\"tensors-00001", "\"file\":\"tensors-00002", "not in the order of the files"},
      {"\"dtype\":\"F32\"", "\"dtype\":\"F33\"", "unknown dtype 'F33'"},
      {"[32,1,5,5]", "[32,1,-5,5]", "-5"},
      {"[32,1,5,5]", "[1,1,1,1,1,1,1,1,1]", "dimensions"},
      {"\"state\": {", "\"stale\": {", "'state' is missing"},
  };
  for (const auto& c : cases) {
    const Result<Manifest> m = parse_manifest(changed(c.from, c.to), "run/manifest.json");
    ASSERT_FALSE(m.ok()) << c.to;
    EXPECT_EQ(m.status().code(), Code::kCorrupt);
    EXPECT_NE(m.status().message().find(c.said), std::string::npos) << m.status().message();
    EXPECT_NE(m.status().message().find("run/manifest.json"), std::string::npos) << m.status().message();
  }
}

TEST(Manifest, OfVersionOneIsReadAndSaysNothingOfTheTensors) {
  const std::string text = fmt::format(
      R"({{"version": 1, "step": 7, "tensors": "tensors.safetensors", "tensors_bytes": 12, "tensors_sha256": "{}", "state": {{}}}})",
      sha256_hex({}));
  const Result<Manifest> m = parse_manifest(text, "test");
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  ASSERT_EQ(m->files.size(), 1U);
  EXPECT_EQ(m->files[0].name, "tensors.safetensors");
  EXPECT_EQ(m->files[0].bytes, 12U);
  EXPECT_TRUE(check_tensors(*m, 0, {{"any", *Tensor::allocate(cpu_device(), {DType::kF32, {2}})}}).ok());
}

TEST(Manifest, TensorsMustBeTheOnesItNames) {
  const Manifest m = example();
  const auto make = [](const char* name, DType dtype, const Shape& shape) {
    return NamedTensor{name, *Tensor::allocate(cpu_device(), {dtype, shape})};
  };
  const NamedTensors right = {make("empty", DType::kBF16, {0, 7})};
  EXPECT_TRUE(check_tensors(m, 1, right).ok());
  EXPECT_FALSE(check_tensors(m, 0, right).ok());
  EXPECT_FALSE(check_tensors(m, 1, {}).ok());
  EXPECT_FALSE(check_tensors(m, 1, {make("other", DType::kBF16, {0, 7})}).ok());
  EXPECT_FALSE(check_tensors(m, 1, {make("empty", DType::kF16, {0, 7})}).ok());
  EXPECT_FALSE(check_tensors(m, 1, {make("empty", DType::kBF16, {7, 0})}).ok());
  EXPECT_FALSE(check_tensors(m, 1, {right[0], right[0]}).ok());
}

}  // namespace
}  // namespace trireme::io
