// Rows added up by their indices: scatter_add and embedding_grad.
//
// The same bits always: positions with one id form a run, sorted by position, and a run is added up in order,
// CHUNK positions at a time, then the sums of chunks in order. Runs of at most CHUNK positions have the order
// of the reference; longer ones are spread over warps. Steps:
//   count  positions per id (integer atomics), each position takes a slot of its run in any order
//   place  the first of every run reserves its place in the list; runs lie in any order
//   list   positions into their slots
//   rank   the slot becomes the number of smaller positions in the run
//   add    one warp per chunk and stretch of columns
//   join   one warp per run of several chunks
// Rows that no id names are cleared before.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/array.h"
#include "trireme/op/array/array.h"

namespace trireme::kernel::cuda {

extern const char kSortIdsText[], kAddRowsText[];  // embedding_grad.cu

namespace {

using op::detail::idx;

constexpr std::int64_t kChunk = 32;  // one position per lane
constexpr unsigned kMostBlocks = 0x7fffffff;

struct Scatter {
  std::int64_t outer = 1, count = 0, rows = 0, inner = 1;
  DType dtype = DType::kF32, result = DType::kF32, id = DType::kI64;
};

struct AddPair {
  const Function *add, *join;
  unsigned tiles;
};

std::string ids_text(const Scatter& s) {
  return fmt::format("typedef {} Id;\nconstexpr i64 ROWS = {};\n", cuda_type(s.id), s.rows);
}

Result<AddPair> make_adders(CudaDevice& device, const Scatter& s, std::int64_t vector) {
  const Scalar scalar = scalar_of(s.dtype);
  const std::int64_t width = s.inner / vector, columns = s.outer * width;
  const std::string text = fmt::format(
      "{}{}typedef {} T;\ntypedef {} Y;\ntypedef {} A;\ntypedef {} Raw;\nconstexpr int V = {};\n"
      "constexpr u32 WIDTH = {}, COUNT = {}, COLUMNS = {};\n{}",
      kExpressionText, ids_text(s), scalar.memory, cuda_type(s.result), scalar.compute,
      vector > 1 ? "Pack<u32, 4>" : word_of(s.dtype).memory, vector, width, s.count, columns, kAddRowsText);
  AddPair out{nullptr, nullptr, static_cast<unsigned>((columns + 31) / 32)};
  TR_ASSIGN_OR_RETURN(out.add, device.function(text, "add"));
  TR_ASSIGN_OR_RETURN(out.join, device.function(text, "join"));
  return out;
}

class ScatterAdd final : public CudaKernel {
 public:
  static Made make(CudaDevice& device, const Scatter& s) {
    auto kernel = std::make_unique<ScatterAdd>();
    kernel->s_ = s;
    const std::string text = ids_text(s) + kSortIdsText;
    TR_ASSIGN_OR_RETURN(kernel->count_, device.function(text, "count"));
    TR_ASSIGN_OR_RETURN(kernel->place_, device.function(text, "place"));
    TR_ASSIGN_OR_RETURN(kernel->list_, device.function(text, "list"));
    TR_ASSIGN_OR_RETURN(kernel->rank_, device.function(text, "rank"));
    const std::int64_t vector = 16 / static_cast<std::int64_t>(dtype_size(s.dtype));
    const bool whole = s.inner % vector == 0;
    TR_ASSIGN_OR_RETURN(kernel->slow_, make_adders(device, s, 1));
    TR_ASSIGN_OR_RETURN(kernel->fast_, make_adders(device, s, whole ? vector : 1));
    // A vector of results may be the longer one.
    kernel->alignment_ = whole ? std::max<std::size_t>(16, idx(vector) * dtype_size(s.result)) : 1;
    return std::unique_ptr<CudaKernel>(std::move(kernel));
  }

  std::size_t workspace_bytes() const override { return parts_at() + parts_bytes(); }

  Status enqueue(const CudaArgs& a) const override {
    CudaStream& stream = a.stream;
    TR_RETURN_IF_ERROR(clear_memory(stream, a.out(0).raw(), a.out(0).type().num_bytes()));
    auto* counts = reinterpret_cast<std::uint32_t*>(a.workspace);
    std::uint32_t *cursor = counts + s_.rows, *starts = cursor + 1, *slots = starts + s_.rows;
    std::uint32_t *listed = slots + s_.count, *sorted = listed + s_.count;
    TR_RETURN_IF_ERROR(clear_memory(stream, a.workspace, (idx(s_.rows) + 1) * sizeof(std::uint32_t)));
    const Dim each{blocks_for(s_.count, 256, 1, kMostBlocks)};
    const auto n = static_cast<std::uint32_t>(s_.count);
    std::byte* ids = a.in(1).raw();
    TR_RETURN_IF_ERROR(launch(stream, *count_, each, {256}, 0, ids, counts, slots, n));
    TR_RETURN_IF_ERROR(launch(stream, *place_, each, {256}, 0, ids, counts, slots, starts, cursor, n));
    TR_RETURN_IF_ERROR(launch(stream, *list_, each, {256}, 0, ids, starts, slots, listed, n));
    TR_RETURN_IF_ERROR(launch(stream, *rank_, each, {256}, 0, ids, counts, starts, listed, sorted, n));
    std::byte *parts = a.workspace + parts_at(), *updates = a.in(0).raw(), *y = a.out(0).raw();
    const auto addresses = reinterpret_cast<std::uintptr_t>(updates) | reinterpret_cast<std::uintptr_t>(y);
    const AddPair& pair = addresses % alignment_ == 0 ? fast_ : slow_;
    TR_RETURN_IF_ERROR(launch(stream, *pair.add, {blocks_for(s_.count, 8, 1, kMostBlocks) * pair.tiles},
                              {256}, 0, updates, ids, counts, starts, sorted, cursor, parts, y));
    if (s_.count <= kChunk) return ok_status();
    return launch(stream, *pair.join, {blocks_for(chunks(), 8) * pair.tiles}, {256}, 0, ids, counts, starts,
                  sorted, cursor, parts, y);
  }

 private:
  std::int64_t chunks() const { return (s_.count + kChunk - 1) / kChunk; }
  std::size_t parts_at() const {
    const std::size_t words = 2 * idx(s_.rows) + 1 + 3 * idx(s_.count);
    return (words * sizeof(std::uint32_t) + 255) / 256 * 256;
  }
  std::size_t parts_bytes() const {
    if (s_.count <= kChunk) return 0;
    const std::size_t wide = std::max<std::size_t>(dtype_size(s_.dtype), is_floating(s_.dtype) ? 4 : 1);
    return 2 * idx(chunks()) * idx(s_.outer * s_.inner) * wide;
  }

  Scatter s_;
  const Function *count_ = nullptr, *place_ = nullptr, *list_ = nullptr, *rank_ = nullptr;
  AddPair fast_{}, slow_{};
  std::uintptr_t alignment_ = 1;
};

Made make_scatter(const CudaQuery& q, int axis) {
  const TensorType& y = q.outputs[0];
  const std::size_t bytes = y.num_bytes();
  if (bytes == 0) return make_nothing();
  Scatter s{.count = q.inputs[1].shape.num_elems(), .rows = y.shape[axis]};
  s.dtype = q.inputs[0].dtype;
  s.result = y.dtype;
  s.id = q.inputs[1].dtype;
  for (int d = 0; d < y.shape.rank(); ++d)
    if (d != axis) (d < axis ? s.outer : s.inner) *= y.shape[d];
  if (s.count == 0)
    return make_kernel(
        [bytes](const CudaArgs& a) -> Status { return clear_memory(a.stream, a.out(0).raw(), bytes); });
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (s.count >= kMost || s.rows >= kMost || s.outer * s.inner >= kMost)
    return error(Code::kInvalid,
                 "[kernel] op {} on the GPU: got {} indices of {} rows, expected fewer than 2^31", q.def.name,
                 s.count, s.rows);
  return ScatterAdd::make(q.device, s);
}

}  // namespace

Made make_embedding_grad(const CudaQuery& q) { return make_scatter(q, 0); }

Made make_scatter_add(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis,
                      op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.outputs[0]));
  return make_scatter(q, axis);
}

}  // namespace trireme::kernel::cuda
