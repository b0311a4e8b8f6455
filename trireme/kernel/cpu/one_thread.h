// How oneDNN is called: with OpenMP held to one thread on the calling thread, for a scope. Included only
// where oneDNN is built in.
#pragma once

#include <omp.h>

namespace trireme::kernel {

// Keeps oneDNN from units that the processor names but does not describe: some virtual machines hide the
// sizes of AMX's tiles, and oneDNN then runs into an illegal instruction. Before the first other call of
// oneDNN.
void hold_instruction_set();

// The setting is OpenMP's own, one per calling thread, so that pool threads do not disturb each other; with
// one thread oneDNN opens no parallel region and no OpenMP worker ever starts.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    hold_instruction_set();
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace trireme::kernel
