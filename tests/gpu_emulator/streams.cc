#include "tests/gpu_emulator/streams.h"

#include <algorithm>
#include <chrono>
#include <utility>

using gpu_emulator::Queue;
using gpu_emulator::Work;

struct CUstream_st {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};
struct CUevent_st {
  std::shared_ptr<Queue> queue;  // where it was recorded last, null: never
  std::uint64_t position = 0;
  std::shared_ptr<std::vector<Work>> captured;
  std::shared_ptr<double> time_ms = std::make_shared<double>(0);
};
struct CUgraph_st {
  std::shared_ptr<std::vector<Work>> work;
};
struct CUgraphExec_st {
  std::shared_ptr<std::vector<Work>> work;
};

namespace gpu_emulator {
namespace {

constexpr std::size_t kMostWaiting = 4096;  // beyond this a stream runs on by itself

std::vector<std::shared_ptr<Queue>>& queues() {
  static auto* all = new std::vector<std::shared_ptr<Queue>>;
  return *all;
}

Queue& null_queue() {
  static auto* q = new Queue;
  return *q;
}

Queue& queue_of(CUstream s) { return s == nullptr ? null_queue() : *s->queue; }

double now_ms() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::recursive_mutex& lock() {
  static auto* m = new std::recursive_mutex;
  return *m;
}

void Queue::run_until(std::uint64_t position) {
  while (done < position && !waiting.empty()) {
    const Work work = std::move(waiting.front());
    waiting.pop_front();
    ++done;
    work();
  }
}

void enqueue(CUstream stream, Work work) {
  Queue& q = queue_of(stream);
  if (q.captured != nullptr) {
    q.captured->push_back(std::move(work));
    return;
  }
  if (stream == nullptr) run_blocking();
  q.waiting.push_back(std::move(work));
  ++q.put;
  if (q.waiting.size() > kMostWaiting || stream == nullptr) q.run_until(q.put);
}

bool is_capturing(CUstream stream) { return queue_of(stream).captured != nullptr; }
void run_all(CUstream stream) { queue_of(stream).run_until(queue_of(stream).put); }
void run_everything() {
  for (const auto& q : std::vector(queues())) q->run_until(q->put);
}
void run_blocking() {
  for (const auto& q : std::vector(queues()))
    if (q->blocking) q->run_until(q->put);
}

}  // namespace gpu_emulator

#define GPU_EMULATOR_LOCKED const std::lock_guard hold(gpu_emulator::lock())

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  GPU_EMULATOR_LOCKED;
  *stream = new CUstream_st;
  (*stream)->queue->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  gpu_emulator::queues().push_back((*stream)->queue);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy(CUstream stream) {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::run_all(stream);
  std::erase(gpu_emulator::queues(), stream->queue);
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  GPU_EMULATOR_LOCKED;
  if (gpu_emulator::is_capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream == nullptr) gpu_emulator::run_blocking();
  gpu_emulator::run_all(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) { return cuStreamSynchronize(stream); }

CUresult cuCtxSynchronize() {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::run_everything();
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::enqueue(stream, [=] { function(data); });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = new CUevent_st;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  GPU_EMULATOR_LOCKED;
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::enqueue(stream, [time = event->time_ms] { *time = gpu_emulator::now_ms(); });
  event->captured = gpu_emulator::queue_of(stream).captured;
  if (event->captured != nullptr) return CUDA_SUCCESS;
  if (stream != nullptr) {
    event->queue = stream->queue;
    event->position = stream->queue->put;
  }
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  GPU_EMULATOR_LOCKED;
  if (event->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->queue != nullptr) event->queue->run_until(event->position);
  return CUDA_SUCCESS;
}

// Whoever asks again and again must see it end.
CUresult cuEventQuery(CUevent event) { return cuEventSynchronize(event); }

CUresult cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
  GPU_EMULATOR_LOCKED;
  cuEventSynchronize(begin);
  cuEventSynchronize(end);
  *ms = static_cast<float>(*end->time_ms - *begin->time_ms);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  GPU_EMULATOR_LOCKED;
  if (event->captured != nullptr) {  // this stream joins the capture; its work is put behind what is there
    gpu_emulator::queue_of(stream).captured = event->captured;
    return CUDA_SUCCESS;
  }
  if (event->queue != nullptr)
    gpu_emulator::enqueue(stream, [queue = event->queue, at = event->position] { queue->run_until(at); });
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  GPU_EMULATOR_LOCKED;
  if (stream == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->queue->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->queue->captured = std::make_shared<std::vector<Work>>();
  stream->queue->began_capture = true;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  GPU_EMULATOR_LOCKED;
  *graph = nullptr;
  if (stream == nullptr || !stream->queue->began_capture) return CUDA_ERROR_ILLEGAL_STATE;
  const auto work = stream->queue->captured;
  for (const auto& q : gpu_emulator::queues())
    if (q->captured == work) q->captured = nullptr;
  stream->queue->began_capture = false;
  *graph = new CUgraph_st{work};
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  GPU_EMULATOR_LOCKED;
  *status =
      gpu_emulator::is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode*, size_t* count) {
  *count = graph->work->size();
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->work};
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  GPU_EMULATOR_LOCKED;
  gpu_emulator::enqueue(stream, [work = exec->work] {
    for (const Work& w : *work) w();
  });
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  GPU_EMULATOR_LOCKED;
  delete exec;
  return CUDA_SUCCESS;
}
