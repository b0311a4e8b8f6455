#include "tests/agree/with_servers.h"

#include <gtest/gtest.h>

#include <numeric>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::agree::testing {
namespace {

std::vector<server::Key> keys_of(const QuadraticJob& job) {
  std::vector<server::Key> keys;
  for (std::size_t b = 0; b < job.bucket_elems.size(); ++b)
    keys.push_back({fmt::format("bucket {}", b), job.bucket_elems[b], {}});
  return keys;
}

server::ServerLayout layout_of(const QuadraticJob& job, int num_servers) {
  const auto keys = keys_of(job);
  return *server::make_layout(keys, num_servers, /*small_elems=*/1);
}

// Keeps what its server has counted.
struct Counted {
  std::unique_ptr<server::Server> server;
  server::ServerStats* counts;
  ~Counted() {
    if (counts != nullptr) *counts = server->stats();
  }
};

}  // namespace

Result<server::UpdateSpec> sgd(std::span<const server::StoredPart> parts) {
  server::UpdateSpec spec;
  graph::Builder b(spec.graph);
  const graph::Value lr = b.input("lr", DType::kF32, {});
  for (const server::StoredPart& part : parts) {
    const graph::Value w = b.variable(part.name, DType::kF32, {part.count});
    const graph::Value g = b.input("grad:" + part.name, DType::kF32, {part.count});
    b.output("updated:" + part.name, b.add_node(op::kApplySgd, {w, g, lr}));
  }
  TR_RETURN_IF_ERROR(b.status());
  return spec;
}

void add_servers(QuadraticJob& job, int num_servers, Counts* counts) {
  const AgreementRow* row = *find_agreement(job.rule);
  const auto keys = keys_of(job);
  const server::ServerLayout layout = layout_of(job, num_servers);
  const int num_workers = job.workers;
  const RuleOptions rule_options = job.options;
  if (counts != nullptr) counts->assign(static_cast<std::size_t>(num_servers), {});
  job.servers = num_servers;
  job.letters = true;
  job.make_server = [=](runtime::Runtime& rt, comm::Group& world, int number) -> std::shared_ptr<void> {
    server::ServerOptions options = *server_options_of(*row, rule_options, num_workers);
    options.server = number;
    options.layout = layout;
    options.keys = keys;
    if (!options.make_update) options.make_update = sgd;
    auto made = server::make_server(rt, world.mailbox(), std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    auto counted = std::make_shared<Counted>();
    counted->server = std::move(*made);
    counted->counts = counts == nullptr ? nullptr : &(*counts)[static_cast<std::size_t>(number)];
    return counted;
  };
  job.make_client = [=](runtime::Runtime& rt, comm::Group& world) {
    std::vector<int> ranks(static_cast<std::size_t>(num_servers));
    std::iota(ranks.begin(), ranks.end(), num_workers);
    const server::LinkCoding link = link_coding_of(*row, rule_options);
    return server::make_client(rt, world.mailbox(), ranks, layout, keys, link);
  };
}

}  // namespace trireme::agree::testing
