#include "trireme/io/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "trireme/base/rng.h"

namespace trireme::io {
namespace {

constexpr DType kAllTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                               DType::kI64, DType::kI32, DType::kU8,   DType::kBool};

Tensor filled(DType dtype, const Shape& shape, std::uint64_t seed = 1) {
  Tensor t = *Tensor::allocate(cpu_device(), {dtype, shape});
  Philox random(seed);
  for (std::size_t i = 0; i < t.type().num_bytes(); ++i)
    t.raw()[i] = static_cast<std::byte>(random.next_u32() & (dtype == DType::kBool ? 1U : 255U));
  return t;
}

Bytes row_major_bytes(const Tensor& t) {
  Tensor rows = *Tensor::allocate(cpu_device(), t.type());
  copy_to_contiguous(t, rows);
  return Bytes(rows.raw(), rows.raw() + rows.type().num_bytes());
}

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.type(), b[i].second.type()) << a[i].first;
    EXPECT_TRUE(row_major_bytes(a[i].second) == row_major_bytes(b[i].second)) << a[i].first;
  }
}

Bytes from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return bytes;
}

// Eight bytes of length, the header, zeros.
Bytes file_of(std::string_view header, std::size_t data_bytes, std::uint64_t header_bytes) {
  Bytes out(8 + header.size() + data_bytes);
  std::memcpy(out.data(), &header_bytes, 8);
  std::memcpy(out.data() + 8, header.data(), header.size());
  return out;
}
Bytes file_of(std::string_view header, std::size_t data_bytes) {
  return file_of(header, data_bytes, header.size());
}

TEST(Safetensors, EveryTypeAndZeroSizedAndScalarTensorsComeBackAsTheyWere) {
  NamedTensors tensors;
  for (const DType type : kAllTypes) {
    const std::string name(dtype_name(type));
    tensors.emplace_back(name + "/matrix", filled(type, {3, 5}));
    tensors.emplace_back(name + "/scalar", filled(type, {}));
    tensors.emplace_back(name + "/none", filled(type, {0}));
    tensors.emplace_back(name + "/no rows", filled(type, {4, 0, 2}));
    tensors.emplace_back(name + "/deep", filled(type, {1, 2, 1, 2, 1, 2, 1, 2}));
  }
  const Result<Bytes> bytes = encode_safetensors(tensors);
  ASSERT_TRUE(bytes.ok());
  const Result<NamedTensors> back = decode_safetensors(*bytes);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  expect_same(tensors, *back);
}

TEST(Safetensors, StridedTensorsAreWrittenRowMajor) {
  const Tensor whole = filled(DType::kF32, {4, 6});
  const int order[] = {1, 0};
  const NamedTensors views = {{"transposed", whole.transpose(order)}, {"columns", whole.slice(1, 2, 5)}};
  const Result<NamedTensors> back = decode_safetensors(*encode_safetensors(views));
  ASSERT_TRUE(back.ok());
  expect_same(views, *back);
}

TEST(Safetensors, NoTensorsAtAllIsAFile) {
  const Result<Bytes> bytes = encode_safetensors({});
  ASSERT_TRUE(bytes.ok());
  const Result<NamedTensors> back = decode_safetensors(*bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->empty());
}

TEST(Safetensors, DataBeginsAlignedToEightBytes) {
  for (const char* name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh"}) {
    const Bytes bytes = *encode_safetensors({{name, filled(DType::kF64, {1})}});
    ByteView rest = bytes;
    std::uint64_t header = 0;
    ASSERT_TRUE(take_le(rest, header));
    EXPECT_EQ((8 + header) % 8, 0U);
    EXPECT_EQ(rest.size(), header + 8);
  }
}

TEST(Safetensors, NamesWithQuotesAndLettersOfAnyScriptSurvive) {
  const NamedTensors tensors = {{"a\"b\\c\n", filled(DType::kU8, {1})},
                                {"h\xC3\xBClle", filled(DType::kU8, {2})}};
  expect_same(tensors, *decode_safetensors(*encode_safetensors(tensors)));
}

TEST(Safetensors, RefusesToWriteWhatCouldNotBeReadBack) {
  const TensorType type{DType::kF32, Shape{4}};
  const Tensor phantom(Buffer::phantom(cpu_device(), type.num_bytes()), type);
  const Tensor real = filled(DType::kF32, {4});
  const NamedTensors refused[] = {
      {{"p", phantom}}, {{"a", real}, {"a", real}}, {{"__metadata__", real}}, {{"\xFF", real}}};
  for (const NamedTensors& tensors : refused)
    EXPECT_EQ(encode_safetensors(tensors).status().code(), Code::kInvalid) << tensors[0].first;
}

// Written by version 0.8.0 of the public package: seven tensors of as many types, and metadata.
constexpr std::string_view kPublicFile =
    "c8010000000000007b225f5f6d657461646174615f5f223a7b226d6164655f6279223a227361666574656e736f727322"
    "7d2c22696473223a7b226474797065223a22493634222c227368617065223a5b335d2c22646174615f6f666673657473"
    "223a5b302c32345d7d2c22656d707479223a7b226474797065223a22463634222c227368617065223a5b302c335d2c22"
    "646174615f6f666673657473223a5b32342c32345d7d2c22622f776569676874223a7b226474797065223a2246333222"
    "2c227368617065223a5b322c335d2c22646174615f6f666673657473223a5b32342c34385d7d2c227363616c6172223a"
    "7b226474797065223a22493332222c227368617065223a5b5d2c22646174615f6f666673657473223a5b34382c35325d"
    "7d2c2268616c66223a7b226474797065223a22463136222c227368617065223a5b325d2c22646174615f6f6666736574"
    "73223a5b35322c35365d7d2c227538223a7b226474797065223a225538222c227368617065223a5b325d2c2264617461"
    "5f6f666673657473223a5b35362c35385d7d2c22666c6167223a7b226474797065223a22424f4f4c222c227368617065"
    "223a5b335d2c22646174615f6f666673657473223a5b35382c36315d7d7d20200100000000000000feffffffffffffff"
    "00000000000100000000c03f000000c0000050400000000000000080c216010007000000003c00b800ff010001";

TEST(Safetensors, ReadsAFileOfThePublicPackage) {
  const Result<NamedTensors> read = decode_safetensors(from_hex(kPublicFile));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  const auto find = [&](std::string_view name) {
    for (const auto& [n, tensor] : *read)
      if (n == name) return tensor;
    ADD_FAILURE() << "no tensor " << name;
    return Tensor();
  };
  EXPECT_EQ(read->size(), 7U);
  const auto weight = find("b/weight");
  EXPECT_EQ(weight.type(), (TensorType{DType::kF32, Shape{2, 3}}));
  EXPECT_EQ(std::vector<float>(weight.values<float>().begin(), weight.values<float>().end()),
            (std::vector<float>{1.5F, -2.0F, 3.25F, 0.0F, -0.0F, 1e-40F}));
  const auto ids = find("ids").values<std::int64_t>();
  EXPECT_EQ(std::vector<std::int64_t>(ids.begin(), ids.end()),
            (std::vector<std::int64_t>{1, -2, std::int64_t{1} << 40}));
  EXPECT_EQ(find("scalar").shape().rank(), 0);
  EXPECT_EQ(*find("scalar").data<std::int32_t>(), 7);
  EXPECT_EQ(find("empty").type(), (TensorType{DType::kF64, Shape{0, 3}}));
  EXPECT_EQ(to_hex(row_major_bytes(find("half"))), "003c00b8");
  EXPECT_EQ(to_hex(row_major_bytes(find("flag"))), "010001");
  EXPECT_EQ(to_hex(row_major_bytes(find("u8"))), "00ff");
}

TEST(Safetensors, AFileCutAnywhereIsCorrupt) {
  const Bytes whole = *encode_safetensors({{"a", filled(DType::kF32, {2, 3})},
                                           {"b", filled(DType::kI64, {4})},
                                           {"c", filled(DType::kBool, {3})}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(decode_safetensors(cut).status().code(), Code::kCorrupt) << length;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_safetensors(longer).status().code(), Code::kCorrupt) << "a byte too many";
}

TEST(Safetensors, FlippedBitsGiveTensorsThatFitOrAreCorrupt) {
  const Bytes whole = *encode_safetensors({{"a", filled(DType::kF32, {2, 3})},
                                           {"b", filled(DType::kI64, {4})},
                                           {"c", filled(DType::kBool, {3})}});
  int refused = 0;
  constexpr int kSeeds = 5000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Philox random(static_cast<std::uint64_t>(seed));
    Bytes damaged = whole;
    const std::uint32_t flips = 1 + random.next_below(4);
    for (std::uint32_t i = 0; i < flips; ++i)
      damaged[random.next_below(static_cast<std::uint32_t>(damaged.size()))] ^=
          static_cast<std::byte>(1U << random.next_below(8));
    const Result<NamedTensors> read = decode_safetensors(damaged);
    if (!read.ok()) {
      ++refused;
      EXPECT_EQ(read.status().code(), Code::kCorrupt) << "seed " << seed << read.status().to_string();
      continue;
    }
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : *read) bytes += row_major_bytes(tensor).size();
    EXPECT_LE(bytes, damaged.size()) << "seed " << seed;
  }
  EXPECT_GT(refused, kSeeds / 2);
}

TEST(Safetensors, HostileHeadersAreCorrupt) {
  struct Case {
    const char* why;
    const char* header;
    std::size_t data_bytes;
  };
  const Case cases[] = {
      {"not JSON", "{", 0},
      {"a list", "[]", 0},
      {"a number", "12", 0},
      {"a number beyond double", R"({"a":1e999})", 0},
      {"an entry that is no object", R"({"a":3})", 0},
      {"no dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4},
      {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4},
      {"no offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4},
      {"a dtype of no name", R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4},
      {"a dtype that is a number", R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", 4},
      {"one offset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}})", 4},
      {"three offsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 8},
      {"backward offsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4},
      {"a negative offset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4},
      {"offsets beyond the end", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 4},
      {"too few bytes", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4},
      {"too many bytes", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8},
      {"a negative dimension", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4},
      {"nine dimensions", R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1},
      {"2^64 bytes, which is none",
       R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0},
      {"2^64 elements", R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6},
      {"the same bytes twice",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4},
      {"a hole",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5},
      {"unused bytes at the front", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3},
  };
  for (const Case& c : cases) {
    const Result<NamedTensors> read = decode_safetensors(file_of(c.header, c.data_bytes));
    EXPECT_EQ(read.status().code(), Code::kCorrupt) << c.why;
  }
}

TEST(Safetensors, ABoolThatIsNeitherTrueNorFalseIsCorrupt) {
  Bytes file = file_of(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1);
  EXPECT_TRUE(decode_safetensors(file).ok());
  file.back() = std::byte{2};
  EXPECT_EQ(decode_safetensors(file).status().code(), Code::kCorrupt);
}

TEST(Safetensors, AHeaderLongerThanTheFileOrAnyReasonIsCorrupt) {
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{100'000'001}, std::uint64_t{1} << 40,
        std::numeric_limits<std::uint64_t>::max() - 7, std::numeric_limits<std::uint64_t>::max()}) {
    const Bytes file = file_of("{}", 0, length);
    EXPECT_EQ(decode_safetensors(file).status().code(), Code::kCorrupt) << length;
  }
}

TEST(Safetensors, DeeplyNestedHeadersAreCorruptAndDoNotExhaustTheStack) {
  const std::string deep = R"({"a":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_EQ(decode_safetensors(file_of(deep, 0)).status().code(), Code::kCorrupt);
}

NamedTensors small_model() {
  const std::vector<float> w = {1.0F, -2.5F, 0.0F, 1e-30F, 3.0F, 4.0F};
  const std::vector<std::int64_t> n = {42};
  return {{"w", Tensor::from<float>(w, {2, 3})}, {"count", Tensor::from<std::int64_t>(n, {})}};
}

// The bytes are specified in safetensors.h; the value was computed from them by another SHA-256.
TEST(ParametersSha256, IsTheDocumentedHash) {
  EXPECT_EQ(parameters_sha256(small_model()),
            "8462914d848bd69ccb59c556ef3716e0dc81fa0f960f55b3a8f006a494885008");
  EXPECT_EQ(parameters_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(ParametersSha256, DoesNotDependOnTheOrderGivenOrOnStrides) {
  NamedTensors turned = small_model();
  std::reverse(turned.begin(), turned.end());
  EXPECT_EQ(parameters_sha256(turned), parameters_sha256(small_model()));
  const std::vector<float> columns = {1.0F, 1e-30F, -2.5F, 3.0F, 0.0F, 4.0F};
  const int order[] = {1, 0};
  NamedTensors strided = small_model();
  strided[0].second = Tensor::from<float>(columns, {3, 2}).transpose(order);
  EXPECT_EQ(parameters_sha256(strided), parameters_sha256(small_model()));
}

TEST(ParametersSha256, ChangesWithEveryBitNameShapeAndType) {
  const std::string base = parameters_sha256(small_model());
  for (std::size_t byte = 0; byte < 24; ++byte)
    for (int bit = 0; bit < 8; ++bit) {
      const NamedTensors changed = small_model();
      changed[0].second.raw()[byte] ^= static_cast<std::byte>(1 << bit);
      EXPECT_NE(parameters_sha256(changed), base) << byte << "." << bit;
    }
  NamedTensors renamed = small_model(), reshaped = small_model(), retyped = small_model(),
               fewer = small_model();
  renamed[0].first = "v";
  reshaped[0].second = *reshaped[0].second.reshape({3, 2});
  const TensorType doubles{DType::kF64, Shape{}};
  retyped[1].second = Tensor(retyped[1].second.buffer(), doubles);
  fewer.pop_back();
  for (const NamedTensors& other : {renamed, reshaped, retyped, fewer})
    EXPECT_NE(parameters_sha256(other), base);
}

TEST(Safetensors, TheOrderOfTheHeaderIsKept) {
  NamedTensors tensors;
  for (const char* name : {"z", "a", "m", "B", ""}) tensors.emplace_back(name, filled(DType::kU8, {0}));
  const Result<NamedTensors> back = decode_safetensors(*encode_safetensors(tensors));
  ASSERT_TRUE(back.ok());
  expect_same(tensors, *back);
}

TEST(Safetensors, ANameTwiceInTheHeaderIsRefused) {
  constexpr const char* kTwice =
      R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
      R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  const Result<NamedTensors> read = decode_safetensors(file_of(kTwice, 0));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("'a' is there twice"), std::string::npos) << read.status().message();
}

// Quadratic work would take an hour.
TEST(Safetensors, AHeaderOfVeryManyNamesIsRead) {
  std::string header = "{";
  for (int i = 0; i < 200'000; ++i)
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i > 0 ? "," : "", i);
  const Result<NamedTensors> read = decode_safetensors(file_of(header + "}", 0));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->size(), 200'000U);
}

}  // namespace
}  // namespace trireme::io
