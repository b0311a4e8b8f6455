// Every kind of collective, in place and out of place, against a serial computation: on threads and on the
// virtual cluster.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/comm/ranks.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm {
namespace {

using collective::Kind;
using testing::tensor_of;
using testing::values_of;
using Values = std::vector<float>;

void run_everywhere(int world, const testing::Body& body) {
  testing::RankOptions options;
  options.world = world;
  for (int r = 0; r < world; ++r) options.group.machine_of.push_back(r / 3);
  testing::run_on_threads(options, body);
  testing::expect_finished(testing::run_virtual(options, {}, body));
}

Call call_of(std::uint16_t slot, const char* algorithm = "", int root = 0) {
  Call c;
  c.slot = slot;
  c.label = fmt::format("slot {}", slot);
  c.algorithm = algorithm;
  c.root = root;
  return c;
}

// Small whole numbers: sums are exact in any order.
Values input(int rank, std::size_t count) {
  Values v(count);
  for (std::size_t i = 0; i < count; ++i)
    v[i] = static_cast<float>((static_cast<std::size_t>(rank) * 7 + i) % 23);
  return v;
}
Values serial_sum(int world, std::size_t count) {
  Values sum(count);
  for (int r = 0; r < world; ++r) {
    const Values x = input(r, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += x[i];
  }
  return sum;
}
Values part_of(const Values& v, std::int64_t offset, std::int64_t count) {
  return {v.begin() + offset, v.begin() + offset + count};
}
Tensor empty(std::int64_t count) { return tensor_of(Values(static_cast<std::size_t>(count), -1)); }

void expect_ok(const Status& s) { EXPECT_TRUE(s.ok()) << s.to_string(); }

TEST(Kinds, EveryAllreduceAlgorithmSumsOnThreadsAndVirtually) {
  for (const collective::Algorithm& row : collective::algorithm_table()) {
    if (row.kind != Kind::kAllreduce) continue;
    for (const int world : {1, 2, 3, 7})
      for (const std::size_t count : {std::size_t{0}, std::size_t{2}, std::size_t{40'001}}) {
        SCOPED_TRACE(fmt::format("{}, world {}, count {}", row.name, world, count));
        run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
          const Tensor in = tensor_of(input(group.rank(), count)),
                       out = empty(static_cast<std::int64_t>(count));
          const Status apart = co_await group.allreduce(call_of(1, row.name), in, out);
          expect_ok(apart);
          EXPECT_EQ(values_of(out), serial_sum(group.world(), count));
          EXPECT_EQ(values_of(in), input(group.rank(), count));
          const Status in_place = co_await group.allreduce(call_of(2, row.name), in);
          expect_ok(in_place);
          EXPECT_EQ(values_of(in), serial_sum(group.world(), count));
          expect_ok(co_await group.leave());
        });
      }
  }
}

TEST(Kinds, ReduceEndsAtTheRootAndLeavesInputsAlone) {
  for (const int world : {1, 2, 5, 8})
    run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      for (int root = 0; root < group.world(); ++root) {
        const auto slot = static_cast<std::uint16_t>(10 * root);
        const Tensor in = tensor_of(input(group.rank(), 100)), out = empty(100);
        const Status apart = co_await group.reduce(call_of(slot, "", root), in, out);
        expect_ok(apart);
        EXPECT_EQ(values_of(in), input(group.rank(), 100));
        EXPECT_EQ(values_of(out), group.rank() == root ? serial_sum(group.world(), 100) : Values(100, -1));
        const Status in_place =
            co_await group.reduce(call_of(static_cast<std::uint16_t>(slot + 1), "", root), in);
        expect_ok(in_place);
        if (group.rank() == root) {
          EXPECT_EQ(values_of(in), serial_sum(group.world(), 100));
        }
      }
      expect_ok(co_await group.leave());
    });
}

// Blocks of rank r: r + 1 elements, none for rank 1.
struct Blocks {
  std::vector<std::int64_t> counts, offsets;
  std::int64_t total = 0;
  explicit Blocks(int world) {
    for (int r = 0; r < world; ++r) {
      counts.push_back(r == 1 ? 0 : r + 1);
      offsets.push_back(total);
      total += counts.back();
    }
  }
  std::int64_t count(int r) const { return counts[static_cast<std::size_t>(r)]; }
  Values of(const Values& all, int r) const {
    return part_of(all, offsets[static_cast<std::size_t>(r)], count(r));
  }
};

TEST(Kinds, EveryAllgatherAlgorithmGathersBlocksOfAnySize) {
  for (const collective::Algorithm* row : collective::algorithms_of(Kind::kAllgather))
    for (const int world : {1, 2, 3, 4, 7, 8}) {
      SCOPED_TRACE(fmt::format("{}, world {}", row->name, world));
      run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
        const Blocks blocks(group.world());
        const Values all = input(50, static_cast<std::size_t>(blocks.total));
        const Tensor mine = tensor_of(blocks.of(all, group.rank())), gathered = empty(blocks.total);
        Call call = call_of(1, row->name);
        call.counts = blocks.counts;
        expect_ok(co_await group.allgather(std::move(call), mine, gathered));
        EXPECT_EQ(values_of(gathered), all);
        const Tensor even = empty(group.world());
        even.values<float>()[static_cast<std::size_t>(group.rank())] = static_cast<float>(group.rank());
        expect_ok(co_await group.allgather(call_of(2, row->name), Tensor(), even));
        for (int r = 0; r < group.world(); ++r)
          EXPECT_EQ(values_of(even)[static_cast<std::size_t>(r)], static_cast<float>(r));
        expect_ok(co_await group.leave());
      });
    }
}

runtime::Task<void> gather_and_scatter(Group& group, int root) {
  const Blocks blocks(group.world());
  const int me = group.rank();
  const Values all = input(50, static_cast<std::size_t>(blocks.total));
  Call call = call_of(static_cast<std::uint16_t>(4 * root), "", root);
  call.counts = blocks.counts;
  const Tensor mine = tensor_of(blocks.of(all, me));
  const Tensor gathered = me == root ? empty(blocks.total) : Tensor();
  expect_ok(co_await group.gather(call, mine, gathered));
  if (me == root) {
    EXPECT_EQ(values_of(gathered), all);
  }
  call.slot += 1;
  const Tensor got = empty(blocks.count(me));
  const Tensor root_only = me == root ? gathered : Tensor();
  expect_ok(co_await group.scatter(call, root_only, got));
  EXPECT_EQ(values_of(got), blocks.of(all, me));
  // In place: the root's block is where it belongs. Without counts blocks are equal.
  call.slot += 1;
  call.counts.clear();
  const Values even = input(60, static_cast<std::size_t>(3 * group.world()));
  Values at_root(even.size(), -1);
  std::copy_n(even.begin() + 3 * root, 3, at_root.begin() + 3 * root);
  const Tensor whole = me == root ? tensor_of(at_root) : Tensor();
  const Tensor block = me == root ? Tensor() : tensor_of(part_of(even, 3 * me, 3));
  expect_ok(co_await group.gather(call, block, whole));
  if (me == root) {
    EXPECT_EQ(values_of(whole), even);
  }
  call.slot += 1;
  const Tensor back = me == root ? Tensor() : empty(3);
  expect_ok(co_await group.scatter(call, whole, back));
  if (me != root) {
    EXPECT_EQ(values_of(back), part_of(even, 3 * me, 3));
  }
}

TEST(Kinds, GatherAndScatterMoveBlocksOfAnySize) {
  for (const int world : {1, 2, 5})
    run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      for (int root = 0; root < group.world(); ++root) co_await gather_and_scatter(group, root);
      expect_ok(co_await group.leave());
    });
}

TEST(Kinds, AllgatherAndReduceScatterWorkInPlaceAndApartWithAnyBlocks) {
  for (const int world : {1, 2, 5, 8})
    run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      const Blocks blocks(group.world());
      const int me = group.rank();
      const auto total = static_cast<std::size_t>(blocks.total);
      const Values all = input(50, total), sum = serial_sum(group.world(), total);
      Call call = call_of(1);
      call.counts = blocks.counts;
      const Tensor gathered = empty(blocks.total), mine = tensor_of(blocks.of(all, me));
      expect_ok(co_await group.allgather(call, mine, gathered));
      EXPECT_EQ(values_of(gathered), all);
      Values only_mine(total, -1);
      const Values own = blocks.of(all, me);
      std::copy(own.begin(), own.end(), only_mine.begin() + blocks.offsets[static_cast<std::size_t>(me)]);
      const Tensor in_place = tensor_of(only_mine);
      call.slot = 2;
      expect_ok(co_await group.allgather(call, Tensor(), in_place));
      EXPECT_EQ(values_of(in_place), all);

      const Tensor data = tensor_of(input(me, total)), block = empty(blocks.count(me));
      call.slot = 3;
      expect_ok(co_await group.reduce_scatter(call, data, block));
      EXPECT_EQ(values_of(block), blocks.of(sum, me));
      EXPECT_EQ(values_of(data), input(me, total));
      call.slot = 4;
      expect_ok(co_await group.reduce_scatter(call, data, Tensor()));
      EXPECT_EQ(blocks.of(values_of(data), me), blocks.of(sum, me));
      expect_ok(co_await group.leave());
    });
}

TEST(Kinds, AllToAllTransposesBlocks) {
  for (const int world : {1, 2, 5})
    run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      const int me = group.rank(), n = group.world();
      // To rank q: 2 elements, 100 * from + q.
      Values in, want, in_v, want_v;
      Call v = call_of(2);
      for (int q = 0; q < n; ++q) {
        in.insert(in.end(), 2, static_cast<float>(100 * me + q));
        want.insert(want.end(), 2, static_cast<float>(100 * q + me));
        in_v.insert(in_v.end(), static_cast<std::size_t>((me + q) % 3), static_cast<float>(100 * me + q));
        want_v.insert(want_v.end(), static_cast<std::size_t>((me + q) % 3), static_cast<float>(100 * q + me));
        for (int to = 0; to < n; ++to) v.counts.push_back((q + to) % 3);
      }
      const Tensor data = tensor_of(in), out = empty(2 * n);
      expect_ok(co_await group.all_to_all(call_of(0), data, out));
      EXPECT_EQ(values_of(out), want);
      expect_ok(co_await group.all_to_all(call_of(1), data, data));
      EXPECT_EQ(values_of(data), want);
      const Tensor data_v = tensor_of(in_v), out_v = empty(static_cast<std::int64_t>(want_v.size()));
      expect_ok(co_await group.all_to_all(v, data_v, out_v));
      EXPECT_EQ(values_of(out_v), want_v);
      expect_ok(co_await group.leave());
    });
}

// A directed graph: the next rank, the one after it, and oneself.
TEST(Kinds, NeighboursExchangeAlongEdges) {
  for (const int world : {1, 3, 6})
    run_everywhere(world, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
      const int me = group.rank(), n = group.world();
      Call call = call_of(0);
      std::vector<Tensor> out, in;
      std::vector<int> from;
      for (int r = 0; r < n; ++r)
        for (int hop = 0; hop < std::min(n, 3); ++hop) {
          const int to = (r + hop) % n;
          call.edges.push_back({r, to, 4 + hop});
          if (r == me)
            out.push_back(tensor_of(Values(static_cast<std::size_t>(4 + hop), static_cast<float>(r))));
          if (to == me) {
            in.push_back(empty(4 + hop));
            from.push_back(r);
          }
        }
      expect_ok(co_await group.neighbours(call, out, in));
      for (std::size_t i = 0; i < in.size(); ++i) {
        const Values got = values_of(in[i]);
        EXPECT_TRUE(
            std::all_of(got.begin(), got.end(), [&](float x) { return x == static_cast<float>(from[i]); }));
      }
      expect_ok(co_await group.leave());
    });
}

// Rows and columns of a 2 x 3 grid and the whole group, all at once.
TEST(SubGroups, WorkAtTheSameTime) {
  run_everywhere(6, [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    const int row = group.rank() / 3, column = group.rank() % 3;
    auto in_row = group.subgroup({3 * row, 3 * row + 1, 3 * row + 2}, 1);
    auto in_column = group.subgroup({3 + column, column}, 2);  // in another order
    EXPECT_TRUE(in_row.ok() && in_column.ok());
    EXPECT_EQ((*in_row)->rank(), column);
    EXPECT_EQ((*in_column)->rank(), 1 - row);
    EXPECT_EQ((*in_column)->world(), 2);
    const auto mine = static_cast<float>(group.rank());
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Tensor a = tensor_of(Values(1000, mine)), b = tensor_of(Values(500, mine)),
                   c = tensor_of(Values(200, mine)), d = tensor_of({mine});
      std::vector<runtime::Task<Status>> tasks;
      Call call = call_of(7, "ring");
      call.step = static_cast<std::uint32_t>(repeat);
      tasks.push_back((*in_column)->allreduce(call, b));
      tasks.push_back(group.allreduce(call, c));
      tasks.push_back((*in_row)->allreduce(call, a));
      call.slot = 8;
      call.algorithm = "";
      tasks.push_back((*in_column)->broadcast(call, d));
      const Status all = co_await runtime::when_all(rt, std::move(tasks));
      expect_ok(all);
      EXPECT_EQ(values_of(a), Values(1000, static_cast<float>(9 * row + 3)));
      EXPECT_EQ(values_of(b), Values(500, static_cast<float>(2 * column + 3)));
      EXPECT_EQ(values_of(c), Values(200, 15));
      EXPECT_EQ(values_of(d), Values(1, static_cast<float>(3 + column)));
    }
    auto pair = (*in_row)->subgroup({column == 2 ? 2 : 0, column == 2 ? 0 : 2}, 3);
    EXPECT_EQ(pair.ok(), column != 1);
    expect_ok(co_await (*in_row)->leave());
    expect_ok(co_await group.leave());
  });
}

TEST(SubGroups, OfStrangersAreRefused) {
  run_everywhere(3, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const int other = (group.rank() + 1) % 3;
    EXPECT_EQ(group.subgroup({other}, 1).status().code(), Code::kInvalid);
    EXPECT_EQ(group.subgroup({0, 1, 2, 3}, 1).status().code(), Code::kInvalid);
    EXPECT_EQ(group.subgroup({0, 1, 2, 0}, 1).status().code(), Code::kInvalid);
    EXPECT_EQ(group.subgroup({0, 1, 2}, 0).status().code(), Code::kInvalid);
    expect_ok(co_await group.leave());
  });
}

// Nobody gets a message that it could compare: the ranks wait for each other until the deadline, and the one
// that called otherwise is named.
TEST(Kinds, ADifferentRootNamesTheRankThatHasIt) {
  std::vector<Status> out(3);
  testing::RankOptions options;
  options.world = 3;
  testing::expect_finished(
      testing::run_virtual(options, {}, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
        const Tensor data = tensor_of({1, 2});
        const Call call = call_of(0, "", group.rank() == 2 ? 1 : 0);
        const Status s = co_await group.broadcast(call, data);
        const Status left = co_await group.leave();
        out[static_cast<std::size_t>(group.rank())] = s.ok() ? left : s;
      }));
  for (const Status& s : out) {
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(s.context().peer, 2) << s.to_string();
  }
}

TEST(Kinds, RefuseSizesThatDoNotFitWithoutHurtingTheGroup) {
  run_everywhere(2, [&](runtime::Runtime&, Group& group) -> runtime::Task<void> {
    const Tensor three = tensor_of({1, 2, 3}), two = tensor_of({1, 2});
    Call counts = call_of(0);
    counts.counts = {1, 1};
    EXPECT_EQ((co_await group.allreduce(call_of(0), two, three)).code(), Code::kInvalid);
    EXPECT_EQ((co_await group.allgather(counts, Tensor(), three)).code(), Code::kInvalid);
    EXPECT_EQ((co_await group.reduce_scatter(counts, two, three)).code(), Code::kInvalid);
    EXPECT_EQ((co_await group.all_to_all(call_of(0), two, three)).code(), Code::kInvalid);
    if (group.rank() == 0) {  // the other would wait for it
      EXPECT_EQ((co_await group.gather(call_of(0), Tensor(), three)).code(), Code::kInvalid);
    }
    Call edges = call_of(0);
    edges.edges = {{0, 1, 2}, {1, 0, 2}};
    const std::vector<Tensor> one{two};
    EXPECT_EQ((co_await group.neighbours(edges, one, {})).code(), Code::kInvalid);
    Call far = call_of(0, "", 2);
    EXPECT_EQ((co_await group.reduce(far, two)).code(), Code::kInvalid);
    expect_ok(co_await group.barrier(call_of(1)));
    expect_ok(co_await group.leave());
  });
}

}  // namespace
}  // namespace trireme::comm
