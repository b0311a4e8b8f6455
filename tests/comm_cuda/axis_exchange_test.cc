// Collectives of graphs along an axis whose operands are on a GPU: what the host computes, bit for bit. Ranks
// are threads that share the GPU.
#include "trireme/comm/device/axis_exchange.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/comm/ranks.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/comm/host_ops.h"
#include "trireme/comm/nccl/library.h"
#include "trireme/exec/executor.h"
#include "trireme/graph/builder.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/op/ops.h"

namespace trireme::comm {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Value;
using runtime::Task;
using ::testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

constexpr const char* kAxis = "line";

std::string why_no_gpu() {
  static const auto opened = kernel::cuda::open_device(0);
  return opened.ok() ? "" : opened.status().message();
}

bool is_emulated() {
  const auto opened = kernel::cuda::open_device(0);
  return opened.ok() && kernel::cuda::as_device(**opened).name() == "emulated GPU";
}

std::shared_ptr<Device> open_gpu() {
  std::shared_ptr<kernel::cuda::CudaDevice> opened = *kernel::cuda::open_device(0);
  Device* const gpu = &kernel::cuda::as_device(*opened);
  return {std::move(opened), gpu};
}

struct Case {
  int world = 2;
  Ints sizes;                 // of every rank's piece of a dimension
  std::int64_t rows = 5;      // beside it
  DType moved = DType::kF32;  // what is moved and not added
  std::string method = "mapped";
  int shards = 2;  // runs at once

  std::int64_t total() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }
  std::int64_t own(int rank) const { return sizes[static_cast<std::size_t>(rank)]; }
};

// Every collective: of fed and of computed tensors, by sum and maximum, along the inner and outer dimension.
Graph all_of(const Case& c, int rank) {
  Graph g;
  Builder b(g);
  std::int64_t slot = 10;
  const auto comm = [&](const op::OpDef& def, Value in, op::Attrs attrs) {
    attrs.set("axis", std::string(kAxis));
    attrs.set("slot", slot++);
    return b.add_node(def, {in}, std::move(attrs));
  };
  const auto cast = [&](Value v, DType to) { return b.add_node(op::kCast, {v}, {{"dtype", to}}); };
  const op::Attrs pieces{{"world", std::int64_t{c.world}}, {"dim", std::int64_t{1}}, {"sizes", c.sizes}};
  const Value whole = b.input("whole", DType::kF32, {c.rows, c.total()}),
              piece = b.input("piece", DType::kF32, {c.rows, c.own(rank)});
  const Value twice = b.add(whole, whole), moved = cast(piece, c.moved);
  b.output("fed", comm(op::kAllreduce, whole, {}));
  b.output("sum", comm(op::kAllreduce, twice, {}));
  b.output("max", comm(op::kAllreduce, twice, {{"reduction", std::string("max")}}));
  b.output("broadcast", comm(op::kBroadcast, twice, {{"root", std::int64_t{c.world - 1}}}));
  op::Attrs scatter = pieces;
  scatter.set("extent", c.own(rank));
  b.output("scattered", comm(op::kReduceScatter, twice, scatter));
  b.output("gathered", cast(comm(op::kAllgather, moved, pieces), DType::kF32));
  op::Attrs turn{{"world", std::int64_t{c.world}}, {"from", std::int64_t{1}}, {"to", std::int64_t{0}}};
  Ints rows(static_cast<std::size_t>(c.world), 0);
  rows[0] = c.rows;  // one rank gets all
  if (c.rows >= c.world) rows.assign(rows.size(), 1), rows.back() += c.rows - c.world;
  turn.set("sizes_from", c.sizes);
  turn.set("sizes_to", rows);
  turn.set("extent", rows[static_cast<std::size_t>(rank)]);
  b.output("turned", cast(comm(op::kAllToAll, moved, turn), DType::kF32));
  Ints begins, ends;
  for (int r = 0; r < c.world; ++r) {
    const std::int64_t first = std::accumulate(c.sizes.begin(), c.sizes.begin() + r, std::int64_t{0});
    begins.push_back(first - 2), ends.push_back(first + c.own(r) + 1);
  }
  op::Attrs halo = pieces;
  halo.set("begins", begins);
  halo.set("ends", ends);
  halo.set("extent", ends[static_cast<std::size_t>(rank)] - begins[static_cast<std::size_t>(rank)]);
  halo.set("fill", -7.0);
  b.output("around", cast(comm(op::kHaloExchange, moved, halo), DType::kF32));
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

// Sums of which depend on the order.
Tensor values_of(const Shape& shape, int rank, int shard) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
  std::int64_t i = 0;
  for (float& v : t.values<float>()) {
    const auto at = static_cast<float>(i++ % 89 + 7 * rank + shard);
    v = (rank % 2 == 0 ? 1e6F : -1e6F) + 0.37F * at;
  }
  return t;
}

std::vector<float> floats(const Tensor& t) {
  const auto v = t.values<float>();
  return {v.begin(), v.end()};
}

// What the shards' runs yield, in the order of outputs; a rank begins with the shard of its number.
Task<Result<std::vector<std::vector<float>>>> run_all(runtime::Runtime& rt, const Case& c, int rank,
                                                      const Graph& g, std::shared_ptr<Device> gpu,
                                                      HostOpTable& ops) {
  exec::CompileOptions how;
  how.device = std::move(gpu);
  TR_CO_ASSIGN_OR_RETURN(const auto compiled, exec::compile(g, std::move(how)));
  std::vector<std::unique_ptr<exec::Execution>> shards;
  for (int s = 0; s < c.shards; ++s) {
    exec::ExecutionOptions options;
    options.host_ops = ops.table();
    TR_CO_ASSIGN_OR_RETURN(auto made, exec::make_execution(rt, compiled, std::move(options)));
    TR_CO_RETURN_IF_ERROR(made->feed("whole", values_of({c.rows, c.total()}, rank, s)));
    TR_CO_RETURN_IF_ERROR(made->feed("piece", values_of({c.rows, c.own(rank)}, rank, s)));
    shards.push_back(std::move(made));
  }
  std::vector<std::vector<float>> out;
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<Task<Status>> running;
    for (int i = 0; i < c.shards; ++i) {
      const int s = (i + rank) % c.shards;
      exec::RunOptions run;
      run.number = step * static_cast<std::uint64_t>(c.shards) + static_cast<std::uint64_t>(s);
      running.push_back(shards[static_cast<std::size_t>(s)]->run(run));
    }
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(rt, std::move(running)));
    for (const auto& shard : shards)
      for (const auto& [name, value] : g.outputs()) {
        TR_CO_ASSIGN_OR_RETURN(const Tensor t, shard->fetch(name));
        out.push_back(floats(t));
      }
  }
  co_return out;
}

Task<Status> compare(runtime::Runtime& rt, Group& group, const Case& c) {
  const Graph g = all_of(c, group.rank());
  const auto shards = static_cast<std::uint32_t>(c.shards);
  const auto host = make_host_ops(group, shards, {{kAxis, &group}});
  TR_CO_ASSIGN_OR_RETURN(const auto want, co_await run_all(rt, c, group.rank(), g, nullptr, *host));
  AxisExchangeOptions options;
  options.device = open_gpu();
  options.method = c.method;
  options.axis = kAxis;
  options.one_host = options.one_process = true;
  options.graphs = {&g};
  options.runs_at_once = c.shards;
  options.setup_slot = 500;
  TR_CO_ASSIGN_OR_RETURN(const auto exchange, co_await make_axis_exchange(rt, group, std::move(options)));
  EXPECT_EQ(exchange->method(), c.method);
  const auto there = make_host_ops(group, shards, {{kAxis, &group}}, {{kAxis, exchange.get()}});
  TR_CO_ASSIGN_OR_RETURN(const auto got, co_await run_all(rt, c, group.rank(), g, open_gpu(), *there));
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(got[i], want[i]) << "rank " << group.rank() << ", "
                               << g.outputs()[i % g.outputs().size()].first;
  EXPECT_GT(exchange->bytes_sent(), 0);
  co_return co_await exchange->close();
}

void expect_the_hosts(const Case& c) {
  testing::RankOptions options;
  options.world = c.world;
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const Status status = co_await compare(rt, group, c);
    EXPECT_TRUE(status.ok()) << c.world << " ranks, " << c.method << ": " << status.to_string();
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

TEST(AxisExchange, GivesTheBitsOfTheHostWhateverIsCut) {
  TR_NEEDS_GPU(why_no_gpu());
  expect_the_hosts({.world = 2, .sizes = {8, 8}});
  expect_the_hosts({.world = 2, .sizes = {3, 4}, .moved = DType::kBF16});
  expect_the_hosts({.world = 3, .sizes = {4, 1, 2}, .rows = 7, .shards = 3});
  expect_the_hosts({.world = 4, .sizes = {5, 0, 3, 1}, .rows = 2, .shards = 1});
}

// A vector that everybody sums a part of.
TEST(AxisExchange, SumsLongVectorsInParts) {
  TR_NEEDS_GPU(why_no_gpu());
  expect_the_hosts({.world = 3, .sizes = {50, 49, 51}, .rows = 601});
}

// The made-up NCCL of the emulator takes several ranks on a GPU; the library of a machine does not.
TEST(AxisExchange, ByNcclGivesTheSameBits) {
  TR_NEEDS_GPU(why_no_gpu());
  const auto library = NcclLibrary::load();
  if (!library.ok() || !is_emulated()) GTEST_SKIP() << "needs the emulator's NCCL";
  expect_the_hosts({.world = 2, .sizes = {3, 4}, .method = "nccl"});
  expect_the_hosts({.world = 3, .sizes = {4, 1, 2}, .rows = 7, .moved = DType::kBF16, .method = "nccl"});
}

TEST(AxisExchange, BetweenHostsIsRefusedByNameAndLeftToTheHostElse) {
  TR_NEEDS_GPU(why_no_gpu());
  testing::RankOptions ranks;
  ranks.world = 2;
  testing::run_on_threads(ranks, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const Case c{.world = 2, .sizes = {2, 2}};
    const Graph g = all_of(c, group.rank());
    AxisExchangeOptions options;
    options.device = open_gpu();
    options.axis = kAxis;
    options.graphs = {&g};
    options.method = "mapped";
    options.setup_slot = 500;
    const auto refused = co_await make_axis_exchange(rt, group, options);
    EXPECT_THAT(refused.status().message(), HasSubstr("GPU memory is mapped by ranks of one host"));
    EXPECT_TRUE((co_await group.leave()).ok());
  });
}

}  // namespace
}  // namespace trireme::comm
