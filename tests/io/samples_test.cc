// Writes a checkpoint and an event file to the disk for oracle_test.py, which reads them with the public
// packages: into $TRIREME_SAMPLES, or into a folder of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/runtime/temp_dir.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/io/events.h"
#include "trireme/io/reader.h"
#include "trireme/io/trace.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                            DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
const std::pair<const char*, Shape> kShapes[] = {
    {"matrix", {3, 5}}, {"scalar", {}}, {"none", {0}}, {"no rows", {2, 0, 3}}, {"deep", {1, 2, 1, 2, 1, 2}}};

// Byte i of a tensor is (7 i + 3) mod 64, of BOOL i mod 2: finite in every floating type, and different in
// every element, so that an exchange of any two is seen.
Tensor sample(DType dtype, const Shape& shape) {
  Tensor t = *Tensor::allocate(cpu_device(), {dtype, shape});
  for (std::size_t i = 0; i < t.type().num_bytes(); ++i)
    t.raw()[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : (7 * i + 3) % 64);
  return t;
}

Checkpoint sample_checkpoint() {
  Checkpoint c;
  c.step = 12;
  c.state = Json{{"samples", 1536}, {"note", "caf\u00e9"}};
  for (const DType type : kTypes)
    for (const auto& [name, shape] : kShapes)
      c.tensors.emplace_back(fmt::format("{}/{}", dtype_name(type), name), sample(type, shape));
  const int order[] = {1, 0};
  c.tensors.emplace_back("transposed", sample(DType::kF32, {4, 6}).transpose(order));
  c.tensors.emplace_back("odd \"name\" \u00e9", sample(DType::kU8, {2}));
  return c;
}

Task<void> write_samples(Runtime& rt, std::string dir) {
  CheckpointOptions options;
  options.max_shard_bytes = 300;
  CheckpointWriter writer(rt, dir + "/checkpoints", options);
  const Checkpoint c = sample_checkpoint();
  EXPECT_TRUE((co_await writer.begin(c)).ok());
  EXPECT_TRUE((co_await writer.finish()).ok());

  EventWriter events(rt, dir);
  EXPECT_TRUE((co_await events.open(0)).ok());
  for (std::int64_t step = 1; step <= 20; ++step) {
    events.add_scalar("train/loss", step, 4.0 / static_cast<double>(step));
    if (step % 5 == 0) events.add_scalar("test/accuracy", step, 1.0 - 1.0 / static_cast<double>(step));
    if (step % 7 != 0) continue;
    EXPECT_TRUE((co_await events.flush()).ok());
  }
  events.add_scalar("odd/inf", 1'000'000'000'000, std::numeric_limits<double>::infinity());
  events.add_scalar("odd/caf\u00e9", 0, -0.125);
  EXPECT_TRUE((co_await events.flush()).ok());

  RankTrace rank;
  rank.spans.push_back({"odd \xFF name", "op", 1500, 4000, 2, Json{{"flops", 12}}});
  rank.counters.push_back({"loss", 2000, 0.5});
  const std::string trace = merged_trace({&rank, 1});
  EXPECT_TRUE((co_await rt.files().write(dir + "/trace.json", as_bytes(trace))).ok());

  const auto verified = co_await verify_checkpoint(rt, dir);
  EXPECT_TRUE(verified.ok() && all_ok(*verified));
  const auto loaded = co_await load_tensors(rt, dir);
  EXPECT_TRUE(loaded.ok() && parameters_sha256(*loaded) == parameters_sha256(c.tensors));
}

TEST(Samples, AreWrittenAndReadBack) {
  const runtime::TempDir own;
  const char* given = std::getenv("TRIREME_SAMPLES");
  const std::string dir = given != nullptr ? given : own.path();
  runtime::RealOptions options;
  options.compute_threads = 2;
  options.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(options);
  rt->run(write_samples(*rt, dir));
}

}  // namespace
}  // namespace trireme::io
