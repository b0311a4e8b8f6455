// Pushes and pulls as coded messages, in virtual time.
#include "trireme/server/vector_coder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/server/cluster.h"
#include "tests/server/updates.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/sync.h"
#include "trireme/server/letters.h"

namespace trireme::server {
namespace {

using runtime::Task;
using testing::Cluster;
using testing::key_of;
using testing::tensor_of;
using testing::values_of;
using testing::Vector;
using testing::Worker;

LinkCoding link_of(const char* codec, double fraction) {
  LinkCoding link;
  link.coding.row = *codec::find_codec(codec);
  link.coding.options.set("fraction", fraction);
  link.coding.least_elems = 1;
  return link;
}

// One worker, a vector of eight cut over two servers that add what is pushed.
Cluster eight_values(const char* codec, double fraction) {
  Cluster c;
  c.workers = 1;
  c.servers = 2;
  c.consistency = "async";
  c.keys = {key_of("x", 8)};
  c.link = link_of(codec, fraction);
  return c;
}

CodedNote note_of(std::int64_t exchange, const Tensor& residual) {
  CodedNote note;
  note.exchange = exchange;
  note.key = mix_key(1, static_cast<std::uint64_t>(exchange));
  note.residual = residual;
  return note;
}

PushNote at_clock(std::int64_t clock) {
  PushNote note;
  note.clock = clock;
  return note;
}

Task<Result<Vector>> pull_now(Worker w, std::int64_t clock) {
  const Tensor into = tensor_of(Vector(8));
  const auto read = co_await w.client.pull(0, into, clock);
  if (!read.ok()) co_return read.status();
  co_return values_of(into);
}

TEST(CodedPush, SendsTheLargestOfEverySliceAndKeepsTheRest) {
  Cluster c = eight_values("topk", 0.25);
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(8))));
    const Tensor residual = tensor_of(Vector(8));
    const Tensor first = tensor_of({4, 1, 2, 3, 5, -8, 6, 7});
    TR_CO_RETURN_IF_ERROR(co_await w.client.push_coded(0, first, at_clock(0), note_of(0, residual)));
    TR_CO_ASSIGN_OR_RETURN(const Vector once, co_await pull_now(w, 1));
    EXPECT_EQ(once, (Vector{4, 0, 0, 0, 0, -8, 0, 0}));
    EXPECT_EQ(values_of(residual), (Vector{0, 1, 2, 3, 5, 0, 6, 7}));
    const Tensor second = tensor_of({0, 2.5F, 0, 0, 0, 0, 0, -7});
    TR_CO_RETURN_IF_ERROR(co_await w.client.push_coded(0, second, at_clock(1), note_of(1, residual)));
    TR_CO_ASSIGN_OR_RETURN(const Vector twice, co_await pull_now(w, 2));
    EXPECT_EQ(twice, (Vector{4, 3.5F, 0, 0, 0, -8, 6, 0}));
    EXPECT_EQ(values_of(residual), (Vector{0, 0, 2, 3, 5, 0, 0, 0}));
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().coded_pushes, 4);
}

TEST(CodedPush, WhatArrivedAndWhatIsKeptIsAllThatWasPushed) {
  for (const codec::CodecRow& row : codec::codec_table()) {
    SCOPED_TRACE(row.name);
    Cluster c = eight_values(row.name, 0.25);
    c.keys = {key_of("x", 3000)};
    c.link.coding.warmup_steps = 3;
    c.work = [](Worker w) -> Task<Status> {
      TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(3000))));
      const Tensor residual = tensor_of(Vector(3000));
      Vector sum(3000);
      Philox random(7);
      for (std::int64_t e = 0; e < 5; ++e) {
        Vector values(3000);
        for (float& x : values) x = random.next_normal();
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
        const Tensor pushed = tensor_of(values);
        TR_CO_RETURN_IF_ERROR(co_await w.client.push_coded(0, pushed, at_clock(e), note_of(e, residual)));
      }
      const Tensor into = tensor_of(Vector(3000));
      const auto read = co_await w.client.pull(0, into, 5);
      if (!read.ok()) co_return read.status();
      double most = 0;
      for (std::size_t i = 0; i < sum.size(); ++i)
        most =
            std::max<double>(most, std::abs(into.values<float>()[i] + residual.values<float>()[i] - sum[i]));
      EXPECT_LT(most, 1e-3);
      co_return Status();
    };
    run_well(c);
    EXPECT_EQ(c.total().coded_pushes, 10);
  }
}

TEST(CodedPush, FirstExchangesAreDenseAndPushesUnderWayKeepTheirOrder) {
  Cluster c = eight_values("topk", 0.25);
  c.link.coding.dense_steps = 1;
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(8))));
    const Tensor residual = tensor_of(Vector(8));
    std::vector<Task<Status>> pushes;
    for (std::int64_t e = 0; e < 4; ++e)
      pushes.push_back(
          w.client.push_coded(0, tensor_of({1, 2, 3, 4, 1, 2, 3, 4}), at_clock(e), note_of(e, residual)));
    TR_CO_RETURN_IF_ERROR(co_await runtime::when_all(w.rt, std::move(pushes)));
    TR_CO_ASSIGN_OR_RETURN(const Vector now, co_await pull_now(w, 4));
    // 1 2 3 4 whole; of 1 2 3 4 the 4, of 2 4 6 4 the 6, of 3 6 3 8 the 8.
    EXPECT_EQ(now, (Vector{1, 2, 9, 16, 1, 2, 9, 16}));
    EXPECT_EQ(values_of(residual), (Vector{3, 6, 3, 0, 3, 6, 3, 0}));
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().coded_pushes, 6);
  EXPECT_EQ(c.total().repeated, 0);
}

TEST(CodedPush, TheSameClockAgainIsDropped) {
  Cluster c = eight_values("fp16", 1);
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(8))));
    for (int i = 0; i < 3; ++i) {
      const Tensor ones = tensor_of(Vector(8, 1.0F));
      TR_CO_RETURN_IF_ERROR(co_await w.client.push_coded(0, ones, at_clock(0), note_of(0, Tensor())));
    }
    TR_CO_ASSIGN_OR_RETURN(const Vector now, co_await pull_now(w, 1));
    EXPECT_EQ(now, Vector(8, 1.0F));
    co_return Status();
  };
  run_well(c);
  EXPECT_EQ(c.total().repeated, 4);
  EXPECT_EQ(c.total().coded_pushes, 2) << "who is dropped is not decoded";
}

// A letter as no client writes it.
Task<Status> write_by_hand(Worker w, std::vector<std::byte> bytes) {
  PushHead head;
  head.is_coded = true;
  head.scale = 1;
  const net::View payload{bytes.data(), bytes.size()};
  co_return co_await w.group.mailbox().send(1, receiver_of(0), head, payload);
}

TEST(CodedPush, BytesThatNoEncoderWroteAreAnErrorAndNotACrash) {
  for (const codec::CodecRow& row : codec::codec_table())
    for (const std::size_t length : {1U, 8U, 12U, 20U, 30U}) {
      SCOPED_TRACE(fmt::format("{} {}", row.name, length));
      Cluster c = eight_values(row.name, 0.5);
      c.servers = 1;
      c.work = [length](Worker w) -> Task<Status> {
        TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(8))));
        std::vector<std::byte> bytes(length, std::byte{0x5A});
        for (std::size_t i = 0; i < std::min<std::size_t>(8, length); ++i) bytes[i] = std::byte{0};
        const Status sent = co_await write_by_hand(w, std::move(bytes));
        if (!sent.ok()) co_return sent;
        const auto read = co_await pull_now(w, 1);
        co_return read.status();
      };
      run(c);
      EXPECT_FALSE(c.worker_status[0].ok());
      EXPECT_FALSE(c.server_status[0].ok());
      const std::string why = c.server_status[0].to_string();
      EXPECT_NE(why.find("coded push"), std::string::npos) << why;
    }
}

TEST(CodedPush, AServerWithoutACodecSaysSo) {
  Cluster c = eight_values("topk", 0.25);
  c.servers = 1;
  c.link = {};
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(8))));
    const Status sent = co_await write_by_hand(w, std::vector<std::byte>(24));
    if (!sent.ok()) co_return sent;
    const auto read = co_await pull_now(w, 1);
    co_return read.status();
  };
  run(c);
  EXPECT_NE(c.server_status[0].to_string().find("no codec is set here"), std::string::npos)
      << c.server_status[0].to_string();
}

// From ones to 2..9, the largest change of each half first.
std::vector<Vector> growing_values() {
  return {
      {1, 1, 1, 5, 1, 1, 1, 9}, {1, 1, 4, 5, 1, 1, 8, 9}, {1, 3, 4, 5, 1, 7, 8, 9}, {2, 3, 4, 5, 6, 7, 8, 9}};
}

TEST(CodedPull, BringsDifferencesThatAddUpToTheValues) {
  Cluster c = eight_values("topk", 0.25);
  c.link.pulls = true;
  c.work = [](Worker w) -> Task<Status> {
    TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, tensor_of(Vector(8, 1.0F))));
    const Tensor have = tensor_of(Vector(8));
    const auto read = [&](std::int64_t exchange) { return w.client.pull_coded(0, have, 1, exchange); };
    Result<Version> got = co_await read(0);
    if (!got.ok()) co_return got.status();
    EXPECT_EQ(values_of(have), Vector(8, 1.0F)) << "the first is whole";
    const Tensor change = tensor_of({1, 2, 3, 4, 5, 6, 7, 8});
    TR_CO_RETURN_IF_ERROR(co_await w.client.push(0, change, at_clock(0)));
    const std::vector<Vector> expected = growing_values();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // What the worker does to its own weights meanwhile is no part of it.
      for (float& x : have.values<float>()) x = -7;
      got = co_await read(static_cast<std::int64_t>(i) + 1);
      if (!got.ok()) co_return got.status();
      EXPECT_EQ(values_of(have), expected[i]) << i;
      EXPECT_EQ(got->updates, 1);
    }
    TR_CO_RETURN_IF_ERROR(co_await w.client.push(0, change, at_clock(1)));
    TR_CO_RETURN_IF_ERROR(co_await w.client.finish());
    TR_CO_RETURN_IF_ERROR(co_await w.client.rejoin(2));
    got = co_await read(6);
    EXPECT_EQ(values_of(have), (Vector{3, 5, 7, 9, 11, 13, 15, 17})) << "whole again after a meeting";
    co_return got.status();
  };
  run_well(c);
  EXPECT_EQ(c.total().coded_pulls, 8);
}

TEST(CodedPull, IsRefusedWithACodecWhoseErrorMayGrow) {
  LinkCoding link = link_of("terngrad", 1);
  link.pulls = true;
  const std::vector<Key> keys = {key_of("x", 8)};
  EXPECT_EQ(slice_coders(link, *make_layout(keys, 1), keys).status().code(), Code::kInvalid);
}

TEST(CodedLink, MovesFewerBytesOnPhantomMachinesToo) {
  const auto run_bytes = [](bool coded, bool phantom) {
    Cluster c = eight_values("threshold", 0.01);
    c.keys = {key_of("x", 100'000)};
    c.spec.phantom = phantom;
    c.link.pulls = true;
    if (!coded) c.link = {};
    c.work = [](Worker w) -> Task<Status> {
      Device& device = w.rt.is_phantom() ? phantom_device() : cpu_device();
      const TensorType type{DType::kF32, {100'000}};
      const Tensor values = *Tensor::allocate(device, type), residual = *Tensor::allocate(device, type);
      Philox random(3);
      for (const Tensor* t : {&values, &residual})
        if (!t->is_phantom())
          for (float& x : t->values<float>()) x = random.next_normal();
      TR_CO_RETURN_IF_ERROR(co_await w.client.init(0, values));
      for (std::int64_t e = 0; e < 10; ++e) {
        TR_CO_RETURN_IF_ERROR(co_await w.client.push_coded(0, values, at_clock(e), note_of(e, residual)));
        const auto read = co_await w.client.pull_coded(0, values, e + 1, e);
        if (!read.ok()) co_return read.status();
      }
      co_return Status();
    };
    run_well(c);
    return c.report.num_bytes;
  };
  const auto dense = run_bytes(false, false), real = run_bytes(true, false), phantom = run_bytes(true, true);
  EXPECT_GT(dense, 21U * 400'000);
  EXPECT_LT(real, dense / 6) << "the first values and the first pull are whole";
  EXPECT_LT(phantom, dense / 6);
}

}  // namespace
}  // namespace trireme::server
