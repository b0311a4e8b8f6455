// Rows of an embedding: only those that were touched move, and only their state does.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/cluster.h"
#include "tests/server/updates.h"
#include "trireme/server/client.h"

namespace trireme::server {
namespace {

using runtime::Task;
using testing::Cluster;
using testing::tensor_of;
using testing::values_of;
using testing::Vector;
using testing::Worker;

constexpr std::int64_t kRows = 10, kRow = 3, kBias = 4;

Tensor rows_tensor(const std::vector<std::int64_t>& rows) {
  return Tensor::from<std::int64_t>(rows, {static_cast<std::int64_t>(rows.size())});
}

Cluster embedding(const char* consistency, int workers, int servers) {
  Cluster c;
  c.workers = workers;
  c.servers = servers;
  c.consistency = consistency;
  Key key{"bucket", kBias + kRows * kRow, {}};
  key.parts = {{"bias", 0, kBias, 1, false}, {"table", kBias, kRows * kRow, kRow, false}};
  c.keys = {key};
  return c;
}

// Row r has the value r in all columns, the bias 100.
Task<Status> start(Worker w) {
  Vector values(static_cast<std::size_t>(kBias), 100.0F);
  for (std::int64_t i = 0; i < kRows * kRow; ++i) values.push_back(static_cast<float>(i / kRow));
  if (w.worker != 0) co_return Status();
  co_return co_await w.client.init(0, tensor_of(values));
}

Task<Status> push(Worker w, std::vector<std::int64_t> rows, std::int64_t clock, float value) {
  PushNote note;
  note.clock = clock;
  note.learning_rate = 1;
  const Tensor values = tensor_of(Vector(rows.size() * kRow, value));
  co_return co_await w.client.push_rows(0, rows_tensor(rows), values, note);
}

Task<Result<Vector>> pull(Worker w, std::vector<std::int64_t> rows, std::int64_t clock) {
  const Tensor into = tensor_of(Vector(rows.size() * kRow, -1));
  const Result<Version> read = co_await w.client.pull_rows(0, rows_tensor(rows), into, clock);
  if (!read.ok()) co_return read.status();
  co_return values_of(into);
}

Vector spread(const Vector& per_row) {
  Vector out;
  for (const float v : per_row) out.insert(out.end(), kRow, v);
  return out;
}

TEST(Rows, PulledRowsComeInTheOrderAskedFromWhicheverServerHasThem) {
  for (int servers = 1; servers <= 3; ++servers) {
    Cluster c = embedding("async", 2, servers);
    c.work = [](Worker w) -> Task<Status> {
      TR_CO_RETURN_IF_ERROR(co_await start(w));
      const std::vector<std::int64_t> rows{9, 0, 5, 9};
      const Result<Vector> got = co_await pull(w, rows, 0);
      if (!got.ok()) co_return got.status();
      EXPECT_EQ(*got, spread({9, 0, 5, 9}));
      co_return Status();
    };
    run_well(c);
  }
}

TEST(Rows, AddedRowsChangeAndNothingElse) {
  for (int servers = 1; servers <= 3; ++servers) {
    Cluster c = embedding("async", 1, servers);
    c.work = [](Worker w) -> Task<Status> {
      TR_CO_RETURN_IF_ERROR(co_await start(w));
      const std::vector<std::int64_t> twice{2, 8, 2}, all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
      TR_CO_RETURN_IF_ERROR(co_await push(w, twice, 0, 10));
      const Result<Vector> got = co_await pull(w, all, 1);
      if (!got.ok()) co_return got.status();
      EXPECT_EQ(*got, spread({0, 1, 22, 3, 4, 5, 6, 7, 18, 9}));
      const Tensor whole = tensor_of(Vector(kBias + kRows * kRow));
      TR_CO_RETURN_IF_ERROR((co_await w.client.pull(0, whole, 1)).status());
      EXPECT_EQ(values_of(whole)[0], 100);
      EXPECT_EQ(values_of(whole)[kBias + 2 * kRow], 22);
      co_return Status();
    };
    run_well(c);
  }
}

TEST(Rows, PushesOfOneClockAreAveragedRowByRowAndUntouchedSlicesDoNotHoldItUp) {
  Cluster c = embedding("bsp", 2, 2);
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start(w));
    // Both touch row 1; the second slice gets nothing of worker 0.
    const std::vector<std::int64_t> rows =
        w.worker == 0 ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{1, 9};
    TR_CO_RETURN_IF_ERROR(co_await push(w, rows, 0, w.worker == 0 ? 2 : 4));
    const std::vector<std::int64_t> read{1, 9, 8};
    const Result<Vector> got = co_await pull(w, read, 1);
    if (!got.ok()) co_return got.status();
    EXPECT_EQ(*got, spread({1 + 3, 9 + 2, 8}));
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().updates, 2);
}

TEST(Rows, RowsAndWholeVectorsOfOneClockAddUp) {
  Cluster c = embedding("bsp", 2, 1);
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start(w));
    const std::vector<std::int64_t> row{3};
    PushNote note;
    if (w.worker == 0) {
      TR_CO_RETURN_IF_ERROR(co_await push(w, row, 0, 8));
    } else {
      TR_CO_RETURN_IF_ERROR(co_await w.client.push(0, tensor_of(Vector(kBias + kRows * kRow, 2)), note));
    }
    const std::vector<std::int64_t> read{2, 3};
    const Result<Vector> got = co_await pull(w, read, 1);
    if (!got.ok()) co_return got.status();
    EXPECT_EQ(*got, spread({2 + 1, 3 + 5}));
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.state["bias"], Vector(kBias, 101));
}

TEST(Rows, SgdAndAdagradTouchTheseRowsAndTheirStateOnly) {
  Cluster c = embedding("async", 1, 2);
  c.make_update = testing::adagrad;
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start(w));
    const std::vector<std::int64_t> first{1, 7}, second{7};
    TR_CO_RETURN_IF_ERROR(co_await push(w, first, 0, 3));
    co_return co_await push(w, second, 1, 4);
  };
  run_well(c);
  Vector sums;
  for (const auto& [name, values] : c.state)
    if (name.ends_with("table/sum")) sums.insert(sums.end(), values.begin(), values.end());
  EXPECT_EQ(sums, spread({0, 9, 0, 0, 0, 0, 0, 9 + 16, 0, 0}));
  Vector table;
  for (const auto& [name, values] : c.state)
    if (name.ends_with("table")) table.insert(table.end(), values.begin(), values.end());
  ASSERT_EQ(table.size(), static_cast<std::size_t>(kRows * kRow));
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto start = static_cast<float>(r);
    const float expected = r == 1 ? start - 1 : r == 7 ? start - 1 - 4.0F / 5 : start;
    EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(r * kRow)], expected) << r;
  }
}

TEST(Rows, AnUpdateWhoseStateMovesWithoutAGradientIsRefusedByName) {
  Cluster c = embedding("async", 1, 1);
  c.make_update = testing::momentum;
  Status told;
  c.work = [&](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await start(w));
    const std::vector<std::int64_t> row{1};
    TR_CO_RETURN_IF_ERROR(co_await push(w, row, 0, 3));
    told = (co_await pull(w, row, 1)).status();
    co_return Status();
  };
  run(c);
  EXPECT_EQ(c.server_status[0].code(), Code::kInvalid);
  EXPECT_NE(c.server_status[0].message().find("got an update by apply_momentum"), std::string::npos)
      << c.server_status[0].message();
  EXPECT_FALSE(told.ok());
}

TEST(Rows, RowsThatDoNotExistAndVectorsWithoutRowsAreRefused) {
  Cluster c = embedding("async", 1, 1);
  c.keys.push_back(testing::key_of("plain", 6));
  c.work = [](Worker w) -> Task<Status> {
    const std::vector<std::int64_t> outside{kRows};
    const Status no_row = co_await push(w, outside, 0, 1);
    EXPECT_EQ(no_row.code(), Code::kInvalid);
    EXPECT_NE(no_row.message().find("got row 10, expected 0 to 9"), std::string::npos) << no_row.message();
    const PushNote note;
    const std::vector<std::int64_t> first{0};
    const Status no_rows = co_await w.client.push_rows(1, rows_tensor(first), tensor_of(Vector(3)), note);
    EXPECT_EQ(no_rows.code(), Code::kInvalid);
    co_return Status();
  };
  run_well(c);
}

TEST(Rows, PhantomRowsTravelBySize) {
  Cluster c = embedding("bsp", 2, 2);
  c.spec.phantom = true;
  c.make_update = testing::sgd;
  c.work = [](Worker w) -> Task<Status> {
    const Tensor whole = *Tensor::allocate(phantom_device(), {DType::kF32, {kBias + kRows * kRow}});
    const Tensor rows = *Tensor::allocate(phantom_device(), {DType::kI64, {5}});
    const Tensor values = *Tensor::allocate(phantom_device(), {DType::kF32, {5, kRow}});
    if (w.worker == 0) TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, whole));
    const PushNote note;
    TR_CO_RETURN_IF_ERROR(co_await w.client.push_rows(0, rows, values, note));
    co_return (co_await w.client.pull_rows(0, rows, values, 1)).status();
  };
  run_well(c);
  EXPECT_EQ(c.total().updates, 2);
}

}  // namespace
}  // namespace trireme::server
