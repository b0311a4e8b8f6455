// Constant folding: nodes that depend on constants or types alone are evaluated once, here, with reference
// kernels. Only elementwise and array ops: their fast kernels give the reference's bits, so folding does too.
#include <algorithm>
#include <cstring>

#include "trireme/base/bytes.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using Tensors = std::vector<Tensor>;

std::vector<std::int64_t> dims_of(const Shape& s) { return {s.dims().begin(), s.dims().end()}; }

Result<Tensors> evaluate(const Node& node, const Tensors& in) {
  Tensors out;
  std::vector<TensorType> types;
  for (const Tensor& t : in) types.push_back(t.type());
  for (const TensorType& t : node.outputs) {
    TR_ASSIGN_OR_RETURN(Tensor own, Tensor::allocate(cpu_device(), t));
    out.push_back(std::move(own));
  }
  Tensor workspace;
  std::span<std::byte> scratch;
  if (node.def->reference_workspace) {
    const std::size_t bytes = node.def->reference_workspace(types, node.attrs);
    TR_ASSIGN_OR_RETURN(workspace,
                        Tensor::allocate(cpu_device(), {DType::kU8, {static_cast<std::int64_t>(bytes)}}));
    scratch = {workspace.raw(), bytes};
  }
  op::KernelArgs args{in, out, node.attrs, scratch, op::serial()};
  node.def->reference(args);
  return out;
}

class Folder : private RewritingPass {
 public:
  Folder(const Graph& graph, std::int64_t max_bytes)
      : RewritingPass(graph), max_bytes_(max_bytes), constants_(graph) {}

  Result<Graph> run() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      Tensors in;
      if (!movable(i) || !gather(i, in)) {
        TR_RETURN_IF_ERROR(rewriter_.copy(i).status());
        continue;
      }
      TR_ASSIGN_OR_RETURN(const Tensors out, evaluate(graph_.node(i), in));
      const OpDef* def = graph_.node(i).def;
      if (def == &op::kFill || def == &op::kConstant) {
        TR_RETURN_IF_ERROR(rewriter_.copy(i).status());
      } else {
        TR_RETURN_IF_ERROR(replace(i, out));
      }
      for (std::size_t k = 0; k < out.size(); ++k)
        constants_[Value{i, static_cast<std::int32_t>(k)}] = out[k];
    }
    return rewriter_.finish();
  }

 private:
  // The inputs of node `id`, if all are known constants and everything is small.
  bool gather(std::int32_t id, Tensors& in) const {
    const Node& node = graph_.node(id);
    if (!node.forms.is_plain()) return false;
    if (!node.def->has(op::kElementwise) && node.def->family != "array") return false;
    for (const TensorType& t : node.outputs)  // elements first: the bytes of a huge shape overflow
      if (t.shape.num_elems() > max_bytes_ || static_cast<std::int64_t>(t.num_bytes()) > max_bytes_)
        return false;
    for (const Value v : node.inputs) {
      if (!constants_[v].is_null()) {
        in.push_back(constants_[v]);
        continue;
      }
      const TensorType& type = graph_.type(v);
      if (!node.def->has(op::kTypesOnly) || !is_known(type.shape)) return false;
      in.emplace_back(Buffer::phantom(cpu_device(), type.num_bytes()), type);
    }
    return true;
  }
  // Not a size that stands for any batch, or was made from one.
  static bool is_known(const Shape& shape) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    std::int64_t elems = 1;
    for (const std::int64_t d : shape.dims()) {
      if (d >= kUnknownDim / 2 || elems >= kMost) return false;
      elems *= d;
    }
    return true;
  }

  Status replace(std::int32_t id, const Tensors& out) {
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(out.size()); ++k) {
      const Tensor& t = out[static_cast<std::size_t>(k)];
      TR_ASSIGN_OR_RETURN(const auto form, constant_form(t));
      const auto& [def, attrs] = form;
      Result<Value> v = k == 0 ? rewriter_.add_in_place_of(id, *def, {}, attrs)
                               : rewriter_.add(*def, {}, attrs, graph_.node(id).name, graph_.node(id).site);
      if (!v.ok()) return v.status();
      rewriter_.map({id, k}, *v);
    }
    return {};
  }

  // `fill` where one value says it all and gives back the same bits, else `constant`.
  static Result<std::pair<const OpDef*, Attrs>> constant_form(const Tensor& t) {
    if (t.shape().num_elems() > 0) {
      const Tensor one(t.buffer(), {t.dtype(), {1}}, t.offset_bytes());
      const Node as_f64{.def = &op::kCast,
                        .inputs = {},
                        .control = {},
                        .attrs = {{"dtype", DType::kF64}},
                        .outputs = {{DType::kF64, {1}}},
                        .name = {},
                        .site = {}};
      TR_ASSIGN_OR_RETURN(const Tensors value, evaluate(as_f64, {one}));
      Attrs attrs{{"value", value[0].data<double>()[0]}, {"dtype", t.dtype()}, {"shape", dims_of(t.shape())}};
      const Node fill{.def = &op::kFill,
                      .inputs = {},
                      .control = {},
                      .attrs = attrs,
                      .outputs = {t.type()},
                      .name = {},
                      .site = {}};
      TR_ASSIGN_OR_RETURN(const Tensors again, evaluate(fill, {}));
      if (std::memcmp(again[0].raw(), t.raw(), t.type().num_bytes()) == 0)
        return std::pair<const OpDef*, Attrs>{&op::kFill, std::move(attrs)};
    }
    Attrs attrs{{"data", to_hex({t.raw(), t.type().num_bytes()})},
                {"dtype", t.dtype()},
                {"shape", dims_of(t.shape())}};
    return std::pair<const OpDef*, Attrs>{&op::kConstant, std::move(attrs)};
  }

  std::int64_t max_bytes_;
  ValueMap<Tensor> constants_;  // null: not a constant, or too large
};

}  // namespace

// Evaluates elementwise and array ops whose inputs are constants and whose outputs have at most `fold_bytes`;
// they become `fill` or `constant`. Exact.
extern const PassRow kFold{
    .name = "fold",
    .doc = "Evaluates small elementwise and array ops of constants.",
    .exactness = Exactness::kExact,
    .run = [](const Graph& g, const PassOptions& o) { return Folder(g, o.fold_bytes).run(); }};

}  // namespace trireme::graph
