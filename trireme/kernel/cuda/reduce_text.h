// What the texts of reductions, norms, softmax, losses and updates share: how element types and constants get
// into a text, packs of elements, and rows that a warp or a block shares.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trireme/kernel/cuda/device.h"

namespace trireme::kernel::cuda {

struct Constant {
  const char* name;
  std::int64_t value;
};
// `parts` in order behind `using T = ...` (bool: u8), `using A = acc_t<T>` and the constants.
std::string typed_text(DType dtype, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts);

// The widest pack, in elements and at most 16 bytes, that divides n: a power of two.
int pack_width(DType dtype, std::int64_t n);

// load_pack, store_pack (kPack elements; element by element where the memory is not aligned), exp_of, log_of,
// root_of for float and double. Wants kPack.
std::string_view pack_text();

// How a row of n elements is shared: by a warp (threads 32, several rows per block) or by a block.
struct RowPlan {
  int pack = 1;
  int threads = 32;  // per row
  int keep = 1;      // packs of a row that a thread holds in registers
  bool kept = true;  // all of them; else every pass over the row reads it
  int block() const { return threads == 32 ? kWarps * 32 : threads; }
  unsigned blocks(std::int64_t rows) const;
  static constexpr int kWarps = 4;
};
RowPlan plan_row(DType dtype, std::int64_t n);
// struct Row with each(f), each_placed(f), row_index(), row_lane(), row_sum, row_max. Wants kPack, kThreads,
// kKeep, kKept.
std::string_view row_text();

}  // namespace trireme::kernel::cuda
