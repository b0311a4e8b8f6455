// Mesh: the ranks of a job as a grid with named axes. Pure.
//
// The coordinate of the last axis varies fastest, so that neighbours along it are neighbours in rank order
// and fall on one host. A mesh of one axis is the plain numbering of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"

namespace trireme::parallel {

// Axes whose meaning is fixed: replicas of the model, tiles of its layers, segments of its depth (cells.h).
inline constexpr const char* kDataAxis = "data";
inline constexpr const char* kModelAxis = "model";
inline constexpr const char* kStageAxis = "stage";

struct Axis {
  std::string name;
  int size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

struct Mesh {
  std::vector<Axis> axes;  // outermost first

  int num_ranks() const;
  // One coordinate per axis. The rank is one of the mesh.
  std::vector<int> coordinates(int rank) const;
  int rank_of(std::span<const int> coordinates) const;
  // The coordinate of a rank along an axis; 0 along an axis that the mesh does not have.
  int coordinate(int rank, std::string_view axis) const;
  int size_of(std::string_view axis) const;  // 1 where the mesh has no such axis
  // The ranks that differ from `rank` along this axis only, in the order of their coordinates.
  std::vector<int> line(int rank, std::size_t axis) const;
  // "rank 5 (data 1, model 0)"; "rank 5" where there is one axis.
  std::string rank_text(int rank) const;
  // "data 1, model 0"; empty where there is one axis, or no such rank.
  std::string place_text(int rank) const;

  // A replica is all ranks with one coordinate on the data axis. The first of them speaks for it: it takes
  // leases and reports clocks.
  int num_replicas() const { return size_of(kDataAxis); }
  int replica_of(int rank) const { return coordinate(rank, kDataAxis); }
  std::vector<int> ranks_of_replica(int replica) const;
  int speaker_of(int replica) const;
  bool speaks(int rank) const { return speaker_of(replica_of(rank)) == rank; }
  // The ranks that have the place of `rank` in their replicas, by replica.
  std::vector<int> peers_of(int rank) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// Names are words of small letters, digits and dashes, and differ; sizes are at least 1, and there are at
// most 2^20 ranks.
Status check_mesh(const Mesh& mesh);

// "data=2,model=4", outermost axis first. Checked.
Result<Mesh> parse_mesh(std::string_view text);

std::string mesh_text(const Mesh& mesh);  // as parse_mesh reads it

// W replicas of the whole model.
Mesh data_mesh(int workers);

}  // namespace trireme::parallel
