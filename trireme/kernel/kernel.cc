#include "trireme/kernel/kernel.h"

#include <fmt/format.h>

#include "trireme/kernel/cpu/library.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/op/forms.h"

namespace trireme::kernel {
namespace {

// "blas, reference": what `wanted` could have been.
std::string names_for(const op::KernelQuery& query) {
  std::string names;
  for (const op::KernelRow& row : cpu_kernels())
    if (applies(row, query)) names += fmt::format("{}, ", row.name);
  return names + (query.def.reference != nullptr ? "reference" : "no reference");
}

}  // namespace

bool applies(const op::KernelRow& row, const op::KernelQuery& query) {
  const std::string_view op = row.op;
  if (op != query.def.name && op != op::kAnyOp) return false;
  const bool takes = row.takes == nullptr ? query.forms.is_plain() : row.takes(query.forms);
  return takes && (row.applicable == nullptr || row.applicable(query));
}

Result<KernelChoice> choose_cpu_kernel(const op::KernelQuery& query, std::string_view wanted) {
  if (wanted != "reference") {
    for (const op::KernelRow& row : cpu_kernels())
      if ((wanted.empty() || wanted == row.name) && applies(row, query)) return KernelChoice{&row};
  }
  if ((wanted.empty() || wanted == "reference") && query.def.reference != nullptr) return KernelChoice{};
  if (wanted.empty())
    return error(
        Code::kNotFound,
        "[kernel] no CPU kernel of op {}: got none that applies, expected a reference; give the op one",
        op::formed_name(query.def, query.forms));
  return error(
      Code::kNotFound,
      "[kernel] CPU kernel of op {}: got \"{}\", expected one of {}; plan on a machine with the same kernels",
      op::formed_name(query.def, query.forms), wanted, names_for(query));
}

std::string cpu_kernel_library() { return fmt::format("{} isa={}", gemm_library(), vector_loops().isa); }

}  // namespace trireme::kernel
