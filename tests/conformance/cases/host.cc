// Feeds, messages and resources.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_host(std::vector<OpCase>& t) {
  const Attrs named{{"name", std::string("x")}, {"dtype", DType::kF64}, {"shape", Ints{2, 3}}};
  t.push_back({&kInput, "matrix", {}, named});
  t.push_back({&kVariable, "matrix", {}, named});
  t.push_back(
      {&kAllreduce, "matrix", {{kReal, {4, 3}}}, {{"slot", std::int64_t{2}}, {"label", std::string("g")}}});
  t.push_back({&kAllgather, "matrix", {{kReal, {4, 3}}}, one("world", std::int64_t{3})});
  t.push_back({&kReduceScatter, "matrix", {{kReal, {6, 3}}}, one("world", std::int64_t{3})});
  t.push_back({&kBroadcast, "matrix", {{kReal, {4, 3}}}});
  t.push_back({&kSend, "matrix", {{kReal, {4, 3}}}, one("peer", std::int64_t{1})});
  t.push_back({&kRecv, "matrix", {}, {{"peer", std::int64_t{1}}, {"shape", Ints{4, 3}}}});
  t.push_back({&kEnqueue, "matrix", {{kReal, {4, 3}}}, one("name", std::string("q"))});
  t.push_back({&kDequeue, "matrix", {}, {{"name", std::string("q")}, {"shape", Ints{4, 3}}}});
  t.push_back({&kSave, "matrix", {{kReal, {4, 3}}}, one("path", std::string("a"))});
  t.push_back({&kRestore, "matrix", {}, {{"path", std::string("a")}, {"shape", Ints{4, 3}}}});
}

}  // namespace trireme::op::testing
