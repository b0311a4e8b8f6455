// A tensor whose elements are written in the graph: what constant folding leaves behind.
#include <cstring>

#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

Types infer(TypeSpan, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  const TensorType type{attrs.get_dtype("dtype"), shape};
  const std::string& data = attrs.get_text("data");
  // Compared in elements: the bytes of a huge shape may not fit 64 bits.
  const std::size_t size = dtype_size(type.dtype);
  if (data.size() % (2 * size) != 0 ||
      static_cast<std::int64_t>(data.size() / (2 * size)) != shape.num_elems()) {
    return error(Code::kInvalid, "attribute 'data': got {} digits for {}, expected two per byte", data.size(),
                 type.to_string());
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (digit(data[i]) < 0) {
      return error(Code::kInvalid, "attribute 'data': got byte {} at {}, expected a digit 0-9 or a-f",
                   static_cast<int>(static_cast<unsigned char>(data[i])), i);
    }
    // A bool that is neither 0 nor 1 is undefined behaviour in every kernel that reads it.
    if (type.dtype == DType::kBool && data[i] != (i % 2 == 0 ? '0' : data[i] == '1' ? '1' : '0')) {
      return error(Code::kInvalid, "attribute 'data': got a bool that is not 00 or 01 at {}", i);
    }
  }
  return std::vector{type};
}

Result<Grads> grad(GradBuilder&) { return Grads{}; }

void run(KernelArgs& a) {
  const std::string& data = a.attrs.get_text("data");
  std::byte* to = a.out(0).raw();
  for (std::size_t i = 0; i < data.size(); i += 2) {
    to[i / 2] = static_cast<std::byte>(digit(data[i]) * 16 + digit(data[i + 1]));
  }
}
}  // namespace

const OpDef kConstant{
    .name = "constant",
    .doc = "A tensor whose elements are an attribute.",
    .family = "array",
    .num_inputs = 0,
    .attrs = {{"data", std::string(), "row-major little-endian bytes, two digits 0-9a-f each", true},
              {"dtype", DType::kF32, "dtype of the result"},
              {"shape", std::vector<std::int64_t>{}, "shape of the result", true}},
    .dtypes = 0,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    // A piece has other bytes.
    .layout = no_layout};

}  // namespace trireme::op
