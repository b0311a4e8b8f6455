// Rows of a table by their ids: y[..., :] = table[id[...], :]. An id outside the table gives a row of zeros.
#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/op/sequence/embedding.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_floating("table", in[0]));
  TR_RETURN_IF_ERROR(expect_rank("table", in[0], 2));
  TR_RETURN_IF_ERROR(expect_rows(in[0]));
  TR_RETURN_IF_ERROR(expect_index("ids", in[1]));
  std::vector<std::int64_t> dims = dims_of(in[1].shape);
  dims.push_back(in[0].shape[1]);
  TR_ASSIGN_OR_RETURN(const Shape shape, Shape::checked(dims));
  return std::vector{TensorType{in[0].dtype, shape}};
}

Result<Grads> grad(GradBuilder& g) {
  const Value dtable =
      g.add(kEmbeddingGrad, {g.grad_output(0), g.input(1)}, {{"shape", dims_of(g.type(g.input(0)).shape)}});
  return Grads{dtable, Value{}};
}

void run(KernelArgs& a) {
  const Tensor &table = a.in(0), &ids = a.in(1);
  const std::int64_t rows = table.shape()[0], size = table.shape()[1];
  const std::int64_t row = table.strides()[0], column = table.strides()[1];
  dispatch_float(table.dtype(), [&]<typename T>() {
    const T* from = table.data<T>();
    T* out = a.out(0).data<T>();
    for_each_id(ids, [&](std::int64_t id, std::int64_t i) {
      T* to = out + i * size;
      if (id < 0 || id >= rows) return void(std::fill(to, to + size, T(0)));
      for (std::int64_t d = 0; d < size; ++d) to[d] = from[id * row + d * column];
    });
  });
}

// Only the rows that are named are read.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost cost = copy_cost(in, out, attrs);
  const auto table = static_cast<double>(in[0].num_bytes()), rows = static_cast<double>(out[0].num_bytes());
  cost.bytes -= table - std::min(table, rows);
  return cost;
}

// Ids, or the columns of the table, or its rows: an id is found at one position, the others read zeros.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  const int rank = in[1].shape.rank();
  std::vector<LayoutOption> options{{{1, kReplicate}, {rank}}};
  for (int d = 0; d < rank; ++d) options.push_back({{kReplicate, d}, {d}});
  options.push_back({{0, kReplicate}, {kPartial}, /*rewritten=*/true});
  return options;
}

Cut cut(CutBuilder& b) {
  const Value ids = local_indices(b, b.input(1), b.whole_input(0).shape[0]);
  return std::vector{b.add(kEmbedding, {b.input(0), ids})};
}
}  // namespace

const OpDef kEmbedding{
    .name = "embedding",
    .doc = "Rows of table [V,D] by ids of any shape: [...ids, D]; zeros where there is no such row.",
    .family = "sequence",
    .num_inputs = 2,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = 1},
    .cut = cut};

}  // namespace trireme::op
