#include "trireme/collective/chains.h"

#include <map>
#include <tuple>

namespace trireme::collective {
namespace {

// Steps run as soon as their dependencies and, for a recv, the matching send are known.
class ChainWalk {
 public:
  ChainWalk(std::span<const RankProgram> programs, const Loads& loads)
      : programs_(programs), loads_(loads), depth_(programs.size()), known_(programs.size()) {
    for (std::size_t r = 0; r < programs.size(); ++r) {
      depth_[r].resize(programs[r].steps.size());
      known_[r].resize(programs[r].steps.size());
    }
  }

  std::vector<std::vector<ChainDepth>> run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < programs_.size(); ++r)
        for (std::size_t i = 0; i < programs_[r].steps.size(); ++i)
          if (!known_[r][i]) progress = visit(r, i) || progress;
    }
    return std::move(depth_);
  }

 private:
  bool visit(std::size_t r, std::size_t i) {
    const Step& s = programs_[r].steps[i];
    ChainDepth d;
    for (const std::uint32_t dep : programs_[r].deps_of(s)) {
      if (!known_[r][dep]) return false;
      d.follow(depth_[r][dep]);
    }
    if (is_recv(s.kind)) {
      const auto it = sent_.find({s.peer, static_cast<int>(r), s.part});
      if (it == sent_.end()) return false;
      d.follow(it->second);
    }
    if (s.kind == StepKind::kSend) {
      sent_[{static_cast<int>(r), s.peer, s.part}] =
          d.sent(s.count, loads_.crosses(static_cast<int>(r), s.peer));
      d = d.done(s.count);
    }
    depth_[r][i] = d;
    known_[r][i] = true;
    return true;
  }

  using Key = std::tuple<int, int, std::uint32_t>;  // from, to, part
  std::span<const RankProgram> programs_;
  const Loads& loads_;
  std::vector<std::vector<ChainDepth>> depth_;
  std::vector<std::vector<bool>> known_;
  std::map<Key, ChainDepth> sent_;
};

}  // namespace

std::vector<std::vector<ChainDepth>> chain_depths(std::span<const RankProgram> programs, const Loads& loads) {
  return ChainWalk(programs, loads).run();
}

}  // namespace trireme::collective
