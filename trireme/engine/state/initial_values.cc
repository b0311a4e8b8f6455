#include "trireme/engine/state/initial_values.h"

#include <algorithm>
#include <map>

namespace trireme::engine {
namespace {

using parallel::Interval;

// A part of a piece that one thread makes: elements of the piece and where they are in the whole.
struct ValuesPart {
  const model::Parameter* parameter = nullptr;
  Tensor memory;
  parallel::SharedRun run;
};

void make(const ValuesPart& part, std::uint64_t seed) {
  const Interval elems{part.run.first, part.run.first + part.run.count};
  for_runs(part.memory, elems, [&](std::byte* bytes, std::int64_t at, std::int64_t count) {
    model::initialise_part(*part.parameter, seed, static_cast<std::size_t>(part.run.second + at),
                           {reinterpret_cast<float*>(bytes), static_cast<std::size_t>(count)});
  });
}

// Its elements depend on each other.
void make_orthogonal(const model::Parameter& parameter, const parallel::Piece& piece, const Tensor& memory,
                     std::uint64_t seed) {
  const auto elems = static_cast<std::size_t>(parameter.type.shape.num_elems());
  if (memory.type() == parameter.type && memory.is_contiguous()) {
    model::initialise(parameter, seed, memory.values<float>());
    return;
  }
  std::vector<float> whole(elems);
  model::initialise(parameter, seed, whole);
  for (const parallel::SharedRun& run : runs_in_whole(piece))
    copy_in(memory, {run.first, run.first + run.count},
            reinterpret_cast<const std::byte*>(whole.data() + run.second));
}

struct OrthogonalPiece {
  const model::Parameter* parameter = nullptr;
  parallel::Piece piece;
  Tensor memory;
};

struct InitialWork {
  std::vector<model::Parameter> parameters;
  std::vector<ValuesPart> parts;
  std::vector<OrthogonalPiece> matrices;

  void add(const model::Parameter& p, const parallel::Piece& piece, const Tensor& memory) {
    constexpr std::int64_t kPart = 1 << 16;  // elements: about a millisecond
    if (p.init == model::InitKind::kOrthogonal) {
      matrices.push_back({&p, piece, memory});
      return;
    }
    for (const parallel::SharedRun& run : runs_in_whole(piece))
      for (std::int64_t i = 0; i < run.count; i += kPart)
        parts.push_back({&p, memory, {run.first + i, run.second + i, std::min(kPart, run.count - i)}});
  }
};

}  // namespace

runtime::Task<void> initialise_pieces(runtime::Runtime& rt, const HeldState& holding,
                                      std::vector<model::Parameter> parameters, std::uint64_t seed) {
  if (rt.is_phantom()) co_return;
  const auto work = std::make_shared<InitialWork>();
  work->parameters = std::move(parameters);
  std::map<std::string, const model::Parameter*> by_name;
  for (const model::Parameter& p : work->parameters) by_name[p.name] = &p;
  for (std::size_t i = 0; i < holding.size(); ++i) {
    const auto found = by_name.find(holding.tensor(i).name);
    if (found == by_name.end()) continue;
    const std::vector<parallel::Piece> pieces = holding.pieces(i);
    for (std::size_t p = 0; p < pieces.size(); ++p)
      work->add(*found->second, pieces[p], holding.own[i].pieces[p]);
  }
  runtime::ComputeFn fn = [work, seed](runtime::ComputeContext& context) {
    const auto matrices = static_cast<std::int64_t>(work->matrices.size());
    const auto count = matrices + static_cast<std::int64_t>(work->parts.size());
    context.parallel_for(count, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (i >= matrices) {
          make(work->parts[static_cast<std::size_t>(i - matrices)], seed);
          continue;
        }
        const OrthogonalPiece& m = work->matrices[static_cast<std::size_t>(i)];
        make_orthogonal(*m.parameter, m.piece, m.memory, seed);
      }
    });
  };
  const cost::OpCost cost;  // virtual time starts with the first step
  co_await rt.compute(cost, std::move(fn), rt.compute_threads(), "initial values");
}

}  // namespace trireme::engine
