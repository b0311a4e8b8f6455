// Files that the public packages wrote (fixtures/make.py says how) are read, value for value.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "trireme/io/safetensors.h"
#include "trireme/tensor/half.h"

namespace trireme::io {
namespace {

Bytes fixture(const std::string& name) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream in(std::string(root != nullptr ? root : ".") + "/tests/io/fixtures/" + name,
                   std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return to_bytes(std::string(std::istreambuf_iterator<char>(in), {}));
}

template <typename T>
void expect_values(const std::string& name, const Tensor& tensor, bool is_half_steps) {
  for (std::size_t i = 0; i < tensor.values<T>().size(); ++i) {
    const float expected = static_cast<float>(i % 7) - (tensor.dtype() == DType::kU8 ? 0.0F : 3.0F);
    EXPECT_EQ(static_cast<float>(tensor.values<T>()[i]), is_half_steps ? expected / 2 : expected)
        << name << " " << i;
  }
}

void expect_pattern(const std::string& name, const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return expect_values<float>(name, tensor, true);
    case DType::kF64:
      return expect_values<double>(name, tensor, true);
    case DType::kBF16:
      return expect_values<BFloat16>(name, tensor, true);
    case DType::kF16:
      return expect_values<Float16>(name, tensor, true);
    case DType::kI64:
      return expect_values<std::int64_t>(name, tensor, false);
    case DType::kI32:
      return expect_values<std::int32_t>(name, tensor, false);
    case DType::kU8:
      return expect_values<std::uint8_t>(name, tensor, false);
    case DType::kBool:
      for (std::size_t i = 0; i < tensor.values<bool>().size(); ++i)
        EXPECT_EQ(tensor.values<bool>()[i], i % 3 == 0) << name << " " << i;
      return;
  }
}

const Shape& shape_named(std::string_view name) {
  static const std::map<std::string_view, Shape> kShapes = {{"matrix", {3, 5}},
                                                            {"scalar", {}},
                                                            {"none", {0}},
                                                            {"no_rows", {2, 0, 3}},
                                                            {"deep", {1, 2, 1, 2, 1, 2}}};
  return kShapes.at(name.substr(name.find('/') + 1));
}

TEST(Fixtures, OfNumpyHoldEveryTypeAndShape) {
  const Result<NamedTensors> tensors = decode_safetensors(fixture("numpy.safetensors"));
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  EXPECT_EQ(tensors->size(), 7U * 5U);
  std::set<DType> types;
  for (const auto& [name, tensor] : *tensors) {
    EXPECT_EQ(dtype_name(tensor.dtype()), name.substr(0, name.find('/')));
    EXPECT_EQ(tensor.shape(), shape_named(name)) << name;
    expect_pattern(name, tensor);
    types.insert(tensor.dtype());
  }
  EXPECT_EQ(types.size(), 7U);
}

TEST(Fixtures, OfTorchHoldAModelBfloat16AndMetadata) {
  const Bytes bytes = fixture("torch.safetensors");
  const Result<NamedTensors> tensors = decode_safetensors(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  std::set<std::string> names;
  for (const auto& [name, tensor] : *tensors) {
    names.insert(name);
    if (name.starts_with("bf16/")) {
      EXPECT_EQ(tensor.dtype(), DType::kBF16);
      EXPECT_EQ(tensor.shape(), shape_named(name));
    }
    if (name == "0.weight") {
      EXPECT_EQ(tensor.shape(), (Shape{3, 4}));
    }
    if (name != "1.num_batches_tracked") expect_pattern(name, tensor);
  }
  EXPECT_EQ(names.size(), 7U + 5U);
  EXPECT_TRUE(names.contains("1.running_var"));
  const Result<SafetensorsHeader> header = decode_safetensors_header(bytes);
  ASSERT_TRUE(header.ok());
  const std::set<std::pair<std::string, std::string>> metadata(header->metadata.begin(),
                                                               header->metadata.end());
  EXPECT_TRUE(metadata.contains({"format", "pt"}));
  EXPECT_TRUE(metadata.contains({"note", "caf\u00e9"}));
}

TEST(Fixtures, WithoutTensorsAreRead) {
  const Result<NamedTensors> tensors = decode_safetensors(fixture("empty.safetensors"));
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  EXPECT_TRUE(tensors->empty());
}

TEST(Fixtures, OfATypeThatTensorsDoNotHaveAreRefusedByName) {
  const Result<NamedTensors> tensors = decode_safetensors(fixture("i16.safetensors"));
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(tensors.status().code(), Code::kInvalid);
  EXPECT_NE(tensors.status().message().find("I16 is not supported"), std::string::npos);
  EXPECT_NE(tensors.status().message().find("'x'"), std::string::npos);
}

}  // namespace
}  // namespace trireme::io
