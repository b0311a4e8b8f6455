#include "trireme/tensor/dtype.h"

#include <array>

namespace trireme {
namespace {
struct Row {
  std::string_view name;
  std::size_t size_bytes;
  bool floating;
};
// Indexed by the value of DType.
constexpr std::array<Row, 8> kRows{{{"f32", 4, true},
                                    {"f64", 8, true},
                                    {"bf16", 2, true},
                                    {"f16", 2, true},
                                    {"i64", 8, false},
                                    {"i32", 4, false},
                                    {"u8", 1, false},
                                    {"bool", 1, false}}};

const Row& row(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  TR_CHECK(i < kRows.size(), "dtype {}", i);
  return kRows[i];
}
}  // namespace

std::size_t dtype_size(DType dtype) { return row(dtype).size_bytes; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
bool is_floating(DType dtype) { return row(dtype).floating; }

Result<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return error(Code::kInvalid,
               "[tensor] unknown dtype: got '{}', expected one of f32, f64, bf16, f16, i64, i32, u8, bool",
               name);
}

}  // namespace trireme
