// What the texts of reductions, norms, softmax, losses and updates share: how element types and constants get
// into a text, packs of elements, and rows that a warp or a block shares.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

struct Constant {
  const char* name;
  std::int64_t value;
};
// `parts` in order behind `using T = ...` (bool: u8), `using A = acc_t<T>` and the constants.
std::string typed_text(DType dtype, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts);
// The same for floating operands of several types: T is the first, the others have their names, A is double
// where one of them is, else float.
struct TypeName {
  const char* name;
  DType dtype;
};
std::string typed_text(std::initializer_list<TypeName> types, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts);

// The widest pack, in elements and at most 16 bytes, that divides n: a power of two.
int pack_width(DType dtype, std::int64_t n);
int pack_width(std::size_t element_bytes, std::int64_t n);

extern const char kPackText[];  // packs.cu; wants T, A and kPack

// How a row of n elements is shared: by a warp (threads 32, several rows per block) or by a block.
struct RowPlan {
  int pack = 1;
  int threads = 32;        // per row
  int keep = 1;            // packs of a row that a thread holds in registers
  bool kept = true;        // all of them
  bool in_shared = false;  // else the first pass over the row leaves it in shared memory
  std::size_t shared_bytes = 0;
  int block() const { return threads == 32 ? kWarps * 32 : threads; }
  unsigned blocks(std::int64_t rows) const;
  static constexpr int kWarps = 4;
};
// For rows of `dtype`; `widest_bytes`: of an element of the widest operand of that size. `again`: there are
// several passes, so that rows too long for registers are worth shared memory.
RowPlan plan_row(DType dtype, std::size_t widest_bytes, std::int64_t n, bool again);
std::string row_constants(const RowPlan& plan);  // kThreads, kKeep, kKept, kInShared
extern const char kRowText[];                    // rows.cu; wants kPackText and row_constants

}  // namespace trireme::kernel::cuda
