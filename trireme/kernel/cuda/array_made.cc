// Tensors made from attributes, types or indices: fill, range, constant, shape, one_hot..., and running sums.
#include <fmt/format.h>

#include <cstring>

#include "trireme/kernel/cuda/array.h"
#include "trireme/op/array/array.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::kernel::cuda {

extern const char kPutText[], kPlusText[], kScanRowsText[], kScanColumnsText[];  // array_made.cu

namespace {

using op::detail::idx;

struct Index8 {
  std::int64_t v[8];
};

// Output 0 gets these bytes. Few of them are an argument of the launch; others lie in memory of their own.
Made make_bytes(CudaDevice& device, std::span<const std::byte> bytes) {
  if (bytes.empty()) return make_nothing();
  if (bytes.size() > sizeof(Index8)) {
    TR_ASSIGN_OR_RETURN(const Buffer kept, device.allocate(bytes.size()));
    TR_RETURN_IF_ERROR(
        device.lib().check(device.lib().cuMemcpy(reinterpret_cast<CUdeviceptr>(kept.data()),
                                                 reinterpret_cast<CUdeviceptr>(bytes.data()), bytes.size()),
                           "uploading a constant"));
    return make_kernel([kept](const CudaArgs& a) -> Status {
      return copy_memory(a.stream, kept.data(), a.out(0).raw(), kept.size_bytes());
    });
  }
  TR_ASSIGN_OR_RETURN(const Function* put, device.function(kPutText, "put"));
  Index8 from{};
  std::memcpy(&from, bytes.data(), bytes.size());
  return make_kernel([put, from, n = static_cast<int>(bytes.size())](const CudaArgs& a) -> Status {
    return launch(a.stream, *put, {1}, {64}, 0, a.out(0).raw(), from, n);
  });
}

template <typename T>
Made make_values(CudaDevice& device, std::span<const T> values) {
  return make_bytes(device, std::as_bytes(values));
}

// For every element of y, a value of its index: `value`, in terms of i.
Made make_indexed(const CudaQuery& q, const std::string& helpers, const std::string& value) {
  const std::int64_t n = q.outputs[0].shape.num_elems();
  if (n == 0) return make_nothing();
  const Scalar scalar = scalar_of(q.outputs[0].dtype);
  const bool has_input = !q.inputs.empty();
  const std::string text = fmt::format(
      "{}\nextern \"C\" __global__ void __launch_bounds__(256) made({}{}* y, i64 n) {{\n"
      "  for (i64 i = first_index(); i < n; i += grid_step()) y[i] = {};\n}}\n",
      helpers, has_input ? fmt::format("const {}* x, ", cuda_type(q.inputs[0].dtype)) : "", scalar.memory,
      scalar.store(value));
  TR_ASSIGN_OR_RETURN(const Function* made, q.device.function(text, "made"));
  return make_kernel([made, n, has_input](const CudaArgs& a) -> Status {
    const Dim grid{blocks_for(n, 256)};
    if (has_input) return launch(a.stream, *made, grid, {256}, 0, a.in(0).raw(), a.out(0).raw(), n);
    return launch(a.stream, *made, grid, {256}, 0, a.out(0).raw(), n);
  });
}

}  // namespace

Made make_fill(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(LoopKernel fill,
                      make_fill_loop(q.device, q.outputs[0].dtype, q.attrs.get_float("value"),
                                     q.outputs[0].shape.num_elems()));
  return make_kernel([fill = std::move(fill)](const CudaArgs& a) -> Status {
    std::byte* const to[] = {a.out(0).raw()};
    return fill.run(a.stream, to);
  });
}

Made make_constant(const CudaQuery& q) {
  // The reference reads the digits: this happens once per graph.
  TR_ASSIGN_OR_RETURN(const Tensor value, Tensor::allocate(cpu_device(), q.outputs[0]));
  op::KernelArgs args{{}, std::span(&value, 1), q.attrs, {}, op::serial()};
  q.def.reference(args);
  return make_bytes(q.device, {value.raw(), value.type().num_bytes()});
}

// count, shape, size, rank: known from types.
Made make_known(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  if (q.def.name == "shape") return make_values(q.device, x.shape.dims());
  if (q.def.name == "count") {
    TR_ASSIGN_OR_RETURN(const auto axes, op::detail::resolve_axes(x, q.attrs));
    TR_ASSIGN_OR_RETURN(LoopKernel fill,
                        make_fill_loop(q.device, x.dtype, static_cast<double>(axes.count), 1));
    return make_kernel([fill = std::move(fill)](const CudaArgs& a) -> Status {
      std::byte* const to[] = {a.out(0).raw()};
      return fill.run(a.stream, to);
    });
  }
  const std::int64_t value = q.def.name == "rank" ? x.shape.rank() : x.shape.num_elems();
  return make_values(q.device, std::span(&value, 1));
}

// In f64 without a fused multiply-add, then as cast does.
Made make_range(const CudaQuery& q) {
  const DType to = q.outputs[0].dtype;
  const std::string helpers = fmt::format(
      "{}inline {} converted(double a) {{\n  typedef double A; typedef {} R;\n  {}\n}}\n", kExpressionText,
      scalar_of(to).compute, scalar_of(to).compute, cast_expression(DType::kF64, to));
  return make_indexed(q, helpers,
                      fmt::format("converted(__dadd_rn({}, __dmul_rn((double)i, {})))",
                                  literal(DType::kF64, q.attrs.get_float("start")),
                                  literal(DType::kF64, q.attrs.get_float("step"))));
}

Made make_one_hot(const CudaQuery& q) {
  const DType to = q.outputs[0].dtype;
  return make_indexed(q, "",
                      fmt::format("x[i / {0}] == i % {0} ? {1} : {2}", q.attrs.get_int("depth"),
                                  literal(to, 1), literal(to, 0)));
}

Made make_part_begin(const CudaQuery& q) {
  const std::int64_t size = q.attrs.get_int("size"), parts = q.attrs.get_int("parts");
  const std::string helpers = fmt::format(
      "inline i64 begin_of(i64 p) {{\n  p = p < 0 ? 0 : p > {0} ? {0} : p;\n"
      "  return p * {1} + (p < {2} ? p : {2});\n}}\n",
      parts, size / parts, size % parts);
  return make_indexed(q, helpers, "begin_of(x[i])");
}

Made make_cumsum(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  if (x.shape.num_elems() == 0) return make_nothing();
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), x));
  const std::int64_t size = x.shape[axis], inner = row_major_strides(x.shape)[idx(axis)];
  const std::int64_t columns = x.shape.num_elems() / size;
  const Scalar scalar = scalar_of(x.dtype);
  const std::string text = fmt::format(
      "typedef {} T; typedef {} A;\nconstexpr bool kReverse = {};\n{}{}{}", scalar.memory, scalar.compute,
      q.attrs.get_bool("reverse"), kExpressionText, kPlusText, inner == 1 ? kScanRowsText : kScanColumnsText);
  TR_ASSIGN_OR_RETURN(const Function* scan,
                      q.device.function(text, inner == 1 ? "scan_rows" : "scan_columns"));
  return make_kernel([scan, size, inner, columns](const CudaArgs& a) -> Status {
    if (inner == 1)
      return launch(a.stream, *scan, {static_cast<unsigned>(columns)}, {256}, 0, a.in(0).raw(),
                    a.out(0).raw(), size, inner);
    return launch(a.stream, *scan, {blocks_for(columns, 256)}, {256}, 0, a.in(0).raw(), a.out(0).raw(), size,
                  inner, columns);
  });
}

}  // namespace trireme::kernel::cuda
