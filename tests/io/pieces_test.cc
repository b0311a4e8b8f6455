// Checkpoints whose tensors are in pieces (docs/format_checkpoint.md, section 1), read under other cuts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/io/machine.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/io/generation.h"
#include "trireme/io/report.h"
#include "trireme/io/stored_tensors.h"

namespace trireme::io {
namespace {

using parallel::Layout;
using parallel::Piece;
using runtime::Runtime;
using runtime::Task;
using ::testing::HasSubstr;

constexpr const char* kDir = "run/checkpoints";
constexpr const char* kGeneration = "run/checkpoints/step-000000007";

Tensor counting(const Shape& shape, int first) {
  std::vector<float> values(static_cast<std::size_t>(shape.num_elems()));
  std::iota(values.begin(), values.end(), static_cast<float>(first));
  return Tensor::from<float>(values, shape);
}

NamedTensors model() {
  return {{"a", counting({7, 5}, 0)},
          {"b", counting({4, 12}, 100)},
          {"c", counting({}, 1000)},
          {"d", counting({0, 3}, 0)},
          {"e", counting({11}, 2000)}};
}

Tensor cut(const Tensor& whole, const Piece& piece) {
  const Tensor out = *Tensor::allocate(cpu_device(), stored_type(piece));
  for (const parallel::SharedRun& run : runs_in_whole(piece))
    std::copy_n(whole.data<float>() + run.second, run.count, out.data<float>() + run.first);
  return out;
}

// The model as ranks of a line of `world` would write it, all by one writer.
CheckpointPart part_under(const std::string& layout, int world) {
  CheckpointPart part;
  part.step = 7;
  part.state = Json{{"epoch", 1}};
  const parallel::Mesh mesh = parallel::data_mesh(world);
  for (const auto& [name, tensor] : model()) {
    Layout own = *Layout::parse(layout);
    if (!check_layout(own, mesh, tensor.type()).ok()) own = Layout::replicate(mesh);
    const bool cuts = own.axes[0].cuts() && tensor.shape().num_elems() > 0;
    for (int rank = 0; rank < (cuts ? world : 1); ++rank) {
      std::vector<Piece> pieces = pieces_of(own, mesh, rank, name, tensor.type());
      if (tensor.shape().num_elems() == 0) pieces = {Piece::of_whole(name, tensor.type())};
      for (const Piece& piece : pieces) {
        part.pieces.push_back({piece});
        part.tensors.emplace_back(stored_name(piece), cut(tensor, piece));
      }
    }
  }
  return part;
}

Task<void> save(Runtime& rt, CheckpointPart part) {
  CheckpointWriter writer(rt, kDir, {.max_shard_bytes = 100});
  const Status begun = co_await writer.begin(std::move(part));
  EXPECT_TRUE(begun.ok()) << begun.to_string();
  const Status finished = co_await writer.finish();
  EXPECT_TRUE(finished.ok()) << finished.to_string();
}

Task<void> read_under(Runtime& rt, std::string layout, int world) {
  const auto stored = co_await StoredTensors::open(rt, "run");
  EXPECT_TRUE(stored.ok()) << stored.status().to_string();
  if (!stored.ok()) co_return;
  const parallel::Mesh mesh = parallel::data_mesh(world);
  for (const auto& [name, tensor] : model()) {
    EXPECT_EQ((*stored)->type_of(name), tensor.type());
    const Layout own = *Layout::parse(layout);
    if (!check_layout(own, mesh, tensor.type()).ok()) continue;
    for (int rank = 0; rank < world; ++rank)
      for (const Piece& piece : pieces_of(own, mesh, rank, name, tensor.type())) {
        const Tensor to = *Tensor::allocate(cpu_device(), stored_type(piece));
        const Status read = co_await (*stored)->read(piece, to);
        EXPECT_TRUE(read.ok()) << read.to_string();
        const auto a = to.values<float>();
        const Tensor expected = cut(tensor, piece);
        const auto b = expected.values<float>();
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << piece.to_text();
      }
  }
  EXPECT_TRUE((co_await (*stored)->verify()).ok());
}

Task<void> load_whole(Runtime& rt, std::string& sha256) {
  const Result<Checkpoint> loaded = co_await load_newest_checkpoint(rt, kDir);
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  if (!loaded.ok()) co_return;
  EXPECT_EQ(loaded->step, 7);
  EXPECT_EQ(loaded->state, (Json{{"epoch", 1}}));
  sha256 = parameters_sha256(loaded->tensors);
}

constexpr struct {
  const char* layout;
  int world;
} kCuts[] = {{"replicate", 1}, {"shard(0)", 3}, {"shard(1)", 2}, {"shard(1,3)", 2}, {"flat", 4}, {"flat", 1}};

TEST(Pieces, WhatIsSavedUnderOneLayoutIsReadUnderAnyOther) {
  for (const auto& saved : kCuts) {
    Machine machine;
    machine.run([&](Runtime& rt) { return save(rt, part_under(saved.layout, saved.world)); });
    std::string sha256;
    machine.run([&](Runtime& rt) { return load_whole(rt, sha256); });
    EXPECT_EQ(sha256, parameters_sha256(model())) << saved.layout;
    for (const auto& read : kCuts) {
      SCOPED_TRACE(
          fmt::format("{} on {} read as {} on {}", saved.layout, saved.world, read.layout, read.world));
      machine.run([&](Runtime& rt) { return read_under(rt, read.layout, read.world); });
    }
  }
}

TEST(Pieces, WholeTensorsAreWrittenAsVersionTwo) {
  Machine machine;
  machine.run([&](Runtime& rt) { return save(rt, part_under("replicate", 1)); });
  const Bytes text = machine.read(std::string(kGeneration) + "/manifest.json");
  EXPECT_THAT(std::string(as_text(text)), HasSubstr("\"version\": 2"));
  EXPECT_EQ(std::string(as_text(text)).find("\"box\""), std::string::npos);
}

TEST(Pieces, TheManifestSaysWhichPieceIsWhereAndComesBack) {
  Machine machine;
  machine.run([&](Runtime& rt) { return save(rt, part_under("flat", 2)); });
  const Bytes bytes = machine.read(std::string(kGeneration) + "/manifest.json");
  const std::string text(as_text(bytes));
  EXPECT_THAT(text, HasSubstr("\"version\": 3"));
  EXPECT_THAT(text, HasSubstr(R"("name":"e")"));
  EXPECT_THAT(text, HasSubstr(R"("shape":[11],"box":[[0,11]],"range":[6,11],"sha256":")"));
  const Result<Manifest> manifest = parse_manifest(text, "test");
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest_text(*manifest), text);
}

struct Outcome {
  std::vector<VerifiedCheckpoint> verified;
  std::string info, loaded, read;
};

Task<void> look(Runtime& rt, Outcome& out) {
  const auto verified = co_await verify_checkpoint(rt, "run");
  if (verified.ok()) out.verified = *verified;
  const auto info = co_await describe_checkpoint(rt, "run");
  if (info.ok()) out.info = to_text(*info);
  const auto loaded = co_await load_newest_checkpoint(rt, kDir);
  out.loaded = loaded.status().message();
  const auto stored = co_await StoredTensors::open(rt, "run");
  out.read = stored.status().message();
  if (!stored.ok()) co_return;
  const Tensor to = *Tensor::allocate(cpu_device(), {DType::kF32, {7, 5}});
  const Piece whole = Piece::of_whole("a", to.type());
  const Status read = co_await (*stored)->read(whole, to);
  out.read = read.message();
}

Outcome look_at(Machine& machine) {
  Outcome out;
  machine.run([&](Runtime& rt) { return look(rt, out); });
  return out;
}

TEST(Pieces, ToolsCountTensorsAndTheirPieces) {
  Machine machine;
  machine.run([&](Runtime& rt) { return save(rt, part_under("shard(0)", 3)); });
  const Outcome out = look_at(machine);
  ASSERT_EQ(out.verified.size(), 1U);
  EXPECT_TRUE(out.verified[0].ok());
  EXPECT_THAT(out.info, HasSubstr("5 tensors, 95 values"));
  EXPECT_THAT(out.info, HasSubstr("pieces   11"));
}

// "a" under shard(0) on three is in the first file.
TEST(Pieces, AChangedByteAMissingFileAndAShortFileAreNamed) {
  const std::string first = std::string(kGeneration) + "/tensors-00001-of-00005.safetensors";
  Machine machine;
  machine.run([&](Runtime& rt) { return save(rt, part_under("shard(0)", 3)); });
  const Bytes whole = machine.read(first);
  Bytes changed = whole;
  changed.back() ^= std::byte{1};
  machine.write(first, changed);
  Outcome out = look_at(machine);
  EXPECT_THAT(out.read, HasSubstr("'a[3:5, 0:5]' does not have the hash that the manifest names"));
  EXPECT_THAT(out.loaded, HasSubstr("every checkpoint in run/checkpoints is damaged"));
  ASSERT_EQ(out.verified.size(), 1U);
  EXPECT_EQ(out.verified[0].damages.size(), 1U);
  machine.write(first, Bytes(whole.begin(), whole.end() - 1));
  EXPECT_THAT(look_at(machine).read, HasSubstr("its manifest says"));
  machine.run([&](Runtime& rt) -> Task<void> { (void)co_await rt.files().remove_all(first); });
  EXPECT_THAT(look_at(machine).read, HasSubstr("tensors-00001-of-00005.safetensors"));
  machine.write(first, whole);
  EXPECT_EQ(look_at(machine).read, "");
}

std::string parsed(std::string text) {
  const Result<Manifest> manifest = parse_manifest(text, "test");
  return manifest.status().message();
}

TEST(Pieces, AManifestWithHolesOrOverlapsIsRefused) {
  Manifest m;
  m.version = kManifestOfPieces;
  m.files = {{shard_name(0, 1), 100, std::string(64, '0')}};
  ManifestTensor t;
  t.name = "w";
  t.type = {DType::kF32, {4, 6}};
  t.is_piece = true;
  t.sha256 = std::string(64, 'a');
  t.box = {{0, 4}, {0, 2}};
  t.range = {0, 8};
  m.tensors = {t};
  EXPECT_THAT(parsed(manifest_text(m)),
              HasSubstr("tensor 'w': [parallel] pieces of 'w' hold 8 elements of 24"));
  t.box[1] = {2, 6};
  t.range = {0, 16};
  m.tensors.push_back(t);
  EXPECT_EQ(parsed(manifest_text(m)), "");
  m.tensors[1].range = {0, 17};
  EXPECT_NE(parsed(manifest_text(m)), "");
  m.tensors[1].range = {0, 16};
  m.tensors[1].box[1] = {2, 7};
  EXPECT_THAT(parsed(manifest_text(m)), HasSubstr("is not within f32[4, 6]"));
  m.tensors[1].box[1] = {2, 6};
  m.tensors[1].sha256 = "no hash";
  EXPECT_THAT(parsed(manifest_text(m)), HasSubstr("is not 64 hexadecimal digits"));
}

}  // namespace
}  // namespace trireme::io
