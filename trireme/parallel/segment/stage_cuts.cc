#include "trireme/parallel/segment/stage_cuts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>

#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Actions that all walks of a choice may come to: a fraction of a second.
constexpr std::int64_t kMostActions = 2'000'000;

// The most of any run of values, in O(1) behind a table of O(n log n): row k has those of runs of 2^k.
class Maxima {
 public:
  explicit Maxima(std::vector<std::int64_t> values) {
    rows_.push_back(std::move(values));
    for (std::size_t half = 1; 2 * half <= rows_[0].size(); half *= 2) {
      const std::vector<std::int64_t>& halves = rows_.back();
      std::vector<std::int64_t> row;
      for (std::size_t i = 0; i + half < halves.size(); ++i)
        row.push_back(std::max(halves[i], halves[i + half]));
      rows_.push_back(std::move(row));
    }
  }
  std::int64_t of(std::size_t begin, std::size_t end) const {
    const auto k = static_cast<std::size_t>(std::bit_width(end - begin)) - 1;
    return std::max(rows_[k][begin], rows_[k][end - (std::size_t{1} << k)]);
  }

 private:
  std::vector<std::vector<std::int64_t>> rows_;
};

std::vector<std::int64_t> values_of(const std::vector<PieceBytes>& pieces, std::int64_t PieceBytes::*part) {
  std::vector<std::int64_t> values;
  for (const PieceBytes& b : pieces) values.push_back(b.*part);
  return values;
}

// What a run of pieces comes to, in O(1) behind sums and maxima over all pieces.
class Runs {
 public:
  explicit Runs(const StageCutRequest& request)
      : o_(request),
        p_(*request.pieces),
        scratch_(values_of(p_.bytes, &PieceBytes::scratch)),
        in_turn_(values_of(p_.bytes, &PieceBytes::in_turn)) {
    for (const PhaseTimes& t : p_.seconds)
      until_.push_back(until_.back() + t.forward + t.backward + t.weights);
    for (const PieceBytes& b : p_.bytes) {
      held_.push_back(held_.back() + b.held);
      kept_.push_back(kept_.back() + b.kept);
      version_.push_back(version_.back() + b.version);
      turns_.push_back(turns_.back() + b.in_turn);
    }
  }

  double turn(std::size_t v, std::size_t begin, std::size_t end) const {
    const double speed = o_.speeds.empty() ? 1.0 : o_.speeds[v];
    const double computes = (until_[end] - until_[begin]) / speed;
    if (end == p_.seconds.size()) return computes;
    return std::max({computes, p_.activations[end - 1], p_.gradients[end - 1]});
  }
  double sends(std::size_t end) const {
    return end == p_.seconds.size() ? 0 : p_.activations[end - 1] + p_.gradients[end - 1];
  }
  std::int64_t bytes(std::size_t v, std::size_t begin, std::size_t end) const {
    std::int64_t passing = 0;
    if (begin > 0) passing += p_.entering[begin - 1];
    if (end < p_.seconds.size()) passing += p_.leaving[end - 1];
    const std::int64_t in_turn = std::min(turns_[end] - turns_[begin], 2 * in_turn_.of(begin, end));
    const std::int64_t versions = o_.versions.empty() ? 0 : o_.versions[v];
    return o_.common_bytes + held_[end] - held_[begin] + scratch_.of(begin, end) + in_turn +
           versions * (version_[end] - version_[begin]) +
           o_.in_flight[v] * (kept_[end] - kept_[begin] + passing);
  }
  bool fit(std::size_t v, std::size_t begin, std::size_t end) const {
    return p_.bytes.empty() || o_.limit_bytes == 0 || bytes(v, begin, end) <= o_.limit_bytes;
  }

 private:
  const StageCutRequest& o_;
  const StagePieces& p_;
  std::vector<double> until_{0};
  std::vector<std::int64_t> held_{0}, kept_{0}, version_{0}, turns_{0};
  Maxima scratch_, in_turn_;
};

std::size_t end_of(const StagePieces& pieces, const PieceRuns& first, std::size_t v) {
  return v + 1 < first.size() ? static_cast<std::size_t>(first[v + 1]) : pieces.seconds.size();
}

// least[v][end]: the price of v + 1 runs of the first `end` pieces, at best. `join` of what stands before and
// of a run must not fall where one of the two rises.
template <class Cost, class Join>
PieceRuns programme(std::size_t pieces, std::size_t chain, const Cost& cost, const Join& join) {
  std::vector<std::vector<double>> least(chain, std::vector<double>(pieces + 1, kNever));
  std::vector<std::vector<std::size_t>> from(chain, std::vector<std::size_t>(pieces + 1, 0));
  for (std::size_t end = 1; end <= pieces; ++end) least[0][end] = cost(0, 0, end);
  for (std::size_t v = 1; v < chain; ++v)
    for (std::size_t end = v + 1; end <= pieces; ++end)
      for (std::size_t begin = v; begin < end; ++begin) {
        if (least[v - 1][begin] == kNever) continue;
        const double all = join(least[v - 1][begin], cost(v, begin, end));
        if (all < least[v][end]) least[v][end] = all, from[v][end] = begin;
      }
  if (chain > pieces || least[chain - 1][pieces] == kNever) return {};
  PieceRuns first(chain, 0);
  for (std::size_t v = chain - 1, end = pieces; v > 0; --v) {
    end = from[v][end];
    first[v] = static_cast<std::int32_t>(end);
  }
  return first;
}

double larger(double a, double b) { return std::max(a, b); }
double sum(double a, double b) { return a + b; }

// Calls `look` with all ways to cut `pieces` into runs of which `first` has the ones so far.
void each_cut(std::int32_t pieces, std::size_t chain, PieceRuns& first,
              const std::function<void(const PieceRuns&)>& look) {
  if (first.size() == chain) return look(first);
  const auto left = static_cast<std::int32_t>(chain - first.size());
  for (std::int32_t next = first.back() + 1; next + left <= pieces; ++next) {
    first.push_back(next);
    each_cut(pieces, chain, first, look);
    first.pop_back();
  }
}

// Binomial coefficients, as far as `most`.
std::int64_t number_of_cuts(std::int64_t fences, std::int64_t cuts, std::int64_t most) {
  std::int64_t count = 1;
  for (std::int64_t k = 1; k <= std::min(cuts, fences - cuts) && count <= most; ++k)
    count = count * (fences - k + 1) / k;
  return count;
}

class Chooser {
 public:
  explicit Chooser(const StageCutRequest& request)
      : o_(request), walks_(kMostActions / std::max<std::int64_t>(1, o_.actions)) {}

  Result<StageCutChoice> choose(const PieceRuns& usual, double least_gain) {
    const auto chain = static_cast<std::int32_t>(usual.size());
    const bool usual_fits = fits(o_, usual);
    if (usual_fits && walks_ == 0) return StageCutChoice{usual, 0, true};
    if (usual_fits) look(usual);
    if (number_of_cuts(o_.pieces->size() - 1, chain - 1, walks_) <= walks_) {
      PieceRuns first{0};
      each_cut(o_.pieces->size(), usual.size(), first, [this](const PieceRuns& cut) { look(cut); });
    } else {
      propose(chain);
      while (!best_.first.empty() && moved_a_fence()) continue;
    }
    if (!failure_.ok()) return failure_;
    if (best_.first.empty()) best_ = {shortest_turns(o_, chain), 0, true};  // where nothing can be walked
    if (best_.first.empty()) return StageCutChoice{least_bytes(o_, chain), 0, false};
    if (!usual_fits) return best_;
    const double of_usual = known_.at(usual);
    if (best_.seconds >= (1 - least_gain) * of_usual) best_ = {usual, of_usual, true};
    return best_;
  }

 private:
  // True: none before was better.
  bool look(const PieceRuns& first) {
    if (first.empty() || !failure_.ok() || known_.contains(first)) return false;
    if (static_cast<std::int64_t>(known_.size()) >= walks_ || !fits(o_, first)) return false;
    Result<double> seconds = o_.price(times_of_runs(o_, first));
    if (!seconds.ok()) failure_ = seconds.status();
    known_[first] = seconds.ok() ? *seconds : kNever;
    const bool better = best_.first.empty() || *seconds < best_.seconds;
    if (!seconds.ok() || !better) return false;
    best_ = {first, *seconds, true};
    return true;
  }

  void propose(std::int32_t chain) {
    const PieceRuns shortest = shortest_turns(o_, chain);
    look(shortest);
    if (shortest.empty()) return;
    const double turn = longest_turn(o_, shortest);
    for (const double longer : {1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0})
      look(fewest_sends(o_, chain, longer * turn));
  }

  bool moved_a_fence() {
    const PieceRuns from = best_.first;
    bool moved = false;
    for (std::size_t v = 1; v < from.size(); ++v)
      for (const std::int32_t by : {-1, 1}) {
        PieceRuns next = from;
        next[v] += by;
        const std::int32_t end = v + 1 < from.size() ? from[v + 1] : o_.pieces->size();
        if (next[v] > from[v - 1] && next[v] < end) moved = look(next) || moved;
      }
    return moved;
  }

  const StageCutRequest& o_;
  const std::int64_t walks_;
  std::map<PieceRuns, double> known_;
  StageCutChoice best_;
  Status failure_;
};

}  // namespace

std::vector<FenceBytes> fence_bytes(const graph::Graph& forward, const LayerList& list,
                                    std::span<const std::string> trained) {
  const std::set<std::string> names(trained.begin(), trained.end());
  std::vector<bool> learns(static_cast<std::size_t>(forward.size()), false);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> last;  // of a value: the last layer with it
  const auto layer = [&](std::int32_t node) { return list.layer_of[static_cast<std::size_t>(node)]; };
  for (std::int32_t i = 0; i < forward.size(); ++i) {
    const graph::Node& node = forward.node(i);
    bool follows = node.def == &op::kVariable && names.contains(node.attrs.get_text("name"));
    for (const graph::Value v : node.inputs) {
      follows = follows || learns[static_cast<std::size_t>(v.node)];
      if (layer(v.node) < 0 || layer(i) <= layer(v.node)) continue;
      std::int32_t& reader = last[{v.node, v.index}];
      reader = std::max(reader, layer(i));
    }
    learns[static_cast<std::size_t>(i)] = follows;
  }
  std::vector<FenceBytes> fences(list.layers.size() - 1);
  for (const auto& [value, reader] : last) {
    const TensorType& type = forward.type({value.first, value.second});
    const bool comes_back = learns[static_cast<std::size_t>(value.first)] && is_floating(type.dtype);
    for (std::int32_t f = layer(value.first); f < reader; ++f) {
      fences[static_cast<std::size_t>(f)].forward += static_cast<double>(type.num_bytes());
      if (comes_back) fences[static_cast<std::size_t>(f)].back += static_cast<double>(type.num_bytes());
    }
  }
  return fences;
}

TimetableTimes times_of_runs(const StageCutRequest& request, const PieceRuns& first) {
  const StagePieces& pieces = *request.pieces;
  TimetableTimes times;
  for (std::size_t v = 0; v < first.size(); ++v) {
    const std::size_t end = end_of(pieces, first, v);
    const double speed = request.speeds.empty() ? 1.0 : request.speeds[v];
    PhaseTimes& run = times.phases.emplace_back();
    for (auto i = static_cast<std::size_t>(first[v]); i < end; ++i) {
      run.forward += pieces.seconds[i].forward / speed;
      run.backward += pieces.seconds[i].backward / speed;
      run.weights += pieces.seconds[i].weights / speed;
    }
    if (v + 1 == first.size()) break;
    times.activations.push_back(pieces.activations[end - 1]);
    times.gradients.push_back(pieces.gradients[end - 1]);
  }
  return times;
}

double longest_turn(const StageCutRequest& request, const PieceRuns& first) {
  const Runs runs(request);
  double most = 0;
  for (std::size_t v = 0; v < first.size(); ++v)
    most =
        std::max(most, runs.turn(v, static_cast<std::size_t>(first[v]), end_of(*request.pieces, first, v)));
  return most;
}

std::int64_t most_bytes(const StageCutRequest& request, const PieceRuns& first) {
  const Runs runs(request);
  std::int64_t most = 0;
  for (std::size_t v = 0; v < first.size() && !request.pieces->bytes.empty(); ++v)
    most =
        std::max(most, runs.bytes(v, static_cast<std::size_t>(first[v]), end_of(*request.pieces, first, v)));
  return most;
}

bool fits(const StageCutRequest& request, const PieceRuns& first) {
  return request.limit_bytes == 0 || most_bytes(request, first) <= request.limit_bytes;
}

PieceRuns shortest_turns(const StageCutRequest& request, std::int32_t chain) {
  const Runs runs(request);
  const auto cost = [&](std::size_t v, std::size_t begin, std::size_t end) {
    return runs.fit(v, begin, end) ? runs.turn(v, begin, end) : kNever;
  };
  return programme(request.pieces->seconds.size(), static_cast<std::size_t>(chain), cost, larger);
}

PieceRuns fewest_sends(const StageCutRequest& request, std::int32_t chain, double seconds) {
  const Runs runs(request);
  const auto cost = [&](std::size_t v, std::size_t begin, std::size_t end) {
    const bool may = runs.turn(v, begin, end) <= seconds && runs.fit(v, begin, end);
    return may ? runs.sends(end) : kNever;
  };
  return programme(request.pieces->seconds.size(), static_cast<std::size_t>(chain), cost, sum);
}

PieceRuns least_bytes(const StageCutRequest& request, std::int32_t chain) {
  const Runs runs(request);
  const auto cost = [&](std::size_t v, std::size_t begin, std::size_t end) {
    return static_cast<double>(runs.bytes(v, begin, end));
  };
  return programme(request.pieces->seconds.size(), static_cast<std::size_t>(chain), cost, larger);
}

Result<StageCutChoice> choose_stage_cuts(const StageCutRequest& request, const PieceRuns& usual,
                                         double least_gain) {
  return Chooser(request).choose(usual, least_gain);
}

}  // namespace trireme::parallel
