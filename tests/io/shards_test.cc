#include "trireme/io/shards.h"

#include <gtest/gtest.h>

#include "trireme/io/generation.h"

namespace trireme::io {
namespace {

Tensor counting(DType dtype, const Shape& shape, unsigned from = 0) {
  Tensor t = *Tensor::allocate(cpu_device(), {dtype, shape});
  for (std::size_t i = 0; i < t.type().num_bytes(); ++i)
    t.raw()[i] = static_cast<std::byte>((i + from) % 251);
  return t;
}

// Tensors of the given sizes in bytes.
NamedTensors of_sizes(std::initializer_list<int> sizes) {
  NamedTensors tensors;
  for (const int size : sizes)
    tensors.emplace_back(fmt::format("t{}", tensors.size()), counting(DType::kU8, {size}));
  return tensors;
}

Bytes image_of(const NamedTensors& tensors, const Shard& shard) {
  Bytes file(shard.bytes, std::byte{0xEE});
  std::memcpy(file.data(), shard.header.data(), shard.header.size());
  for (const CopyPart& part : copy_parts(tensors, shard)) copy_part(tensors, part, file);
  return file;
}

TEST(Shards, AreFilledInOrderUpToTheLimitAndALargerTensorIsAlone) {
  const struct {
    std::initializer_list<int> sizes;
    std::uint64_t limit;
    std::vector<std::size_t> counts;
  } cases[] = {
      {{}, 100, {0}},
      {{40, 60}, 100, {2}},
      {{40, 61}, 100, {1, 1}},
      {{500}, 100, {1}},
      {{1, 500, 1}, 100, {1, 1, 1}},
      {{500, 0, 0, 1}, 500, {3, 1}},
      {{500, 0, 501, 0}, 100, {1, 1, 1, 1}},
      {{50, 50, 50, 50, 50}, 100, {2, 2, 1}},
      {{1, 2, 3}, 0, {1, 1, 1}},
      {{10, 20, 30}, UINT64_MAX, {3}},
  };
  for (const auto& c : cases) {
    const NamedTensors tensors = of_sizes(c.sizes);
    const auto shards = plan_shards(whole_pieces(tensors), c.limit);
    ASSERT_TRUE(shards.ok()) << shards.status().to_string();
    std::vector<std::size_t> counts;
    std::size_t next = 0;
    for (const Shard& shard : *shards) {
      EXPECT_EQ(shard.first, next);
      EXPECT_EQ(shard.name, shard_name(counts.size(), shards->size()));
      counts.push_back(shard.count);
      next += shard.count;
    }
    EXPECT_EQ(counts, c.counts);
  }
}

TEST(Shards, NamesCountFromOne) {
  EXPECT_EQ(shard_name(0, 3), "tensors-00001-of-00003.safetensors");
  EXPECT_EQ(shard_name(122'999, 123'000), "tensors-123000-of-123000.safetensors");
}

// Odd sizes before strided tensors: elements then lie at addresses that are no multiples of their size.
TEST(Shards, CopiedPartsGiveTheBytesOfTheEncoder) {
  const Tensor whole = counting(DType::kF64, {6, 5}, 3);
  const int order[] = {1, 0};
  const NamedTensors tensors = {
      {"odd", counting(DType::kU8, {13})},     {"transposed", whole.transpose(order)},
      {"none", counting(DType::kF32, {0, 4})}, {"large", counting(DType::kU8, {(3 << 20) + 17})},
      {"columns", whole.slice(1, 1, 3)},       {"scalar", counting(DType::kF16, {})}};
  for (const std::uint64_t limit : {0, 300, 1 << 30}) {
    const auto shards = plan_shards(whole_pieces(tensors), limit);
    ASSERT_TRUE(shards.ok());
    for (const Shard& shard : *shards) {
      const auto first = tensors.begin() + static_cast<std::ptrdiff_t>(shard.first);
      const NamedTensors part(first, first + static_cast<std::ptrdiff_t>(shard.count));
      EXPECT_TRUE(image_of(tensors, shard) == *encode_safetensors(part)) << limit << " " << shard.name;
    }
  }
}

TEST(Shards, NoPartIsLargerThanAMebibyteAndNoneOverlap) {
  const NamedTensors tensors = of_sizes({100, 5 << 20, 1 << 20, 7});
  const Shard shard = plan_shards(whole_pieces(tensors), UINT64_MAX)->front();
  std::uint64_t at = shard.header.size();
  for (const CopyPart& part : copy_parts(tensors, shard)) {
    EXPECT_LE(part.bytes, 1U << 20U);
    EXPECT_EQ(part.to, at);
    at += part.bytes;
  }
  EXPECT_EQ(at, shard.bytes);
}

TEST(Shards, ANameTwiceIsRefusedAlsoAcrossFiles) {
  NamedTensors tensors = of_sizes({10, 10});
  tensors.emplace_back("t0", counting(DType::kU8, {10}));
  for (const std::uint64_t limit : {10U, 1000U}) {
    const auto shards = plan_shards(whole_pieces(tensors), limit);
    ASSERT_FALSE(shards.ok());
    EXPECT_NE(shards.status().message().find("'t0' is there twice"), std::string::npos);
  }
}

// Columns of a matrix by three writers, a vector in flat ranges by two.
TEST(Shards, AWriterHasFilesOfItsOwnAndPiecesHaveNamesOfTheirOwn) {
  const TensorType matrix{DType::kF32, {2, 5}}, vector{DType::kU8, {7}};
  std::vector<StoredPiece> pieces;
  for (int w = 0; w < 3; ++w) {
    const parallel::Interval columns = parallel::cut_evenly({0, 5}, 3, w);
    pieces.push_back({parallel::Piece::of_box("m", matrix, {{0, 2}, columns}), w});
    if (w == 2) continue;
    const parallel::Piece whole = parallel::Piece::of_whole("v", vector);
    pieces.push_back({parallel::part_of(whole, parallel::cut_evenly({0, 7}, 2, w)), w});
  }
  EXPECT_TRUE(has_parts(pieces));
  const auto shards = plan_shards(pieces, UINT64_MAX);
  ASSERT_TRUE(shards.ok()) << shards.status().to_string();
  ASSERT_EQ(shards->size(), 3U);
  for (std::size_t w = 0; w < 3; ++w) EXPECT_EQ((*shards)[w].writer, static_cast<int>(w));
  const std::string text(as_text((*shards)[1].header));
  EXPECT_NE(text.find(R"("m[0:2, 2:4]":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("v[0:7] flat 4:7":{"dtype":"U8","shape":[3],"data_offsets":[16,19]})"),
            std::string::npos)
      << text;
  EXPECT_FALSE(has_parts(whole_pieces(of_sizes({10, 20}))));
}

TEST(Shards, PhantomsAreRefused) {
  NamedTensors tensors = of_sizes({10});
  tensors.emplace_back("ghost", *Tensor::allocate(phantom_device(), {DType::kF32, {4}}));
  Checkpoint checkpoint;
  checkpoint.tensors = std::move(tensors);
  const auto shards = shards_of(part_of(std::move(checkpoint)), 1000);
  ASSERT_FALSE(shards.ok());
  EXPECT_EQ(shards.status().code(), Code::kInvalid);
  EXPECT_NE(shards.status().message().find("'ghost' is a phantom"), std::string::npos);
}

}  // namespace
}  // namespace trireme::io
