// fused_bias_grad: the loop of a fused group (fused.cc) over the rows of a matrix, with the sums of the
// columns of its first result (column_sums.h).
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/array.h"
#include "trireme/kernel/cuda/elementwise.h"
#include "trireme/kernel/cuda/norm/column_sums.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {

extern const char kFusedSumsText[];  // fused_sums.cu

namespace {

// How an input changes: with the row, with the column, both or neither.
struct Place {
  bool rows, columns;
};
Place place_of(const TensorType& t, const Shape& loop) {
  const int rank = t.shape.rank();
  return {rank > 1 && t.shape[rank - 2] == loop[0] && loop[0] > 1,
          rank > 0 && t.shape[rank - 1] == loop[1] && loop[1] > 1};
}

// What the walk works on, as fused_sums.cu has it: Pointers, Fixed, Given and Results.
struct GroupText {
  std::string pointers, fixed, fixed_load, given, given_load, results, compute, store;
  int walked = 0;  // inputs that go with rows and columns

  void add_input(std::size_t k, const Scalar& s, Place place);
  void add_output(const ElementwiseLoop& loop, std::size_t k);
  std::string text() const;
};

void GroupText::add_input(std::size_t k, const Scalar& s, Place place) {
  pointers += fmt::format("const {}* p{}; ", s.memory, k);
  std::string value;
  if (place.rows && place.columns) {
    given += fmt::format("  Pack<{}, V> x{};\n", s.memory, k);
    given_load += fmt::format("    x{0} = *(const Pack<{1}, V>*)(a.p{0} + at);\n", k, s.memory);
    value = fmt::format("x.x{}.v[k]", k);
    ++walked;
  } else if (place.rows) {
    given += fmt::format("  {} x{};\n", s.memory, k);
    given_load += fmt::format("    x{0} = a.p{0}[row];\n", k);
    value = fmt::format("x.x{}", k);
  } else {
    fixed += fmt::format("  {} x{}[V];\n", s.memory, k);
    fixed_load += fmt::format("#pragma unroll\n    for (int k = 0; k < V; ++k) x{0}[k] = a.p{0}[{1}];\n", k,
                              place.columns ? "channel() + k" : "0");
    value = fmt::format("fixed.x{}[k]", k);
  }
  compute += fmt::format("    const {} r{} = {};\n", s.compute, k, s.load(value));
}

void GroupText::add_output(const ElementwiseLoop& loop, std::size_t k) {
  const std::string& memory = loop.outputs[k].to.scalar.memory;
  pointers += fmt::format("{}* q{}; ", memory, k);
  results += fmt::format("  Pack<{}, V> y{};\n", memory, k);
  compute += fmt::format("    y{}.v[k] = {};\n", k, result_text(loop, k));
  store += fmt::format("    *(Pack<{1}, V>*)(a.q{0} + at) = y{0};\n", k, memory);
}

std::string GroupText::text() const {
  return fmt::format(
      "struct Pointers {{ {}}};\n"
      "struct Fixed {{\n{}  inline void load(const Pointers& a) {{\n{}  }}\n}};\n"
      "struct Given {{\n{}  inline void load(const Pointers& a, u64 at, u32 row) {{\n{}  }}\n}};\n"
      "struct Results {{\n{}  inline A compute(const Given& x, const Fixed& fixed, int k) {{\n{}  }}\n"
      "  inline void store(const Pointers& a, u64 at) const {{\n{}  }}\n}};\n"
      "constexpr int kUnroll = {};\n",
      pointers, fixed, fixed_load, given, given_load, results, compute, store,
      walked <= 1   ? 4
      : walked <= 3 ? 2
                    : 1);
}

std::string text_of(const CudaQuery& q, const ElementwiseLoop& loop, const ColumnPlan& plan) {
  GroupText group;
  for (std::size_t k = 0; k < loop.inputs.size(); ++k)
    group.add_input(k, loop.inputs[k].scalar, place_of(q.inputs[k], q.outputs[0].shape));
  group.compute += step_calls(loop);
  for (std::size_t k = 0; k < loop.outputs.size(); ++k) group.add_output(loop, k);
  group.compute += fmt::format("    return (A)r{};\n", loop.outputs[0].from);
  return fmt::format("typedef {0} A;\ntypedef {0} Y;\ninline Y finish(A v) {{ return v; }}\n{1}{2}{3}{4}{5}",
                     scalar_of(q.outputs.back().dtype).memory, column_text(plan), kExpressionText,
                     step_functions(loop), group.text(), kFusedSumsText);
}

struct Variant {
  const Function *walk, *join;
  unsigned across;
};
Result<Variant> make_variant(const CudaQuery& q, const ElementwiseLoop& loop, const ColumnPlan& plan) {
  const std::string text = text_of(q, loop, plan);
  Variant v{nullptr, nullptr, plan.across()};
  TR_ASSIGN_OR_RETURN(v.walk, q.device.function(text, "fused_columns"));
  TR_ASSIGN_OR_RETURN(v.join, q.device.function(text, "join"));
  return v;
}

}  // namespace

Made make_fused_bias_grad(const CudaQuery& q) {
  const Shape& shape = q.outputs[0].shape;
  const std::size_t bytes = q.outputs.back().num_bytes(), last = q.outputs.size() - 1;
  if (shape.num_elems() == 0)
    return make_kernel([bytes, last](const CudaArgs& a) -> Status {
      return clear_memory(a.stream, a.outputs[last].raw(), bytes);
    });
  CudaQuery group{q.def, q.inputs, q.outputs.first(last), q.attrs, q.device};
  TR_ASSIGN_OR_RETURN(const ElementwiseLoop loop, loop_of_program(group));
  // Vectors of 16 bytes of the widest element that goes with rows and columns.
  std::size_t widest = 1;
  std::vector<std::size_t> moved;  // operands that vectors are read from and written to: inputs, then outputs
  for (std::size_t k = 0; k < q.inputs.size(); ++k)
    if (const Place p = place_of(q.inputs[k], shape); p.rows && p.columns) moved.push_back(k);
  for (std::size_t k = 0; k < last; ++k) moved.push_back(q.inputs.size() + k);
  const auto size_of = [&](std::size_t k) {
    return dtype_size(k < q.inputs.size() ? q.inputs[k].dtype : q.outputs[k - q.inputs.size()].dtype);
  };
  for (const std::size_t k : moved) widest = std::max(widest, size_of(k));
  const auto vector = static_cast<std::int64_t>(16 / widest);
  const std::int64_t wide = shape[1] % vector == 0 ? vector : 1;
  ColumnPlan plan = plan_column_sums(shape[0], shape[1], 1, wide);
  TR_ASSIGN_OR_RETURN(const Variant slow, make_variant(q, loop, plan));
  plan.vector = wide;
  TR_ASSIGN_OR_RETURN(const Variant fast, make_variant(q, loop, plan));
  std::vector<std::uintptr_t> alignments;
  for (const std::size_t k : moved) alignments.push_back(size_of(k) * static_cast<std::size_t>(wide));
  const auto enqueue = [=](const CudaArgs& a) -> Status {
    std::vector<std::byte*> pointers;  // the text's Pointers
    for (const Tensor& t : a.inputs) pointers.push_back(t.raw());
    for (const Tensor& t : a.outputs.first(last)) pointers.push_back(t.raw());
    bool aligned = true;
    for (std::size_t i = 0; i < moved.size(); ++i)
      aligned = aligned && reinterpret_cast<std::uintptr_t>(pointers[moved[i]]) % alignments[i] == 0;
    const Variant& v = aligned ? fast : slow;
    std::byte *parts = a.workspace, *sums = a.outputs[last].raw();
    void* args[] = {static_cast<void*>(pointers.data()), static_cast<void*>(&parts),
                    static_cast<void*>(&sums)};
    TR_RETURN_IF_ERROR(
        launch_raw(a.stream, *v.walk, {v.across, static_cast<unsigned>(plan.parts)}, {256}, 0, args));
    if (!plan.joins()) return ok_status();
    return launch(a.stream, *v.join, {blocks_for(plan.columns, 32)}, {256}, 0, parts, sums);
  };
  const std::size_t sum_bytes = dtype_size(q.outputs.back().dtype);
  return make_kernel(enqueue,
                     plan.joins() ? static_cast<std::size_t>(plan.parts * plan.columns) * sum_bytes : 0);
}

}  // namespace trireme::kernel::cuda
