#include "trireme/agree/mechanism/server_updates.h"

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::agree {

double elasticity_of(const OptionValues& options, int num_workers) {
  const double given = options.number(kElasticity);
  return given > 0 ? given : 0.9 / num_workers;
}

Result<server::UpdateSpec> elastic_update(std::span<const server::StoredPart> parts, double alpha) {
  server::UpdateSpec spec;
  graph::Builder b(spec.graph);
  const graph::Value share = b.fill(alpha, DType::kF32, {});
  for (const server::StoredPart& part : parts) {
    const graph::Value centre = b.variable(part.name, DType::kF32, {part.count});
    const graph::Value pushed = b.input("grad:" + part.name, DType::kF32, {part.count});
    const graph::Value moved = b.mul(share, b.sub(pushed, centre));
    b.output("updated:" + part.name, b.add_node(op::kAssignAdd, {centre, moved}));
  }
  TR_RETURN_IF_ERROR(b.status());
  TR_RETURN_IF_ERROR(graph::verify(spec.graph));
  return spec;
}

server::LinkCoding link_coding_of(const AgreementRow& row, const RuleOptions& options) {
  server::LinkCoding link;
  if (row.no_codec != nullptr) return link;
  link.coding = options.coding;
  link.pulls = options.codec_pull;
  return link;
}

Result<server::ServerOptions> server_options_of(const AgreementRow& row, const RuleOptions& options,
                                                int num_workers) {
  if (!row.needs_server) return error(Code::kInvalid, "[agree] servers of '{}': the rule has none", row.name);
  if (num_workers < 1)
    return error(Code::kInvalid, "[agree] servers of '{}': got {} workers, expected at least 1", row.name,
                 num_workers);
  server::ServerOptions of;
  of.consistency = row.consistency;
  of.clocks.num_workers = num_workers;
  of.link = link_coding_of(row, options);
  if (row.serve != nullptr) row.serve(options.own, num_workers, of);
  return of;
}

}  // namespace trireme::agree
