// Models of the zoo, small, and ways to cut them: what graphs of positions must give.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sharding/positions.h"
#include "trireme/model/zoo.h"

namespace trireme::parallel::testing {

struct ZooCase {
  std::string label;  // letters and digits only
  const char* name;
  model::ModelInput input;
  model::ModelOptions options = {};
  std::int64_t batch = 4;
  bool convolves = false;
  bool experts = false;
  double tolerance = 1e-12;  // of f64
};
inline void PrintTo(const ZooCase& c, std::ostream* to) { *to << c.label; }
// Those that take a few ms a run, and the large ones, whose widths are a few channels.
std::vector<ZooCase> small_zoo();
std::vector<ZooCase> large_zoo();
ZooCase zoo_case(const std::string& label);

// A train graph in f64, values for its inputs and variables, and its outputs.
struct ZooGraph {
  graph::Graph graph;
  Tensors fed, expected;
  double tolerance = 1e-12;
};
// A failure of the test and an empty graph where it cannot be made.
ZooGraph made(const ZooCase& c, std::int64_t batch);

// Ways of laying out: a style, or matrices along one dimension.
inline constexpr const char* kWays[] = {"price",    "data",   "tensor", "one-weird-trick", "spatial",
                                        "sequence", "expert", "rows",   "columns"};
Status restrict_way(std::string_view way, const graph::Graph& graph, ShardRequest& request);
// Styles that the model has nothing for.
bool misfits(const ZooCase& c, std::string_view way);

// Over 2 and 3 positions, in every way: the loss and all gradients, and a refusal of what misfits.
void expect_every_way_gives_the_whole(const ZooCase& c);
// Over 2 positions in chunks of every scheme.
void expect_chunks_give_the_whole(const ZooCase& c);
// Over a mesh of several axes, each laid out in its way.
void expect_mesh_gives_the_whole(const ZooCase& c, const std::string& mesh,
                                 const std::vector<std::string>& ways);

}  // namespace trireme::parallel::testing
