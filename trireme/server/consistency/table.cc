#include "trireme/server/consistency/consistency.h"

namespace trireme::server {

// Each is defined in a file of its own.
std::unique_ptr<Consistency> make_bsp(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_ssp(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_async(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_soft(const ConsistencyOptions& options);
std::unique_ptr<Consistency> make_late(const ConsistencyOptions& options);
namespace {

constexpr ConsistencyRow kPolicies[] = {
    {"bsp", "One update per clock from the pushes of all workers; nobody reads for a clock before it.",
     "Valiant, A bridging model for parallel computation, CACM 1990", true, true, make_bsp},
    {"ssp", "Updates as they come; the fastest worker is at most `staleness` clocks ahead of the slowest.",
     "Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, NIPS 2013",
     true, false, make_ssp},
    {"async", "Updates as they come; reads wait for nobody.",
     "Dean et al., Large scale distributed deep networks, NIPS 2012", false, false, make_async},
    {"soft", "One update per `gather` pushes, whoever they are of; reads wait for nobody.",
     "Zhang, Gupta, Lian, Liu, Staleness-aware async-SGD for distributed deep learning, IJCAI 2016", true,
     false, make_soft},
    {"late", "One update per clock from the first `fraction` of the workers; later pushes are dropped.",
     "Chen, Monga, Bengio, Jozefowicz, Revisiting distributed synchronous SGD, 2016", true, false, make_late},
};

}  // namespace

std::span<const ConsistencyRow> consistency_table() { return kPolicies; }

Result<const ConsistencyRow*> find_consistency(std::string_view name) {
  std::string known;
  for (const ConsistencyRow& row : kPolicies) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[server] no consistency rule is called '{}'; expected one of: {}", name,
               known);
}

Status check_consistency(const ConsistencyOptions& o) {
  if (o.num_workers < 1)
    return error(Code::kInvalid, "[server] workers: got {}, expected at least 1", o.num_workers);
  if (o.staleness < 0)
    return error(Code::kInvalid, "[server] staleness: got {}, expected at least 0", o.staleness);
  if (o.gather < 1)
    return error(Code::kInvalid, "[server] pushes per update: got {}, expected at least 1", o.gather);
  if (!(o.fraction > 0) || o.fraction > 1)
    return error(Code::kInvalid, "[server] share of the workers: got {}, expected above 0 and at most 1",
                 o.fraction);
  return {};
}

}  // namespace trireme::server
