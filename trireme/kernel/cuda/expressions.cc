#include "trireme/kernel/cuda/expressions.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/op/detail/convert.h"

namespace trireme::kernel::cuda {
namespace {

using op::detail::convert;

bool is_half(DType d) { return d == DType::kBF16 || d == DType::kF16; }

// Attributes are constants of their names: numbers of type A, or true and false.
struct Row {
  std::string_view op;
  const char* body;
  bool in_dtype = false;  // attributes are rounded to the operand's dtype first
};

// Products go through times() and sums of integers through wrap(): see expressions.cu.
constexpr Row kRows[] = {
    {"abs", "return magnitude(a);"},
    {"add", "return (A)(wrap(a) + wrap(b));"},
    {"bias_add", "return (A)(wrap(a) + wrap(b));"},
    {"ceil", "return ceil(a);"},
    {"clip",
     "const A v = a < low ? low : a;\n"
     "  return v > high ? high : v;",
     true},
    {"cos", "return cos(a);"},
    {"div", "return a / b;"},
    {"elu", "return a > 0 ? a : times(alpha, expm1(a));"},
    {"equal", "return a == b;"},
    {"erf", "return erf(a);"},
    {"exp", "return exp(a);"},
    {"expm1", "return expm1(a);"},
    {"floor", "return floor(a);"},
    {"gelu",
     "if (tanh) return times(a, logistic_of((A)1.59576912160573071176 * a * (1 + (A)0.044715 * (a * a))));\n"
     "  return times(times((A)0.5, a), 1 + erf(times((A)0.70710678118654752440, a)));"},
    {"gelu_grad",
     "const A square = b * b;\n"
     "  if (tanh) {\n"
     "    const A share = logistic_of((A)1.59576912160573071176 * b * (1 + (A)0.044715 * square));\n"
     "    const A slope = (A)1.59576912160573071176 * (1 + (A)0.134145 * square);\n"
     "    return times(a, share * (1 + b * (1 - share) * slope));\n"
     "  }\n"
     "  const A area = (A)0.5 * (1 + erf((A)0.70710678118654752440 * b));\n"
     "  return times(a, area + b * exp((A)-0.5 * square) * (A)0.39894228040143267794);"},
    {"greater", "return a > b;"},
    {"greater_equal", "return a >= b;"},
    {"is_finite", "return a - a == 0;"},
    {"is_nan", "return a != a;"},
    {"leaky_relu", "return a > 0 ? a : times(slope, a);"},
    {"less", "return a < b;"},
    {"less_equal", "return a <= b;"},
    {"log", "return log(a);"},
    {"log1p", "return log1p(a);"},
    {"logical_and", "return a && b;"},
    {"logical_not", "return !a;"},
    {"logical_or", "return a || b;"},
    {"maximum", "return a > b || a != a ? a : b;"},
    {"minimum", "return a < b || a != a ? a : b;"},
    {"mul", "return times(a, b);"},
    {"neg", "return (A)(-wrap(a));"},
    {"not_equal", "return a != b;"},
    {"pow", "return pow(a, b);"},
    {"reciprocal", "return 1 / a;"},
    {"relu", "return a < 0 ? (A)0 : a;"},
    {"relu_grad", "return b > 0 ? a : (A)0;"},
    {"round", "return rint(a);"},
    {"rsqrt", "return 1 / sqrt(a);"},
    {"scale", "return times(factor, a);", true},
    {"select", "return a ? b : c;"},
    {"sigmoid", "return 1 / (1 + exp(-a));"},
    {"sign", "return a > 0 ? (A)1 : a < 0 ? (A)-1 : a;"},
    {"silu", "return a / (1 + exp(-a));"},
    {"sin", "return sin(a);"},
    {"softplus", "return log1p(exp(-magnitude(a))) + (a < 0 ? (A)0 : a);"},
    {"sqrt", "return sqrt(a);"},
    {"square", "return times(a, a);"},
    {"squared_difference", "const A d = (A)(wrap(a) - wrap(b));\n  return times(d, d);"},
    {"sub", "return (A)(wrap(a) - wrap(b));"},
    {"tanh", "return tanh(a);"},
};

// Bits rather than digits: exact, and infinities need no name.
std::string float_bits(float v) {
  return fmt::format("__int_as_float({:#x})", std::bit_cast<std::uint32_t>(v));
}
std::string double_bits(double v) {
  return fmt::format("__longlong_as_double({:#x}ll)", std::bit_cast<std::uint64_t>(v));
}

// The declaration of an attribute.
std::string attribute(const Row& row, const std::string& name, const op::AttrValue& value, DType dtype) {
  if (const bool* b = std::get_if<bool>(&value)) return fmt::format("const bool {} = {};\n  ", name, *b);
  const double* const number = std::get_if<double>(&value);
  if (number == nullptr) return {};
  const double v = *number;
  if (!row.in_dtype) return fmt::format("const A {} = (A){};\n  ", name, double_bits(v));
  // scale rounds its factor by way of f32, clip its bounds once.
  const bool twice = row.op == "scale" && is_half(dtype);
  return fmt::format("const A {} = {};\n  ", name,
                     literal(dtype, twice ? static_cast<double>(static_cast<float>(v)) : v));
}

}  // namespace

Scalar scalar_of(DType dtype) {
  const std::string name = cuda_type(dtype);
  const int size = static_cast<int>(dtype_size(dtype));
  return is_half(dtype) ? Scalar{name, "float", size, true} : Scalar{name, name, size, false};
}

Scalar word_of(DType dtype) {
  const int size = static_cast<int>(dtype_size(dtype));
  const char* name = size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64";
  return {name, name, size, false};
}

std::string literal(DType dtype, double value) {
  switch (dtype) {
    case DType::kBool:
      return convert<bool>(value) ? "true" : "false";
    case DType::kU8:
      return fmt::format("(u8){}", +convert<std::uint8_t>(value));
    case DType::kI32:
      return fmt::format("(i32){:#x}u", static_cast<std::uint32_t>(convert<std::int32_t>(value)));
    case DType::kI64:
      return fmt::format("(i64){:#x}ull", static_cast<std::uint64_t>(convert<std::int64_t>(value)));
    case DType::kF64:
      return double_bits(value);
    case DType::kF32:
      return float_bits(static_cast<float>(value));
    case DType::kBF16:
      return float_bits(convert<BFloat16>(value));
    default:
      return float_bits(convert<Float16>(value));
  }
}

std::string cast_expression(DType from, DType to) {
  if (to == DType::kBool) return "return a != 0;";
  const bool wide = from == DType::kF64 || !is_floating(from);
  if (is_half(to)) return wide ? "return to_odd((double)a);" : "return a;";
  if (!is_floating(from) || is_floating(to)) return "return (R)a;";
  const double inf = std::numeric_limits<double>::infinity();
  return fmt::format(
      "const R most = {}, least = {};\n"
      "  return a != a ? (R)0 : a >= (A)most ? most : a <= (A)least ? least : (R)a;",
      literal(to, inf), literal(to, -inf));
}

Result<std::string> expression(const op::OpDef& def, const op::Attrs& attrs, std::span<const DType> operands,
                               DType result) {
  if (def.name == "cast") return cast_expression(operands[0], result);
  for (const Row& row : kRows) {
    if (row.op != def.name) continue;
    std::string body;
    for (const auto& [name, value] : attrs.items()) body += attribute(row, name, value, operands[0]);
    return body + row.body;
  }
  return error(Code::kNotFound, "[kernel] op {} has no CUDA expression", def.name);
}

}  // namespace trireme::kernel::cuda
