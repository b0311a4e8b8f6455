#include "trireme/prepare/server_factors.h"

#include <algorithm>

#include "trireme/graph/builder.h"

namespace trireme::prepare {
namespace {

const graph::Node& product_node(const graph::Graph& g) { return g.node(g.find_output("grad")->node); }

// The same product of fewer rows.
Result<graph::Graph> cut_product(const graph::Graph& whole, const server::FactorSlice::Piece& piece) {
  const graph::Node& node = product_node(whole);
  graph::Graph g;
  graph::Builder b(g);
  const TensorType u_type = piece.u_type(), v_type = piece.v_type();
  const graph::Value u = b.input("u", u_type.dtype, u_type.shape),
                     v = b.input("v", v_type.dtype, v_type.shape);
  TR_RETURN_IF_ERROR(b.status());
  TR_ASSIGN_OR_RETURN(const graph::Value grad, g.add(*node.def, {u, v}, node.attrs, node.name, node.site));
  g.set_output("grad", grad);
  return g;
}

}  // namespace

std::vector<server::FactorKey> factor_keys(const Prepared& prepared) {
  std::vector<server::FactorKey> keys;
  for (std::size_t i = 0; i < prepared.plan.buckets.size(); ++i) {
    const plan::Bucket& bucket = prepared.plan.buckets[i];
    server::FactorKey& key = keys.emplace_back();
    for (std::size_t p = 0; bucket.sends_factors() && p < bucket.parameters.size(); ++p) {
      const graph::Graph& product = prepared.products[i][p]->graph();
      const graph::Node& node = product_node(product);
      const Shape& made = product.type(*product.find_output("grad")).shape;
      server::FactorPart part;
      part.rows = made[0];
      part.cols = made[1];
      part.depth = product.type(*product.find_input("u")).shape.num_elems() / made[0];
      part.deep_u = node.attrs.get_bool("transpose_a");
      part.deep_v = !node.attrs.get_bool("transpose_b");
      part.u_offset = bucket.factor_offsets[2 * p];
      part.v_offset = bucket.factor_offsets[2 * p + 1];
      key.parts.push_back(part);
      key.num_elems = bucket.factor_elems;
    }
  }
  const bool none = std::all_of(keys.begin(), keys.end(), [](const auto& k) { return k.parts.empty(); });
  return none ? std::vector<server::FactorKey>() : keys;
}

server::MakeProduct product_maker(const Prepared& prepared) {
  exec::CompileOptions options;
  options.width = prepared.plan.shard_threads;
  if (prepared.device == nullptr) options.kernels = prepared.plan.kernels;
  return [options, products = prepared.products](
             std::uint32_t key, const server::FactorSlice::Piece& piece) -> Result<Compiled> {
    TR_ASSIGN_OR_RETURN(const graph::Graph g, cut_product(products[key][piece.part]->graph(), piece));
    return exec::compile(g, options);
  };
}

}  // namespace trireme::prepare
