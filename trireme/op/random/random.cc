#include "trireme/op/random/random.h"

namespace trireme::op::detail {
namespace {
std::uint64_t scalar(const Tensor& t) { return static_cast<std::uint64_t>(t.data<std::int64_t>()[0]); }
std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32U); }

// The upper 64 bits of a product.
std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t low_low = std::uint64_t{low(a)} * low(b), high_low = std::uint64_t{high(a)} * low(b);
  const std::uint64_t low_high = std::uint64_t{low(a)} * high(b),
                      high_high = std::uint64_t{high(a)} * high(b);
  const std::uint64_t carry = (std::uint64_t{high(low_low)} + low(high_low) + low(low_high)) >> 32U;
  return high_high + high(high_low) + high(low_high) + carry;
}
}  // namespace

AttrSpec stream_attr() {
  return {"stream", std::int64_t{0}, "number of this use of randomness, fixed when built", true};
}

Status expect_key(TypeSpan in, int first) {
  TR_RETURN_IF_ERROR(expect_type("key", at(in, first), {DType::kI64, {}}));
  return expect_type("step", at(in, first + 1), {DType::kI64, {}});
}

std::uint64_t stream_key(const KernelArgs& a, int first) {
  return mix_key(scalar(a.in(first)), scalar(a.in(first + 1)),
                 static_cast<std::uint64_t>(a.attrs.get_int("stream")));
}

Words sample_block(std::uint64_t stream_key, std::uint64_t sample, std::uint64_t block) {
  return philox4x32(stream_key, {low(block), high(block), low(sample), high(sample)});
}

std::vector<AttrSpec> generator_attrs(std::vector<AttrSpec> own) {
  own.push_back({"dtype", DType::kF32, "dtype of the numbers"});
  own.push_back({"shape", std::vector<std::int64_t>{}, "shape of one sample"});
  own.push_back(stream_attr());
  return own;
}

Types infer_generator(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_key(in, 0));
  TR_RETURN_IF_ERROR(expect_dtype("sample_ids", in[2], DType::kI64));
  TR_RETURN_IF_ERROR(expect_rank("sample_ids", in[2], 1));
  const DType dtype = attrs.get_dtype("dtype");
  if (!is_float_dtype(dtype)) {
    return error(Code::kInvalid, "attribute 'dtype': got {}, expected f64, f32, bf16 or f16",
                 dtype_name(dtype));
  }
  std::vector<std::int64_t> dims = attrs.get_ints("shape");
  dims.insert(dims.begin(), in[2].shape[0]);
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", dims));
  return std::vector{TensorType{dtype, shape}};
}

std::vector<LayoutOption> generator_layout(TypeSpan, const Attrs& attrs) {
  std::vector<LayoutOption> options{{{kReplicate, kReplicate, 0}, {0}}};
  for (int d = 1; d <= static_cast<int>(attrs.get_ints("shape").size()); ++d)
    options.push_back({{kReplicate, kReplicate, kReplicate}, {d}, /*rewritten=*/true});
  return options;
}

Cut cut_generator(CutBuilder& b, const OpDef& def) {
  const Value whole = b.add(def, {b.input(0), b.input(1), b.input(2)}, b.attrs());
  return std::vector{own_part(b, whole, b.option().outputs[0].dim)};
}

void permute(std::uint64_t stream_key, std::span<std::int64_t> order) {
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    const Words words = sample_block(stream_key, 0, i);
    const std::uint64_t bits = words[0] | (std::uint64_t{words[1]} << 32U);
    const std::uint64_t j = multiply_high(bits, i + 1);
    order[i] = order[j];
    order[j] = static_cast<std::int64_t>(i);
  }
}

}  // namespace trireme::op::detail
