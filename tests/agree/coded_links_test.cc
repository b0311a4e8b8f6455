// Rules over servers and peers whose gradients and changes travel encoded, in virtual time.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/agree/with_servers.h"
#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/peer_letters.h"

namespace trireme::agree::testing {
namespace {

using Trace = std::vector<Vector>;

codec::Coding coding_of(const char* codec, double fraction) {
  codec::Coding coding;
  coding.row = *codec::find_codec(codec);
  coding.options.set("fraction", fraction);
  coding.feedback = coding.row->needs_feedback;
  coding.least_elems = 1;
  return coding;
}

// Worker 0 has the gradient (1, 2.5) wherever it is, the others none; the rate is 1/2, and of two values the
// larger one travels.
QuadraticJob one_slope(const char* rule, int workers) {
  QuadraticJob job;
  job.rule = rule;
  job.letters = true;
  job.workers = workers;
  job.steps = 3;
  job.bucket_elems = {2};
  job.options.coding = coding_of("topk", 0.5);
  job.gradient = [](const GradientAt& at) {
    if (at.worker > 0) return 0.0F;
    return at.elem == 0 ? 1.0F : 2.5F;
  };
  return job;
}

TEST(CodedServers, APushSendsTheLargerValueAndTheOtherOneLater) {
  for (const char* rule : {"bsp-server", "ssp", "downpour", "staleness-aware", "soft", "late"}) {
    SCOPED_TRACE(rule);
    QuadraticJob job = one_slope(rule, 1);
    std::map<std::int64_t, float> kept;  // of the first value, after each step
    job.after_step = [&](int, std::int64_t step, Agreement& agreement) {
      for (const auto& [name, tensor] : agreement.state())
        if (name == "codec/residual/0") kept[step] = tensor.values<float>()[0];
    };
    Counts counts;
    add_servers(job, 1, &counts);
    const QuadraticRun run = run_well(job);
    // (1, 2.5), (2, 2.5), (3, 2.5)
    EXPECT_EQ(run.workers[0].settled, (Trace{{-1.5F, -2.5F}}));
    const std::map<std::int64_t, float> expected{{0, 1.0F}, {1, 2.0F}, {2, 0.0F}};
    EXPECT_EQ(kept, expected);
    EXPECT_EQ(counts[0].coded_pushes, 3);
  }
}

TEST(CodedServers, CodedPullsAreBehindAndMeetingsWhole) {
  QuadraticJob job = one_slope("bsp-server", 1);
  job.options.coding.options.set("fraction", 0.5);
  job.options.codec_pull = true;
  job.steps = 4;
  Vector seen;  // second value, as the worker has it at the start of each step
  job.gradient = [&](const GradientAt& at) {
    if (at.elem == 1) seen.push_back(at.x);
    return at.elem == 0 ? 3.0F : 2.5F;
  };
  Counts counts;
  add_servers(job, 1, &counts);
  const QuadraticRun run = run_well(job);
  // Pushed: 3 of the first, 5 of the second, 6 of the first, 5 of the second.
  EXPECT_EQ(run.workers[0].settled, (Trace{{-4.5F, -5}}));
  EXPECT_EQ(seen, (Vector{0, 0, -2.5F, -2.5F}));
  EXPECT_GT(counts[0].coded_pulls, 2);
}

// Pushes that overlap are packed one after the other, or servers would drop those that overtake.
TEST(CodedServers, SeveralRoundsUnderWayAndLocalReplicasLoseNothing) {
  for (const int replicas : {1, 2}) {
    SCOPED_TRACE(replicas);
    QuadraticJob job = noisy_job("downpour", 2, 3);
    job.bucket_elems = {500, 300};
    job.gradient = [](const GradientAt& at) { return at.x - static_cast<float>(at.elem % 7); };
    job.options.coding = coding_of("topk", 0.25);
    job.options.codec_pull = true;
    job.options.own.set("in_flight", 3);
    job.options.own.set("local_replicas", replicas);
    job.link.bytes_per_second = 2e6;  // a round takes longer than a step
    Counts counts;
    add_servers(job, 2, &counts);
    const QuadraticRun run = run_well(job);
    for (const auto& c : counts) {
      EXPECT_EQ(c.repeated + c.dropped, 0);
      EXPECT_GT(c.coded_pulls, 0);
    }
    for (std::size_t e = 0; e < 800; e += 50)
      EXPECT_NEAR(run.workers[0].settled.back()[e], static_cast<float>(e % 7), 0.3) << e;
  }
}

TEST(CodedPeers, TheSendersWeightsHaveTheWholeChangeAndTheOthersTheLargerPart) {
  QuadraticJob job = one_slope("decentralized", 2);
  job.compute_ns = {kMilli, 1500 * kMicro};
  const QuadraticRun run = run_well(job);
  EXPECT_EQ(run.workers[0].trace, (Trace{{-0.5F, -1.25F}, {-1, -2.5F}, {-1.5F, -3.75F}}));
  // The second value of (-0.5, -1.25) and of (-1, -1.25) is sent, then the first of (-1.5, -1.25).
  EXPECT_EQ(run.workers[1].trace, (Trace{{0, 0}, {0, -1.25F}, {0, -2.5F}}));
  for (const auto& w : run.workers) EXPECT_EQ(w.settled, (Trace{{-1.5F, -3.75F}})) << "nothing is owed";
  EXPECT_EQ(run.workers[0].report.more["encoded_messages"], 3);
  EXPECT_EQ(run.workers[0].report.more["updates_sent"], 4);
}

TEST(CodedPeers, AgreeAtEveryMeetingAsIfNothingWereEncoded) {
  for (const char* rule : {"decentralized", "ssp-peer"}) {
    QuadraticJob job = one_slope(rule, 3);
    job.steps = 6;
    job.settle_every = 2;
    job.bucket_elems = {1, 2, 2};
    job.gradient = [](const GradientAt& at) {
      return static_cast<float>(at.worker + 1) * static_cast<float>(at.elem);
    };
    const QuadraticRun coded = run_well(job);
    job.options.coding.row = nullptr;
    const QuadraticRun whole = run_well(job);
    for (std::size_t w = 0; w < 3; ++w) {
      EXPECT_EQ(coded.workers[w].settled, whole.workers[0].settled) << rule;
      EXPECT_GT(coded.workers[w].report.more["encoded_messages"].get<int>(), 0);
    }
  }
}

TEST(CodedLinks, EveryCodecComesNearTheMinimum) {
  for (const codec::CodecRow& row : codec::codec_table())
    for (const char* rule : {"downpour", "ssp", "decentralized", "ssp-peer"}) {
      SCOPED_TRACE(fmt::format("{} {}", row.name, rule));
      QuadraticJob job = noisy_job(rule, 3, 5);
      job.options.coding = coding_of(row.name, 0.25);
      // What is cut off is lost, and here all values have one sign.
      job.options.coding.options.set("clip", 0);
      job.options.coding.warmup_steps = 10;
      if ((*find_agreement(rule))->needs_server) add_servers(job, 2);
      const QuadraticRun run = run_well(job);
      const Vector& agreed = run.workers[0].settled.back();
      for (const auto& w : run.workers) EXPECT_EQ(w.settled.back(), agreed);
      for (std::size_t e = 0; e < agreed.size(); ++e)
        EXPECT_NEAR(agreed[e], static_cast<float>(e) + 1, 0.4) << e;
    }
}

TEST(CodedLinks, PhantomsSendAboutAsManyBytes) {
  for (const char* rule : {"downpour", "decentralized"}) {
    QuadraticJob job = noisy_job(rule, 2, 5);
    job.bucket_elems = {20'000, 30'000};
    job.steps = 20;
    job.options.coding = coding_of("threshold", 0.02);
    job.options.codec_pull = true;
    const auto bytes_of = [](QuadraticJob j) {
      if ((*find_agreement(j.rule))->needs_server) add_servers(j, 2);
      return static_cast<double>(run_well(j).world.num_bytes);
    };
    const double coded = bytes_of(job);
    job.world.phantom = true;
    const double phantom = bytes_of(job);
    job.options.coding.row = nullptr;
    const double dense = bytes_of(job);
    EXPECT_LT(coded, dense / 3) << rule;
    EXPECT_NEAR(phantom / coded, 1, 0.3) << rule;
  }
}

// Sends one update of bytes that no encoder wrote.
class Vandal final : public Agreement {
 public:
  explicit Vandal(const RuleContext& context) : mail_(*context.mail) {}
  runtime::Task<Status> exchange(BucketExchange) override {
    UpdateHead head;
    head.is_coded = true;
    const net::View view{bytes_.data(), bytes_.size()};
    const auto answer = co_await mail_.ask(0, head, view, {});
    co_return answer.status();
  }

 private:
  comm::Mailbox& mail_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(20, std::byte{0x33});
};

TEST(CodedPeers, BytesThatNoEncoderWroteAreAnErrorOfWhoGetsThem) {
  QuadraticJob job = one_slope("decentralized", 2);
  job.steps_of = {5, 1};
  job.make_rule = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
    if (context.worker == 0) return (*find_agreement("decentralized"))->make(context);
    return std::make_unique<Vandal>(context);
  };
  const QuadraticRun result = run(job);
  const Status& status = result.workers[0].status;
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.to_string();
  EXPECT_NE(status.message().find("worker 1"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace trireme::agree::testing
