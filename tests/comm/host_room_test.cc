#include "trireme/comm/host_room.h"

#include <gtest/gtest.h>

#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::comm {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Value;

const op::Attrs kOfTwo{{"world", std::int64_t{2}}};

std::int64_t room_of(const Graph& g, bool direct) {
  const Result<std::int64_t> room = host_room(g, {2, direct});
  EXPECT_TRUE(room.ok()) << room.status().to_string();
  return room.ok() ? *room : -1;
}

TEST(HostRoom, PiecesThatLieOneBehindTheOtherArePackedNowhere) {
  for (const std::int64_t dim : {0, 1}) {
    Graph g;
    Builder b(g);
    const Value x = b.input("x", DType::kF32, {4, 8});
    op::Attrs attrs = kOfTwo;
    attrs.set("dim", dim);
    b.output("whole", b.add_node(op::kAllgather, {x}, attrs));
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    EXPECT_EQ(room_of(g, false), dim == 0 ? 0 : 2 * 4 * 8 * 4);
  }
}

TEST(HostRoom, SumsThatAreReadWhereTheyLieNeedNone) {
  Graph g;
  Builder b(g);
  b.output("sum", b.add_node(op::kAllreduce, {b.input("x", DType::kF32, {64})}));
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(room_of(g, true), 0);
  EXPECT_GT(room_of(g, false), 0);
}

TEST(HostRoom, CollectivesOneAfterTheOtherShareIt) {
  const auto chain = [](int length) {
    Graph g;
    Builder b(g);
    Value x = b.input("x", DType::kF32, {4, 8});
    for (int i = 0; i < length; ++i) {
      op::Attrs attrs = kOfTwo;
      attrs.set("dim", std::int64_t{1});
      const Value whole = b.add_node(op::kAllgather, {x}, attrs);
      x = b.add_node(op::kSlice, {whole},
                     {{"begin", std::vector<std::int64_t>{0, 0}}, {"end", std::vector<std::int64_t>{4, 8}}});
    }
    b.output("x", x);
    EXPECT_TRUE(b.status().ok()) << b.status().to_string();
    return g;
  };
  EXPECT_EQ(room_of(chain(5), true), room_of(chain(1), true));
}

}  // namespace
}  // namespace trireme::comm
