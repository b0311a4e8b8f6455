// Inverse and determinant of small square matrices: a block has one matrix and eliminates as the reference
// does, with partial pivoting.
#include <algorithm>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kEliminateText[];  // linalg.cu

namespace {

Made make_elimination(const CudaQuery& q, bool inverse) {
  constexpr std::int64_t kLargest = 16384;  // rows; element numbers stay below 2^31
  constexpr std::size_t kShared = std::size_t{96} << 10;
  const TensorType& x = q.inputs[0];
  const std::int64_t n = x.shape.dim(-1);
  std::int64_t count = 1;
  for (int d = 0; d + 2 < x.shape.rank(); ++d) count *= x.shape[d];
  if (n > kLargest) {
    return error(Code::kInvalid, "[kernel] {}: got matrices of {} rows, expected at most {} on a GPU",
                 q.def.name, n, kLargest);
  }
  const std::string head =
      fmt::format("typedef {} T; constexpr bool kInverse = {};\n", cuda_type(x.dtype), inverse);
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(head + kEliminateText, "eliminate"));
  const std::size_t size = x.dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  const std::size_t bytes = static_cast<std::size_t>(n * n * (inverse ? 2 : 1)) * size;
  const bool in_shared = bytes <= kShared;
  const unsigned blocks = blocks_for(count, 1, 1, in_shared ? 1U << 20 : 264);
  const unsigned threads = n <= 8 ? 32 : n <= 32 ? 128 : n <= 96 ? 512 : 1024;
  const auto enqueue = [=](const CudaArgs& a) -> Status {
    if (count == 0 || (inverse && n == 0)) return ok_status();
    return launch(a.stream, *f, {blocks}, {threads}, in_shared ? bytes : 0, a.in(0).raw(), a.out(0).raw(),
                  a.workspace, count, static_cast<int>(n), in_shared ? 1 : 0);
  };
  return make_kernel(enqueue, in_shared ? 0 : bytes * blocks);
}

}  // namespace

Made make_inverse(const CudaQuery& q) { return make_elimination(q, true); }
Made make_determinant(const CudaQuery& q) { return make_elimination(q, false); }

}  // namespace trireme::kernel::cuda
