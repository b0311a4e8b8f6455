// A Session runs any part of a graph: fetch an edge in the middle, feed an edge in the middle, by the names
// of the nodes. What the fetches do not need does not run, and need not be fed.
//
// Prints:
//   ~ hidden/relu = \[1, 0, 3\]
//   ~ y = 4
//   ~ y with the second unit switched on = 9
//   ~ without x: .*inputs that are not fed: 'x' \(f32\[2\]\)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "trireme/exec/session.h"
#include "trireme/graph/builder.h"

using namespace trireme;

namespace {

Tensor tensor(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from<float>(values, shape);
}

// y = sum(relu(x w))
graph::Graph network() {
  graph::Graph g;
  graph::Builder b(g);
  const graph::Value x = b.input("x", DType::kF32, {2}), w = b.variable("w", DType::kF32, {2, 3});
  g.push_scope("hidden");
  const graph::Value hidden = b.relu(b.matmul(b.reshape(x, {1, 2}), w));
  g.pop_scope();
  b.output("y", b.sum(hidden));
  TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  return g;
}

}  // namespace

int main() {
  exec::BlockingSession session = *exec::BlockingSession::make(network());
  const Status added = session.variables().add("w", tensor({1, -1, 1, 0, 0, 1}, {2, 3}));
  TR_CHECK(added.ok(), "{}", added.to_string());
  const exec::Feeds feeds{{"x", tensor({1, 2}, {2})}};

  const std::vector<Tensor> got = *session.run(feeds, {"hidden/relu", "y"});
  fmt::print("hidden/relu = [{}]\n", fmt::join(got[0].values<float>(), ", "));
  fmt::print("y = {}\n", *got[1].data<float>());

  const Tensor y = *session.run_one({{"hidden/relu", tensor({1, 5, 3}, {1, 3})}}, "y");
  fmt::print("y with the second unit switched on = {}\n", *y.data<float>());

  fmt::print("without x: {}\n", session.run_one({}, "y").status().message());
  return 0;
}
