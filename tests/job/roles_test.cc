// Who is worker and who is server, and what an agreement refuses: for every row of the table.
#include "trireme/job/roles.h"

#include <gtest/gtest.h>

#include "trireme/agree/agree.h"
#include "trireme/job/job_parts.h"

namespace trireme::job {
namespace {

using agree::AgreementRow;

Job job_of(const AgreementRow& row, std::initializer_list<std::string> sets = {}) {
  Job job;
  job.parallel.workers = 4;
  job.parallel.agreement = row.name;
  for (const std::string& set : sets) {
    const Status status = set_job_key(job, set);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  return job;
}

void expect_refused(const Job& job, std::string_view fragment) {
  const Status status = check_job(job);
  EXPECT_EQ(status.code(), Code::kInvalid) << job.parallel.agreement << ": " << fragment;
  EXPECT_NE(status.message().find(fragment), std::string::npos)
      << job.parallel.agreement << " got: " << status.message() << "\nexpected: " << fragment;
}

bool reads(const AgreementRow& row, std::string_view key) { return find_option(row.options, key) != nullptr; }

struct KeyValue {
  const char* key;
  const char* value;
  const char* bad;
};
constexpr KeyValue kKeys[] = {
    {"period", "5", "-1"},           {"elasticity", "0.1", "2"},   {"staleness", "2", "-1"},
    {"fetch_steps", "3", "0"},       {"push_steps", "3", "0"},     {"in_flight", "2", "0"},
    {"warm_start_steps", "7", "-1"}, {"gather", "2", "5"},         {"fraction", "0.5", "0"},
    {"outer", "sgd", "adam"},        {"neighbors", "ring", "all"}, {"proximity", "0.5", "-1"},
    {"locked", "true", ""},          {"local_replicas", "2", "0"},
};

TEST(Launchers, StartAsManyRanksAsTheMeshHas) {
  const auto why = [](int world) {
    Job job;
    EXPECT_TRUE(set_job_key(job, "parallel.mesh=data=2,model=2").ok());
    return fit_workers(job, world, 0, "mpirun").message();
  };
  EXPECT_EQ(why(4), "");
  EXPECT_EQ(
      why(3),
      "[launch] mpirun started 3 ranks, and parallel.mesh 'data=2,model=2' is of 4 workers; start 4 ranks, "
      "or change the mesh");
}

TEST(Agreements, EveryOneTakesADefaultJob) {
  for (const AgreementRow& row : agree::agreement_table())
    EXPECT_TRUE(check_job(job_of(row)).ok()) << row.name << ": " << check_job(job_of(row)).to_string();
}

TEST(Agreements, TakeTheirOwnKeysAndRefuseOthersWithThoseThatTheyHave) {
  for (const AgreementRow& row : agree::agreement_table())
    for (const KeyValue& k : kKeys) {
      const Job job = job_of(row, {fmt::format("parallel.{}={}", k.key, k.value)});
      if (!reads(row, k.key)) {
        expect_refused(job, fmt::format("--set: [job] key 'parallel.{}'", k.key));
        expect_refused(job, fmt::format("expected it not to be set: agreement '{}' has ", row.name));
        if (!row.options.empty()) expect_refused(job, fmt::format("has only {}", row.options[0].name));
        continue;
      }
      EXPECT_TRUE(check_job(job).ok()) << row.name << ": " << check_job(job).to_string();
      if (*k.bad != '\0')
        expect_refused(job_of(row, {fmt::format("parallel.{}={}", k.key, k.bad)}),
                       fmt::format("key 'parallel.{}': got", k.key));
    }
}

TEST(Agreements, EveryKeyThatARowNamesIsAKeyOfJobs) {
  for (const AgreementRow& row : agree::agreement_table())
    for (const OptionSpec& option : row.options) {
      bool found = false;
      for (const JobKey& job_key : job_keys())
        found = found || job_key.path == fmt::format("parallel.{}", option.name);
      EXPECT_TRUE(found) << row.name << ": " << option.name;
    }
}

TEST(Agreements, AnOuterRateNeedsAnOuterOptimiser) {
  for (const AgreementRow& row : agree::agreement_table()) {
    if (!reads(row, "outer_lr")) continue;
    expect_refused(job_of(row, {"parallel.outer_lr=0.7"}), "set parallel.outer to sgd or nesterov");
    EXPECT_TRUE(check_job(job_of(row, {"parallel.outer=nesterov", "parallel.outer_lr=0.7"})).ok());
    EXPECT_TRUE(check_job(job_of(row, {"parallel.outer=sgd", "parallel.outer_momentum=0.9"})).ok());
    expect_refused(job_of(row, {"parallel.outer=sgd", "parallel.outer_momentum=1"}),
                   "at least 0 and below 1");
  }
}

TEST(Agreements, RefuseLocalReplicasWhereWorkersHaveOneOrBeginOneAfterTheOther) {
  for (const AgreementRow& row : agree::agreement_table())
    if (!reads(row, "local_replicas"))
      expect_refused(job_of(row, {"parallel.local_replicas=2"}),
                     "; start more workers, or set parallel.agreement=downpour");
  const AgreementRow& downpour = **agree::find_agreement("downpour");
  expect_refused(
      job_of(downpour, {"parallel.local_replicas=2", "parallel.warm_start_steps=5"}),
      "key 'parallel.warm_start_steps': got 5, expected 0 where parallel.local_replicas is above 1");
  EXPECT_TRUE(check_job(job_of(downpour, {"parallel.local_replicas=1", "parallel.warm_start_steps=5"})).ok());
  expect_refused(job_of(downpour, {"parallel.local_replicas=0"}), "got 0, expected between 1 and 1024");
}

TEST(Agreements, APeriodOfZeroIsForTheRuleThatAdaptsIt) {
  for (const AgreementRow& row : agree::agreement_table()) {
    if (!reads(row, "period")) continue;
    const Job job = job_of(row, {"parallel.period=0"});
    if (std::string_view(row.name) == "averaging")
      EXPECT_TRUE(check_job(job).ok()) << check_job(job).to_string();
    else
      expect_refused(job,
                     "key 'parallel.period': got 0, expected between 1 and 1000000; only averaging adapts");
  }
}

TEST(Agreements, ServersFitTheRule) {
  for (const AgreementRow& row : agree::agreement_table()) {
    if (row.needs_server) {
      expect_refused(job_of(row, {"parallel.servers=0"}),
                     "key 'parallel.servers': got 0, expected 1 or more");
      EXPECT_TRUE(check_job(job_of(row, {"parallel.servers=3"})).ok()) << row.name;
    } else {
      expect_refused(job_of(row, {"parallel.servers=1"}),
                     fmt::format("got 1, expected 0: agreement '{}' uses no servers", row.name));
      EXPECT_TRUE(check_job(job_of(row, {"parallel.servers=0"})).ok()) << row.name;
    }
    expect_refused(job_of(row, {"parallel.servers=-2"}), "key 'parallel.servers': got -2");
    expect_refused(job_of(row, {"parallel.colocate=perhaps"}), "expected one of: auto, yes, no");
  }
}

TEST(Agreements, RefuseWhatOnlyLockStepOrAnOptimiserHereCanDo) {
  for (const AgreementRow& row : agree::agreement_table()) {
    if (row.pace != agree::Pace::kStep) {
      expect_refused(job_of(row, {"train.logical_shards=8"}), "got 8, expected 0, or 4 as there are workers");
      EXPECT_TRUE(check_job(job_of(row, {"train.logical_shards=4"})).ok()) << row.name;
      expect_refused(job_of(row, {"parallel.check_steps=10"}), "replicas differ between exchanges");
      expect_refused(job_of(row, {"train.trace_steps=1"}), "its workers do not step together");
    }
    if (row.updates_here) continue;
    for (const char* set : {"train.optimizer.clip_norm=1", "train.nan=skip", "train.precision=f16",
                            "train.optimizer.max_batch_multiplier=2"})
      expect_refused(job_of(row, {set}),
                     fmt::format("agreement '{}' runs the optimizer on servers", row.name));
  }
}

TEST(Agreements, RefuseWorldsThatTheyCannotWorkIn) {
  for (const AgreementRow& row : agree::agreement_table()) {
    const std::string_view name = row.name;
    if (name == "gossip" || name == "decentralized" || name == "ssp-peer")
      expect_refused(job_of(row, {"parallel.workers=1"}), "is among peers; add --workers 2");
    if (name == "hogwild")
      for (const char* transport : {"tcp", "mpi"})
        expect_refused(job_of(row, {fmt::format("parallel.transport={}", transport)}),
                       "changes one set of weights in shared memory");
    expect_refused(job_of(row, {"train.batch=3"}), "cannot be cut into 4 logical shards");
  }
}

Job served(std::int64_t workers, std::int64_t servers, std::string colocate) {
  Job job;
  job.parallel.workers = workers;
  job.parallel.servers = servers;
  job.options.set("parallel.colocate", std::move(colocate));
  return job;
}

TEST(Roles, WithoutServersRanksAreWorkers) {
  const Roles roles = roles_of(served(3, -1, "auto"));
  EXPECT_EQ(roles.workers, 3);
  EXPECT_EQ(roles.servers, 0);
  EXPECT_EQ(roles.world, 3);
  EXPECT_TRUE(roles.server_ranks.empty());
}

TEST(Roles, ServersThatAreAskedForHaveRanksBehindTheWorkers) {
  for (const char* colocate : {"auto", "no"}) {
    const Roles roles = roles_of(served(3, 2, colocate));
    EXPECT_EQ(roles.world, 5);
    EXPECT_EQ(roles.server_ranks, (std::vector<int>{3, 4}));
    EXPECT_TRUE(roles.is_worker(2));
    EXPECT_FALSE(roles.is_worker(3));
    EXPECT_EQ(roles.servers_on(4), std::vector<int>{1});
    EXPECT_EQ(roles.name_of(4), "server 1 (rank 4)");
    EXPECT_EQ(roles.name_of(2), "rank 2");
    EXPECT_TRUE(roles.servers_on(0).empty());
  }
}

TEST(Roles, ColocatedServersGoRound) {
  const Roles roles = roles_of(served(2, 3, "yes"));
  EXPECT_EQ(roles.world, 2);
  EXPECT_EQ(roles.server_ranks, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(roles.servers_on(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(roles.name_of(0), "worker 0 and servers 0, 2 (rank 0)");
}

const parallel::Mesh kTwoByTwo{{{"data", 2}, {"model", 2}}};

TEST(Roles, OfAMeshNameRanksByTheirCoordinates) {
  const Roles roles = roles_of(served(4, -1, "auto"), kTwoByTwo);
  EXPECT_EQ(roles.workers, 4);
  EXPECT_EQ(roles.num_replicas(), 2);
  EXPECT_EQ(roles.name_of(2), "rank 2 (data 1, model 0)");
  EXPECT_EQ(roles.coordinates(2), (Json{{"data", 1}, {"model", 0}}));
  EXPECT_EQ(roles.places(), (std::vector<std::string>{"data 0, model 0", "data 0, model 1", "data 1, model 0",
                                                      "data 1, model 1"}));
  const Roles plain = roles_of(served(4, -1, "auto"));
  EXPECT_EQ(plain.num_replicas(), 4);
  EXPECT_EQ(plain.name_of(2), "rank 2");
  EXPECT_TRUE(plain.coordinates(2).is_null());
  EXPECT_TRUE(plain.places().empty());
}

TEST(Roles, OfAMeshHaveReplicasThatTheirFirstRankSpeaksFor) {
  const Roles roles = roles_of(served(4, 1, "no"), kTwoByTwo);
  EXPECT_EQ(roles.world, 5);
  EXPECT_EQ(roles.replica_of(3), 1);
  EXPECT_TRUE(roles.speaks(2));
  EXPECT_FALSE(roles.speaks(3));
  EXPECT_FALSE(roles.speaks(4)) << "a server";
  using Ranks = std::vector<std::vector<int>>;
  EXPECT_EQ(roles.replicas(), (Ranks{{0, 1}, {2, 3}}));
  EXPECT_EQ(roles.replicas_seen_by(3), (Ranks{{1, 0}, {3, 2}}));
  EXPECT_EQ(roles.replicas_seen_by(4), roles.replicas());
  EXPECT_EQ(roles.name_of(4), "server 0 (rank 4)");
  EXPECT_EQ(roles.spare_ranks(), (std::vector<int>{2, 3}));
  const Roles shared = roles_of(served(4, 4, "yes"), kTwoByTwo);
  EXPECT_EQ(shared.name_of(3), "worker 3 and server 3 (rank 3, data 1, model 1)");
  EXPECT_TRUE(shared.spare_ranks().empty());
  EXPECT_EQ(roles_of(served(3, -1, "auto")).spare_ranks(), (std::vector<int>{1, 2}));
}

// The group has named the rank by its coordinates; where it is a server its role comes before them.
TEST(Roles, OfAMeshCallTheCulpritOfAVerdictByWhatItIs) {
  ErrorContext context;
  context.peer = 3;
  const Status verdict(Code::kPeerLost, "[comm] rank 3 (data 1, model 1) was lost in a push: gone", context);
  EXPECT_EQ(name_culprit(verdict, roles_of(served(4, -1, "auto"), kTwoByTwo)).message(), verdict.message());
  EXPECT_EQ(name_culprit(verdict, roles_of(served(4, 4, "yes"), kTwoByTwo)).message(),
            "[comm] worker 3 and server 3 (rank 3, data 1, model 1) was lost in a push: gone");
}

TEST(Roles, ARuleThatNeedsAServerGetsOneOnRankZero) {
  for (const AgreementRow& row : agree::agreement_table()) {
    const Roles roles = roles_of(job_of(row));
    EXPECT_EQ(roles.servers, row.needs_server ? 1 : 0) << row.name;
    EXPECT_EQ(roles.world, 4) << row.name;
    EXPECT_EQ(roles.server_ranks, row.needs_server ? std::vector<int>{0} : std::vector<int>()) << row.name;
  }
}

TEST(FitWorkers, RanksOfAnotherLauncherAreWorkersAndThenServers) {
  Job job = served(1, 2, "auto");
  ASSERT_TRUE(fit_workers(job, 6, 0, "openmpi").ok());
  EXPECT_EQ(job.parallel.workers, 4);
  EXPECT_EQ(roles_of(job).world, 6);
  EXPECT_TRUE(fit_workers(job, 6, 4, "openmpi").ok());
  const Status other = fit_workers(job, 6, 6, "openmpi");
  EXPECT_NE(
      other.message().find("openmpi started 6 ranks, but --workers is 6 and 2 of the ranks are servers"),
      std::string::npos)
      << other.message();
  const Status few = fit_workers(job, 2, 0, "openmpi");
  EXPECT_NE(few.message().find("all are needed for 2 servers; start 3 or more"), std::string::npos)
      << few.message();
}

TEST(RuleOptions, AreTheDefaultsUnlessKeysAreSet) {
  const agree::RuleOptions none = rule_options(Job());
  EXPECT_EQ(none.own.integer(agree::kPeriod), 10);
  EXPECT_EQ(none.own.integer(agree::kStaleness), 3);
  EXPECT_TRUE(none.own.empty());
  Job job;
  for (const char* set :
       {"parallel.period=5", "parallel.elasticity=0.25", "parallel.neighbours=ring", "parallel.locked=true"})
    ASSERT_TRUE(set_job_key(job, set).ok()) << set;
  EXPECT_EQ(rule_options(job).own,
            (OptionValues{{"period", 5}, {"elasticity", 0.25}, {"neighbors", "ring"}, {"locked", true}}));
}

// Readers of an option ask the spec of their own row for its default; whatever else a spec says is one key's.
TEST(RuleOptions, OfOneNameAreOneKeyWithOneDocAndType) {
  for (const AgreementRow& row : agree::agreement_table())
    for (const OptionSpec& option : row.options)
      for (const AgreementRow& other : agree::agreement_table())
        if (const OptionSpec* same = find_option(other.options, option.name)) {
          EXPECT_STREQ(same->doc, option.doc) << row.name << ", " << other.name;
          EXPECT_EQ(same->default_value.index(), option.default_value.index()) << option.name;
          // A rule that takes fewer values of a key than another says why.
          EXPECT_TRUE(same->range.text() == option.range.text() || !same->range.words.empty() ||
                      !option.range.words.empty())
              << row.name << ", " << other.name << ": " << option.name;
          EXPECT_TRUE(option.range.holds(option.initial())) << row.name << " " << option.name;
        }
}

}  // namespace
}  // namespace trireme::job
