#include "trireme/launch/environment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "trireme/launch/nodelist.h"

namespace trireme::launch {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<RankIdentity>> read(const Variables& variables) {
  return rank_from_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

RankIdentity known(const Variables& variables) {
  const auto id = read(variables);
  EXPECT_TRUE(id.ok()) << id.status().to_string();
  EXPECT_TRUE(id.ok() && id->has_value()) << "nobody launched it";
  return id.ok() && id->has_value() ? **id : RankIdentity{};
}

void expect_error(const Variables& variables, const char* says) {
  const auto id = read(variables);
  EXPECT_EQ(id.status().code(), Code::kInvalid) << says;
  EXPECT_NE(id.status().message().find(says), std::string::npos) << id.status().message();
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables without(Variables variables, const char* name) {
  variables.erase(name);
  return variables;
}

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"OMPI_MCA_ess_base_jobid", "5273"}, {"TMPDIR", "/scratch"}};
const Variables kPmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}};
const Variables kSlurm{{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "8"},
                       {"SLURM_LOCALID", "1"}, {"SLURM_JOB_NODELIST", "node[07-09,12],gpu3"},
                       {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}};
const Variables kTorchrun{{"RANK", "1"},
                          {"WORLD_SIZE", "3"},
                          {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"}};

TEST(Launchers, EveryRowHasANameOfItsOwnAndADoc) {
  std::set<std::string> names;
  for (const Launcher& row : launcher_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(std::string(row.doc), "");
  }
}

TEST(Launchers, AnAddressMayStandInForTheDirectoryOfTheOwnLauncher) {
  const RankIdentity id =
      known({{"TRIREME_RANK", "1"}, {"TRIREME_WORLD", "2"}, {"TRIREME_COORDINATOR", "head:4711"}});
  EXPECT_EQ(id.launcher, "trireme");
  EXPECT_EQ(id.coordinator, "head:4711");
  EXPECT_FALSE(id.one_host);
}

TEST(Launchers, OpenMpiOnOneHostMeetsInADirectoryOfTheJob) {
  const RankIdentity id = known(kOpenMpi);
  EXPECT_EQ(id.launcher, "openmpi");
  EXPECT_EQ(id.rank, 2);
  EXPECT_EQ(id.world, 4);
  EXPECT_EQ(id.local_rank, 2);
  EXPECT_TRUE(id.one_host);
  EXPECT_EQ(id.rendezvous, "/scratch/trireme-openmpi-5273");
  EXPECT_EQ(known(with(without(kOpenMpi, "OMPI_MCA_ess_base_jobid"), {{"PMIX_NAMESPACE", "prterun/7@1"}}))
                .rendezvous,
            "/scratch/trireme-openmpi-prterun_7_1");
}

TEST(Launchers, OpenMpiOnSeveralHostsNeedsAnAddress) {
  const Variables spread =
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  const RankIdentity id = known(spread);
  EXPECT_FALSE(id.one_host);
  EXPECT_EQ(id.coordinator, "");
  const auto none = choose_transport(id, "auto");
  EXPECT_NE(none.status().message().find("--coordinator HOST:PORT"), std::string::npos)
      << none.status().message();
  const RankIdentity given = known(with(spread, {{"TRIREME_COORDINATOR", "n0:5000"}}));
  EXPECT_EQ(given.coordinator, "n0:5000");
  EXPECT_EQ(choose_transport(given, "auto").value(), "tcp");
  const Variables slurm{{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_ID", "9"}};
  EXPECT_EQ(known(with(spread, slurm)).coordinator.substr(0, 3), "n1:");
}

TEST(Launchers, OpenMpiInsideSlurmIsOpenMpi) {
  const RankIdentity id = known(with(kOpenMpi, kSlurm));
  EXPECT_EQ(id.launcher, "openmpi");
  EXPECT_EQ(id.rank, 2);
  EXPECT_EQ(id.world, 4);
}

TEST(Launchers, PmiTellsRankAndWorldAndTheBatchSystemTheJob) {
  const RankIdentity id = known(kPmi);
  EXPECT_EQ(id.launcher, "pmi");
  EXPECT_EQ(id.rank, 1);
  EXPECT_EQ(id.world, 3);
  EXPECT_EQ(id.rendezvous, "");
  const auto none = choose_transport(id, "auto");
  EXPECT_NE(none.status().message().find("set TRIREME_RENDEZVOUS"), std::string::npos)
      << none.status().message();
  EXPECT_EQ(known(with(kPmi, {{"PBS_JOBID", "12.head"}})).rendezvous, "/tmp/trireme-pmi-12.head");
  const RankIdentity spread = known(with(kPmi, {{"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}}));
  EXPECT_FALSE(spread.one_host);
  EXPECT_EQ(spread.local_rank, 1);
}

TEST(Launchers, SlurmMeetsOnTheFirstHostOfItsList) {
  const RankIdentity id = known(kSlurm);
  EXPECT_EQ(id.launcher, "slurm");
  EXPECT_EQ(id.rank, 3);
  EXPECT_EQ(id.world, 8);
  EXPECT_EQ(id.local_rank, 1);
  EXPECT_FALSE(id.one_host);
  EXPECT_EQ(id.coordinator.substr(0, 7), "node07:");
  EXPECT_EQ(id.coordinator, known(with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}})).coordinator)
      << "the ranks of a job must agree";
  EXPECT_NE(id.coordinator, known(with(kSlurm, {{"SLURM_JOB_ID", "78"}})).coordinator);
  EXPECT_EQ(choose_transport(id, "auto").value(), "tcp");
}

TEST(Launchers, SlurmTellsTheTasksOfEachHostOfAnUnevenStep) {
  const Variables uneven = with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x3),1(x2)"}});
  EXPECT_EQ(known(with(uneven, {{"SLURM_NODEID", "0"}})).local_world, 2);
  EXPECT_EQ(known(with(uneven, {{"SLURM_NODEID", "2"}})).local_world, 2);
  EXPECT_EQ(known(with(uneven, {{"SLURM_NODEID", "4"}, {"SLURM_LOCALID", "0"}})).local_world, 1);
  EXPECT_EQ(known(uneven).local_world, 2) << "without a number of this host: estimated";
  expect_error(with(uneven, {{"SLURM_NODEID", "5"}}), "2(x3),1(x2)");
  expect_error(with(uneven, {{"SLURM_NODEID", "3"}}), "contradict each other: local rank 1 of 1");
  EXPECT_EQ(known(with(kSlurm, {{"SLURM_CPUS_ON_NODE", "48"}})).host_cores, 48);
}

TEST(Nodelist, CountsOfTasksPerHost) {
  EXPECT_EQ(*tasks_of_node("4", 0), 4);
  EXPECT_EQ(*tasks_of_node("2(x3),1", 3), 1);
  EXPECT_EQ(*tasks_of_node("1,2,3", 1), 2);
  for (const char* bad : {"", "x", "2(x", "2(x)", "2(3)", "2(x3", ",1", "-2"})
    EXPECT_EQ(tasks_of_node(bad, 0).status().code(), Code::kInvalid) << bad;
  EXPECT_FALSE(tasks_of_node("2(x3)", 3).ok());
  EXPECT_FALSE(tasks_of_node("2", -1).ok());
}

TEST(Launchers, SlurmOnOneHostMeetsInADirectoryOfTheStep) {
  const RankIdentity id = known(with(kSlurm, {{"SLURM_JOB_NODELIST", "node7"}}));
  EXPECT_TRUE(id.one_host);
  EXPECT_EQ(id.rendezvous, "/tmp/trireme-slurm-77.0");
  EXPECT_EQ(choose_transport(id, "auto").value(), "shm");
}

TEST(Launchers, ABatchScriptOfSlurmIsNoRank) {
  Variables script = without(kSlurm, "SLURM_STEP_ID");
  script["ENVIRONMENT"] = "BATCH";
  script["SLURM_PROCID"] = "0";
  EXPECT_FALSE(read(script)->has_value());
  EXPECT_FALSE(read(without(kSlurm, "SLURM_PROCID"))->has_value()) << "an allocation without a task";
  script["SLURM_STEP_ID"] = "0";
  EXPECT_TRUE(read(script)->has_value()) << "srun inside a script keeps the script's variables";
}

TEST(Launchers, TorchrunMeetsAtItsMaster) {
  const RankIdentity here = known(kTorchrun);
  EXPECT_EQ(here.launcher, "torchrun");
  EXPECT_EQ(here.rank, 1);
  EXPECT_EQ(here.world, 3);
  EXPECT_EQ(here.coordinator, "127.0.0.1:29500");
  EXPECT_TRUE(here.one_host);
  EXPECT_EQ(choose_transport(here, "auto").value(), "shm");
  EXPECT_EQ(choose_transport(here, "tcp").value(), "tcp");
  const RankIdentity there = known(with(kTorchrun, {{"MASTER_ADDR", "node3"}}));
  EXPECT_FALSE(there.one_host);
  EXPECT_EQ(choose_transport(there, "auto").value(), "tcp");
  EXPECT_TRUE(known(with(kTorchrun, {{"MASTER_ADDR", "node3"}, {"LOCAL_WORLD_SIZE", "3"}})).one_host);
  EXPECT_EQ(known(with(kTorchrun, {{"MASTER_ADDR", "fe80::1"}})).coordinator, "[fe80::1]:29500");
  EXPECT_EQ(known(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).coordinator, "127.0.0.1:29501")
      << "its own agent listens at the port it tells";
}

TEST(Launchers, ARankThatMeansSomethingElseIsNoLaunch) {
  EXPECT_FALSE(read({{"RANK", "general"}})->has_value());
  EXPECT_FALSE(read({{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "1"}})->has_value());
  EXPECT_EQ(known(with(kOpenMpi, {{"RANK", "2"}, {"WORLD_SIZE", "4"}})).launcher, "openmpi");
}

TEST(Launchers, HalfOfTheVariablesIsAnError) {
  expect_error(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), "got only OMPI_COMM_WORLD_RANK");
  expect_error(without(kOpenMpi, "OMPI_COMM_WORLD_RANK"), "got only OMPI_COMM_WORLD_SIZE");
  expect_error(without(kPmi, "PMI_SIZE"), "got only PMI_RANK");
  expect_error(without(kSlurm, "SLURM_NTASKS"), "got only SLURM_PROCID");
  expect_error(without(kTorchrun, "WORLD_SIZE"), "got only RANK");
  expect_error(without(kTorchrun, "MASTER_PORT"), "MASTER_PORT");
  expect_error(without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR is not set");
}

TEST(Launchers, NumbersThatContradictAreErrors) {
  expect_error(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}}), "OMPI_COMM_WORLD_RANK is 4, expected 0 to 3");
  expect_error(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), "local rank 2 of 2");
  expect_error(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "5"}}), "contradict");
  expect_error(with(kPmi, {{"PMI_RANK", "3"}}), "PMI_RANK is 3, expected 0 to 2");
  expect_error(with(kPmi, {{"PMI_SIZE", "many"}}), "PMI_SIZE is not a number: got 'many'");
  expect_error(with(kSlurm, {{"SLURM_PROCID", "8"}}), "SLURM_PROCID is 8, expected 0 to 7");
  expect_error(with(kSlurm, {{"SLURM_JOB_NODELIST", "node[1-"}}), "no list of hosts");
  expect_error(with(kTorchrun, {{"RANK", "-1"}}), "RANK is -1");
  expect_error(with(kTorchrun, {{"MASTER_PORT", "99999"}}), "MASTER_PORT is 99999");
  expect_error(with(kTorchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is empty");
}

TEST(Launchers, ATransportThatDoesNotFitIsRefusedWithAReason) {
  const auto refused = [](const Variables& v, const char* transport, const char* says) {
    const auto chosen = choose_transport(known(v), transport);
    EXPECT_EQ(chosen.status().code(), Code::kInvalid);
    EXPECT_NE(chosen.status().message().find(says), std::string::npos) << chosen.status().message();
  };
  refused(kSlurm, "shm", "ranks of one host");
  refused(kOpenMpi, "inproc", "threads of one process");
  refused(kTorchrun, "mpi", "mpirun -n 3");
  EXPECT_EQ(choose_transport(known(kOpenMpi), "mpi").value(), "mpi");
  EXPECT_EQ(choose_transport(known(kOpenMpi), "auto").value(), "shm");
}

TEST(Nodelist, FirstHostAndCount) {
  struct Case {
    const char* text;
    const char* first;
    int count;
  };
  for (const Case& c : {Case{"node7", "node7", 1}, Case{"a,b,c", "a", 3}, Case{"n[3-5]", "n3", 3},
                        Case{"n[008-010,2],x", "n008", 5}, Case{"r[1-2]n[07-09]", "r1n07", 6},
                        Case{"n[4]-ib", "n4-ib", 1}, Case{"gpu-1.site", "gpu-1.site", 1}}) {
    const auto list = parse_nodelist(c.text);
    ASSERT_TRUE(list.ok()) << c.text << ": " << list.status().message();
    EXPECT_EQ(list->first, c.first);
    EXPECT_EQ(list->count, c.count) << c.text;
  }
  for (const char* text : {"", "n[", "n[]", "n[3-1]", "n[1-9999999999]", "n1,,n2", "n]", "n[a-b]", "n[1-2],"})
    EXPECT_FALSE(parse_nodelist(text).ok()) << text;
}

}  // namespace
}  // namespace trireme::launch
