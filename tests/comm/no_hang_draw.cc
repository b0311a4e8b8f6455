// Scenes from seeds.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/comm/no_hang.h"
#include "trireme/base/rng.h"

namespace trireme::comm::testing {
namespace {

using collective::Kind;
using collective::Reduction;

constexpr Kind kKinds[] = {Kind::kAllreduce,     Kind::kReduce,    Kind::kBroadcast, Kind::kAllgather,
                           Kind::kReduceScatter, Kind::kBarrier,   Kind::kGather,    Kind::kScatter,
                           Kind::kAllToAll,      Kind::kNeighbours};
constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI32, DType::kI64, DType::kU8};

Tensor tensor_for(const Op& op, std::int64_t count) {
  Tensor t = *Tensor::allocate(cpu_device(), {op.dtype, Shape{count}});
  std::memset(t.raw(), 0, static_cast<std::size_t>(count) * dtype_size(op.dtype));
  return t;
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed, 11) {}
  int below(int n) { return static_cast<int>(rng_.next_below(static_cast<std::uint32_t>(n))); }
  bool one_in(int n) { return below(n) == 0; }
  double part() { return rng_.next_double(); }
  template <typename T, std::size_t N>
  const T& of(const T (&list)[N]) {
    return list[below(static_cast<int>(N))];
  }

  int world() {
    if (one_in(40)) return one_in(2) ? 16 : 33;
    return 2 + below(8);
  }
  std::int64_t count() {
    switch (below(6)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return 40'000;  // more than a ring
      default:
        return 2 + below(500);
    }
  }
  Op op(int world) {
    Op op;
    op.kind = of(kKinds);
    op.dtype = of(kDTypes);
    op.count = op.kind == Kind::kBarrier ? 0 : count();
    if (world > 9) op.count = std::min<std::int64_t>(op.count, 600);
    if (collective::has_root(op.kind)) op.root = below(world);
    if (collective::is_reduction(op.kind))
      op.reduction = static_cast<Reduction>(is_floating(op.dtype) ? below(4) : 2 * below(2));
    const auto rows = algorithms_for(op, world);
    if (!one_in(4)) op.algorithm = rows[static_cast<std::size_t>(below(static_cast<int>(rows.size())))];
    return op;
  }

 private:
  Philox rng_;
};

bool strikes_a_call(Trouble t) { return t >= Trouble::kOtherKind; }

bool fits(Trouble trouble, const Op& op, int world) {
  switch (trouble) {
    case Trouble::kOtherDtype:
    case Trouble::kOtherCount:
      return op.kind != Kind::kBarrier;
    case Trouble::kOtherRoot:
      return collective::has_root(op.kind);
    case Trouble::kOtherReduction:
      return collective::is_reduction(op.kind);
    case Trouble::kOtherAlgorithm:
      return !op.algorithm.empty() && algorithms_for(op, world).size() > 1;
    default:
      return true;
  }
}

TimeNs duration_of(Trouble trouble, Draw& draw) {
  switch (trouble) {
    case Trouble::kShortPause:
    case Trouble::kShortMute:
    case Trouble::kBlink:
      return kMilli + static_cast<TimeNs>(draw.part() * 1.5 * kSecond);
    case Trouble::kEdge:
      return static_cast<TimeNs>((1.6 + 0.8 * draw.part()) * kSecond);
    default:
      return 6 * kSecond;
  }
}

void draw_program(Scene& s, Draw& draw) {
  if (s.world > 3 && draw.one_in(2)) {
    for (int r = 0; r < s.world; ++r)
      if (!draw.one_in(3)) s.members.push_back(r);
    if (s.members.size() < 2) s.members = {0, s.world - 1};
  }
  const int num_batches = 1 + draw.below(4);
  int number = 0;
  for (int b = 0; b < num_batches; ++b) {
    auto& batch = s.batches.emplace_back();
    const int num_ops = draw.one_in(2) ? 1 : 1 + draw.below(4);
    for (int i = 0; i < num_ops; ++i) {
      const bool sub = !s.members.empty() && draw.one_in(3);
      Op op = draw.op(sub ? static_cast<int>(s.members.size()) : s.world);
      op.in_subgroup = sub;
      op.slot = static_cast<std::uint16_t>(i);
      op.step = static_cast<std::uint32_t>(b);
      op.number = number++;
      batch.push_back(std::move(op));
    }
  }
}

// Whom and where. False: no call of the scene suits.
bool draw_strike(Scene& s, Draw& draw) {
  std::vector<const Op*> ops;
  for (const auto& batch : s.batches)
    for (const Op& op : batch)
      if (fits(s.trouble, op, op.in_subgroup ? static_cast<int>(s.members.size()) : s.world))
        ops.push_back(&op);
  if (ops.empty()) return false;
  const Op& op = *ops[static_cast<std::size_t>(draw.below(static_cast<int>(ops.size())))];
  s.culprit = op.in_subgroup
                  ? s.members[static_cast<std::size_t>(draw.below(static_cast<int>(s.members.size())))]
                  : draw.below(s.world);
  if (strikes_a_call(s.trouble) || s.trouble == Trouble::kError || s.trouble == Trouble::kBlink ||
      draw.one_in(2)) {
    s.op = op.number;
  } else {
    s.when = draw.one_in(5) ? 1 - 0.05 * draw.part() : draw.part();  // the end: leave()
  }
  return true;
}

}  // namespace

std::string label_of(const Op& op) { return fmt::format("op {}", op.number); }

std::vector<std::string> algorithms_for(const Op& op, int world) {
  collective::ScheduleSpec spec;
  spec.kind = op.kind;
  spec.world = world;
  spec.count = op.count;
  spec.root = op.root;
  spec.reduction = op.reduction;
  for (int r = 0; r < world && op.kind == Kind::kNeighbours; ++r)
    spec.edges.push_back({r, (r + 1) % world, op.count});
  for (int r = 0; r < world; ++r) spec.group_of.push_back(r / 3);
  std::vector<std::string> names;
  for (const collective::Algorithm* row : collective::algorithms_of(op.kind))
    if (row->applicable(spec).ok()) names.emplace_back(row->name);
  return names;
}

runtime::Task<Status> make_call(Group& group, Op op) {
  Call call;
  call.step = op.step;
  call.slot = op.slot;
  call.label = label_of(op);
  call.algorithm = op.algorithm;
  call.root = op.root;
  call.reduction = op.reduction;
  const std::int64_t world = group.world(), all = op.count * world;
  const bool is_root = group.rank() == op.root;
  switch (op.kind) {
    case Kind::kAllreduce:
      return group.allreduce(std::move(call), tensor_for(op, op.count));
    case Kind::kReduce:
      return group.reduce(std::move(call), tensor_for(op, op.count));
    case Kind::kBroadcast:
      return group.broadcast(std::move(call), tensor_for(op, op.count));
    case Kind::kAllgather:
      return group.allgather(std::move(call), tensor_for(op, op.count), tensor_for(op, all));
    case Kind::kReduceScatter:
      return group.reduce_scatter(std::move(call), tensor_for(op, all), tensor_for(op, op.count));
    case Kind::kGather:
      return group.gather(std::move(call), tensor_for(op, op.count),
                          is_root ? tensor_for(op, all) : Tensor());
    case Kind::kScatter:
      return group.scatter(std::move(call), is_root ? tensor_for(op, all) : Tensor(),
                           tensor_for(op, op.count));
    case Kind::kAllToAll:
      return group.all_to_all(std::move(call), tensor_for(op, all), tensor_for(op, all));
    case Kind::kNeighbours: {
      for (int r = 0; r < static_cast<int>(world); ++r)
        call.edges.push_back({r, (r + 1) % static_cast<int>(world), op.count});
      const std::vector<Tensor> out{tensor_for(op, op.count)}, in{tensor_for(op, op.count)};
      return group.neighbours(std::move(call), out, in);
    }
    case Kind::kBarrier:
      break;
  }
  return group.barrier(std::move(call));
}

Op deviate(Op op, Trouble trouble, int world, std::uint64_t seed) {
  Philox rng(seed, 5);
  switch (trouble) {
    case Trouble::kOtherKind: {
      const Kind was = op.kind;
      while (op.kind == was) op.kind = static_cast<Kind>(1 + rng.next_below(10));
      op.algorithm.clear();
      if (op.kind == Kind::kBarrier) op.count = 0;
      if (!collective::has_root(op.kind)) op.root = 0;
      if (!collective::is_reduction(op.kind)) op.reduction = collective::Reduction::kSum;
      break;
    }
    case Trouble::kOtherDtype:
      // One of the same size and one of another.
      op.dtype = op.dtype == DType::kF32 ? DType::kF64 : DType::kF32;
      break;
    case Trouble::kOtherCount:
      op.count = op.count > 0 && rng.next_below(4) == 0 ? 0 : op.count + 1;
      break;
    case Trouble::kOtherRoot:
      op.root =
          (op.root + 1 + static_cast<int>(rng.next_below(static_cast<std::uint32_t>(world - 1)))) % world;
      break;
    case Trouble::kOtherReduction:
      op.reduction = op.reduction == collective::Reduction::kMax ? collective::Reduction::kMin
                                                                 : collective::Reduction::kMax;
      break;
    case Trouble::kOtherAlgorithm: {
      const std::string was = op.algorithm;
      const auto rows = algorithms_for(op, world);
      while (op.algorithm == was)
        op.algorithm = rows[rng.next_below(static_cast<std::uint32_t>(rows.size()))];
      break;
    }
    default:
      break;
  }
  return op;
}

Op extra_op(int culprit, std::uint32_t step, std::uint64_t seed) {
  Op op;
  op.kind = seed % 2 == 0 ? Kind::kAllreduce : Kind::kBroadcast;
  op.root = op.kind == Kind::kBroadcast ? culprit : 0;
  op.count = 5;
  op.slot = 900;
  op.step = step;
  op.number = 99;
  return op;
}

const char* trouble_name(Trouble trouble) {
  constexpr const char* kNames[kNumTroubles] = {
      "none",        "kill",       "short pause",     "long pause",      "short mute", "long mute",
      "edge",        "blackout",   "blink",           "error",           "other kind", "other dtype",
      "other count", "other root", "other reduction", "other algorithm", "missing",    "extra"};
  return kNames[static_cast<int>(trouble)];
}

Scene draw_scene(std::uint64_t seed, const std::string& transport) {
  Draw draw(seed);
  Scene s;
  s.seed = seed;
  s.transport = transport;
  s.world = draw.world();
  s.jitter = draw.one_in(3) ? 0 : draw.part();
  draw_program(s, draw);
  do {
    s.trouble = static_cast<Trouble>(draw.below(kNumTroubles));
    // No packets in shared memory.
    if (transport == "shm" && s.trouble == Trouble::kBlackout) s.trouble = Trouble::kLongMute;
    if (transport == "shm" && s.trouble == Trouble::kBlink) s.trouble = Trouble::kShortMute;
  } while (!draw_strike(s, draw));
  s.duration = duration_of(s.trouble, draw);
  s.muting = s.trouble == Trouble::kShortMute || s.trouble == Trouble::kLongMute ||
             (s.trouble == Trouble::kEdge && draw.one_in(2));
  return s;
}

std::string Scene::text() const {
  std::string calls;
  for (const auto& batch : batches) {
    calls += calls.empty() ? "" : "; ";
    for (const Op& op : batch)
      calls += fmt::format("{}{} {}{} of {} {} root {} {}", &op == batch.data() ? "" : " | ", label_of(op),
                           op.in_subgroup ? "sub " : "", collective::kind_name(op.kind), op.count,
                           dtype_name(op.dtype), op.root, op.algorithm);
  }
  return fmt::format("seed {} on {}: world {}, {} of rank {} {}, for {}{}; sub-group [{}]; {}", seed,
                     transport, world, trouble_name(trouble), culprit,
                     op >= 0 ? fmt::format("at op {}", op) : fmt::format("at {:.4f} of the time", when),
                     format_duration(duration), muting ? " (mute)" : "", fmt::join(members, ","), calls);
}

}  // namespace trireme::comm::testing
