// Pushes of factors: servers multiply, and what they apply is what a push of the product would have been.
#include <gtest/gtest.h>

#include "tests/server/cluster.h"
#include "tests/server/updates.h"
#include "trireme/graph/builder.h"
#include "trireme/server/letters.h"

namespace trireme::server {
namespace {

using runtime::FaultSpec;
using runtime::Task;
using testing::Cluster;
using testing::key_of;
using testing::tensor_of;
using testing::values_of;
using testing::Vector;
using testing::Worker;

constexpr std::int64_t kDepth = 3;

// Two matrices, 6 x 4 and 5 x 2, with a gap between them; u of the second lies by rows.
Key two_matrices() {
  Key key;
  key.name = "layers";
  key.num_elems = 40;
  key.parts = {{"a", 0, 24, 4, false}, {"b", 30, 10, 2, false}};
  return key;
}
FactorKey factors_of_two() {
  FactorKey f;
  f.parts = {{6, 4, kDepth, true, true, 0, 18}, {5, 2, kDepth, false, true, 30, 45}};
  f.num_elems = 51;
  return f;
}

Vector some_factors(int worker, std::int64_t clock) {
  Vector v(51);
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<float>((static_cast<int>(i) * (worker + 2) + static_cast<int>(clock)) % 7) - 3;
  return v;
}

// What the servers make of them, in the layout of the key.
Vector products(const Vector& factors) {
  Vector out(40);
  const FactorKey key = factors_of_two();
  const std::int64_t offsets[] = {0, 30};
  for (std::size_t p = 0; p < 2; ++p) {
    const FactorPart& f = key.parts[p];
    const auto at = [&](std::int64_t i) { return factors[static_cast<std::size_t>(i)]; };
    for (std::int64_t r = 0; r < f.rows; ++r)
      for (std::int64_t c = 0; c < f.cols; ++c)
        for (std::int64_t k = 0; k < f.depth; ++k)
          out[static_cast<std::size_t>(offsets[p] + r * f.cols + c)] +=
              at(f.u_offset + (f.deep_u ? k * f.rows + r : r * f.depth + k)) *
              at(f.v_offset + k * f.cols + c);
  }
  return out;
}

Result<std::shared_ptr<const exec::CompiledGraph>> product(std::uint32_t, const FactorSlice::Piece& piece) {
  graph::Graph g;
  graph::Builder b(g);
  const TensorType u = piece.u_type(), v = piece.v_type();
  b.output("grad", b.matmul(b.input("u", u.dtype, u.shape), b.input("v", v.dtype, v.shape),
                            piece.whole.deep_u, !piece.whole.deep_v));
  TR_RETURN_IF_ERROR(b.status());
  return exec::compile(g, {});
}

Cluster matrices(int workers, int servers, const char* consistency) {
  Cluster c;
  c.workers = workers;
  c.servers = servers;
  c.consistency = consistency;
  c.keys = {two_matrices(), key_of("bias", 5)};
  c.link.factors = {factors_of_two(), {}};
  c.make_product = product;
  c.make_update = testing::momentum;
  return c;
}

PushNote note_of(std::int64_t clock) {
  PushNote note;
  note.clock = clock;
  note.learning_rate = 0.5F;
  return note;
}

// Three clocks of pushes, as factors or as their products.
Task<Status> push_clocks(Worker w, bool as_factors) {
  if (w.worker == 0) {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(40, 1))));
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(1, tensor_of(Vector(5, 1))));
  }
  const Tensor read = tensor_of(Vector(40));
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    const auto got = co_await w.client.pull(0, read, clock);
    if (!got.ok()) co_return got.status();
    const Vector factors = some_factors(w.worker, clock);
    const Tensor dense = tensor_of(products(factors)), thin = tensor_of(factors),
                 bias = tensor_of(Vector(5, 1));
    const PushNote note = note_of(clock);
    if (as_factors)
      TR_CO_RETURN_IF_ERROR(co_await w.client.push_factors(0, thin, note));
    else
      TR_CO_RETURN_IF_ERROR(co_await w.client.push(0, dense, note));
    TR_CO_RETURN_IF_ERROR(co_await w.client.push(1, bias, note));
    TR_CO_RETURN_IF_ERROR(co_await w.client.tick(clock));
  }
  co_return co_await w.client.finish();
}

TEST(FactorPush, IsThePushOfTheProductForAnyCutAndAnyPolicy) {
  for (const char* consistency : {"bsp", "ssp", "async", "soft", "late"})
    for (const int servers : {1, 2, 3})
      for (const int workers : {1, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} servers, {} workers", consistency, servers, workers));
        const auto run_it = [&](bool as_factors) {
          Cluster c = matrices(workers, servers, consistency);
          c.work = [=](Worker w) { return push_clocks(w, as_factors); };
          run_well(c);
          EXPECT_EQ(c.total().factor_pushes > 0, as_factors);
          return c;
        };
        const Cluster dense = run_it(false), thin = run_it(true);
        ASSERT_EQ(dense.state.size(), thin.state.size());
        // Elsewhere the order in which pushes are applied may differ.
        const bool same = workers == 1 || std::string_view(consistency) == "bsp";
        if (!same) continue;
        for (const auto& [name, values] : dense.state) EXPECT_EQ(thin.state.at(name), values) << name;
        EXPECT_EQ(thin.total().updates, dense.total().updates);
      }
}

TEST(FactorPush, TheSameClockAgainIsDroppedAndNotMultiplied) {
  Cluster c = matrices(1, 2, "async");
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(40))));
    const Tensor factors = tensor_of(some_factors(0, 0));
    const PushNote note = note_of(0);
    for (int i = 0; i < 3; ++i) TR_CO_RETURN_IF_ERROR(co_await w.client.push_factors(0, factors, note));
    const Tensor read = tensor_of(Vector(40));
    const auto got = co_await w.client.pull(0, read, 1);
    if (!got.ok()) co_return got.status();
    Vector expected = products(some_factors(0, 0));
    for (float& x : expected) x *= -0.5F;
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(values_of(read)[i], expected[i]) << i;
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().repeated, 2 * c.total().factor_pushes);
}

TEST(FactorPush, OthersGoOnWithoutAWorkerThatIsLost) {
  for (TimeNs at = 20 * kMicro; at < 800 * kMicro; at += 60 * kMicro) {
    Cluster c = matrices(3, 2, "bsp");
    c.expendable = true;
    FaultSpec fault;
    fault.kind = FaultSpec::Kind::kKill;
    fault.runtime = 1;
    fault.at = at;
    c.spec.faults = {fault};
    c.work = [](Worker w) { return push_clocks(w, true); };
    run(c);
    for (const int worker : {0, 2}) {
      const Status& s = c.worker_status[static_cast<std::size_t>(worker)];
      EXPECT_TRUE(s.ok()) << s.to_string();
    }
    for (const Status& s : c.server_status) EXPECT_TRUE(s.ok()) << s.to_string();
  }
}

// A letter as no client writes it.
Task<Status> write_by_hand(Worker w, std::uint32_t slice, std::size_t length) {
  TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(40))));
  TR_CO_RETURN_IF_ERROR(co_await w.client.init(1, tensor_of(Vector(5))));
  PushHead head;
  head.is_factors = true;
  head.slice = slice;
  const std::vector<std::byte> bytes(length);
  const net::View payload{const_cast<std::byte*>(bytes.data()), bytes.size()};
  TR_CO_RETURN_IF_ERROR(co_await w.group.mailbox().send(1, receiver_of(0), head, payload));
  const Tensor read = tensor_of(Vector(40));
  const auto got = co_await w.client.pull(0, read, 1);
  co_return got.status();
}

TEST(FactorPush, OfTheWrongSizeOrForAKeyOfValuesIsAnErrorThatSaysSo) {
  struct Case {
    std::uint32_t slice;
    std::size_t bytes;
    const char* says;
  };
  for (const Case& wrong : {Case{0, 64, "bytes of factors"}, Case{1, 20, "it has no factors here"}}) {
    Cluster c = matrices(1, 1, "async");
    c.work = [=](Worker w) { return write_by_hand(w, wrong.slice, wrong.bytes); };
    run(c);
    EXPECT_FALSE(c.worker_status[0].ok());
    const std::string why = c.server_status[0].to_string();
    EXPECT_NE(why.find(wrong.says), std::string::npos) << why;
  }
  Cluster c = matrices(1, 1, "async");
  c.work = [](Worker w) -> Task<Status> {
    const PushNote note = note_of(0);
    const Tensor few = tensor_of(Vector(50)), bias = tensor_of(Vector(5));
    const Status shorter = co_await w.client.push_factors(0, few, note),
                 other = co_await w.client.push_factors(1, bias, note);
    EXPECT_NE(shorter.message().find("expected contiguous f32 [51] or more"), std::string::npos)
        << shorter.to_string();
    EXPECT_NE(other.message().find("pushed as factors"), std::string::npos) << other.to_string();
    co_return Status();
  };
  run_well(c);
}

TEST(FactorPush, FactorsThatDoNotFitTheirKeyAreRefused) {
  const std::vector<Key> keys = {two_matrices()};
  const ServerLayout layout = *make_layout(keys, 2, 4);
  const auto refused = [&](FactorKey f) {
    const std::vector<FactorKey> all = {std::move(f)};
    return slice_factors(all, layout, keys).status().code() == Code::kInvalid;
  };
  EXPECT_FALSE(refused(factors_of_two()));
  FactorKey f = factors_of_two();
  f.parts.pop_back();
  EXPECT_TRUE(refused(f));
  f = factors_of_two();
  f.parts[0].cols = 6, f.parts[0].rows = 4;
  EXPECT_TRUE(refused(f));
  f = factors_of_two();
  f.num_elems = 50;
  EXPECT_TRUE(refused(f));
  ServerLayout torn = layout;
  torn.slices[0].end -= 1;
  const std::vector<FactorKey> all = {factors_of_two()};
  EXPECT_EQ(slice_factors(all, torn, keys).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::server
