// Unknown batch. kUnknownDim is a prime far beyond real sizes, so that a size a*kUnknownDim + c with small c
// shows how it came about, and anything else that depends on it fails to infer or is found here.
#include <cmath>
#include <optional>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

constexpr std::int64_t kMaxRest = 65536;  // |c|

bool is_marked(std::int64_t size) { return size >= kUnknownDim / 2 || size <= -kUnknownDim / 2; }

std::optional<std::int64_t> with_batch(std::int64_t size, std::int64_t batch) {
  if (!is_marked(size)) return size;
  const std::int64_t a = (size + kUnknownDim / 2) / kUnknownDim, c = size - a * kUnknownDim;
  std::int64_t product = 0;
  if (a < 1 || c > kMaxRest || c < -kMaxRest || __builtin_mul_overflow(a, batch, &product))
    return std::nullopt;
  return product + c;
}

// A factor such as 1/count: the marker, or its inverse, times a small number.
bool is_marked(double v) {
  if (v == 0 || !std::isfinite(v)) return false;
  const auto p = static_cast<double>(kUnknownDim);
  for (const double x : {std::abs(v) / p, p * std::abs(v), 1 / (p * std::abs(v))})
    if (x >= 1 && x <= kMaxRest && std::abs(x - std::round(x)) < 1e-9 * x) return true;
  return false;
}

bool is_marked(const op::AttrValue& value) {
  if (const auto* v = std::get_if<std::int64_t>(&value)) return is_marked(*v);
  if (const auto* v = std::get_if<double>(&value)) return is_marked(*v);
  if (const auto* v = std::get_if<std::string>(&value))
    return v->find(fmt::format("{}", kUnknownDim)) != std::string::npos;
  if (const auto* v = std::get_if<std::vector<std::int64_t>>(&value))
    for (const std::int64_t i : *v)
      if (is_marked(i)) return true;
  return false;
}

Status refuse(const Node& node, const std::string& what) {
  return error(Code::kInvalid, "[graph] specialise: node '{}' ({}){}{}: {}", node.name, node.def->name,
               node.site.empty() ? "" : " built at ", node.site, what);
}

Result<Attrs> specialised_attrs(const Node& node, std::int64_t batch) {
  Attrs attrs = node.attrs;
  if (!node.def->shape_attr.empty()) {
    const std::string name(node.def->shape_attr);
    std::vector<std::int64_t> dims = attrs.get_ints(name);
    for (std::int64_t& d : dims) {
      const auto now = with_batch(d, batch);
      if (!now)
        return refuse(node,
                      fmt::format("attribute '{}' has size {}, expected a multiple of the unknown size plus "
                                  "a small number",
                                  name, d));
      d = *now;
    }
    attrs.set(name, std::move(dims));
  }
  for (const auto& [name, value] : attrs.items())
    if (is_marked(value))
      return refuse(node,
                    fmt::format("attribute '{}' depends on the unknown size; build the node from shapes, or "
                                "build the graph for a known batch",
                                name));
  return attrs;
}

}  // namespace

Result<Graph> specialise(const Graph& graph, std::int64_t batch) {
  if (batch < 0 || is_marked(batch))
    return error(Code::kInvalid, "[graph] specialise: got batch {}, expected 0 to {}", batch,
                 kUnknownDim / 2 - 1);
  Rewriter rewriter(graph);
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    TR_ASSIGN_OR_RETURN(Attrs attrs, specialised_attrs(node, batch));
    Result<Value> v = rewriter.copy(i, rewriter.at(node.inputs), std::move(attrs));
    if (!v.ok()) return refuse(node, v.status().message());
    for (const TensorType& t : rewriter.to().node(v->node).outputs)
      for (const std::int64_t d : t.shape.dims())
        if (is_marked(d)) return refuse(node, fmt::format("its type is still {}", t.to_string()));
  }
  return rewriter.finish();
}

extern const PassRow kSpecialise{.name = "specialise",
                                 .doc = "Puts a batch size in the place of the unknown one.",
                                 .exactness = Exactness::kExact,
                                 .run = [](const Graph& g, const PassOptions& o) -> Result<Graph> {
                                   if (o.batch == 0) return g;
                                   return specialise(g, o.batch);
                                 }};

}  // namespace trireme::graph
