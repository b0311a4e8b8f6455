// How many cores a process may use: its affinity, the quotas of its cgroups, and what its launcher has.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace trireme::runtime {

// The content of a file; "": there is none.
using ReadText = std::function<std::string(const std::string& path)>;

// Whole cores that the tightest CPU quota of this process's cgroups leaves, at least one: cpu.max of version
// 2, cpu.cfs_quota_us of version 1, each up to the root. 0: no quota.
int quota_cores(const ReadText& read);

// Cores of all ranks of this host: more than num_cores() where the launcher has bound this process to a part
// of its own (srun -c 4, mpirun --map-by slot:PE=4).
int launcher_cores();
// Cores that the launcher among the processes from `parent` upwards may use, or `parent` itself where none of
// them is a launcher. 0: nothing is known.
int cores_above(const ReadText& read, std::int64_t parent);

// Threads of one of `local_world` ranks that may use `own` cores itself, of `launcher` for all: never more
// than its own, and no second division of what the launcher has divided.
int threads_of_rank(int own, int launcher, int local_world);

}  // namespace trireme::runtime
