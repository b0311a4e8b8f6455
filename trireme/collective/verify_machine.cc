#include "trireme/collective/verify_machine.h"

#include <algorithm>
#include <deque>
#include <map>

#include "trireme/collective/expression.h"
#include "trireme/collective/tree.h"

namespace trireme::collective {
namespace {

Expr fixed_tree(ExprPool& pool, TreeNode node, std::int32_t num_leaves) {
  if (node.level == 0) return pool.leaf(node.first);
  const TreeNode left{node.first, node.level - 1};
  const Expr l = fixed_tree(pool, left, num_leaves);
  const TreeNode right = sibling_of(left);
  return right.first >= num_leaves ? l : pool.sum(l, fixed_tree(pool, right, num_leaves));
}

// All ranks at once, symbolically.
class Machine {
 public:
  Machine(Programs programs, const ScheduleSpec& spec, bool fixed_order, bool alias)
      : programs_(programs),
        spec_(spec),
        fixed_order_(fixed_order),
        alias_(alias),
        num_leaves_(fixed_order && !spec.leaf_runs.empty() ? spec.num_leaves : spec.world),
        pool_(num_leaves_) {}

  Status run() {
    TR_RETURN_IF_ERROR(load());
    TR_RETURN_IF_ERROR(execute());
    return spec_.kind == Kind::kBarrier ? check_barrier() : check_result();
  }

 private:
  struct Rank {
    std::vector<SymbolicBuffer> buffers;
    std::vector<std::size_t> waiting;  // dependencies left per step
    std::vector<std::vector<std::size_t>> successors;
    std::vector<std::vector<bool>> heard;  // per step: ranks whose start came before its end
    std::size_t num_done = 0;
  };
  struct Message {
    std::vector<Piece> pieces;
    std::vector<bool> heard;
  };

  SymbolicBuffer& buffer(Rank& r, const Region& region) {
    const auto b = static_cast<std::size_t>(region.buffer);
    return r.buffers[alias_ && b == 1 ? 0 : b];
  }

  Status load() {
    ranks_.resize(programs_.size());
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      const RankProgram& p = programs_[i];
      Rank& r = ranks_[i];
      const bool tree = fixed_order_;
      r.buffers.emplace_back(spec_.count, tree ? -1 : pool_.leaf(static_cast<std::int32_t>(i)));
      if (tree) {
        const LeafRun run =
            spec_.leaf_runs.empty() ? LeafRun{static_cast<std::int32_t>(i), 1} : spec_.leaf_runs[i];
        const auto subtrees = maximal_subtrees(run, num_leaves_);
        if (static_cast<int>(subtrees.size()) != p.num_partials)
          return broken("rank {} has {} partials, its leaf run has {} maximal subtrees", i, p.num_partials,
                        subtrees.size());
        for (const TreeNode& n : subtrees)
          r.buffers.emplace_back(spec_.count, fixed_tree(pool_, n, num_leaves_));
        if (alias_ && p.num_partials > 0) r.buffers[0] = r.buffers[1];
      }
      for (const std::int64_t elems : p.scratch_elems) r.buffers.emplace_back(elems, -1);
      r.waiting.resize(p.steps.size());
      r.successors.resize(p.steps.size());
      r.heard.assign(p.steps.size(), std::vector<bool>(programs_.size()));
      std::size_t last_send = p.steps.size();
      for (std::size_t s = 0; s < p.steps.size(); ++s) {
        r.waiting[s] = p.steps[s].num_deps;
        for (const std::uint32_t d : p.deps_of(p.steps[s])) r.successors[d].push_back(s);
        if (p.steps[s].kind != StepKind::kSend) continue;
        if (last_send < s) {  // sends start in program order
          r.successors[last_send].push_back(s);
          ++r.waiting[s];
        }
        last_send = s;
      }
    }
    return {};
  }

  Status execute() {
    for (std::size_t i = 0; i < programs_.size(); ++i)
      for (std::size_t s = 0; s < programs_[i].steps.size(); ++s)
        if (ranks_[i].waiting[s] == 0) ready_.push_back({i, s});
    while (!ready_.empty()) {
      const auto [rank, step] = ready_.front();
      ready_.pop_front();
      TR_RETURN_IF_ERROR(start(rank, step));
    }
    for (std::size_t i = 0; i < programs_.size(); ++i)
      if (ranks_[i].num_done != programs_[i].steps.size()) return stuck(i);
    return {};
  }

  Status stuck(std::size_t rank) const {
    if (parked_.empty()) return broken("rank {} never ends", rank);
    const auto [from, to, part] = parked_.begin()->first;
    return broken("a cycle waits: rank {} waits for part {} of rank {}, which waits too", to, part, from);
  }

  Status start(std::size_t rank, std::size_t step) {
    const Step& s = programs_[rank].steps[step];
    if (is_recv(s.kind)) {
      const MessageKey key{s.peer, static_cast<int>(rank), s.part};
      const auto it = flying_.find(key);
      if (it == flying_.end()) {
        parked_[key] = {rank, step};
        return {};
      }
      const Message m = std::move(it->second);
      flying_.erase(it);
      return finish(rank, step, &m);
    }
    return finish(rank, step, nullptr);
  }

  Status finish(std::size_t rank, std::size_t step, const Message* message) {
    Rank& r = ranks_[rank];
    const Step& s = programs_[rank].steps[step];
    auto& heard = r.heard[step];
    heard[rank] = true;
    for (const std::uint32_t d : programs_[rank].deps_of(s)) merge(heard, r.heard[d]);
    if (message != nullptr) merge(heard, message->heard);
    TR_RETURN_IF_ERROR(apply(r, s, rank, step, message));
    ++r.num_done;
    for (const std::size_t next : r.successors[step])
      if (--r.waiting[next] == 0) ready_.push_back({rank, next});
    return {};
  }

  static void merge(std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] || from[i];
  }

  Status apply(Rank& r, const Step& s, std::size_t rank, std::size_t step, const Message* message) {
    switch (s.kind) {
      case StepKind::kSend: {
        const MessageKey key{static_cast<int>(rank), s.peer, s.part};
        flying_[key] = {s.count > 0 ? buffer(r, s.src).read(s.src.offset, s.count) : std::vector<Piece>{},
                        r.heard[step]};
        if (const auto it = parked_.find(key); it != parked_.end()) {
          ready_.push_back(it->second);
          parked_.erase(it);
        }
        return {};
      }
      case StepKind::kRecv:
        if (s.count > 0) buffer(r, s.dst).write(s.dst.offset, message->pieces);
        return {};
      case StepKind::kCopy:
        buffer(r, s.dst).write(s.dst.offset, buffer(r, s.src).read(s.src.offset, s.count));
        return {};
      case StepKind::kRecvReduce:
      case StepKind::kRecvReduceLeft:
        buffer(r, s.src).write(s.src.offset, message->pieces);
        [[fallthrough]];
      case StepKind::kReduce:
      case StepKind::kReduceLeft:
        return add(r, s, rank, step);
    }
    return {};
  }

  Status add(Rank& r, const Step& s, std::size_t rank, std::size_t step) {
    const bool src_left = s.kind == StepKind::kReduceLeft || s.kind == StepKind::kRecvReduceLeft;
    const auto a = buffer(r, s.dst).read(s.dst.offset, s.count),
               b = buffer(r, s.src).read(s.src.offset, s.count);
    std::vector<Piece> out;
    std::size_t i = 0, j = 0;
    for (std::int64_t in_a = 0, in_b = 0, done = 0; done < s.count;) {
      const Piece &x = a[i], &y = b[j];
      const std::int64_t n = std::min(x.count - in_a, y.count - in_b);
      if (x.expr < 0 || y.expr < 0)
        return broken("step {} of rank {} adds an element that nobody wrote", step, rank);
      if (x.shift + in_a != y.shift + in_b)
        return broken("step {} of rank {} adds different elements: {} and {}", step, rank, x.shift + in_a,
                      y.shift + in_b);
      out.push_back({n, src_left ? pool_.sum(y.expr, x.expr) : pool_.sum(x.expr, y.expr), x.shift + in_a});
      done += n;
      if ((in_a += n) == x.count) in_a = 0, ++i;
      if ((in_b += n) == y.count) in_b = 0, ++j;
    }
    buffer(r, s.dst).write(s.dst.offset, out);
    return {};
  }

  Status check_barrier() const {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      std::vector<bool> heard(ranks_.size());
      heard[i] = true;
      for (const auto& h : ranks_[i].heard) merge(heard, h);
      for (std::size_t j = 0; j < heard.size(); ++j)
        if (!heard[j]) return broken("rank {} leaves the barrier without having heard of rank {}", i, j);
    }
    return {};
  }

  Status check_piece(std::size_t rank, const Piece& piece, std::int64_t at, const Piece& same_at_rank_0) {
    if (piece.expr < 0) return broken("element {} of rank {} was never written", at, rank);
    if (piece.shift != at) return broken("element {} of rank {} holds element {}", at, rank, piece.shift);
    if (spec_.kind == Kind::kBroadcast) {
      if (piece.expr != pool_.leaf(spec_.root))
        return broken("element {} of rank {} is {}, expected x{} of the root", at, rank,
                      pool_.to_text(piece.expr), spec_.root);
      return {};
    }
    const auto counts = pool_.leaf_counts(piece.expr);
    for (std::size_t leaf = 0; leaf < counts.size(); ++leaf)
      if (counts[leaf] != 1)
        return broken("element {} of rank {} has leaf {} {} times, expected once: {}", at, rank, leaf,
                      counts[leaf], pool_.to_text(piece.expr));
    if (fixed_order_) {
      const Expr want = fixed_tree(pool_, {0, root_level(num_leaves_)}, num_leaves_);
      if (piece.expr != want)
        return broken("element {} of rank {} is not the fixed tree: got {}, expected {}", at, rank,
                      pool_.to_text(piece.expr), pool_.to_text(want));
    } else if (piece.expr != same_at_rank_0.expr) {
      return broken("element {} of rank {} is added in another order than on rank 0: {} and {}", at, rank,
                    pool_.to_text(piece.expr), pool_.to_text(same_at_rank_0.expr));
    }
    return {};
  }

  Status check_result() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      std::int64_t at = 0;
      for (const Piece& piece : ranks_[i].buffers[0].read(0, spec_.count)) {
        // A piece of this rank may span several of rank 0; those must then be equal.
        std::int64_t sub = at;
        for (const Piece& zero : ranks_[0].buffers[0].read(at, piece.count)) {
          TR_RETURN_IF_ERROR(check_piece(i, {zero.count, piece.expr, piece.shift + (sub - at)}, sub, zero));
          sub += zero.count;
        }
        at += piece.count;
      }
    }
    return {};
  }

  Programs programs_;
  const ScheduleSpec& spec_;
  bool fixed_order_, alias_;
  std::int32_t num_leaves_;
  ExprPool pool_;
  std::vector<Rank> ranks_;
  std::deque<std::pair<std::size_t, std::size_t>> ready_;
  std::map<MessageKey, Message> flying_;
  std::map<MessageKey, std::pair<std::size_t, std::size_t>> parked_;
};

}  // namespace

Status run_symbolically(Programs programs, const ScheduleSpec& spec, bool fixed_order, bool alias) {
  return Machine(programs, spec, fixed_order, alias).run();
}

}  // namespace trireme::collective
