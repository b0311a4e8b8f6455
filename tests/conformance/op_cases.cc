#include "tests/conformance/op_cases.h"

#include <cctype>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;
using enum Fill;

Attrs conv(std::int64_t stride, std::int64_t pad, std::int64_t dilation, std::int64_t groups,
           std::string shape_attr = "", Ints shape = {}) {
  Attrs a{{"stride_h", stride},       {"stride_w", std::int64_t{1}}, {"pad_h", pad},
          {"pad_w", std::int64_t{1}}, {"dilation_h", dilation},      {"dilation_w", std::int64_t{1}},
          {"groups", groups}};
  if (!shape_attr.empty()) a.set(std::move(shape_attr), std::move(shape));
  return a;
}

Attrs pool(std::int64_t window, std::int64_t stride, std::int64_t pad) {
  return {{"window_h", window}, {"window_w", std::int64_t{2}},
          {"stride_h", stride}, {"stride_w", std::int64_t{2}},
          {"pad_h", pad},       {"pad_w", std::int64_t{0}}};
}

Attrs axes(Ints which, bool keep) { return {{"axes", std::move(which)}, {"keep_dims", keep}}; }
Attrs transposes(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }
Attrs one(std::string name, AttrValue v) { return {{std::move(name), std::move(v)}}; }

void add_elementwise(std::vector<OpCase>& t) {
  for (const OpDef* d : {&kAdd, &kSub, &kMul, &kDiv}) {
    t.push_back({d, "same shape", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
    t.push_back({d, "broadcast both ways", {{kReal, {2, 1, 4}}, {kReal, {3, 1}}}});
    t.push_back({d, "scalar", {{kReal, {}}, {kReal, {5}}}});
    t.push_back({d, "one element", {{kReal, {1, 1}}, {kReal, {1}}}});
    t.push_back({d, "empty", {{kReal, {0, 3}}, {kReal, {1, 3}}}});
    if (d != &kDiv) t.push_back({d, "integers", {{kInts, {2, 3}}, {kInts, {3}}}});
  }
  for (const OpDef* d : {&kNeg, &kExp, &kSquare, &kRelu, &kSigmoid, &kTanh, &kScale, &kLog, &kSqrt}) {
    const Fill fill = d == &kLog || d == &kSqrt ? kPositive : kReal;
    const Attrs attrs = d == &kScale ? one("factor", -1.5) : Attrs{};
    t.push_back({d, "matrix", {{fill, {3, 5}}}, attrs});
    t.push_back({d, "four dims", {{fill, {2, 3, 2, 2}}}, attrs});
    t.push_back({d, "scalar", {{fill, {}}}, attrs});
    t.push_back({d, "empty", {{fill, {4, 0}}}, attrs});
  }
  for (const OpDef* d : {&kNeg, &kSquare, &kRelu}) t.push_back({d, "integers", {{kInts32, {7}}}});
  t.push_back({&kReluGrad, "matrix", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
  t.push_back({&kReluGrad, "empty", {{kReal, {0}}, {kReal, {0}}}});
  t.push_back({&kCast, "to f64", {{kReal, {2, 3}}}, one("dtype", DType::kF64)});
  t.push_back({&kCast, "to integers", {{kReal, {2, 3}}}, one("dtype", DType::kI32)});
  t.push_back({&kCast, "from bytes", {{kBytes, {5}}}, one("dtype", DType::kF32)});
  t.push_back({&kCast, "to bool", {{kInts, {5}}}, one("dtype", DType::kBool)});
}

void add_reduce(std::vector<OpCase>& t) {
  for (const OpDef* d : {&kSum, &kMean, &kMax}) {
    t.push_back({d, "all", {{kDistinct, {3, 4}}}});
    t.push_back({d, "middle", {{kDistinct, {2, 3, 4}}}, axes({1}, false)});
    t.push_back({d, "outer kept", {{kDistinct, {2, 3, 4}}}, axes({0, -1}, true)});
    t.push_back({d, "one element", {{kDistinct, {1}}}});
    t.push_back({d, "scalar", {{kDistinct, {}}}});
    t.push_back({d, "empty result", {{kDistinct, {0, 3}}}, axes({1}, false)});
  }
  t.push_back({&kSum, "nothing to add", {{kReal, {0, 3}}}, axes({0}, false)});
  t.push_back({&kSum, "integers", {{kInts, {3, 3}}}, axes({0}, false)});
  t.push_back({&kMax, "integers", {{kInts32, {3, 3}}}, axes({0}, false)});
  t.push_back({&kArgmax, "last", {{kDistinct, {3, 4}}}});
  t.push_back(
      {&kArgmax, "first kept", {{kDistinct, {3, 4}}}, {{"axis", std::int64_t{0}}, {"keep_dims", true}}});
  t.push_back({&kArgmax, "middle with ties", {{kInts, {2, 6, 2}}}, one("axis", std::int64_t{-2})});
}

void add_array(std::vector<OpCase>& t) {
  t.push_back({&kReshape, "keeps the batch", {{kReal, {4, 2, 3}}}, one("shape", Ints{4, -1})});
  t.push_back({&kReshape, "all new", {{kReal, {4, 3}}}, one("shape", Ints{2, 6})});
  t.push_back({&kReshape, "to scalar", {{kReal, {1, 1}}}, one("shape", Ints{})});
  t.push_back({&kReshape, "empty", {{kReal, {0, 6}}}, one("shape", Ints{0, 2, 3})});
  t.push_back({&kTranspose, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kTranspose, "rotation", {{kReal, {2, 3, 4}}}, one("order", Ints{2, 0, 1})});
  t.push_back({&kTranspose, "scalar", {{kReal, {}}}});
  t.push_back({&kTranspose, "bytes", {{kBytes, {2, 5}}}});
  t.push_back({&kFill, "floats", {}, {{"value", 1.5}, {"dtype", DType::kF64}, {"shape", Ints{3, 2}}}});
  t.push_back({&kFill, "integers", {}, {{"value", 7.0}, {"dtype", DType::kI64}, {"shape", Ints{}}}});
  t.push_back({&kFill, "empty", {}, one("shape", Ints{0})});
  t.push_back({&kBroadcastTo, "row", {{kReal, {4}}}, one("shape", Ints{3, 4})});
  t.push_back({&kBroadcastTo, "column", {{kReal, {2, 3, 1}}}, one("shape", Ints{2, 3, 5})});
  t.push_back({&kBroadcastTo, "scalar", {{kReal, {}}}, one("shape", Ints{2, 2})});
  t.push_back({&kBroadcastTo, "to empty", {{kReal, {1, 3}}}, one("shape", Ints{0, 3})});
}

void add_linalg(std::vector<OpCase>& t) {
  t.push_back({&kMatmul, "plain", {{kReal, {3, 4}}, {kReal, {4, 5}}}});
  t.push_back({&kMatmul, "a transposed", {{kReal, {4, 3}}, {kReal, {4, 5}}}, transposes(true, false)});
  t.push_back({&kMatmul, "b transposed", {{kReal, {3, 4}}, {kReal, {5, 4}}}, transposes(false, true)});
  t.push_back({&kMatmul, "both transposed", {{kReal, {4, 3}}, {kReal, {5, 4}}}, transposes(true, true)});
  t.push_back({&kMatmul, "one element", {{kReal, {1, 1}}, {kReal, {1, 1}}}});
  t.push_back({&kMatmul, "no rows", {{kReal, {0, 4}}, {kReal, {4, 5}}}});
  t.push_back({&kMatmul, "nothing to add", {{kReal, {3, 0}}, {kReal, {0, 2}}}});
}

void add_conv(std::vector<OpCase>& t) {
  const Ints x{2, 4, 5, 4}, f{6, 4, 3, 2}, fg{6, 2, 3, 2};
  const auto shape = [](const Ints& s) { return Shape(s); };
  t.push_back({&kConv2d, "plain", {{kReal, shape(x)}, {kReal, shape(f)}}});
  t.push_back({&kConv2d, "strided padded", {{kReal, shape(x)}, {kReal, shape(f)}}, conv(2, 1, 1, 1)});
  t.push_back({&kConv2d, "dilated groups", {{kReal, shape(x)}, {kReal, shape(fg)}}, conv(1, 1, 2, 2)});
  t.push_back({&kConv2d, "one pixel", {{kReal, {1, 1, 1, 1}}, {kReal, {1, 1, 1, 1}}}});
  t.push_back({&kConv2d,
               "more padding than image",
               {{kReal, {1, 1, 1, 2}}, {kReal, {1, 1, 1, 1}}},
               conv(1, 3, 1, 1)});
  t.push_back({&kConv2d, "no samples", {{kReal, {0, 4, 5, 4}}, {kReal, shape(f)}}});
  t.push_back(
      {&kConv2dInputGrad, "plain", {{kReal, shape(f)}, {kReal, {2, 6, 3, 3}}}, one("input_shape", x)});
  t.push_back({&kConv2dInputGrad,
               "strided padded",
               {{kReal, shape(f)}, {kReal, {2, 6, 3, 5}}},
               conv(2, 1, 1, 1, "input_shape", x)});
  t.push_back({&kConv2dInputGrad,
               "dilated groups",
               {{kReal, shape(fg)}, {kReal, {2, 6, 3, 5}}},
               conv(1, 1, 2, 2, "input_shape", x)});
  t.push_back(
      {&kConv2dFilterGrad, "plain", {{kReal, shape(x)}, {kReal, {2, 6, 3, 3}}}, one("filter_shape", f)});
  t.push_back({&kConv2dFilterGrad,
               "strided padded",
               {{kReal, shape(x)}, {kReal, {2, 6, 3, 5}}},
               conv(2, 1, 1, 1, "filter_shape", f)});
  t.push_back({&kConv2dFilterGrad,
               "dilated groups",
               {{kReal, shape(x)}, {kReal, {2, 6, 3, 5}}},
               conv(1, 1, 2, 2, "filter_shape", fg)});
  t.push_back({&kConv2dFilterGrad,
               "no samples",
               {{kReal, {0, 4, 5, 4}}, {kReal, {0, 6, 3, 3}}},
               one("filter_shape", f)});
}

void add_nn(std::vector<OpCase>& t) {
  t.push_back({&kMaxPool2d, "plain", {{kDistinct, {2, 3, 4, 4}}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2d, "overlapping padded", {{kDistinct, {2, 1, 5, 4}}}, pool(3, 1, 1)});
  t.push_back({&kMaxPool2d, "no samples", {{kDistinct, {0, 3, 4, 4}}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGrad,
               "plain",
               {{kDistinct, {2, 3, 4, 4}}, {kReal, {2, 3, 2, 2}}, {kReal, {2, 3, 2, 2}}},
               pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGrad,
               "overlapping padded",
               {{kDistinct, {2, 1, 5, 4}}, {kReal, {2, 1, 5, 2}}, {kReal, {2, 1, 5, 2}}},
               pool(3, 1, 1)});
  t.push_back({&kBiasAdd, "matrix", {{kReal, {3, 4}}, {kReal, {4}}}});
  t.push_back({&kBiasAdd, "images", {{kReal, {2, 3, 2, 2}}, {kReal, {3}}}});
  t.push_back({&kBiasAdd, "empty", {{kReal, {0, 4}}, {kReal, {4}}}});
  t.push_back({&kBiasGrad, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kBiasGrad, "images", {{kReal, {2, 3, 2, 2}}}});
  t.push_back({&kBiasGrad, "nothing to add", {{kReal, {0, 4}}}});
  t.push_back({&kSoftmax, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kSoftmax, "three dims", {{kReal, {2, 2, 5}}}});
  t.push_back({&kSoftmax, "one class", {{kReal, {3, 1}}}});
  t.push_back({&kSoftmax, "no rows", {{kReal, {0, 4}}}});
  for (const Fill labels : {kLabels, kLabels32}) {
    const std::string kind = labels == kLabels ? "i64 labels" : "i32 labels";
    t.push_back({&kSoftmaxCrossEntropy, kind, {{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}}});
    t.push_back(
        {&kSoftmaxCrossEntropyGrad, kind, {{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}, {kReal, {5}}}});
    t.push_back({&kCorrect, kind, {{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}}});
  }
  t.push_back({&kSoftmaxCrossEntropy, "no samples", {{kReal, {0, 4}}, {kLabels, {0}}, {kWeights, {0}}}});
}

void add_random_and_update(std::vector<OpCase>& t) {
  const Attrs half{{"rate", 0.5}, {"stream", std::int64_t{3}}};
  t.push_back({&kDropout, "images", {{kReal, {4, 2, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {4}}}, half});
  t.push_back({&kDropout,
               "rate zero",
               {{kReal, {4, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {4}}},
               {{"rate", 0.0}, {"stream", std::int64_t{0}}}});
  t.push_back({&kDropout, "no samples", {{kReal, {0, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {0}}}, half});
  t.push_back({&kApplySgd, "plain", {{kReal, {3, 4}}, {kReal, {3, 4}}, {kPositive, {}}}});
  t.push_back({&kApplySgd, "decay", {{kReal, {5}}, {kReal, {5}}, {kPositive, {}}}, one("weight_decay", 0.1)});
  t.push_back(
      {&kApplyMomentum, "plain", {{kReal, {3, 4}}, {kReal, {3, 4}}, {kReal, {3, 4}}, {kPositive, {}}}});
  t.push_back({&kApplyMomentum,
               "nesterov decay",
               {{kReal, {5}}, {kReal, {5}}, {kReal, {5}}, {kPositive, {}}},
               {{"momentum", 0.8}, {"weight_decay", 0.1}, {"nesterov", true}}});
  for (const OpDef* d : {&kAssign, &kAssignAdd}) {
    t.push_back({d, "matrix", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
    t.push_back({d, "integers", {{kInts, {}}, {kInts, {}}}});
    t.push_back({d, "empty", {{kReal, {0}}, {kReal, {0}}}});
  }
}

void add_outside(std::vector<OpCase>& t) {
  const Attrs named{{"name", std::string("x")}, {"dtype", DType::kF64}, {"shape", Ints{2, 3}}};
  t.push_back({&kInput, "matrix", {}, named});
  t.push_back({&kVariable, "matrix", {}, named});
  t.push_back(
      {&kAllreduce, "matrix", {{kReal, {4, 3}}}, {{"slot", std::int64_t{2}}, {"label", std::string("g")}}});
  t.push_back({&kAllgather, "matrix", {{kReal, {4, 3}}}, one("world", std::int64_t{3})});
  t.push_back({&kReduceScatter, "matrix", {{kReal, {6, 3}}}, one("world", std::int64_t{3})});
  t.push_back({&kBroadcast, "matrix", {{kReal, {4, 3}}}});
  t.push_back({&kSend, "matrix", {{kReal, {4, 3}}}, one("peer", std::int64_t{1})});
  t.push_back({&kRecv, "matrix", {}, {{"peer", std::int64_t{1}}, {"shape", Ints{4, 3}}}});
  t.push_back({&kEnqueue, "matrix", {{kReal, {4, 3}}}, one("name", std::string("q"))});
  t.push_back({&kDequeue, "matrix", {}, {{"name", std::string("q")}, {"shape", Ints{4, 3}}}});
  t.push_back({&kSave, "matrix", {{kReal, {4, 3}}}, one("path", std::string("a"))});
  t.push_back({&kRestore, "matrix", {}, {{"path", std::string("a")}, {"shape", Ints{4, 3}}}});
}

DType dtype_of(Fill fill, DType real) {
  switch (fill) {
    case kInts:
    case kLabels:
    case kIds:
      return DType::kI64;
    case kInts32:
    case kLabels32:
      return DType::kI32;
    case kWeights:
      return DType::kF32;
    case kBytes:
      return DType::kU8;
    default:
      return real;
  }
}

double draw(Fill fill, std::int64_t i, Philox& rng) {
  const float u = rng.next_uniform();
  switch (fill) {
    case kReal:
      return u < 0.5F ? -2.0F + 3.9F * u : 0.1F + 3.8F * (u - 0.5F);
    case kPositive:
      return 0.5F + 2 * u;
    case kDistinct:
      return 0.05F * static_cast<float>((i * 37 + 5) % 101) - 2;  // 37 and 101 are coprime
    case kInts:
    case kInts32:
      return static_cast<double>(static_cast<int>(u * 11)) - 5;
    case kLabels:
    case kLabels32:
      return static_cast<int>(u * 4);
    case kWeights:
      return 0.5 * static_cast<double>(i % 4);
    case kIds:
      return static_cast<double>(1000 + 17 * i);
    case kBytes:
      return static_cast<int>(u * 256);
  }
  return 0;
}

template <typename T>
void store(const Tensor& t, std::int64_t i, double v) {
  t.data<T>()[i] = static_cast<T>(v);
}

void store_any(const Tensor& t, std::int64_t i, double v) {
  switch (t.dtype()) {
    case DType::kF32:
      return store<float>(t, i, v);
    case DType::kF64:
      return store<double>(t, i, static_cast<float>(v));
    case DType::kI64:
      return store<std::int64_t>(t, i, v);
    case DType::kI32:
      return store<std::int32_t>(t, i, v);
    default:
      return store<std::uint8_t>(t, i, v);
  }
}
}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> t;
    add_elementwise(t);
    add_reduce(t);
    add_array(t);
    add_linalg(t);
    add_conv(t);
    add_nn(t);
    add_random_and_update(t);
    add_outside(t);
    return t;
  }();
  return cases;
}

std::string case_name(const OpCase& c) {
  std::string name = fmt::format("{}__{}", c.def->name, c.note);
  for (char& ch : name) {
    if (std::isalnum(static_cast<unsigned char>(ch)) == 0) ch = '_';
  }
  return name;
}

std::vector<Tensor> make_inputs(const OpCase& c, DType real) {
  std::vector<Tensor> inputs;
  for (const Input& spec : c.inputs) {
    Philox rng(hash_text(case_name(c)), inputs.size());
    const Tensor t = *Tensor::allocate(cpu_device(), {dtype_of(spec.fill, real), spec.shape});
    for (std::int64_t i = 0; i < spec.shape.num_elems(); ++i) store_any(t, i, draw(spec.fill, i, rng));
    inputs.push_back(t);
  }
  return inputs;
}

Tensor strided_copy(const Tensor& t) {
  // Stored with dimensions reversed and one more of each size; the view takes the part from index 1 and turns
  // it back.
  const int rank = t.shape().rank();
  std::vector<std::int64_t> dims;
  std::vector<int> back;
  for (int d = rank - 1; d >= 0; --d) {
    dims.push_back(t.shape()[d] + 1);
    back.push_back(d);
  }
  Tensor view = *Tensor::allocate(cpu_device(), {t.dtype(), Shape(dims)});
  for (int d = 0; d < rank; ++d) view = view.slice(d, 1, view.shape()[d]);
  view = view.transpose(back);
  const std::size_t size = dtype_size(t.dtype());
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += rest % t.shape()[d] * view.strides()[static_cast<std::size_t>(d)];
      rest /= t.shape()[d];
    }
    std::copy_n(t.raw() + static_cast<std::size_t>(i) * size, size,
                view.raw() + static_cast<std::size_t>(at) * size);
  }
  return view;
}

std::vector<double> to_doubles(const Tensor& t) {
  const Tensor c = *Tensor::allocate(cpu_device(), t.type());
  copy_to_contiguous(t, c);
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) {
    switch (t.dtype()) {
      case DType::kF32:
        out.push_back(c.data<float>()[i]);
        break;
      case DType::kF64:
        out.push_back(c.data<double>()[i]);
        break;
      case DType::kI64:
        out.push_back(static_cast<double>(c.data<std::int64_t>()[i]));
        break;
      case DType::kI32:
        out.push_back(c.data<std::int32_t>()[i]);
        break;
      default:
        out.push_back(std::to_integer<int>(c.raw()[i]));
        break;
    }
  }
  return out;
}

Tensor random_real(const TensorType& type, std::uint64_t key) {
  Philox rng(key);
  const Tensor t = *Tensor::allocate(cpu_device(), type);
  for (std::int64_t i = 0; i < type.shape.num_elems(); ++i) store_any(t, i, draw(kReal, i, rng));
  return t;
}

}  // namespace trireme::op::testing
