// Streams, events and captured graphs. Work runs as late as it may: when somebody waits for it. So a missing
// wait shows as a wrong result, every time. All of it happens under one lock, on the thread that waits.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace gpu_emulator {

using Work = std::function<void()>;
std::recursive_mutex& lock();

struct Queue {
  std::deque<Work> waiting;
  std::uint64_t put = 0, done = 0;
  bool blocking = false;                        // the null stream waits for it
  std::shared_ptr<std::vector<Work>> captured;  // what begins here goes there instead
  bool began_capture = false;
  void run_until(std::uint64_t position);
};

// Puts work on a stream, or into the graph that the stream is captured into. Exported for blas.cc.
void enqueue(CUstream stream, Work work);
bool is_capturing(CUstream stream);
void run_all(CUstream stream);
void run_everything();  // of all streams
void run_blocking();    // what the null stream waits for

}  // namespace gpu_emulator
