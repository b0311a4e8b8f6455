// libtrireme_mpi.so: MPI behind the table of calls.h. The only file that is compiled against MPI.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "trireme/net/mpi/module/calls.h"

struct TriremeMpi {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<MPI_Request> requests;   // compact: a finished one is replaced by the last
  std::vector<std::uint64_t> cookies;  // same order
  std::vector<int> finished;           // scratch of poll
  std::vector<MPI_Status> statuses;
};

struct TriremeMpiWindow {
  TriremeMpi* mpi = nullptr;
  MPI_Win win = MPI_WIN_NULL;
};

namespace {

constexpr std::int32_t kDone = 0, kCancelled = 1, kFailed = 2;

int note(TriremeMpi* mpi, int error, MPI_Request request, std::uint64_t cookie) {
  if (error != MPI_SUCCESS) return error;
  mpi->requests.push_back(request);
  mpi->cookies.push_back(cookie);
  return 0;
}

int state() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return finalized != 0 ? 2 : initialized;
}

int init(int* rank, int* world) {
  if (state() == 0) {
    int provided = 0;
    // One thread at a time enters MPI, but a test or benchmark may run the loops of several transports on
    // different threads one after the other.
    const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (error != MPI_SUCCESS) return error;
  }
  // A failing peer is told by the transport, not by ending the process.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int error = MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return error != MPI_SUCCESS ? error : MPI_Comm_size(MPI_COMM_WORLD, world);
}

int finalize() { return MPI_Finalize(); }

void describe(int error, char* text, std::size_t text_bytes) {
  char whole[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(error, whole, &length) != MPI_SUCCESS) length = 0;
  std::snprintf(text, text_bytes, "%.*s (%d)", length, whole, error);
}

void library(char* text, std::size_t text_bytes) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(whole, &length);
  std::snprintf(text, text_bytes, "%.*s", length, whole);
}

int open(int world, std::uint64_t cookie, TriremeMpi** out) {
  auto* mpi = new TriremeMpi;
  int size = 0;
  int error = MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Request request = MPI_REQUEST_NULL;
  if (error == MPI_SUCCESS && world == size) {
    error = MPI_Comm_idup(MPI_COMM_WORLD, &mpi->comm, &request);
  } else if (error == MPI_SUCCESS) {
    MPI_Group all = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
    int range[1][3] = {{0, world - 1, 1}};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &first);
    error = MPI_Comm_create_group(MPI_COMM_WORLD, first, /*tag=*/world, &mpi->comm);
    MPI_Group_free(&first);
    MPI_Group_free(&all);
    if (error == MPI_SUCCESS) error = MPI_Ibarrier(mpi->comm, &request);
  }
  error = note(mpi, error, request, cookie);
  if (error != 0) {
    delete mpi;
    return error;
  }
  *out = mpi;
  return 0;
}

void close(TriremeMpi* mpi) {
  for (MPI_Request& request : mpi->requests) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) continue;
    MPI_Cancel(&request);  // a send, or a recv that has begun, stays: then MPI keeps it until finalize
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) MPI_Request_free(&request);
  }
  delete mpi;
}

int max_tag(TriremeMpi* mpi) {
  int* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(mpi->comm, MPI_TAG_UB, &value, &found);
  return found != 0 ? *value : 32767;  // what the standard promises
}

int send(TriremeMpi* mpi, int peer, int tag, const void* data, std::uint64_t bytes, std::uint64_t cookie) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, mpi->comm, &request);
  return note(mpi, error, request, cookie);
}

int recv(TriremeMpi* mpi, int peer, int tag, void* data, std::uint64_t bytes, std::uint64_t cookie) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int source = peer == kTriremeMpiAny ? MPI_ANY_SOURCE : peer;
  const int error = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, source, tag, mpi->comm, &request);
  return note(mpi, error, request, cookie);
}

int barrier(TriremeMpi* mpi, std::uint64_t cookie) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int error = MPI_Ibarrier(mpi->comm, &request);
  return note(mpi, error, request, cookie);
}

void cancel(TriremeMpi* mpi, std::uint64_t cookie) {
  for (std::size_t i = 0; i < mpi->cookies.size(); ++i)
    if (mpi->cookies[i] == cookie) MPI_Cancel(&mpi->requests[i]);
}

int outstanding(TriremeMpi* mpi) { return static_cast<int>(mpi->requests.size()); }

TriremeMpiEvent event_of(std::uint64_t cookie, const MPI_Status& status, bool failed) {
  TriremeMpiEvent event{cookie, 0, status.MPI_SOURCE, kDone};
  int cancelled = 0, count = 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (failed)
    event.outcome = kFailed;
  else if (cancelled != 0)
    event.outcome = kCancelled;
  else if (MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS && count != MPI_UNDEFINED)
    event.bytes = static_cast<std::uint64_t>(count);
  return event;
}

int poll(TriremeMpi* mpi, TriremeMpiEvent* events, int max_events) {
  const std::size_t count = mpi->requests.size();
  if (count == 0) return 0;
  mpi->finished.resize(count);
  mpi->statuses.resize(count);
  int num_finished = 0;
  // What does not fit in `events` would be lost: only as many requests are tested as there is room for, from
  // a place that moves on.
  const int tested = static_cast<int>(std::min<std::size_t>(count, static_cast<std::size_t>(max_events)));
  const int error =
      MPI_Testsome(tested, mpi->requests.data(), &num_finished, mpi->finished.data(), mpi->statuses.data());
  if (num_finished == MPI_UNDEFINED) return 0;
  for (int i = 0; i < num_finished; ++i) {
    const auto at = static_cast<std::size_t>(mpi->finished[static_cast<std::size_t>(i)]);
    const MPI_Status& status = mpi->statuses[static_cast<std::size_t>(i)];
    events[i] =
        event_of(mpi->cookies[at], status, error == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS);
  }
  // From the back, so that the places still to be emptied keep their numbers.
  std::sort(mpi->finished.begin(), mpi->finished.begin() + num_finished);
  for (int i = num_finished; i-- > 0;) {
    const auto at = static_cast<std::size_t>(mpi->finished[static_cast<std::size_t>(i)]);
    mpi->requests[at] = mpi->requests.back();
    mpi->cookies[at] = mpi->cookies.back();
    mpi->requests.pop_back();
    mpi->cookies.pop_back();
  }
  if (count > static_cast<std::size_t>(tested) && num_finished == 0) {
    const auto step =
        static_cast<std::ptrdiff_t>(std::min<std::size_t>(static_cast<std::size_t>(tested), count - 1));
    std::rotate(mpi->requests.begin(), mpi->requests.begin() + step, mpi->requests.end());
    std::rotate(mpi->cookies.begin(), mpi->cookies.begin() + step, mpi->cookies.end());
  }
  return num_finished;
}

int win_allocate(TriremeMpi* mpi, std::uint64_t bytes, void** local, TriremeMpiWindow** out) {
  auto* window = new TriremeMpiWindow;
  window->mpi = mpi;
  int error = MPI_Win_allocate(static_cast<MPI_Aint>(bytes), /*disp_unit=*/1, MPI_INFO_NULL, mpi->comm, local,
                               &window->win);
  if (error == MPI_SUCCESS) {
    MPI_Win_set_errhandler(window->win, MPI_ERRORS_RETURN);
    error = MPI_Win_lock_all(MPI_MODE_NOCHECK, window->win);
  }
  if (error != MPI_SUCCESS) {
    delete window;
    return error;
  }
  *out = window;
  return 0;
}

int win_put(TriremeMpiWindow* window, int peer, std::uint64_t offset, const void* from, std::uint64_t bytes,
            std::uint64_t cookie) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(bytes);
  const int error = MPI_Rput(from, count, MPI_BYTE, peer, static_cast<MPI_Aint>(offset), count, MPI_BYTE,
                             window->win, &request);
  return note(window->mpi, error, request, cookie);
}

int win_get(TriremeMpiWindow* window, int peer, std::uint64_t offset, void* into, std::uint64_t bytes,
            std::uint64_t cookie) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(bytes);
  const int error = MPI_Rget(into, count, MPI_BYTE, peer, static_cast<MPI_Aint>(offset), count, MPI_BYTE,
                             window->win, &request);
  return note(window->mpi, error, request, cookie);
}

int win_flush(TriremeMpiWindow* window, int peer) {
  const int error = MPI_Win_flush(peer, window->win);
  return error != MPI_SUCCESS ? error : MPI_Win_sync(window->win);
}

constexpr TriremeMpiCalls kCalls{
    .version = kTriremeMpiVersion,
    .state = state,
    .init = init,
    .finalize = finalize,
    .describe = describe,
    .library = library,
    .open = open,
    .close = close,
    .max_tag = max_tag,
    .send = send,
    .recv = recv,
    .barrier = barrier,
    .cancel = cancel,
    .outstanding = outstanding,
    .poll = poll,
    .win_allocate = win_allocate,
    .win_put = win_put,
    .win_get = win_get,
    .win_flush = win_flush,
};

}  // namespace

const TriremeMpiCalls* trireme_mpi_calls() { return &kCalls; }
