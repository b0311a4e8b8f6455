// embedding: rows by memcpy, ids cut over slices. Its gradient: columns cut over slices, rows added in the
// order of the ids, so that every width gives the bits of the reference.
#include <algorithm>
#include <cstring>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

// The ids of a contiguous tensor, of either width.
class Ids {
 public:
  explicit Ids(const Tensor& t)
      : data_(t.raw()), wide_(t.dtype() == DType::kI64), count_(t.shape().num_elems()) {
    TR_CHECK(t.is_contiguous());
  }
  std::int64_t count() const { return count_; }
  std::int64_t operator[](std::int64_t i) const {
    return wide_ ? reinterpret_cast<const std::int64_t*>(data_)[i]
                 : reinterpret_cast<const std::int32_t*>(data_)[i];
  }

 private:
  const std::byte* data_;
  bool wide_;
  std::int64_t count_;
};

void run(op::KernelArgs& args) {
  const Tensor &table = args.in(0), &out = args.out(0);
  TR_CHECK(table.is_contiguous() && out.is_contiguous());
  const Ids ids(args.in(1));
  const std::int64_t rows = table.shape()[0], size = table.shape()[1];
  const std::size_t bytes = static_cast<std::size_t>(size) * dtype_size(table.dtype());
  const auto row_bytes = static_cast<std::int64_t>(bytes);
  for_slices(args.parallel, ids.count(), num_slices(ids.count(), ids.count() * size, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; bytes > 0 && i < end; ++i) {
                 std::byte* to = out.raw() + i * row_bytes;
                 if (ids[i] < 0 || ids[i] >= rows)
                   std::memset(to, 0, bytes);
                 else
                   std::memcpy(to, table.raw() + ids[i] * row_bytes, bytes);
               }
             });
}

void run_grad(op::KernelArgs& args) {
  const Ids ids(args.in(1));
  const float* dy = f32_in(args, 0);
  float* out = f32_out(args, 0);
  const std::int64_t rows = args.out(0).shape()[0], size = args.out(0).shape()[1];
  const VectorLoops& loops = vector_loops();
  const std::int64_t elems = (ids.count() + rows) * size;
  for_slices(args.parallel, size, num_slices(size, elems, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t r = 0; r < rows; ++r)
                 std::fill(out + r * size + begin, out + r * size + end, 0.0F);
               for (std::int64_t i = 0; i < ids.count(); ++i) {
                 if (ids[i] < 0 || ids[i] >= rows) continue;
                 float* row = out + ids[i] * size + begin;
                 loops.add(row, dy + i * size + begin, row, end - begin);
               }
             });
}

bool f32_rows(const op::KernelQuery& q) { return q.inputs[0].dtype == DType::kF32; }

}  // namespace

extern const op::KernelRow kEmbeddingCopy{.op = "embedding", .name = "copy", .run = run};
extern const op::KernelRow kEmbeddingGradVector{
    .op = "embedding_grad", .name = "vector", .run = run_grad, .applicable = f32_rows};

}  // namespace trireme::kernel
