// Servers without messages: every call is done at once, in the order in which it is made. For tests of a rule
// alone. Checks the caller's part of the contract of server/client.h.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/server/client.h"

namespace trireme::agree::testing {

class FakeServers {
 public:
  using Vector = std::vector<float>;
  // w -= lr * scale * g, or the elastic update with this alpha.
  float alpha = 0;
  bool elastic = false;
  std::map<std::uint32_t, Vector> values;
  std::map<std::uint32_t, std::int64_t> updates;
  std::vector<std::string> calls;  // "push 0@3", "pull 0@4", "tick 3", "finish", "rejoin 4"

  std::unique_ptr<server::Client> client();
};

class FakeClient final : public server::Client {
 public:
  using Tensor = trireme::Tensor;
  template <typename T>
  using Task = runtime::Task<T>;
  explicit FakeClient(FakeServers& servers) : to_(servers) {}

  Task<Status> init(std::uint32_t key, Tensor values, server::InitShare) override {
    EXPECT_FALSE(to_.values.contains(key)) << "first values twice";
    const auto v = values.values<float>();
    to_.values[key] = {v.begin(), v.end()};
    co_return Status();
  }
  Task<Status> push(std::uint32_t key, Tensor values, server::PushNote note) override {
    to_.calls.push_back(fmt::format("push {}@{}", key, note.clock));
    apply(key, values, note);
    co_return Status();
  }
  Task<Result<server::Version>> pull(std::uint32_t key, Tensor into, std::int64_t clock) override {
    to_.calls.push_back(fmt::format("pull {}@{}", key, clock));
    read(key, into);
    co_return version(key);
  }
  // Links of these servers are not coded.
  Task<Status> push_coded(std::uint32_t key, Tensor values, server::PushNote note,
                          server::CodedNote) override {
    return push(key, std::move(values), note);
  }
  Task<Status> push_factors(std::uint32_t, Tensor, server::PushNote) override {
    co_return error(Code::kInvalid, "not used");
  }
  Task<Result<server::Version>> pull_coded(std::uint32_t key, Tensor into, std::int64_t clock,
                                           std::int64_t) override {
    return pull(key, std::move(into), clock);
  }
  Task<Result<server::Version>> push_pull(std::uint32_t key, Tensor values, Tensor into,
                                          server::PushNote note, server::ReadWhen when) override {
    to_.calls.push_back(fmt::format("trade {}@{}", key, note.clock));
    const server::Version before = version(key);
    if (when == server::ReadWhen::kBefore) read(key, into);
    apply(key, values, note);
    if (when == server::ReadWhen::kAfter) read(key, into);
    co_return when == server::ReadWhen::kBefore ? before : version(key);
  }
  Task<Status> push_rows(std::uint32_t, Tensor, Tensor, server::PushNote) override {
    co_return error(Code::kInvalid, "not used");
  }
  Task<Result<server::Version>> pull_rows(std::uint32_t, Tensor, Tensor, std::int64_t) override {
    co_return error(Code::kInvalid, "not used");
  }
  Task<Status> tick(std::int64_t clock) override {
    to_.calls.push_back(fmt::format("tick {}", clock));
    EXPECT_EQ(clock, ticks_) << "a clock is told once, in order";
    ++ticks_;
    for (const auto& [key, values] : to_.values)
      EXPECT_EQ((pushed_[{key, clock}]), 1) << "key " << key << " was not pushed at clock " << clock;
    co_return Status();
  }
  Task<Status> finish() override {
    to_.calls.push_back("finish");
    EXPECT_FALSE(finished_);
    finished_ = true;
    co_return Status();
  }
  Task<Status> rejoin(std::int64_t clock) override {
    to_.calls.push_back(fmt::format("rejoin {}", clock));
    EXPECT_TRUE(finished_);
    EXPECT_GE(clock, ticks_);
    finished_ = false;
    ticks_ = clock;
    co_return Status();
  }

 private:
  void apply(std::uint32_t key, const Tensor& values, const server::PushNote& note) {
    EXPECT_FALSE(finished_) << "a push after finish()";
    EXPECT_EQ(++pushed_[(std::pair{key, note.clock})], 1) << "a key is pushed once per clock";
    EXPECT_LE(note.based_on, to_.updates[key]);
    auto& w = to_.values.at(key);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const float x = values.data<float>()[i];
      w[i] = to_.elastic ? w[i] + to_.alpha * (x - w[i]) : w[i] - note.learning_rate * (note.scale * x);
    }
    ++to_.updates[key];
  }
  void read(std::uint32_t key, const Tensor& into) {
    const auto& w = to_.values.at(key);
    std::copy(w.begin(), w.end(), into.data<float>());
  }
  server::Version version(std::uint32_t key) { return {to_.updates[key], ticks_}; }

  FakeServers& to_;
  std::int64_t ticks_ = 0;
  bool finished_ = false;
  std::map<std::pair<std::uint32_t, std::int64_t>, int> pushed_;
};

inline std::unique_ptr<server::Client> FakeServers::client() { return std::make_unique<FakeClient>(*this); }

}  // namespace trireme::agree::testing
