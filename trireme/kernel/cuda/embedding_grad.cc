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
namespace {

using op::detail::idx;

constexpr std::int64_t kChunk = 32;  // one position per lane
constexpr unsigned kMostBlocks = 0x7fffffff;

constexpr const char* kSortText = R"cuda(
typedef $id Id;
constexpr i64 ROWS = $rows;
inline bool named(i64 id) { return id >= 0 && id < ROWS; }

extern "C" __global__ void __launch_bounds__(256) count(const Id* ids, u32* counts, u32* slots, u32 n) {
  const u32 j = first_index();
  if (j < n && named(ids[j])) slots[j] = atomicAdd(&counts[ids[j]], 1u);
}

extern "C" __global__ void __launch_bounds__(256) place(const Id* ids, const u32* counts, const u32* slots,
                                                        u32* starts, u32* cursor, u32 n) {
  const u32 j = first_index();
  const int lane = threadIdx.x % 32;
  const bool leads = j < n && named(ids[j]) && slots[j] == 0;
  const u32 size = leads ? counts[ids[j]] : 0;
  u32 sum = size;
  for (int d = 1; d < 32; d *= 2) {
    const u32 before = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += before;
  }
  u32 base = 0;
  if (lane == 31 && sum > 0) base = atomicAdd(cursor, sum);
  base = __shfl_sync(0xffffffffu, base, 31);
  if (leads) starts[ids[j]] = base + sum - size;
}

extern "C" __global__ void __launch_bounds__(256) list(const Id* ids, const u32* starts, const u32* slots,
                                                       u32* listed, u32 n) {
  const u32 j = first_index();
  if (j < n && named(ids[j])) listed[starts[ids[j]] + slots[j]] = j;
}

extern "C" __global__ void __launch_bounds__(256) rank(const Id* ids, const u32* counts, const u32* starts,
                                                       const u32* listed, u32* sorted, u32 n) {
  const u32 j = first_index();
  if (j >= n || !named(ids[j])) return;
  const u32* run = listed + starts[ids[j]];
  const u32 size = counts[ids[j]];
  u32 smaller = 0;
#pragma unroll 8
  for (u32 e = 0; e < size; ++e) smaller += run[e] < j;
  sorted[starts[ids[j]] + smaller] = j;
}
)cuda";

// updates [OUTER, COUNT, WIDTH vectors], y [OUTER, ROWS, WIDTH vectors]. A column is one vector of one outer
// index.
constexpr const char* kAddText = R"cuda(
typedef $id Id;
typedef $memory T;
typedef $result Y;
typedef $compute A;
constexpr int V = $vector;
constexpr u32 CHUNK = 32, WIDTH = $width, COUNT = $count, COLUMNS = $columns;
constexpr u32 TILES = (COLUMNS + 31) / 32;
constexpr i64 ROWS = $rows;
typedef $raw Raw;  // a vector as it comes from memory: taken apart only when it is added
struct alignas(sizeof(A) * V > 16 ? 16 : sizeof(A) * V) Sums { A v[V]; };
inline A plus(A a, A b) { return (A)(wrap(a) + wrap(b)); }
inline void finish(Y* y, const Sums& sums, i64 id, u32 column) {
  Pack<Y, V> out;
#pragma unroll
  for (int k = 0; k < V; ++k) out.v[k] = store_acc<Y>(sums.v[k]);
  ((Pack<Y, V>*)y)[((i64)(column / WIDTH) * ROWS + id) * WIDTH + column % WIDTH] = out;
}
// Sums of chunks: a stretch of CHUNK slots holds the starts of at most two chunks of runs that have several, the
// first chunk of one run and a later one of another.
inline Sums* part(Sums* parts, u32 slot, bool is_first, u32 column) {
  return parts + ((u64)(slot / CHUNK) * 2 + is_first) * COLUMNS + column;
}

// A lane has a column, and one of the chunk's positions for the others; 8 rows are on their way at a time.
extern "C" __global__ void __launch_bounds__(256) add(const T* updates, const Id* ids, const u32* counts,
                                                      const u32* starts, const u32* sorted, const u32* cursor,
                                                      Sums* parts, Y* y) {
  const u32 tile = blockIdx.x % TILES, slot = blockIdx.x / TILES * 8 + threadIdx.x / 32;
  const u32 lane = threadIdx.x % 32, column = tile * 32 + lane;
  if (slot >= *cursor) return;
  const i64 id = ids[sorted[slot]];
  const u32 at = slot - starts[id], size = counts[id];
  if (at % CHUNK != 0) return;
  const u32 most = size - at < CHUNK ? size - at : CHUNK;
  const u32 position = lane < most ? sorted[slot + lane] : 0;
  const u32 near = column < COLUMNS ? column : COLUMNS - 1;
  const Raw* from = (const Raw*)updates + (i64)(near / WIDTH) * COUNT * WIDTH + near % WIDTH;
  Sums sums = {};
  for (u32 e = 0; e < most; e += 8) {
    Raw x[8] = {};
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const u32 row = __shfl_sync(0xffffffffu, position, e + t);
      if (e + t < most) x[t] = from[(i64)row * WIDTH];
    }
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      if (e + t >= most) break;
      const Pack<T, V> v = *(const Pack<T, V>*)&x[t];
#pragma unroll
      for (int k = 0; k < V; ++k) sums.v[k] = plus(sums.v[k], load_acc(v.v[k]));
    }
  }
  if (column >= COLUMNS) return;
  if (size <= CHUNK) finish(y, sums, id, column);
  else *part(parts, slot, at == 0, column) = sums;
}

// Every run of several chunks has a slot that is a multiple of CHUNK; the first one stands for it.
extern "C" __global__ void __launch_bounds__(256) join(const Id* ids, const u32* counts, const u32* starts,
                                                       const u32* sorted, const u32* cursor, Sums* parts, Y* y) {
  const u32 tile = blockIdx.x % TILES, slot = (blockIdx.x / TILES * 8 + threadIdx.x / 32) * CHUNK;
  const u32 column = tile * 32 + threadIdx.x % 32;
  if (slot >= *cursor || column >= COLUMNS) return;
  const i64 id = ids[sorted[slot]];
  const u32 start = starts[id], size = counts[id];
  if (size <= CHUNK || slot - start >= CHUNK) return;
  Sums sums = *part(parts, start, true, column);
  for (u32 at = CHUNK; at < size; at += 4 * CHUNK) {
    Sums more[4];
#pragma unroll
    for (int t = 0; t < 4; ++t)
      if (at + t * CHUNK < size) more[t] = *part(parts, start + at + t * CHUNK, false, column);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      if (at + t * CHUNK >= size) break;
#pragma unroll
      for (int k = 0; k < V; ++k) sums.v[k] = plus(sums.v[k], more[t].v[k]);
    }
  }
  finish(y, sums, id, column);
}
)cuda";

struct Scatter {
  std::int64_t outer = 1, count = 0, rows = 0, inner = 1;
  DType dtype = DType::kF32, result = DType::kF32, id = DType::kI64;
};

struct AddPair {
  const Function *add, *join;
  unsigned tiles;
};

Result<AddPair> make_adders(CudaDevice& device, const Scatter& s, std::int64_t vector) {
  const Scalar scalar = scalar_of(s.dtype);
  const std::int64_t width = s.inner / vector, columns = s.outer * width;
  const std::string text = std::string(expression_support()) +
                           with(kAddText, {{"id", cuda_type(s.id)},
                                           {"memory", scalar.memory},
                                           {"result", cuda_type(s.result)},
                                           {"compute", scalar.compute},
                                           {"vector", std::to_string(vector)},
                                           {"raw", vector > 1 ? "Pack<u32, 4>" : word_of(s.dtype).memory},
                                           {"width", std::to_string(width)},
                                           {"count", std::to_string(s.count)},
                                           {"columns", std::to_string(columns)},
                                           {"rows", std::to_string(s.rows)}});
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
    const std::string text = with(kSortText, {{"id", cuda_type(s.id)}, {"rows", std::to_string(s.rows)}});
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
