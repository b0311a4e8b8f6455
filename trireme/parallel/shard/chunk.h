// Chunked regions: parts of a position's graph that are computed chunk after chunk of the samples, so that
// one chunk travels while another is multiplied. Graph to Graph, after an axis has cut the graph and before
// fusion.
//
// Behind a reshard of the batch (one weird trick's fully connected layers; Krizhevsky 2014, section 4) a
// region reaches to where samples return to their positions:
//
//   broadcast    one chunk: an allgather of all samples
//   vertical     chunk k is the samples of position k, which broadcasts them; what positions compute for
//                their own samples begins when all of these are back
//   horizontal   chunk k is 1/K of every position's samples, which are gathered
//
// Otherwise a region is a collective and the products next to it, in K chunks. Values that are added over
// samples, such as gradients of weights, are added in the order of the chunks. What cannot be computed for
// some samples alone stays as it is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/parallel/shard/fc_scheme.h"
#include "trireme/parallel/shard/sample_dims.h"
#include "trireme/parallel/shard/shard_graph.h"

namespace trireme::parallel {

struct ChunkRequest {
  FcScheme scheme = FcScheme::kBroadcast;
  // Broadcast: next to products; 1 leaves the graph as it is. Horizontal: of a region; 1: one per position.
  // Vertical has one per position.
  int chunks = 1;
  bool asks() const { return scheme != FcScheme::kBroadcast || chunks > 1; }
};

// How the samples of a region are cut. Rows are samples, or what samples consist of where all of the region
// can be cut between them.
struct ChunkRegion {
  // The rows of every position in each chunk, in the order of the positions. One entry where the region has
  // all samples on every position.
  std::vector<std::vector<std::int64_t>> rows;
  bool by_position = false;  // vertical
  std::size_t num_chunks() const { return rows.size(); }
};

// A node of a region.
struct ChunkedNode {
  int region = -1;  // -1: of none
  op::LayoutOption option = {};
  std::vector<std::int64_t> input_units = {}, output_units = {};  // indices of a row, where operands are cut
  bool own_inputs = false, own_outputs = false;
  SampleMove move = SampleMove::kNone;
  bool exchanges = false;  // along the axis
};

// Where what a node comes to stands in the new graph: by level, then what leads to a collective before what
// can wait, then by chunk. All positions have the same order of collectives, whatever they compute for them.
struct ChunkPlace {
  int level = 0;       // collectives in chunks that its inputs have behind them
  bool waits = false;  // no collective in chunks needs it
  int first = 0;       // no chunk of it comes before this one of the level
};

// A collective that is made of chunks.
struct ChunkedMove {
  std::string label;  // what it is for
  std::string_view collective;
  std::size_t chunks = 1;
};

struct ChunkPlan {
  ShardAxis axis;
  std::vector<ChunkRegion> regions;
  std::vector<ChunkedNode> nodes;  // of all nodes
  std::vector<ChunkPlace> places;  // of all nodes
  std::vector<ChunkedMove> moves;
};

// By the graph of position 0 alone, so that all positions decide alike.
ChunkPlan choose_chunks(const graph::Graph& first, const ShardAxis& axis, const ChunkRequest& request);

// The graph of a position in chunks; `part` has the nodes of the graph that was looked at, in other sizes.
// Vertical: graphs of positions differ, since a chunk is of one of them.
Result<graph::Graph> chunk_graph(const graph::Graph& part, const ChunkPlan& plan, int position);

// Where the values of a node stand that its readers see: joined, or as the chunks of its region.
ChunkPlace place_behind(const ChunkPlan& plan, std::int32_t id, bool joined);

// Both, of a whole graph.
Result<graph::Graph> shard_in_chunks(const graph::Graph& whole, const AxisLayouts& layouts,
                                     const ChunkRequest& request, int position);

// The chunks of the collective that a move comes to: 1 where it is made at once.
std::size_t chunks_of(const ChunkPlan& plan, const ReshardRow& row);

}  // namespace trireme::parallel
