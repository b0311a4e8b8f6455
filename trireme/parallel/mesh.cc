#include "trireme/parallel/mesh.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace trireme::parallel {

int Mesh::num_ranks() const {
  int ranks = 1;
  for (const Axis& axis : axes) ranks *= axis.size;
  return ranks;
}

std::vector<int> Mesh::coordinates(int rank) const {
  std::vector<int> out(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    out[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return out;
}

int Mesh::rank_of(std::span<const int> coordinates) const {
  int rank = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) rank = rank * axes[i].size + coordinates[i];
  return rank;
}

int Mesh::coordinate(int rank, std::string_view axis) const {
  const std::vector<int> at = coordinates(rank);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == axis) return at[i];
  return 0;
}

int Mesh::size_of(std::string_view axis) const {
  for (const Axis& a : axes)
    if (a.name == axis) return a.size;
  return 1;
}

std::vector<int> Mesh::line(int rank, std::size_t axis) const {
  std::vector<int> at = coordinates(rank), out;
  for (at[axis] = 0; at[axis] < axes[axis].size; ++at[axis]) out.push_back(rank_of(at));
  return out;
}

std::string Mesh::place_text(int rank) const {
  if (axes.size() < 2 || rank < 0 || rank >= num_ranks()) return "";
  const std::vector<int> at = coordinates(rank);
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", axes[i].name, at[i]);
  return text;
}

std::string Mesh::rank_text(int rank) const {
  const std::string place = place_text(rank);
  return place.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, place);
}

std::vector<int> Mesh::ranks_of_replica(int replica) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks(); ++rank)
    if (replica_of(rank) == replica) ranks.push_back(rank);
  return ranks;
}

int Mesh::speaker_of(int replica) const {
  std::vector<int> at(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == kDataAxis) at[i] = replica;
  return rank_of(at);
}

std::vector<int> Mesh::peers_of(int rank) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == kDataAxis) return line(rank, i);
  return {rank};
}

Status check_mesh(const Mesh& mesh) {
  constexpr std::int64_t kMostRanks = 1 << 20;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  std::set<std::string_view> names;
  std::int64_t ranks = 1;
  for (const Axis& axis : mesh.axes) {
    if (axis.name.empty() || axis.name.find_first_not_of(kLetters) != std::string::npos)
      return error(Code::kInvalid, "[parallel] '{}' is no name of an axis: expected a-z, 0-9 and dashes",
                   axis.name);
    if (!names.insert(axis.name).second)
      return error(Code::kInvalid, "[parallel] two axes of the mesh are called '{}'", axis.name);
    ranks *= std::clamp<std::int64_t>(axis.size, 0, kMostRanks + 1);
    if (ranks < 1 || ranks > kMostRanks)
      return error(Code::kInvalid,
                   "[parallel] axis '{}' of size {}: expected at least 1, and at most {} ranks", axis.name,
                   axis.size, kMostRanks);
  }
  return {};
}

Result<Mesh> parse_mesh(std::string_view text) {
  Mesh mesh;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string_view number = equals < item.size() ? item.substr(equals + 1) : std::string_view();
    Axis axis{std::string(item.substr(0, equals)), 0};
    const auto [stop, failed] = std::from_chars(number.data(), number.data() + number.size(), axis.size);
    if (axis.name.empty() || failed != std::errc() || stop != number.data() + number.size())
      return error(Code::kInvalid,
                   "[parallel] a mesh is axes with their sizes: got '{}', expected such as data=2,model=4",
                   text);
    mesh.axes.push_back(std::move(axis));
    begin = end + 1;
  }
  TR_RETURN_IF_ERROR(check_mesh(mesh));
  return mesh;
}

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : mesh.axes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  return text;
}

Mesh data_mesh(int workers) { return {{{kDataAxis, workers}}}; }

}  // namespace trireme::parallel
