// Arrays over meshes: what ranks read is what was written, whoever holds it, in every layout.
#include "trireme/engine/state/dist_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"
#include "trireme/base/rng.h"

namespace trireme::engine {
namespace {

using comm::Group;
using parallel::Box;
using parallel::Interval;
using parallel::Layout;
using parallel::Mesh;
using runtime::Runtime;
using runtime::Task;
using ::testing::HasSubstr;

const TensorType kWhole{DType::kF32, {7, 6, 5}};

// Every way to hold kWhole: uneven cuts, copies, blocks, ranges, ranks that hold nothing.
struct Held {
  const char* mesh;
  std::vector<const char*> layouts;
};
const Held kHeld[] = {
    {"data=1", {"replicate", "shard(0)", "flat"}},
    {"data=3", {"replicate", "shard(0)", "shard(2)", "shard(1,2)", "flat"}},
    {"data=2,model=2",
     {"replicate replicate", "shard(0) replicate", "replicate shard(1,3)", "shard(0) shard(0)",
      "shard(2) shard(1)", "replicate flat", "shard(1) flat", "flat replicate"}},
    {"rows=2,columns=3", {"shard(0) shard(1)", "shard(1) shard(0)", "replicate shard(2)", "flat flat"}},
    {"data=8", {"shard(0)", "shard(2)", "replicate", "flat"}},
};

DistArraySpec spec_of(const Mesh& mesh, const std::string& layout) {
  DistArraySpec spec;
  spec.name = "image";
  spec.whole = kWhole;
  spec.mesh = mesh;
  spec.layout = *Layout::parse(layout);
  spec.chunk_bytes = 40;  // most moves need several
  return spec;
}

// The value that an element has, by its place.
float value_at(std::int64_t i, std::int64_t j, std::int64_t k) {
  return static_cast<float>(100 * i + 10 * j + k);
}

template <typename Fn>
void for_box(const Box& box, const Fn& fn) {
  std::int64_t at = 0;
  for (std::int64_t i = box[0].begin; i < box[0].end; ++i)
    for (std::int64_t j = box[1].begin; j < box[1].end; ++j)
      for (std::int64_t k = box[2].begin; k < box[2].end; ++k) fn(at++, value_at(i, j, k));
}

Tensor values_of(const Box& box, float offset = 0) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {box[0].size(), box[1].size(), box[2].size()}});
  for_box(box, [&](std::int64_t at, float value) { t.data<float>()[at] = value + offset; });
  return t;
}

void expect_values(const Tensor& got, const Box& box, float offset, const std::string& what) {
  ASSERT_EQ(got.shape(), Shape({box[0].size(), box[1].size(), box[2].size()})) << what;
  for_box(box,
          [&](std::int64_t at, float value) { EXPECT_EQ(got.data<float>()[at], value + offset) << what; });
}

const Box kAll{{0, 7}, {0, 6}, {0, 5}};

void on_ranks(const std::string& mesh, const std::function<Task<Status>(Runtime&, Group&, Mesh)>& body) {
  const Mesh over = *parallel::parse_mesh(mesh);
  comm::testing::RankOptions options;
  options.world = over.num_ranks();
  std::vector<Status> ended(static_cast<std::size_t>(options.world));
  comm::testing::run_on_threads(options, [&](Runtime& rt, Group& group) -> Task<void> {
    Status& status = ended[static_cast<std::size_t>(group.rank())];
    status = co_await body(rt, group, over);
    if (!status.ok()) group.fail("test", status.message());
    (void)co_await group.leave();
  });
  for (const Status& status : ended) EXPECT_TRUE(status.ok()) << mesh << ": " << status.message();
}

// A box of each rank, some of them empty or none at all.
std::optional<Box> random_box(Philox& rng) {
  Box box;
  for (int d = 0; d < 3; ++d) {
    const auto size = static_cast<std::uint32_t>(kWhole.shape[d]);
    const std::int64_t a = rng.next_below(size + 1), b = rng.next_below(size + 1);
    box.push_back({std::min(a, b), std::max(a, b)});
  }
  if (rng.next_below(6) == 0) return std::nullopt;
  return box;
}

// Rank 0 writes everything, all read boxes; every rank writes a slab, all read again.
Task<Status> write_and_read(Runtime& rt, Group& group, DistArraySpec spec) {
  const int me = group.rank(), world = group.world();
  const std::string what = fmt::format("{} on rank {}", spec.layout.to_text(), me);
  auto array = DistArray::make(rt, group, std::move(spec));
  if (!array.ok()) co_return array.status();
  const Box all = kAll;
  const std::optional<Box> first = me == 0 ? std::optional<Box>(all) : std::nullopt;
  const Tensor values = me == 0 ? values_of(all) : Tensor();
  TR_CO_RETURN_IF_ERROR(co_await array->write(first, values));
  Philox rng(3, static_cast<std::uint64_t>(me));
  for (int turn = 0; turn < 4; ++turn) {
    const std::optional<Box> box = random_box(rng);
    TR_CO_ASSIGN_OR_RETURN(const Tensor got, co_await array->read(box));
    EXPECT_EQ(got.is_null(), !box.has_value()) << what;
    if (box) expect_values(got, *box, 0, what);
  }
  const Interval rows = parallel::cut_evenly({0, 6}, world, me);
  const Box slab{{0, 7}, rows, {0, 5}};
  const Tensor mine = values_of(slab, 0.5F);
  TR_CO_RETURN_IF_ERROR(co_await array->write(slab, mine));
  TR_CO_ASSIGN_OR_RETURN(const Tensor whole, co_await array->read(all));
  expect_values(whole, all, 0.5F, what);
  co_return Status();
}

TEST(DistArray, GivesWhatWasWrittenInEveryLayout) {
  for (const Held& held : kHeld)
    for (const char* layout : held.layouts) {
      SCOPED_TRACE(fmt::format("{} as {}", held.mesh, layout));
      on_ranks(held.mesh, [&](Runtime& rt, Group& group, Mesh mesh) {
        return write_and_read(rt, group, spec_of(mesh, layout));
      });
    }
}

Task<Status> through_layouts(Runtime& rt, Group& group, Mesh mesh, std::vector<const char*> layouts) {
  auto array = DistArray::make(rt, group, spec_of(mesh, layouts[0]));
  if (!array.ok()) co_return array.status();
  const Box all = kAll;
  const bool last = group.rank() == group.world() - 1;
  const std::optional<Box> box = last ? std::optional<Box>(all) : std::nullopt;
  const Tensor values = last ? values_of(all) : Tensor();
  TR_CO_RETURN_IF_ERROR(co_await array->write(box, values));
  for (const char* from : layouts)
    for (const char* to : layouts) {
      const Layout one = *Layout::parse(from), other = *Layout::parse(to);
      TR_CO_RETURN_IF_ERROR(co_await array->to_layout(one));
      TR_CO_RETURN_IF_ERROR(co_await array->to_layout(other));
      EXPECT_EQ(array->layout(), other);
      std::int64_t elems = 0;
      for (const parallel::Piece& piece : array->pieces()) elems += piece.elems();
      EXPECT_EQ(array->local().shape().num_elems(), elems) << to;
      TR_CO_ASSIGN_OR_RETURN(const Tensor whole, co_await array->read(all));
      expect_values(whole, all, 0, fmt::format("{} to {}", from, to));
    }
  co_return Status();
}

TEST(DistArray, KeepsItsValuesFromAnyLayoutToAnyOther) {
  for (const Held& held : kHeld)
    on_ranks(held.mesh, [&](Runtime& rt, Group& group, Mesh mesh) {
      return through_layouts(rt, group, mesh, held.layouts);
    });
}

// What ranks write to their own memory is what others read.
TEST(DistArray, IsTheMemoryOfItsRanks) {
  on_ranks("rows=2,columns=2", [](Runtime& rt, Group& group, Mesh mesh) -> Task<Status> {
    auto array = DistArray::make(rt, group, spec_of(mesh, "shard(0) shard(2)"));
    if (!array.ok()) co_return array.status();
    for (const float zero : array->local().values<float>()) EXPECT_EQ(zero, 0);
    const Box own = array->pieces().at(0).box;
    const Tensor values = values_of(own);
    std::copy_n(values.data<float>(), values.shape().num_elems(), array->local().data<float>());
    const Box all = kAll;
    TR_CO_ASSIGN_OR_RETURN(const Tensor whole, co_await array->read(all));
    expect_values(whole, all, 0, "whole");
    co_return Status();
  });
}

TEST(DistArray, SendsNothingForWhatARankHolds) {
  std::vector<std::vector<net::SendRecord>> sends;
  comm::testing::RankOptions options;
  options.world = 3;
  options.sends = &sends;
  comm::testing::run_on_threads(options, [&](Runtime& rt, Group& group) -> Task<void> {
    DistArraySpec spec = spec_of(parallel::data_mesh(3), "shard(0)");
    spec.slot = 9;
    auto array = DistArray::make(rt, group, std::move(spec));
    const Box own = array->pieces().at(0).box;
    EXPECT_TRUE((co_await array->read(own)).ok());
    const Layout replicated = *Layout::parse("replicate");
    EXPECT_TRUE((co_await array->to_layout(replicated)).ok());
    const Layout cut = *Layout::parse("shard(1)");
    EXPECT_TRUE((co_await array->to_layout(cut)).ok());
    (void)co_await group.leave();
  });
  std::uint64_t bytes = 0;
  for (const auto& log : sends)
    for (const net::SendRecord& s : log)
      if (s.id.slot == 9 && s.bytes <= 40) bytes += s.bytes;
  // The copies of two others, once; chunks have at most 40 bytes, and what ranks ask takes 72 and more.
  EXPECT_EQ(bytes, 2 * kWhole.num_bytes());
}

// ---- Mistakes: one error on all ranks, and the array works on

struct Wrong {
  const char* says;
  std::function<Task<Status>(DistArray&, int rank)> does;
};

Task<Status> reads(DistArray& array, std::optional<Box> box) {
  co_return (co_await array.read(std::move(box))).status();
}

std::vector<Wrong> mistakes() {
  const Box good{{0, 2}, {0, 2}, {0, 2}};
  return {
      {"rank 1 (rows 0, columns 1) reads indices [0, 9) of dimension 0 of 'image', expected some within [0, "
       "7)",
       [good](DistArray& a, int rank) {
         return reads(a, rank == 1 ? Box{{0, 9}, {0, 1}, {0, 1}} : good);
       }},
      {"rank 2 (rows 1, columns 0) reads indices [3, 1) of dimension 2",
       [good](DistArray& a, int rank) {
         return reads(a, rank == 2 ? Box{{0, 1}, {0, 1}, {3, 1}} : good);
       }},
      {"reads indices [-1, 1) of dimension 1",
       [good](DistArray& a, int rank) {
         return reads(a, rank == 3 ? Box{{0, 1}, {-1, 1}, {0, 1}} : good);
       }},
      {"rank 0 (rows 0, columns 0) reads a box of 'image' that has not the 3 dimensions of f32[7, 6, 5]",
       [good](DistArray& a, int rank) {
         return reads(a, rank == 0 ? Box{{0, 2}, {0, 2}} : good);
       }},
      {"rank 0 (rows 0, columns 0) and rank 3 (rows 1, columns 1) write boxes of 'image' that overlap: "
       "image[0:2, 0:2, 0:2] and image[1:2, 0:6, 0:1]",
       [good](DistArray& a, int rank) {
         const Box other{{1, 2}, {0, 6}, {0, 1}};
         const bool writes = rank == 0 || rank == 3;
         const Box& own = rank == 0 ? good : other;
         return a.write(writes ? std::optional<Box>(own) : std::nullopt, writes ? values_of(own) : Tensor());
       }},
      {"rank 2 (rows 1, columns 0) writes values to 'image' that are not f32 of the shape of its box",
       [good](DistArray& a, int rank) {
         const Tensor values = Tensor::from<float>(std::vector<float>(8), {8});
         return a.write(rank == 2 ? std::optional<Box>(good) : std::nullopt, values);
       }},
      {"rank 1 (rows 0, columns 1) writes 'image', and rank 0 reads it; all ranks make the same calls",
       [](DistArray& a, int rank) {
         return rank == 1 ? a.write(std::nullopt, Tensor()) : reads(a, std::nullopt);
       }},
      {"rank 3 (rows 1, columns 1) asks for another layout of 'image' than rank 0",
       [](DistArray& a, int rank) {
         return a.to_layout(*Layout::parse(rank == 3 ? "shard(1) replicate" : "shard(0) replicate"));
       }},
      {"'image': [parallel] axis 'rows' cuts dimension 3",
       [](DistArray& a, int) { return a.to_layout(*Layout::parse("shard(3) replicate")); }},
      {"'image' as 'partial(sum) replicate': an array holds values, not parts of sums",
       [](DistArray& a, int) { return a.to_layout(*Layout::parse("partial(sum) replicate")); }},
  };
}

TEST(DistArray, AWrongCallOfOneRankIsOneErrorOnAllAndTheArrayWorksOn) {
  on_ranks("rows=2,columns=2", [](Runtime& rt, Group& group, Mesh mesh) -> Task<Status> {
    auto array = DistArray::make(rt, group, spec_of(mesh, "shard(0) shard(1)"));
    if (!array.ok()) co_return array.status();
    for (const Wrong& wrong : mistakes()) {
      const Status status = co_await wrong.does(*array, group.rank());
      EXPECT_EQ(status.code(), Code::kInvalid) << wrong.says;
      EXPECT_THAT(status.message(), HasSubstr(wrong.says));
    }
    const Box all = kAll;
    TR_CO_ASSIGN_OR_RETURN(const Tensor whole, co_await array->read(all));
    for (const float zero : whole.values<float>()) EXPECT_EQ(zero, 0);
    co_return Status();
  });
}

TEST(DistArray, IsRefusedWhereMeshOrLayoutDoNotFit) {
  on_ranks("data=2", [](Runtime& rt, Group& group, Mesh) -> Task<Status> {
    const auto why = [&](const char* mesh, const char* layout) {
      return DistArray::make(rt, group, spec_of(*parallel::parse_mesh(mesh), layout)).status().message();
    };
    EXPECT_THAT(why("data=3", "shard(0)"), HasSubstr("the mesh data=3 is of 3 ranks, and the group has 2"));
    EXPECT_THAT(why("data=2", "shard(3)"), HasSubstr("'image'"));
    EXPECT_THAT(why("data=2", "shard(0) shard(1)"), HasSubstr("'image'"));
    EXPECT_THAT(why("data=2", "partial(sum)"), HasSubstr("not parts of sums"));
    co_return Status();
  });
}

TEST(DistArray, MovesSizesOnAPhantomRuntime) {
  comm::testing::RankOptions options;
  options.world = 4;
  options.transport = "tcp";
  runtime::WorldSpec world;
  world.phantom = true;
  int ended = 0;
  std::vector<std::vector<net::SendRecord>> sends;
  options.sends = &sends;
  const auto result =
      comm::testing::run_virtual(options, world, [&](Runtime& rt, Group& group) -> Task<void> {
        DistArraySpec spec = spec_of(parallel::data_mesh(4), "shard(0)");
        spec.whole = {DType::kF32, {1 << 14, 1 << 14}};  // 1 GiB
        spec.chunk_bytes = StreamCall::kChunkBytes;
        auto array = DistArray::make(rt, group, std::move(spec));
        EXPECT_TRUE(array.ok()) << array.status().message();
        const Layout columns = *Layout::parse("shard(1)");
        const Status status = co_await array->to_layout(columns);
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(array->local().shape(), Shape({1 << 14, 1 << 12}));
        const auto boxes = co_await array->read(std::nullopt);
        EXPECT_THAT(boxes.status().message(), HasSubstr("not known on a phantom runtime"));
        (void)co_await group.leave();
        ++ended;
      });
  comm::testing::expect_finished(result);
  EXPECT_EQ(ended, 4);
  std::uint64_t bytes = 0;
  for (const auto& log : sends)
    for (const net::SendRecord& s : log) bytes += s.bytes;
  EXPECT_EQ(bytes, 3U << 28) << "three quarters of every rank's part";
}

}  // namespace
}  // namespace trireme::engine
