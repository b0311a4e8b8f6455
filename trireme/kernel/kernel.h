// Fast kernels per device. Rows live in kernel/<device>/table.cc; kernel/<device>/<op>.cc holds one op's
// kernels.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "trireme/op/op.h"

namespace trireme::kernel {

// All rows for the CPU, fastest first for each op.
std::span<const op::KernelRow> cpu_kernels();

// Whether the row is one of the query's op, takes the forms of its operands and applies.
bool applies(const op::KernelRow& row, const op::KernelQuery& query);

// A kernel for the query: the row named `wanted` (empty: the first applicable; "reference": the OpDef's own).
// kNotFound when `wanted` does not exist here or does not apply: a plan made elsewhere cannot run the same
// bits here.
struct KernelChoice {
  const op::KernelRow* row = nullptr;  // null: the reference kernel
  std::string name() const { return row ? row->name : "reference"; }
};
Result<KernelChoice> choose_cpu_kernel(const op::KernelQuery& query, std::string_view wanted = "");

// What the kernels were built with, for plans and `version`: e.g. "blas=OpenBLAS 0.3.21 onednn=3.2.0
// isa=avx512".
std::string cpu_kernel_library();

}  // namespace trireme::kernel
