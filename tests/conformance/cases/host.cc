// Feeds, messages and resources.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_host(std::vector<OpCase>& t) {
  const Attrs named{{"name", std::string("x")}, {"dtype", DType::kF64}, {"shape", Ints{2, 3}}};
  const Attrs scalar{{"name", std::string("x")}, {"dtype", DType::kI64}};
  const Attrs empty{{"name", std::string("x")}, {"shape", Ints{0, 3}}};
  for (const OpDef* d : {&kInput, &kVariable}) {
    t.push_back({d, "matrix", {}, named});
    t.push_back({d, "scalar", {}, scalar});
    t.push_back({d, "empty", {}, empty});
  }
  t.push_back(
      {&kAllreduce, "matrix", {{kReal, {4, 3}}}, {{"slot", std::int64_t{2}}, {"label", std::string("g")}}});
  t.push_back({&kAllreduce, "scalar", {{kReal, {}}}});
  t.push_back({&kAllreduce, "empty", {{kReal, {0, 3}}}});
  for (const OpDef* d : {&kAllgather, &kReduceScatter}) {
    t.push_back({d, "matrix", {{kReal, {6, 3}}}, one("world", std::int64_t{3})});
    t.push_back({d, "empty", {{kReal, {0}}}, one("world", std::int64_t{3})});
    t.push_back({d, "columns", {{kReal, {2, 6, 3}}}, {{"world", std::int64_t{3}}, {"dim", std::int64_t{1}}}});
  }
  const Attrs uneven{{"world", std::int64_t{3}}, {"dim", std::int64_t{-1}}, {"sizes", Ints{3, 0, 1}}};
  t.push_back({&kAllgather, "uneven columns", {{kReal, {2, 3}}}, uneven});
  t.push_back({&kAllgather, "no columns", {{kReal, {2, 0}}}, uneven});
  Attrs of_one = uneven;
  of_one.set("extent", std::int64_t{1});
  t.push_back({&kReduceScatter, "uneven columns", {{kReal, {2, 4}}}, of_one});
  const Attrs turned{{"world", std::int64_t{3}}, {"from", std::int64_t{0}}, {"to", std::int64_t{-1}}};
  t.push_back({&kAllToAll, "matrix", {{kReal, {2, 5, 6}}}, turned});
  t.push_back({&kAllToAll, "flags", {{kBools, {2, 6}}}, turned});
  Attrs turned_uneven = turned;
  turned_uneven.set("sizes_from", Ints{3, 2, 2});
  turned_uneven.set("sizes_to", Ints{2, 2, 1});
  turned_uneven.set("extent", std::int64_t{1});
  t.push_back({&kAllToAll, "uneven", {{kReal, {3, 5}}}, turned_uneven});
  Attrs windows{{"world", std::int64_t{3}}, {"dim", std::int64_t{1}}, {"sizes", Ints{3, 2, 2}}};
  windows.set("begins", Ints{-1, 2, 4});
  windows.set("ends", Ints{4, 6, 8});
  windows.set("extent", std::int64_t{4});
  t.push_back({&kHaloExchange, "rows", {{kReal, {2, 2, 3}}}, windows});
  windows.set("fill", -1.0);
  windows.set("extent", std::int64_t{5});
  t.push_back({&kHaloExchange, "filled", {{kReal, {2, 3}}}, windows});
  t.push_back({&kBroadcast, "matrix", {{kReal, {4, 3}}}});
  t.push_back({&kBroadcast, "integers", {{kInts, {4}}}, one("root", std::int64_t{2})});
  const std::vector<std::pair<const OpDef*, Attrs>> into{{&kSend, one("peer", std::int64_t{1})},
                                                         {&kEnqueue, one("name", std::string("q"))},
                                                         {&kSave, one("path", std::string("a"))}};
  for (const auto& [d, attrs] : into) {
    t.push_back({d, "matrix", {{kReal, {4, 3}}}, attrs});
    t.push_back({d, "flags", {{kBools, {4}}}, attrs});
    t.push_back({d, "empty", {{kReal, {0, 3}}}, attrs});
  }
  const std::vector<std::pair<const OpDef*, Attrs>> out_of{{&kRecv, one("peer", std::int64_t{1})},
                                                           {&kDequeue, one("name", std::string("q"))},
                                                           {&kRestore, one("path", std::string("a"))}};
  for (auto [d, attrs] : out_of) {
    attrs.set("shape", Ints{4, 3});
    t.push_back({d, "matrix", {}, attrs});
    attrs.set("shape", Ints{0, 3});
    attrs.set("dtype", DType::kBF16);
    t.push_back({d, "empty halves", {}, attrs});
  }
}

}  // namespace trireme::op::testing
