// A library with the functions of NCCL that comm/nccl/library.h looks up, for tests without a GPU: "device
// memory" is memory of the host, and a call is done by a thread of its communicator, through a file in
// /dev/shm that ranks of one process or of several map. It checks what NCCL would hang or break on: another
// kind of call, another count, a second call before the first was taken.
//
// FAKE_NCCL="rank=1,call=3,do=error" makes that rank misbehave in its third call (connecting is call 0):
//   error   the call fails           hang   it never ends, nor do those of the others
//   refuse  the function says no     die    the process ends at once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

enum Result {
  kSuccess = 0,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7
};
constexpr int kMostRanks = 16;
constexpr std::size_t kPieceBytes = 64 << 10;

struct Id {
  char bytes[128];
};

struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

// One rank's part of the file.
struct Part {
  std::atomic<unsigned long> arrived;                              // barriers that it has come to
  std::atomic<unsigned long> what;                                 // fingerprint of its call
  std::atomic<unsigned long> sent[kMostRanks], taken[kMostRanks];  // pieces to and from others
  char piece[kPieceBytes];
  char letters[kMostRanks][kPieceBytes];  // to each other rank
};
struct Segment {
  std::atomic<int> failed;  // by whom, plus one
  Part parts[kMostRanks];
};

struct Fault {
  int rank = -1, call = -1;
  std::string what;
};
Fault fault_of_environment() {
  Fault f;
  const char* text = std::getenv("FAKE_NCCL");
  char what[32] = "";
  if (text != nullptr && std::sscanf(text, "rank=%d,call=%d,do=%31s", &f.rank, &f.call, what) == 3)
    f.what = what;
  return f;
}

std::size_t size_of(int dtype) {
  constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return dtype >= 0 && dtype < 10 ? sizes[dtype] : 0;
}

float widen(unsigned short v) {
  const unsigned bits = static_cast<unsigned>(v) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
unsigned short narrow(float f) {
  unsigned bits;
  std::memcpy(&bits, &f, 4);
  return static_cast<unsigned short>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
template <typename T>
T combined(T a, T b, int op) {
  return op == 2 ? std::max(a, b) : op == 3 ? std::min(a, b) : a + b;
}
// to = to (op) from, element by element.
void combine(char* to, const char* from, std::size_t bytes, int dtype, int op) {
  const auto all = [&](auto zero) {
    using T = decltype(zero);
    auto* a = reinterpret_cast<T*>(to);
    const auto* b = reinterpret_cast<const T*>(from);
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) a[i] = combined(a[i], b[i], op);
  };
  if (dtype == 7) return all(0.0F);
  if (dtype == 8) return all(0.0);
  if (dtype == 2) return all(0);
  if (dtype == 4) return all(0L);
  auto* a = reinterpret_cast<unsigned short*>(to);
  const auto* b = reinterpret_cast<const unsigned short*>(from);
  for (std::size_t i = 0; i < bytes / 2; ++i) a[i] = narrow(combined(widen(a[i]), widen(b[i]), op));
}

}  // namespace

struct Comm {
  int rank = 0, world = 1;
  Segment* segment = nullptr;
  std::string file;
  Fault fault;
  int calls = 0;
  std::atomic<int> state{kInProgress};
  std::atomic<bool> aborted{false};
  std::string last_error;
  unsigned long barriers = 0;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<bool()>> work;
  bool ending = false;
  std::thread thread;

  Part& part(int r) const { return segment->parts[r]; }
  bool until(const std::function<bool()>& there) {
    while (!there()) {
      if (aborted || segment->failed != 0) return false;
      usleep(20);
    }
    return true;
  }
  bool barrier() {
    ++barriers;
    part(rank).arrived = barriers;
    return until([this] {
      for (int r = 0; r < world; ++r)
        if (part(r).arrived < barriers) return false;
      return true;
    });
  }
  // Everybody makes the same call.
  bool same(unsigned long what) {
    part(rank).what = what;
    if (!barrier()) return false;
    for (int r = 0; r < world; ++r)
      if (part(r).what != what) {
        last_error = "rank " + std::to_string(r) + " makes another call";
        state = kInvalidUsage;
        return false;
      }
    return barrier();
  }
  void run() {
    for (;;) {
      std::function<bool()> next;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [this] { return ending || !work.empty(); });
        if (work.empty()) return;
        next = std::move(work.front());
        work.pop_front();
      }
      const bool done = next();
      if (aborted) return;
      if (done) {
        state = kSuccess;
      } else if (state == kInProgress) {
        last_error = "rank " + std::to_string(segment->failed - 1) + " failed";
        state = kRemoteError;
      }
    }
  }
  void end() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    wake.notify_all();
    if (thread.joinable()) thread.join();
    if (segment != nullptr) munmap(segment, sizeof(Segment));
    if (rank == 0) unlink(file.c_str());
  }
  // The call as wanted, or as FAKE_NCCL says.
  int start(std::function<bool()> call) {
    const bool misbehave = fault.rank == rank && fault.call == calls;
    ++calls;
    if (calls > 1 && state == kInProgress) {
      last_error = "a call before the last one was taken";
      return kInvalidUsage;
    }
    if (misbehave && fault.what == "refuse") return kInvalidArgument;
    if (misbehave && fault.what == "die") _exit(9);
    state = kInProgress;
    if (misbehave && fault.what == "error")
      call = [this] {
        segment->failed = rank + 1;
        last_error = "made to fail";
        state = kSystemError;
        return false;
      };
    if (misbehave && fault.what == "hang") call = [this] { return until([] { return false; }); };
    const std::lock_guard lock(mutex);
    work.push_back(std::move(call));
    wake.notify_all();
    return kInProgress;
  }
};

namespace {

// Calls between ncclGroupStart and ncclGroupEnd.
thread_local std::vector<std::function<bool()>> grouped;
thread_local Comm* grouped_comm = nullptr;
thread_local bool in_group = false;

unsigned long fingerprint(int kind, std::size_t count, int dtype, int op) {
  return (static_cast<unsigned long>(kind) << 56) ^ (static_cast<unsigned long>(dtype) << 48) ^
         (static_cast<unsigned long>(op) << 40) ^ count ^ (1UL << 63);
}

// Piece by piece: everybody lays one down, then everybody reads those that it wants.
bool rounds(Comm& c, std::size_t total, const std::function<void(std::size_t at, std::size_t bytes)>& lay,
            const std::function<void(std::size_t at, std::size_t bytes)>& read) {
  for (std::size_t at = 0; at < total; at += kPieceBytes) {
    const std::size_t bytes = std::min(kPieceBytes, total - at);
    lay(at, bytes);
    if (!c.barrier()) return false;
    read(at, bytes);
    if (!c.barrier()) return false;
  }
  return true;
}

bool all_reduce(Comm& c, const char* in, char* out, std::size_t count, int dtype, int op) {
  if (!c.same(fingerprint(1, count, dtype, op))) return false;
  const auto lay = [&](std::size_t at, std::size_t bytes) {
    std::memcpy(c.part(c.rank).piece, in + at, bytes);
  };
  const auto read = [&](std::size_t at, std::size_t bytes) {
    std::memcpy(out + at, c.part(0).piece, bytes);
    for (int r = 1; r < c.world; ++r) combine(out + at, c.part(r).piece, bytes, dtype, op);
    if (op == 4 && dtype == 7)
      for (std::size_t i = 0; i < bytes / 4; ++i)
        reinterpret_cast<float*>(out + at)[i] /= static_cast<float>(c.world);
  };
  return rounds(c, count * size_of(dtype), lay, read);
}

bool all_gather(Comm& c, const char* in, char* out, std::size_t count, int dtype) {
  if (!c.same(fingerprint(2, count, dtype, 0))) return false;
  const std::size_t block = count * size_of(dtype);
  const auto lay = [&](std::size_t at, std::size_t bytes) {
    std::memcpy(c.part(c.rank).piece, in + at, bytes);
  };
  const auto read = [&](std::size_t at, std::size_t bytes) {
    for (int r = 0; r < c.world; ++r)
      std::memcpy(out + static_cast<std::size_t>(r) * block + at, c.part(r).piece, bytes);
  };
  return rounds(c, block, lay, read);
}

bool broadcast(Comm& c, const char* in, char* out, std::size_t count, int dtype, int root) {
  if (!c.same(fingerprint(3, count, dtype, root))) return false;
  const auto lay = [&](std::size_t at, std::size_t bytes) {
    if (c.rank == root) std::memcpy(c.part(root).piece, in + at, bytes);
  };
  const auto read = [&](std::size_t at, std::size_t bytes) {
    std::memcpy(out + at, c.part(root).piece, bytes);
  };
  return rounds(c, count * size_of(dtype), lay, read);
}

bool reduce_scatter(Comm& c, const char* in, char* out, std::size_t count, int dtype, int op) {
  if (!c.same(fingerprint(4, count, dtype, op))) return false;
  const std::size_t block = count * size_of(dtype);
  for (int owner = 0; owner < c.world; ++owner) {
    const char* from = in + static_cast<std::size_t>(owner) * block;
    const auto lay = [&](std::size_t at, std::size_t bytes) {
      std::memcpy(c.part(c.rank).piece, from + at, bytes);
    };
    const auto read = [&](std::size_t at, std::size_t bytes) {
      if (c.rank != owner) return;
      std::memcpy(out + at, c.part(0).piece, bytes);
      for (int r = 1; r < c.world; ++r) combine(out + at, c.part(r).piece, bytes, dtype, op);
    };
    if (!rounds(c, block, lay, read)) return false;
  }
  return true;
}

bool send(Comm& c, const char* in, std::size_t total, int peer) {
  for (std::size_t at = 0; at < total; at += kPieceBytes) {
    std::atomic<unsigned long>& sent = c.part(c.rank).sent[peer];
    if (!c.until([&] { return c.part(peer).taken[c.rank] == sent; })) return false;
    std::memcpy(c.part(c.rank).letters[peer], in + at, std::min(kPieceBytes, total - at));
    ++sent;
  }
  return true;
}

bool recv(Comm& c, char* out, std::size_t total, int peer) {
  for (std::size_t at = 0; at < total; at += kPieceBytes) {
    std::atomic<unsigned long>& taken = c.part(c.rank).taken[peer];
    if (!c.until([&] { return c.part(peer).sent[c.rank] > taken; })) return false;
    std::memcpy(out + at, c.part(peer).letters[c.rank], std::min(kPieceBytes, total - at));
    ++taken;
  }
  return true;
}

int start(Comm* c, std::function<bool()> call) {
  if (!in_group) return c->start(std::move(call));
  grouped_comm = c;
  grouped.push_back(std::move(call));
  return kSuccess;
}

// All at once: a message of the group may need another one's other end.
bool run_together(std::vector<std::function<bool()>>& calls) {
  std::vector<std::thread> threads;
  std::atomic<bool> good{true};
  for (auto& call : calls)
    threads.emplace_back([&] {
      if (!call()) good = false;
    });
  for (std::thread& t : threads) t.join();
  return good;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22800;
  return kSuccess;
}
int ncclGetUniqueId(Id* id) {
  static std::atomic<int> number{0};
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::snprintf(id->bytes, sizeof id->bytes, "/dev/shm/fake-nccl-%d-%d", static_cast<int>(getpid()),
                number++);
  return kSuccess;
}
int ncclCommInitRankConfig(Comm** out, int world, Id id, int rank, Config* config) {
  *out = nullptr;
  if (world < 1 || world > kMostRanks || rank < 0 || rank >= world) return kInvalidArgument;
  if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->blocking != 0)
    return kInvalidArgument;
  auto* c = new Comm;
  *out = c;
  c->rank = rank;
  c->world = world;
  c->file = id.bytes;
  c->fault = fault_of_environment();
  const int fd = open(c->file.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Segment)) != 0) return kSystemError;
  void* at = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) return kSystemError;
  c->segment = static_cast<Segment*>(at);
  c->thread = std::thread([c] { c->run(); });
  return c->start([c] { return c->barrier(); });
}
int ncclCommGetAsyncError(Comm* c, int* state) {
  *state = c->state;
  return kSuccess;
}
const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kSystemError:
      return "unhandled system error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    case kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "other error";
  }
}
const char* ncclGetLastError(Comm* c) { return c == nullptr ? "" : c->last_error.c_str(); }
int ncclCommFinalize(Comm* c) {
  return c->start([c] { return c->barrier(); });
}
int ncclCommDestroy(Comm* c) {
  c->end();
  delete c;
  return kSuccess;
}
int ncclCommAbort(Comm* c) {
  c->aborted = true;
  return ncclCommDestroy(c);
}
int ncclAllReduce(const void* in, void* out, std::size_t count, int dtype, int op, Comm* c, void*) {
  return start(c, [=] {
    return all_reduce(*c, static_cast<const char*>(in), static_cast<char*>(out), count, dtype, op);
  });
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int dtype, int op, Comm* c, void*) {
  return start(c, [=] {
    return reduce_scatter(*c, static_cast<const char*>(in), static_cast<char*>(out), count, dtype, op);
  });
}
int ncclAllGather(const void* in, void* out, std::size_t count, int dtype, Comm* c, void*) {
  return start(
      c, [=] { return all_gather(*c, static_cast<const char*>(in), static_cast<char*>(out), count, dtype); });
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int dtype, int root, Comm* c, void*) {
  return start(c, [=] {
    return broadcast(*c, static_cast<const char*>(in), static_cast<char*>(out), count, dtype, root);
  });
}
int ncclSend(const void* in, std::size_t count, int dtype, int peer, Comm* c, void*) {
  return start(c, [=] { return send(*c, static_cast<const char*>(in), count * size_of(dtype), peer); });
}
int ncclRecv(void* out, std::size_t count, int dtype, int peer, Comm* c, void*) {
  return start(c, [=] { return recv(*c, static_cast<char*>(out), count * size_of(dtype), peer); });
}
int ncclGroupStart() {
  in_group = true;
  return kSuccess;
}
int ncclGroupEnd() {
  in_group = false;
  std::vector<std::function<bool()>> calls;
  calls.swap(grouped);
  if (calls.empty()) return kSuccess;
  return grouped_comm->start([calls]() mutable { return run_together(calls); });
}

}  // extern "C"
