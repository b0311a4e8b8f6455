// The state of a job whose ranks hold parts of it: hashes, checks, initial values, checkpoints under one
// layout that go on under another, ranks without the folder, damaged files, ranks that die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/engine/state/cluster.h"
#include "trireme/engine/first_broken.h"
#include "trireme/engine/replica_check.h"
#include "trireme/engine/shard_state.h"
#include "trireme/engine/share_text.h"
#include "trireme/engine/state/initial_values.h"
#include "trireme/engine/state/move_state.h"
#include "trireme/engine/state/piece_stream.h"
#include "trireme/engine/state/save_pieces.h"
#include "trireme/engine/state/stored_state.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/io/generation.h"
#include "trireme/plan/slots.h"
#include "trireme/runtime/files.h"

namespace trireme::engine {
namespace {

using comm::Group;
using parallel::Interval;
using parallel::Piece;
using runtime::Runtime;
using runtime::Task;
using testing::Cluster;
using testing::Cut;
using ::testing::HasSubstr;

constexpr const char* kDir = "run/checkpoints";
constexpr std::int64_t kChunk = 24;  // bytes: most tensors need several

std::vector<int> one_machine(const Cut& cut) {
  return std::vector<int>(static_cast<std::size_t>(cut.mesh.num_ranks()), 0);
}

const Cut& cut_named(const std::string& name) {
  static const std::vector<Cut> kAll = testing::cuts();
  for (const Cut& cut : kAll)
    if (cut.name == name) return cut;
  TR_CHECK(false, "no cut '{}'", name);
  return kAll[0];
}

// Every message of the slot has at most so many bytes; -1: there is none.
void expect_at_most(const Cluster& cluster, plan::Slot slot, std::int64_t bytes) {
  std::int64_t most = -1;
  for (const net::SendRecord& s : cluster.sends())
    if (s.id.slot == slot) most = std::max(most, static_cast<std::int64_t>(s.bytes));
  EXPECT_LE(most, bytes);
}

// What `train` does: each rank its part, the manifest last.
Task<Status> save(Runtime& rt, Group& group, HeldState holding, std::int64_t step) {
  SaveCall call;
  call.step = step;
  call.dir = kDir;
  call.options.max_shard_bytes = 200;
  call.chunk_bytes = kChunk;
  if (!one_writer(holding.all)) {
    TR_CO_ASSIGN_OR_RETURN(call.sees, co_await who_sees_folder(rt, group, kDir));
  }
  TR_CO_ASSIGN_OR_RETURN(io::CheckpointPart part, part_to_write(rt, group, holding, call));
  part.state = Json{{"step", step}};
  if (!writes_any(part)) co_return co_await bring_pieces(std::move(part));
  io::CheckpointWriter writer(rt, kDir, call.options);
  TR_CO_RETURN_IF_ERROR(co_await writer.begin(std::move(part)));
  co_return co_await writer.finish();
}

Task<Status> restore(Runtime& rt, Group& group, HeldState holding, io::NamedTensors expected) {
  StoredHead head;
  std::shared_ptr<io::StoredTensors> opened;
  if (group.rank() == 0) {
    TR_CO_ASSIGN_OR_RETURN(opened, co_await io::open_newest_verified(rt, kDir));
  }
  // As agree_on_start tells them.
  const engine::PeerText text{plan::kSlotStart, 0, 0, "head"};
  if (group.rank() == 0) {
    const std::string said = describe_stored(*opened).dump();
    for (int r = 1; r < group.world(); ++r) TR_CO_RETURN_IF_ERROR(co_await send_text(group, text, r, said));
    TR_CO_ASSIGN_OR_RETURN(head, stored_head_from_json(*parse_json(said, "head")));
  } else {
    TR_CO_ASSIGN_OR_RETURN(const std::string said, co_await recv_text(group, text, 0));
    TR_CO_ASSIGN_OR_RETURN(head, stored_head_from_json(*parse_json(said, "head")));
  }
  const std::string path = fmt::format("{}/{}", kDir, io::generation_name(head.step));
  TR_CO_ASSIGN_OR_RETURN(const StoredState stored, co_await share_stored(rt, group, head, path, opened));
  TR_CO_RETURN_IF_ERROR(
      co_await restore_pieces(rt, group, stored, holding, {plan::kSlotRestore, 0, "restore", kChunk}));
  testing::expect_part(holding, expected);
  co_return Status();
}

Cluster::Body saving(const Cut& cut, const io::NamedTensors& model, std::int64_t step = 7) {
  return [&cut, &model, step](Runtime& rt, Group& group) {
    return save(rt, group, testing::hold(cut, group.rank(), &model), step);
  };
}
Cluster::Body restoring(const Cut& cut, const io::NamedTensors& expected) {
  return [&cut, &expected](Runtime& rt, Group& group) {
    return restore(rt, group, testing::hold(cut, group.rank(), nullptr), expected);
  };
}

TEST(State, WhatIsSavedUnderOneLayoutGoesOnUnderAnyOther) {
  const io::NamedTensors model = testing::whole_model();
  for (const Cut& saved : testing::cuts()) {
    Cluster cluster;
    cluster.run_well(one_machine(saved), saving(saved, model));
    for (const Cut& read : testing::cuts()) {
      SCOPED_TRACE(fmt::format("{} goes on as {}", saved.name, read.name));
      cluster.run_well(one_machine(read), restoring(read, model));
    }
  }
}

// Ranks 0 and 1 have the folder, the third has not: it writes nothing, and gets its pieces from rank 1.
TEST(State, ARankWithoutTheFolderGetsItsPiecesInChunksFromTheNearestRank) {
  const io::NamedTensors model = testing::whole_model();
  for (const char* name : {"three replicas", "three, rows", "three, flat"}) {
    SCOPED_TRACE(name);
    const Cut& cut = cut_named(name);
    Cluster cluster;
    cluster.run_well({0, 0, 1}, saving(cut, model));
    expect_at_most(cluster, plan::kSlotSave, kChunk);
    cluster.run_well({0, 0, 1}, restoring(cut, model));
    int passed = 0;
    for (const net::SendRecord& s : cluster.sends()) {
      if (s.id.slot != plan::kSlotRestore || s.bytes == 8) continue;
      EXPECT_EQ(s.peer, 2);
      EXPECT_LE(s.bytes, static_cast<std::uint64_t>(kChunk));
      ++passed;
    }
    EXPECT_GT(passed, 3);
  }
}

TEST(State, NothingIsSentWhereEverybodySeesTheFolder) {
  const io::NamedTensors model = testing::whole_model();
  const Cut& cut = cut_named("2 x 2, columns");
  Cluster cluster;
  cluster.run_well(one_machine(cut), saving(cut, model));
  cluster.run_well(one_machine(cut), restoring(cut, model));
  expect_at_most(cluster, plan::kSlotRestore, 8 * 4);  // who reads
}

Task<void> flip_last_byte(Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  if (!bytes.ok()) co_return;
  bytes->back() ^= std::byte{1};
  EXPECT_TRUE((co_await rt.files().write_atomic(path, *bytes)).ok());
}

Task<void> list_files(Runtime& rt, std::string path, std::vector<std::string>& out) {
  Result<std::vector<std::string>> names = co_await rt.files().list(path);
  if (names.ok()) out = *names;
}

TEST(State, ADamagedGenerationGivesWayToTheOneBefore) {
  const io::NamedTensors older = testing::whole_model(), newer = testing::whole_model(0.5F);
  for (const Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    Cluster cluster;
    cluster.run_well(one_machine(cut), saving(cut, older, 7));
    cluster.run_well(one_machine(cut), saving(cut, newer, 9));
    cluster.run_well(one_machine(cut), restoring(cut, newer));
    std::vector<std::string> files;
    const std::string folder = std::string(kDir) + "/step-000000009";
    cluster.run_alone([&](Runtime& rt) { return list_files(rt, folder, files); });
    ASSERT_GE(files.size(), 3U);
    cluster.run_alone([&](Runtime& rt) { return flip_last_byte(rt, folder + "/" + files[1]); });
    cluster.run_well(one_machine(cut), restoring(cut, older));
    ASSERT_FALSE(cluster.log.empty());
    EXPECT_THAT(cluster.log[0], HasSubstr("checkpoint step-000000009 is skipped"));
    EXPECT_THAT(cluster.log[0], HasSubstr("does not have the hash"));
  }
}

TEST(State, WhatIsMissingFailsOnEveryRankWithItsName) {
  const io::NamedTensors model = testing::whole_model();
  const Cut& cut = cut_named("three, rows");
  Cluster cluster;
  cluster.run_well(one_machine(cut), saving(cut, model));
  const auto results = cluster.run({0, 0, 1}, [&](Runtime& rt, Group& group) {
    HeldState holding = testing::hold(cut, group.rank(), nullptr);
    holding.all.tensors[4].name = "other";
    return restore(rt, group, std::move(holding), model);
  });
  for (const Status& status : results) {
    EXPECT_THAT(status.message(),
                HasSubstr("tensor 'other' is missing or has another type; expected f32[11]"));
  }
}

// Rank 1 or 3 is killed at each of its file operations in turn while the second generation is written.
TEST(State, ARankThatDiesWhileItWritesLeavesTheOlderGenerationWhole) {
  const io::NamedTensors older = testing::whole_model(), newer = testing::whole_model(0.5F);
  const Cut& cut = cut_named("2 x 2, blocks");
  int killed = 0;
  for (const int victim : {1, 3})
    for (std::uint64_t operation = 1; operation < 12; ++operation) {
      SCOPED_TRACE(fmt::format("rank {}, operation {}", victim, operation));
      runtime::FaultSpec fault;
      fault.kind = runtime::FaultSpec::Kind::kKill;
      fault.runtime = 4 + victim;  // the second four processes
      fault.site = "disk";
      fault.index = operation;
      Cluster cluster({fault});
      cluster.run_well(one_machine(cut), saving(cut, older, 7));
      const std::vector<Status> results = cluster.run(one_machine(cut), saving(cut, newer, 9));
      const bool died =
          results[static_cast<std::size_t>(victim)].message().find("killed") != std::string::npos;
      killed += died ? 1 : 0;
      const bool saved = results[0].ok();
      EXPECT_TRUE(died || saved) << results[0].to_string();
      cluster.run_well(one_machine(cut), restoring(cut, saved ? newer : older));
    }
  EXPECT_GE(killed, 6);
}

TEST(State, AFailingDiskOfOneRankIsEverybodysError) {
  const io::NamedTensors older = testing::whole_model(), newer = testing::whole_model(0.5F);
  const Cut& cut = cut_named("three, rows");
  runtime::FaultSpec fault;
  fault.kind = runtime::FaultSpec::Kind::kError;
  fault.runtime = 3 + 2;
  fault.site = "disk";
  fault.index = 3;
  Cluster cluster({fault});
  cluster.run_well(one_machine(cut), saving(cut, older, 7));
  const std::vector<Status> results = cluster.run(one_machine(cut), saving(cut, newer, 9));
  for (const Status& status : results) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("rank 2")) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("the checkpoint of step 9 was not written"));
  }
  cluster.run_well(one_machine(cut), restoring(cut, older));
}

// The names of rank 0's files are those of a run without any cut.
TEST(State, ReplicasAreWrittenByRankZeroAsWholeTensorsWhateverShardsOthersHave) {
  const io::NamedTensors model = testing::whole_model();
  std::vector<std::vector<std::string>> files;
  std::vector<Bytes> first;
  for (const int replicas : {1, 3}) {
    Cut cut{"replicas", parallel::data_mesh(replicas), "replicate"};
    Cluster cluster;
    std::vector<int> machines;
    for (int r = 0; r < replicas; ++r) machines.push_back(r);
    cluster.run_well(machines, [&](Runtime& rt, Group& group) {
      HeldState holding = testing::hold(cut, group.rank(), &model);
      holding.all.tensors.pop_back();  // what one rank has alone
      holding.own.pop_back();
      return save(rt, group, std::move(holding), 7);
    });
    const std::string folder = std::string(kDir) + "/step-000000007";
    cluster.run_alone([&](Runtime& rt) { return list_files(rt, folder, files.emplace_back()); });
    cluster.run_alone([&](Runtime& rt) -> Task<void> {
      Result<Bytes> bytes = co_await rt.files().read(std::string(kDir) + "/step-000000007/manifest.json");
      first.push_back(bytes.ok() ? *bytes : Bytes());
    });
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_THAT(std::string(as_text(first[0])), HasSubstr("\"version\": 2"));
}

Task<Status> hash(Runtime& rt, Group& group, HeldState holding, std::string expected) {
  TR_CO_ASSIGN_OR_RETURN(const std::string sha256, co_await hash_parameters(rt, group, holding, 3, kChunk));
  EXPECT_EQ(sha256, expected) << "rank " << group.rank();
  co_return Status();
}

TEST(State, TheHashOfPiecesIsThatOfTheWhole) {
  const io::NamedTensors model = testing::whole_model();
  for (const Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    Cluster cluster;
    cluster.run_well(one_machine(cut), [&](Runtime& rt, Group& group) {
      return hash(rt, group, testing::hold(cut, group.rank(), &model), io::parameters_sha256(model));
    });
    expect_at_most(cluster, plan::kSlotHash, 64);
  }
}

Task<Status> stream_all(Runtime& rt, Group& group, HeldState holding, io::NamedTensors model) {
  PieceStream stream(rt, group, {plan::kSlotHash, 1, "test", kChunk});
  for (std::size_t i = 0; i < holding.size(); ++i)
    for (int to = 0; to < group.world(); ++to) {
      const parallel::StateTensor& t = holding.tensor(i);
      std::vector<float> got(static_cast<std::size_t>(t.whole.shape.num_elems()), -1.0F);
      const Piece whole = Piece::of_whole(t.name, t.whole);
      const PieceStream::Sink sink = [&got](Interval elems, Tensor chunk) -> Task<Status> {
        EXPECT_LE(chunk.type().num_bytes(), static_cast<std::size_t>(kChunk));
        const auto values = chunk.values<float>();
        std::copy(values.begin(), values.end(), got.begin() + elems.begin);
        co_return Status();
      };
      TR_CO_RETURN_IF_ERROR(co_await stream.bring(holding, i, whole, to, sink));
      if (to != group.rank()) continue;
      const auto expected = testing::tensor_named(model, t.name).values<float>();
      EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin(), expected.end())) << t.name;
    }
  EXPECT_LE(stream.most_bytes(), 2 * kChunk);
  EXPECT_GT(stream.most_bytes(), 0);
  co_return Status();
}

TEST(State, AStreamKeepsTwoChunksAtMostWhateverTheLayout) {
  const io::NamedTensors model = testing::whole_model();
  for (const Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    Cluster cluster;
    cluster.run_well(one_machine(cut), [&](Runtime& rt, Group& group) {
      return stream_all(rt, group, testing::hold(cut, group.rank(), &model), model);
    });
  }
}

Task<Status> check(Runtime& rt, Group& group, HeldState holding) {
  co_return co_await check_replicas(rt, group, 5, holding);
}

TEST(State, OnlyHoldersOfTheSamePieceAreComparedAndThePieceIsNamed) {
  const io::NamedTensors model = testing::whole_model();
  for (const Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    Cluster cluster;
    cluster.run_well(one_machine(cut), [&](Runtime& rt, Group& group) {
      return check(rt, group, testing::hold(cut, group.rank(), &model));
    });
  }
  const Cut& cut = cut_named("2 x 2, blocks");  // ranks 1 and 3 hold the same
  Cluster cluster;
  const std::vector<Status> results = cluster.run(one_machine(cut), [&](Runtime& rt, Group& group) {
    HeldState holding = testing::hold(cut, group.rank(), &model);
    if (group.rank() == 3) holding.own[1].pieces[2].data<float>()[0] += 1;
    return check(rt, group, std::move(holding));
  });
  for (const Status& status : results) {
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("rank 3 has other values in 'b[0:4, 10:12]' than the others"));
    EXPECT_THAT(status.message(), HasSubstr("(1 of 8 tensors differ)"));
  }
}

Task<Status> look(Runtime& rt, Group& group, HeldState holding, std::string expected) {
  TR_CO_ASSIGN_OR_RETURN(const std::string name, co_await find_not_finite(rt, group, holding, 5));
  EXPECT_EQ(name, expected) << "rank " << group.rank();
  co_return Status();
}

TEST(State, AnInfinityOfOnePieceIsEverybodysVerdict) {
  const io::NamedTensors model = testing::whole_model();
  for (const char* name : {"2 x 2, columns", "2 x 2, blocks", "three, flat"})
    for (const bool broken : {false, true}) {
      SCOPED_TRACE(name);
      const Cut& cut = cut_named(name);
      Cluster cluster;
      cluster.run_well(one_machine(cut), [&](Runtime& rt, Group& group) {
        HeldState holding = testing::hold(cut, group.rank(), &model);
        // Rank 1 is the first to hold its part of both.
        if (broken && group.rank() == 1)
          for (const std::size_t i : {5U, 1U}) holding.own[i].pieces[0].data<float>()[0] = INFINITY;
        return look(rt, group, std::move(holding), broken ? "b" : "");
      });
    }
}

// "c" is none: it stays as it is.
std::vector<model::Parameter> parameters() {
  using model::InitKind;
  const std::map<std::string, InitKind> kinds{{"a", InitKind::kUniform},       {"b", InitKind::kOrthogonal},
                                              {"e", InitKind::kNormal},        {"f", InitKind::kNormal},
                                              {"shard/r", InitKind::kUniform}, {"z", InitKind::kConstant}};
  std::vector<model::Parameter> out;
  for (const auto& [name, tensor] : testing::whole_model())
    if (const auto kind = kinds.find(name); kind != kinds.end())
      out.push_back({name, tensor.type(), 0.5, kind->second});
  return out;
}

Task<Status> initialise(Runtime& rt, HeldState holding, io::NamedTensors expected) {
  co_await initialise_pieces(rt, holding, parameters(), 42);
  testing::expect_part(holding, expected);
  co_return Status();
}

TEST(State, InitialValuesOfAPieceAreThoseOfTheWhole) {
  io::NamedTensors expected;
  for (const auto& [name, tensor] : testing::whole_model()) {
    expected.emplace_back(name, *Tensor::allocate(cpu_device(), tensor.type()));
    if (tensor.shape().num_elems() > 0) *expected.back().second.data<float>() = -1;  // what nobody sets
    for (const model::Parameter& p : parameters())
      if (p.name == name) model::initialise(p, 42, expected.back().second.values<float>());
  }
  for (const Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    Cluster cluster;
    cluster.run_well(one_machine(cut), [&](Runtime& rt, Group& group) {
      return initialise(rt, testing::hold(cut, group.rank(), nullptr), expected);
    });
  }
}

using Owners = std::vector<collective::LeafRun>;

comm::NamedState rows_of(const Owners& owners, int rank, bool filled) {
  const collective::LeafRun run = owners[static_cast<std::size_t>(rank)];
  comm::NamedState out;
  for (const char* name : {"residual/0", "residual/10", "residual/2"}) {
    const Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {run.count, 7}});
    for (std::int64_t i = 0; i < t.shape().num_elems(); ++i)
      t.data<float>()[i] = filled ? static_cast<float>(run.first * 7 + i) : -1.0F;
    out.emplace_back(name, t);
  }
  return out;
}

Task<Status> move(Runtime& rt, Group& group, Owners before, Owners now) {
  const int rank = group.rank();
  const comm::NamedState to = rows_of(now, rank, false);
  const parallel::Mesh mesh = parallel::data_mesh(group.world());
  const HeldState old_rows = hold_rows(rows_of(before, rank, true), before, mesh, rank);
  const HeldState new_rows = hold_rows(to, now, mesh, rank);
  TR_CO_RETURN_IF_ERROR(co_await move_shard_state(rt, group, old_rows, new_rows, 16));
  const comm::NamedState expected = rows_of(now, rank, true);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto a = to[i].second.values<float>(), b = expected[i].second.values<float>();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << "rank " << rank << ": " << to[i].first;
  }
  co_return Status();
}

TEST(State, RowsOfShardsGoFromTheirOldOwnersToTheirNewOnes) {
  const Owners even{{0, 2}, {2, 2}, {4, 2}}, uneven{{0, 1}, {1, 5}, {6, 0}}, other{{0, 4}, {4, 1}, {5, 1}};
  for (const Owners* before : {&even, &uneven, &other})
    for (const Owners* now : {&even, &uneven, &other}) {
      Cluster cluster;
      cluster.run_well({0, 1, 2}, [&](Runtime& rt, Group& group) { return move(rt, group, *before, *now); });
      if (before == now) expect_at_most(cluster, plan::Slots::shard_state(2, 0), -1);
    }
}

TEST(State, TheNearestRankThatSeesTheFilesReadsForOthers) {
  EXPECT_EQ(nearest_reader({true, false, false, true}, 1), 0);
  EXPECT_EQ(nearest_reader({true, false, false, true}, 2), 3);
  EXPECT_EQ(nearest_reader({true, false, true, false}, 1), 0);
  EXPECT_EQ(nearest_reader({true, true, true}, 2), 2);
}

}  // namespace
}  // namespace trireme::engine
