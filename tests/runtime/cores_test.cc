#include "trireme/runtime/real/cores.h"

#include <gtest/gtest.h>

#include <map>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

using Texts = std::map<std::string, std::string>;

ReadText reader(const Texts& files) {
  return [files](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  };
}

TEST(Cores, TheQuotaOfVersion2CountsWholeCores) {
  Texts files{{"/proc/self/cgroup", "0::/\n"}};
  EXPECT_EQ(quota_cores(reader(files)), 0);
  files["/sys/fs/cgroup/cpu.max"] = "max 100000\n";
  EXPECT_EQ(quota_cores(reader(files)), 0);
  files["/sys/fs/cgroup/cpu.max"] = "250000 100000\n";
  EXPECT_EQ(quota_cores(reader(files)), 2);
  files["/sys/fs/cgroup/cpu.max"] = "20000 100000\n";
  EXPECT_EQ(quota_cores(reader(files)), 1) << "never none";
  files["/sys/fs/cgroup/cpu.max"] = "nonsense";
  EXPECT_EQ(quota_cores(reader(files)), 0);
}

TEST(Cores, TheTightestGroupUpToTheRootDecides) {
  const Texts files{{"/proc/self/cgroup", "0::/kubepods/pod7/main\n"},
                    {"/sys/fs/cgroup/kubepods/pod7/main/cpu.max", "max 100000\n"},
                    {"/sys/fs/cgroup/kubepods/pod7/cpu.max", "300000 100000\n"},
                    {"/sys/fs/cgroup/kubepods/cpu.max", "800000 100000\n"}};
  EXPECT_EQ(quota_cores(reader(files)), 3);
}

TEST(Cores, TheQuotaOfVersion1CountsToo) {
  Texts files{{"/proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n0::/\n"},
              {"/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n"},
              {"/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(quota_cores(reader(files)), 0);
  files["/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us"] = "400000\n";
  EXPECT_EQ(quota_cores(reader(files)), 4);
  // Inside the container its group is the root of the mount.
  const Texts inside{{"/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n"},
                     {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"},
                     {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(quota_cores(reader(inside)), 2);
}

std::string status(const std::string& name, int parent, const std::string& mask) {
  return "Name:\t" + name + "\nUmask:\t0022\nPPid:\t" + std::to_string(parent) + "\nCpus_allowed:\t" + mask +
         "\nCpus_allowed_list:\t0-1\n";
}

TEST(Cores, TheLauncherIsFoundAboveScripts) {
  const Texts files{{"/proc/30/status", status("bash", 20, "f")},
                    {"/proc/20/status", status("slurmstepd", 1, "ff,ffffffff")},
                    {"/proc/1/status", status("init", 0, "ffff,ffffffff")}};
  EXPECT_EQ(cores_above(reader(files), 30), 40);
  EXPECT_EQ(cores_above(reader(files), 20), 40);
  EXPECT_EQ(cores_above(reader(files), 7), 0) << "gone, or hidden";
}

TEST(Cores, WithoutALauncherTheParentCounts) {
  const Texts files{{"/proc/30/status", status("bash", 1, "3")}, {"/proc/1/status", status("init", 0, "ff")}};
  EXPECT_EQ(cores_above(reader(files), 30), 2);
}

TEST(Cores, WhatTheLauncherHasDividedIsNotDividedAgain) {
  EXPECT_EQ(threads_of_rank(16, 16, 4), 4) << "nobody bound them";
  EXPECT_EQ(threads_of_rank(4, 16, 4), 4) << "srun -c 4";
  EXPECT_EQ(threads_of_rank(4, 64, 4), 4) << "the same on a larger host";
  EXPECT_EQ(threads_of_rank(8, 16, 4), 4) << "two ranks share a socket";
  EXPECT_EQ(threads_of_rank(1, 16, 2), 1) << "mpirun -n 2 binds to cores";
  EXPECT_EQ(threads_of_rank(2, 2, 16), 1);
}

TEST(Cores, ThisProcessHasSome) {
  EXPECT_GE(num_cores(), 1);
  EXPECT_GE(launcher_cores(), num_cores());
}

}  // namespace
}  // namespace trireme::runtime
