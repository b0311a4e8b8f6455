// Gradient of embedding for its table: adds row i of dy to row id[i], in the order of the ids. Ids outside
// the table add nothing. 16-bit tables are added up in f32.
#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/op/sequence/embedding.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("dy", in[0]));
  TR_RETURN_IF_ERROR(expect_index("ids", in[1]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  const TensorType table{in[0].dtype, shape};
  TR_RETURN_IF_ERROR(expect_rank("attribute 'shape'", table, 2));
  TR_RETURN_IF_ERROR(expect_rows(table));
  std::vector<std::int64_t> dims = dims_of(in[1].shape);
  dims.push_back(shape[1]);
  TR_ASSIGN_OR_RETURN(const Shape expected, Shape::checked(dims));
  TR_RETURN_IF_ERROR(expect_shape("dy", in[0], expected));
  return std::vector{table};
}

// Linear in dy, with embedding as its transpose.
Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kEmbedding, {g.grad_output(0), g.input(1)}), Value{}};
}

bool is_half(DType d) { return dtype_size(d) == 2; }

std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  const auto& dims = attrs.get_ints("shape");
  return is_half(in[0].dtype) ? idx(dims[0]) * idx(dims[1]) * sizeof(float) : 0;
}

void run(KernelArgs& a) {
  const Tensor &dy = a.in(0), &ids = a.in(1), &table = a.out(0);
  const std::int64_t rows = table.shape()[0], size = table.shape()[1], count = rows * size;
  dispatch_float(dy.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    T* out = table.data<T>();
    A* sums = nullptr;
    if constexpr (kIsHalf<T>) {
      sums = reinterpret_cast<A*>(a.workspace.data());
    } else {
      sums = out;
    }
    std::fill(sums, sums + count, A(0));
    const T* values = dy.data<T>();
    // Offsets of the rows of dy, which lie under the ids.
    const int rank = ids.shape().rank();
    const std::int64_t column = dy.strides()[idx(rank)];
    for_each_id(ids, [&](std::int64_t id, std::int64_t i) {
      std::int64_t offset = 0, rest = i;
      for (int d = rank - 1; d >= 0; --d) {
        offset += rest % ids.shape()[d] * dy.strides()[idx(d)];
        rest /= ids.shape()[d];
      }
      if (id < 0 || id >= rows) return;
      for (std::int64_t d = 0; d < size; ++d)
        sums[id * size + d] += static_cast<A>(values[offset + d * column]);
    });
    if constexpr (kIsHalf<T>) std::copy(sums, sums + count, out);
  });
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double n = elems(in[0]);
  return {.flops = n,
          .bytes = io_bytes(in, out),
          .work = std::max(n, elems(out[0])),
          .depth = log_depth(elems(in[1]))};
}

// Ids, whose pieces must be added, or the columns, or the rows of the table: a position takes what goes to
// its own.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  const int rank = in[1].shape.rank();
  std::vector<LayoutOption> options{{{rank, kReplicate}, {1}}};
  for (int d = 0; d < rank; ++d) options.push_back({{d, d}, {kPartial}});
  options.push_back({{kReplicate, kReplicate}, {0}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const Shape& table = b.whole_output(0).shape;
  const std::int64_t own = part_sizes(table[0], b.num_parts())[idx(b.position())];
  const Value ids = local_indices(b, b.input(1), table[0]);
  return std::vector{b.add(kEmbeddingGrad, {b.input(0), ids}, {{"shape", std::vector{own, table[1]}}})};
}
}  // namespace

const OpDef kEmbeddingGrad{.name = "embedding_grad",
                           .doc = "Adds the rows of dy [...ids, D] up into a table [V,D] by ids.",
                           .family = "sequence",
                           .num_inputs = 2,
                           .attrs = {{"shape", std::vector<std::int64_t>{}, "shape of the table", true}},
                           .infer = infer,
                           .grad = grad,
                           .reference = run,
                           .reference_workspace = workspace,
                           .cost = cost,
                           .layout = layout,
                           .linear = {.inputs = 1},
                           .cut = cut,
                           .shape_attr = "shape"};

}  // namespace trireme::op
