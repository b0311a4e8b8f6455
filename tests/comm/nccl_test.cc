// Nccl against a made-up library (tests/fake_nccl): what calls give, and how they end when they go wrong.
#include "trireme/comm/nccl/nccl.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "tests/comm/ranks.h"
#include "trireme/tensor/half.h"

namespace trireme::comm {
namespace {

using runtime::Task;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::tensor_of;
using testing::values_of;

// Memory of the host: what was handed over is done when the library says so.
struct HostQueue : NcclQueue {
  void enter() override {}
  void* stream() override { return nullptr; }
  std::shared_ptr<Event> record() override { return nullptr; }
  Status finish() override { return {}; }
};

// What a rank of the fake library does wrong, for one test.
class Fault {
 public:
  explicit Fault(const std::string& text) { setenv("FAKE_NCCL", text.c_str(), 1); }
  ~Fault() { unsetenv("FAKE_NCCL"); }
};

using NcclBody = std::function<Task<void>(Nccl& nccl, int rank)>;

Task<Status> connect_and(runtime::Runtime& rt, Group& group, TimeNs deadline, const NcclBody& body) {
  TR_CO_ASSIGN_OR_RETURN(const auto library, NcclLibrary::load(TRIREME_FAKE_NCCL));
  TR_CO_ASSIGN_OR_RETURN(const Tensor word, Tensor::allocate(cpu_device(), {DType::kU8, {sizeof(NcclId)}}));
  NcclId id;
  if (group.rank() == 0) {
    TR_CO_ASSIGN_OR_RETURN(id, Nccl::make_id(*library));
    std::memcpy(word.raw(), &id, sizeof id);
  }
  Call call;
  call.label = "id";
  TR_CO_RETURN_IF_ERROR(co_await group.broadcast(std::move(call), word));
  std::memcpy(&id, word.raw(), sizeof id);
  HostQueue queue;
  NcclOptions options;
  options.rank = group.rank();
  options.world = group.world();
  options.deadline = deadline;
  options.verdict = [&group] { return group.verdict(); };
  TR_CO_ASSIGN_OR_RETURN(const auto nccl, co_await Nccl::connect(rt, library, id, queue, std::move(options)));
  co_await body(*nccl, group.rank());
  co_return co_await nccl->close();
}

// One rank per thread; the status that each ends with.
std::vector<Status> on_ranks(int world, const NcclBody& body, TimeNs deadline = 20 * kSecond) {
  std::vector<Status> ends(static_cast<std::size_t>(world));
  testing::RankOptions options;
  options.world = world;
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    ends[static_cast<std::size_t>(group.rank())] = co_await connect_and(rt, group, deadline, body);
  });
  return ends;
}

void expect_all_ok(const std::vector<Status>& ends) {
  for (const Status& s : ends) EXPECT_TRUE(s.ok()) << s.to_string();
}

Tensor bf16_of(const std::vector<float>& values) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kBF16, {static_cast<std::int64_t>(values.size())}});
  for (std::size_t i = 0; i < values.size(); ++i) t.data<BFloat16>()[i] = BFloat16(values[i]);
  return t;
}

TEST(Nccl, WithoutTheLibraryTheFileIsNamed) {
  const auto missing = NcclLibrary::load("libnccl-that-is-not-there.so");
  EXPECT_EQ(missing.status().code(), Code::kUnavailable);
  EXPECT_THAT(missing.status().message(),
              AllOf(HasSubstr("libnccl-that-is-not-there.so"), HasSubstr("device_collectives=staged")));
}

TEST(Nccl, SumsGathersScattersAndBroadcasts) {
  for (const int world : {1, 2, 3}) {
    const auto n = static_cast<float>(world);
    expect_all_ok(on_ranks(world, [n, world](Nccl& nccl, int rank) -> Task<void> {
      const auto r = static_cast<float>(rank);
      const Tensor sum = tensor_of({r + 1, 10});
      EXPECT_TRUE((co_await nccl.all_reduce("a", sum, collective::Reduction::kSum)).ok());
      EXPECT_THAT(values_of(sum), ElementsAre(n * (n + 1) / 2, 10 * n));
      const Tensor most = tensor_of({r, -r});
      EXPECT_TRUE((co_await nccl.all_reduce("b", most, collective::Reduction::kMax)).ok());
      EXPECT_THAT(values_of(most), ElementsAre(n - 1, 0));
      std::vector<float> blocks(static_cast<std::size_t>(world));
      for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<float>(i);
      const Tensor in = tensor_of(blocks), own = tensor_of({-1});
      EXPECT_TRUE((co_await nccl.reduce_scatter("c", in, own)).ok());
      EXPECT_THAT(values_of(own), ElementsAre(n * r));
      const Tensor all = tensor_of(std::vector<float>(blocks.size(), -1));
      EXPECT_TRUE((co_await nccl.all_gather("d", own, all)).ok());
      for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(values_of(all)[i], n * static_cast<float>(i));
      const Tensor told = tensor_of({r, r});
      EXPECT_TRUE((co_await nccl.broadcast("e", told, world - 1)).ok());
      EXPECT_THAT(values_of(told), ElementsAre(n - 1, n - 1));
    }));
  }
}

TEST(Nccl, SumsLongVectorsAndSixteenBits) {
  expect_all_ok(on_ranks(2, [](Nccl& nccl, int rank) -> Task<void> {
    const std::vector<float> many(100'003, static_cast<float>(rank + 1));
    const Tensor sum = tensor_of(many);
    EXPECT_TRUE((co_await nccl.all_reduce("long", sum, collective::Reduction::kSum)).ok());
    const std::vector<float> got = values_of(sum);
    EXPECT_EQ(got.front(), 3);
    EXPECT_EQ(got.back(), 3);
    const Tensor half = bf16_of({1.5F, static_cast<float>(rank)});
    EXPECT_TRUE((co_await nccl.all_reduce("bf16", half, collective::Reduction::kSum)).ok());
    EXPECT_EQ(static_cast<float>(half.data<BFloat16>()[0]), 3);
    EXPECT_EQ(static_cast<float>(half.data<BFloat16>()[1]), 1);
  }));
}

TEST(Nccl, MessagesCrossWhateverTheirOrder) {
  expect_all_ok(on_ranks(3, [](Nccl& nccl, int rank) -> Task<void> {
    const Tensor mine = tensor_of({static_cast<float>(rank)});
    std::vector<Nccl::Message> sends, recvs;
    std::vector<Tensor> got;
    for (int k = 1; k < 3; ++k) {
      got.push_back(tensor_of({-1}));
      sends.push_back({(rank + k) % 3, mine});
      recvs.push_back({(rank + 3 - k) % 3, got.back()});
    }
    EXPECT_TRUE((co_await nccl.exchange("ring", std::move(sends), std::move(recvs))).ok());
    for (int k = 1; k < 3; ++k)
      EXPECT_EQ(values_of(got[static_cast<std::size_t>(k - 1)])[0], static_cast<float>((rank + 3 - k) % 3));
  }));
}

TEST(Nccl, AFailingCallNamesRankAndCallEverywhereAndLaterCallsReturnIt) {
  const Fault fault("rank=1,call=2,do=error");
  on_ranks(3, [](Nccl& nccl, int rank) -> Task<void> {
    const Tensor sum = tensor_of({1});
    EXPECT_TRUE((co_await nccl.all_reduce("bucket 0", sum, collective::Reduction::kSum)).ok());
    const Status failed = co_await nccl.all_reduce("bucket 1, step 7", sum, collective::Reduction::kSum);
    EXPECT_EQ(failed.code(), rank == 1 ? Code::kInternal : Code::kPeerLost);
    EXPECT_THAT(failed.message(),
                AllOf(HasSubstr(fmt::format("rank {} of 3, allreduce bucket 1, step 7", rank)),
                      HasSubstr(rank == 1 ? "made to fail" : "rank 1 failed")));
    const Status later = co_await nccl.broadcast("weights", sum, 0);
    EXPECT_EQ(later.message(), failed.message());
  });
}

TEST(Nccl, ACallThatDoesNotEndIsAbortedAtItsDeadline) {
  const Fault fault("rank=0,call=1,do=hang");
  on_ranks(
      2,
      [](Nccl& nccl, int rank) -> Task<void> {
        const Tensor sum = tensor_of({1});
        const Status failed = co_await nccl.all_reduce("bucket 0", sum, collective::Reduction::kSum);
        EXPECT_EQ(failed.code(), Code::kDeadline);
        EXPECT_THAT(failed.message(), AllOf(HasSubstr(fmt::format("rank {} of 2, allreduce bucket 0", rank)),
                                            HasSubstr("not ended after 200 ms")));
      },
      200 * kMilli);
}

TEST(Nccl, ConnectingHasADeadlineToo) {
  const Fault fault("rank=1,call=0,do=hang");
  const std::vector<Status> ends = on_ranks(
      2, [](Nccl&, int) -> Task<void> { co_return; }, 200 * kMilli);
  for (const Status& s : ends) {
    EXPECT_EQ(s.code(), Code::kDeadline);
    EXPECT_THAT(s.message(), HasSubstr("connecting"));
  }
}

TEST(Nccl, ACallThatIsRefusedEndsAtOnceAndTheOthersAtTheDeadline) {
  const Fault fault("rank=0,call=1,do=refuse");
  on_ranks(
      2,
      [](Nccl& nccl, int rank) -> Task<void> {
        const Tensor sum = tensor_of({1});
        const Status failed = co_await nccl.all_reduce("bucket 0", sum, collective::Reduction::kSum);
        EXPECT_EQ(failed.code(), rank == 0 ? Code::kInternal : Code::kDeadline);
        EXPECT_THAT(failed.message(), HasSubstr(rank == 0 ? "invalid argument" : "not ended"));
      },
      200 * kMilli);
}

TEST(Nccl, AnotherCallOnOneRankIsToldOnAll) {
  on_ranks(2, [](Nccl& nccl, int rank) -> Task<void> {
    const Tensor sum = tensor_of(std::vector<float>(rank == 0 ? 2U : 3U, 1.0F));
    const Status failed = co_await nccl.all_reduce("bucket 0", sum, collective::Reduction::kSum);
    EXPECT_THAT(failed.message(), HasSubstr("makes another call"));
  });
}

// The group knows better who is to blame than a call that waits.
TEST(Nccl, TheVerdictOfTheGroupEndsACall) {
  const Fault fault("rank=1,call=1,do=hang");
  testing::RankOptions options;
  options.world = 2;
  testing::run_on_threads(options, [&](runtime::Runtime& rt, Group& group) -> Task<void> {
    const NcclBody body = [&](Nccl& nccl, int rank) -> Task<void> {
      const Tensor sum = tensor_of({1});
      if (rank == 1) group.fail("reading a file", "the disk is full");
      const Status failed = co_await nccl.all_reduce("bucket 0", sum, collective::Reduction::kSum);
      EXPECT_FALSE(failed.ok());
      EXPECT_THAT(failed.to_string(), AllOf(HasSubstr("reading a file"), HasSubstr("the disk is full")));
    };
    (void)co_await connect_and(rt, group, 60 * kSecond, body);
    (void)co_await group.leave();
  });
}

}  // namespace
}  // namespace trireme::comm
