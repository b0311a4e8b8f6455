#include "trireme/kernel/cuda/norm/reduce_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::kernel::cuda {

namespace {

std::string joined(std::string text, std::initializer_list<Constant> constants,
                   std::initializer_list<std::string_view> parts) {
  for (const Constant& c : constants) text += fmt::format("constexpr int {} = {};\n", c.name, c.value);
  for (const std::string_view part : parts) text += part;
  return text;
}

}  // namespace

std::string typed_text(DType dtype, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts) {
  const std::string head = fmt::format("using T = {};\nusing A = acc_t<T>;\n",
                                       dtype == DType::kBool ? cuda_type(DType::kU8) : cuda_type(dtype));
  return joined(head, constants, parts);
}

std::string typed_text(std::initializer_list<TypeName> types, std::initializer_list<Constant> constants,
                       std::initializer_list<std::string_view> parts) {
  std::string head = fmt::format("using T = {};\n", cuda_type(types.begin()->dtype));
  bool wide = false;
  for (const TypeName& t : types) {
    head += fmt::format("using {} = {};\n", t.name, cuda_type(t.dtype));
    wide = wide || t.dtype == DType::kF64;
  }
  head += wide ? "using A = double;\n" : "using A = float;\n";
  return joined(head, constants, parts);
}

int pack_width(std::size_t element_bytes, std::int64_t n) {
  auto width = static_cast<std::int64_t>(16 / element_bytes);
  while (n % width != 0) width /= 2;
  return static_cast<int>(width);
}
int pack_width(DType dtype, std::int64_t n) { return pack_width(dtype_size(dtype), n); }

unsigned RowPlan::blocks(std::int64_t rows) const {
  return blocks_for(rows, threads == 32 ? kWarps : 1, 1, 0x7fffffff);
}

RowPlan plan_row(DType dtype, std::size_t widest_bytes, std::int64_t n, bool again) {
  constexpr std::int64_t kMostShared = 208 * 1024;  // of 227 KiB that a block can have
  RowPlan plan;
  plan.pack = pack_width(widest_bytes, n);
  const std::int64_t packs = n / plan.pack, bytes = n * static_cast<std::int64_t>(dtype_size(dtype));
  const int most = std::min(8, 32 / plan.pack);  // packs of a thread, while more threads can be had
  while (plan.threads < 512 && packs > most * plan.threads) plan.threads *= 2;
  const std::int64_t keep = (packs + plan.threads - 1) / plan.threads;
  plan.kept = keep <= 8;
  plan.keep = plan.kept ? static_cast<int>(std::max<std::int64_t>(keep, 1)) : 1;
  plan.in_shared = !plan.kept && again && bytes <= kMostShared;
  if (plan.in_shared) {
    plan.shared_bytes = static_cast<std::size_t>(bytes);
    if (bytes > kMostShared / 2) plan.threads = 1024;  // one block per multiprocessor
  }
  return plan;
}

std::string row_constants(const RowPlan& plan) {
  return fmt::format("constexpr int kThreads = {}, kKeep = {};\nconstexpr bool kKept = {}, kInShared = {};\n",
                     plan.threads, plan.keep, plan.kept, plan.in_shared);
}

}  // namespace trireme::kernel::cuda
