#include "trireme/collective/verify_machine.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "trireme/collective/contract.h"
#include "trireme/collective/expression.h"
#include "trireme/collective/tree.h"
#include "trireme/collective/verify_reads.h"

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
  Machine(Programs programs, const ScheduleSpec& spec, const SymbolicRun& mode)
      : programs_(programs),
        spec_(spec),
        mode_(mode),
        num_leaves_(mode.fixed_order && !spec.leaf_runs.empty() ? spec.num_leaves : spec.world),
        pool_(num_leaves_) {}

  Status run() {
    ranks_.resize(programs_.size());
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      TR_RETURN_IF_ERROR(load(i));
      link(i);
    }
    TR_RETURN_IF_ERROR(execute());
    TR_RETURN_IF_ERROR(check_reads(programs_, finished_));
    return spec_.kind == Kind::kBarrier ? check_barrier() : check_result();
  }

 private:
  struct Rank {
    std::vector<SymbolicBuffer> buffers;
    std::vector<std::size_t> waiting;  // dependencies left per step
    std::vector<std::vector<std::size_t>> successors;
    std::vector<std::size_t> next_send;    // per step; 0: none
    std::vector<std::vector<bool>> heard;  // per step: ranks whose start came before its end
    std::size_t num_done = 0;
  };
  struct Message {
    std::vector<SymbolicExtent> pieces;
    std::vector<bool> heard;
    std::size_t step;  // of the sender
  };

  SymbolicBuffer& buffer(Rank& r, const Region& region) {
    const auto b = static_cast<std::size_t>(region.buffer);
    return r.buffers[mode_.alias && b == 1 ? 0 : b];
  }

  Status load(std::size_t i) {
    const RankProgram& p = programs_[i];
    Rank& r = ranks_[i];
    if (mode_.fixed_order) {
      TR_RETURN_IF_ERROR(load_partials(i));
    } else {
      const int rank = static_cast<int>(i), num_buffers = caller_buffers(spec_, rank);
      if (p.num_partials != num_buffers)
        return broken("rank {} has {} buffers of the caller, expected {}", i, p.num_partials, num_buffers);
      for (int b = 0; b <= num_buffers; ++b) r.buffers.emplace_back(caller_elems(spec_, rank, b), -1);
      for (const Holding& h : brought(spec_, rank))
        r.buffers[static_cast<std::size_t>(h.buffer)].write(h.offset,
                                                            {{h.count, pool_.leaf(h.leaf), h.element}});
    }
    for (const std::int64_t elems : p.scratch_elems) r.buffers.emplace_back(elems, -1);
    return {};
  }

  Status load_partials(std::size_t i) {
    Rank& r = ranks_[i];
    const LeafRun run =
        spec_.leaf_runs.empty() ? LeafRun{static_cast<std::int32_t>(i), 1} : spec_.leaf_runs[i];
    const auto subtrees = maximal_subtrees(run, num_leaves_);
    const int num_partials = programs_[i].num_partials;
    if (static_cast<int>(subtrees.size()) != num_partials)
      return broken("rank {} has {} partials, its leaf run has {} maximal subtrees", i, num_partials,
                    subtrees.size());
    r.buffers.emplace_back(spec_.count, -1);
    for (const TreeNode& n : subtrees) r.buffers.emplace_back(spec_.count, fixed_tree(pool_, n, num_leaves_));
    if (mode_.alias && num_partials > 0) r.buffers[0] = r.buffers[1];
    return {};
  }

  // Dependencies; sends also start in program order.
  void link(std::size_t i) {
    const RankProgram& p = programs_[i];
    Rank& r = ranks_[i];
    r.waiting.resize(p.steps.size());
    r.successors.resize(p.steps.size());
    r.next_send.resize(p.steps.size());
    r.heard.assign(p.steps.size(), std::vector<bool>(programs_.size()));
    std::size_t last_send = p.steps.size();
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      r.waiting[s] += p.steps[s].num_deps;
      for (const std::uint32_t d : p.deps_of(p.steps[s])) r.successors[d].push_back(s);
      if (p.steps[s].kind != StepKind::kSend) continue;
      if (last_send < s) {
        r.next_send[last_send] = s;
        ++r.waiting[s];
      }
      last_send = s;
    }
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
    if (parked_.empty()) return broken("rank {} never ends: it sends before its partner receives", rank);
    const auto [from, to, part] = parked_.begin()->first;
    return broken("a cycle waits: rank {} waits for part {} of rank {}, which waits too", to, part, from);
  }

  Status start(std::size_t rank, std::size_t step) {
    const Step& s = programs_[rank].steps[step];
    if (s.kind == StepKind::kSend) return start_send(rank, step);
    if (!is_recv(s.kind)) return finish(rank, step, nullptr);
    const MessageKey key{s.peer, static_cast<int>(rank), s.part};
    const auto it = flying_.find(key);
    if (it == flying_.end()) {
      parked_[key] = {rank, step};
      return {};
    }
    const Message m = std::move(it->second);
    flying_.erase(it);
    if (mode_.rendezvous) TR_RETURN_IF_ERROR(finish(static_cast<std::size_t>(s.peer), m.step, nullptr));
    return finish(rank, step, &m);
  }

  Status start_send(std::size_t rank, std::size_t step) {
    Rank& r = ranks_[rank];
    const Step& s = programs_[rank].steps[step];
    hear_dependencies(rank, step);
    const MessageKey key{static_cast<int>(rank), s.peer, s.part};
    flying_[key] = {
        s.count > 0 ? buffer(r, s.src).read(s.src.offset, s.count) : std::vector<SymbolicExtent>{},
        r.heard[step], step};
    if (const std::size_t next = r.next_send[step]; next != 0 && --r.waiting[next] == 0)
      ready_.push_back({rank, next});
    if (const auto it = parked_.find(key); it != parked_.end()) {
      ready_.push_back(it->second);
      parked_.erase(it);
    }
    return mode_.rendezvous ? Status() : finish(rank, step, nullptr);
  }

  Status finish(std::size_t rank, std::size_t step, const Message* message) {
    Rank& r = ranks_[rank];
    const Step& s = programs_[rank].steps[step];
    hear_dependencies(rank, step);
    if (message != nullptr) merge(r.heard[step], message->heard);
    finished_.push_back({rank, step});
    TR_RETURN_IF_ERROR(apply(r, s, rank, step, message));
    ++r.num_done;
    for (const std::size_t next : r.successors[step])
      if (--r.waiting[next] == 0) ready_.push_back({rank, next});
    return {};
  }

  void hear_dependencies(std::size_t rank, std::size_t step) {
    auto& heard = ranks_[rank].heard;
    heard[step][rank] = true;
    for (const std::uint32_t d : programs_[rank].deps_of(programs_[rank].steps[step]))
      merge(heard[step], heard[d]);
  }

  static void merge(std::vector<bool>& into, const std::vector<bool>& from) {
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] || from[i];
  }

  Status apply(Rank& r, const Step& s, std::size_t rank, std::size_t step, const Message* message) {
    switch (s.kind) {
      case StepKind::kSend:
        return {};
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
        return add(r, s, buffer(r, s.src).read(s.src.offset, s.count), rank, step);
      case StepKind::kReadPeer:
        buffer(r, s.dst).write(s.dst.offset, peer_pieces(s));
        return {};
      case StepKind::kReadReduce:
        return add(r, s, peer_pieces(s), rank, step);
      case StepKind::kScale: {
        auto pieces = buffer(r, s.dst).read(s.dst.offset, s.count);
        for (SymbolicExtent& p : pieces) p.expr = pool_.scaled(p.expr);
        buffer(r, s.dst).write(s.dst.offset, pieces);
        return {};
      }
    }
    return {};
  }

  std::vector<SymbolicExtent> peer_pieces(const Step& s) {
    return buffer(ranks_[static_cast<std::size_t>(s.peer)], s.src).read(s.src.offset, s.count);
  }

  // `b`: what is added to dst.
  Status add(Rank& r, const Step& s, const std::vector<SymbolicExtent>& b, std::size_t rank,
             std::size_t step) {
    const bool src_left = s.kind == StepKind::kReduceLeft || s.kind == StepKind::kRecvReduceLeft;
    const auto a = buffer(r, s.dst).read(s.dst.offset, s.count);
    std::vector<SymbolicExtent> out;
    std::size_t i = 0, j = 0;
    for (std::int64_t in_a = 0, in_b = 0, done = 0; done < s.count;) {
      const SymbolicExtent &x = a[i], &y = b[j];
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

  // Every leaf once, in the fixed order if there is one. Each expression is looked at once.
  Status check_sum(std::size_t rank, std::int64_t at, Expr expr) {
    if (!proved_.insert(expr).second) return {};
    const auto counts = pool_.leaf_counts(expr);
    for (std::size_t leaf = 0; leaf < counts.size(); ++leaf)
      if (counts[leaf] != 1)
        return broken("element {} of rank {} has leaf {} {} times, expected once: {}", at, rank, leaf,
                      counts[leaf], pool_.to_text(expr));
    if (mode_.fixed_order) {
      Expr want = fixed_tree(pool_, {0, root_level(num_leaves_)}, num_leaves_);
      if (spec_.reduction == Reduction::kMean) want = pool_.scaled(want);
      if (expr != want)
        return broken("element {} of rank {} is not the fixed tree: got {}, expected {}", at, rank,
                      pool_.to_text(expr), pool_.to_text(want));
    }
    if (pool_.is_scaled(expr) != (spec_.reduction == Reduction::kMean))
      return broken("element {} of rank {} is no {}: got {}", at, rank, reduction_name(spec_.reduction),
                    pool_.to_text(expr));
    return {};
  }

  Status check_piece(std::size_t rank, const Holding& want, std::int64_t at, const SymbolicExtent& piece) {
    if (piece.expr < 0) return broken("element {} of rank {} was never written", at, rank);
    const std::int64_t element = want.element + (at - want.offset);
    if (piece.shift != element)
      return broken("element {} of rank {} holds element {}, expected {}", at, rank, piece.shift, element);
    if (want.leaf == Holding::kSum) return check_sum(rank, at, piece.expr);
    if (piece.expr == pool_.leaf(want.leaf)) return {};
    return broken("element {} of rank {} is {}, expected x{}{}", at, rank, pool_.to_text(piece.expr),
                  want.leaf, has_root(spec_.kind) && want.leaf == spec_.root ? " of the root" : "");
  }

  Status check_result() {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      for (const Holding& want : promised(spec_, static_cast<int>(i))) {
        std::int64_t at = want.offset;
        for (const SymbolicExtent& p :
             ranks_[i].buffers[static_cast<std::size_t>(want.buffer)].read(want.offset, want.count)) {
          TR_RETURN_IF_ERROR(check_piece(i, want, at, p));
          at += p.count;
        }
      }
    return spec_.kind == Kind::kAllreduce ? check_same_everywhere() : Status();
  }

  Status check_same_everywhere() const {
    for (std::size_t i = 1; i < ranks_.size(); ++i) {
      std::int64_t at = 0;
      for (const SymbolicExtent& piece : ranks_[i].buffers[0].read(0, spec_.count)) {
        // A piece of this rank may span several of rank 0; those must then be equal.
        for (const SymbolicExtent& zero : ranks_[0].buffers[0].read(at, piece.count))
          if (zero.expr != piece.expr)
            return broken("element {} of rank {} is added in another order than on rank 0: {} and {}", at, i,
                          pool_.to_text(piece.expr), pool_.to_text(zero.expr));
        at += piece.count;
      }
    }
    return {};
  }

  Programs programs_;
  const ScheduleSpec& spec_;
  SymbolicRun mode_;
  std::int32_t num_leaves_;
  ExprPool pool_;
  std::vector<Rank> ranks_;
  std::deque<std::pair<std::size_t, std::size_t>> ready_;
  std::vector<std::pair<std::size_t, std::size_t>> finished_;  // in this order
  std::set<Expr> proved_;
  std::map<MessageKey, Message> flying_;
  std::map<MessageKey, std::pair<std::size_t, std::size_t>> parked_;
};

}  // namespace

Status run_symbolically(Programs programs, const ScheduleSpec& spec, const SymbolicRun& run) {
  return Machine(programs, spec, run).run();
}

}  // namespace trireme::collective
