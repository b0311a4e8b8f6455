#include "trireme/start/trouble.h"

namespace trireme::start {

double slow_factor_of(const std::vector<SlowRank>& slow, int rank) {
  double factor = 1;
  for (const SlowRank& s : slow)
    if (s.rank == rank) factor *= s.factor;
  return factor;
}

std::vector<runtime::RealFault> faults_of(const std::vector<RankFault>& faults, int rank) {
  std::vector<runtime::RealFault> out;
  for (const RankFault& f : faults)
    if (f.rank == rank) out.push_back(f.fault);
  return out;
}

Status check_slow(const std::vector<SlowRank>& slow, int world) {
  for (const SlowRank& s : slow)
    if (s.rank >= world)
      return error(Code::kInvalid, "[start] --slow got rank {}, expected 0 to {}: the job has {} ranks",
                   s.rank, world - 1, world);
  return {};
}

Status check_fault_rank(int rank, int world) {
  if (rank >= 0 && rank < world) return {};
  return error(Code::kInvalid, "[start] --fault got rank {}, expected 0 to {}: the job has {} ranks", rank,
               world - 1, world);
}

Status check_faults(const std::vector<RankFault>& faults, int world) {
  for (const RankFault& f : faults) TR_RETURN_IF_ERROR(check_fault_rank(f.rank, world));
  return {};
}

}  // namespace trireme::start
