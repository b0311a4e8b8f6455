// Open MPI's side of `trireme bench`: mpirun -n P bench_mpi_collectives SOCKET. Does what the driver asks for
// over its socket (trireme/measure/collective/work.h has the lines, start_line.h the page) and reports the
// times. While nobody asks, every rank blocks in recvmsg: MPI is entered only to measure.
#include <mpi.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr std::uint32_t kBytes = 1, kSegment = 2;  // frames of a local stream
constexpr std::size_t kStride = 64;                // counters of the start line
constexpr std::int64_t kMeetingNs = 60'000'000'000;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "bench_mpi_collectives: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The driver's stream: frames of bytes, and one segment.
class Driver {
 public:
  explicit Driver(const char* path) {
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (socket_ < 0 || connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      die(std::string("cannot connect to ") + path);
  }

  void send_line(std::string line) {
    line += '\n';
    const std::uint32_t header[2] = {kBytes, static_cast<std::uint32_t>(line.size())};
    std::string frame(reinterpret_cast<const char*>(header), sizeof header);
    frame += line;
    for (std::size_t done = 0; done < frame.size();) {
      const ssize_t put = send(socket_, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
      if (put <= 0) die("the driver went away");
      done += static_cast<std::size_t>(put);
    }
  }

  // False when the driver went away.
  bool next_line(std::string& line) {
    for (;;) {
      if (const std::size_t end = lines_.find('\n'); end != std::string::npos) {
        line = lines_.substr(0, end);
        lines_.erase(0, end + 1);
        return true;
      }
      if (!read_frame()) return false;
    }
  }

  std::byte* wait_for_page() {
    while (page_ == nullptr)
      if (!read_frame()) die("the driver went away");
    return page_;
  }

 private:
  bool read_exact(void* into, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      iovec piece{static_cast<char*>(into) + done, bytes - done};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t got = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
      if (got <= 0) return false;
      done += static_cast<std::size_t>(got);
      const cmsghdr* c = CMSG_FIRSTHDR(&message);
      if (c != nullptr && c->cmsg_type == SCM_RIGHTS) std::memcpy(&fd_, CMSG_DATA(c), sizeof fd_);
    }
    return true;
  }

  bool read_frame() {
    std::uint32_t header[2];
    if (!read_exact(header, sizeof header)) return false;
    std::string payload(header[1], '\0');
    if (!read_exact(payload.data(), payload.size())) return false;
    if (header[0] == kBytes) lines_ += payload;
    if (header[0] != kSegment) return true;
    std::uint64_t size = 0;
    std::memcpy(&size, payload.data(), std::min(payload.size(), sizeof size));
    void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (mapped == MAP_FAILED) die("cannot map the start line");
    page_ = static_cast<std::byte*>(mapped);
    return true;
  }

  int socket_ = -1, fd_ = -1;
  std::string lines_;
  std::byte* page_ = nullptr;
};

class StartLine {
 public:
  StartLine(std::byte* page, int rank, int world) : page_(page), rank_(rank), world_(world) {}

  void meet(bool crowded) {
    counter(rank_).store(++round_, std::memory_order_release);
    const std::int64_t deadline = now_ns() + kMeetingNs;
    for (int looks = 0; missing();) {
      if (crowded) usleep(20);
      if ((crowded || ++looks % 1024 == 0) && now_ns() > deadline)
        die("a rank did not come to the start line");
    }
  }

 private:
  std::atomic<std::uint64_t>& counter(int rank) const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(page_ + static_cast<std::size_t>(rank) * kStride);
  }
  bool missing() const {
    for (int r = 0; r < world_; ++r)
      if (counter(r).load(std::memory_order_acquire) < round_) return true;
    return false;
  }
  std::byte* page_;
  int rank_, world_;
  std::uint64_t round_ = 0;
};

struct Work {
  std::string kind, place, algorithm;
  std::int64_t elems = 0;
  int crowded = 0, warmup = 0, calls = 0;
  bool in_place() const { return place == "in"; }
};

// The buffers of one kind of call, as trireme/measure/collective/rank.cc has them.
class Measured {
 public:
  Measured(int rank, int world) : rank_(rank), world_(world) {}

  bool serves(const Work& w) const {
    return ready_ && w.kind == setup_.kind && w.elems == setup_.elems && w.place == setup_.place;
  }

  void set_up(const Work& w) {
    setup_ = w;
    std::free(in_);
    std::free(out_);
    block_ = static_cast<int>(w.elems / world_);
    count_ = static_cast<int>(w.elems);
    in_ = allocate(w.elems);
    out_ = allocate(w.elems);
    ready_ = true;
    std::fill_n(in_, w.elems, 0.0F);
    std::fill_n(out_, w.elems, 0.0F);
  }

  // This rank's whole input.
  void rewrite() {
    const bool gathers = setup_.kind == "gather" || setup_.kind == "allgather";
    float* input = gathers && in_is_in_all() ? in_ + std::int64_t{rank_} * block_ : in_;
    std::int64_t count = gathers ? block_ : count_;
    if (setup_.kind == "scatter" && rank_ != 0) count = 0;
    if (setup_.kind == "barrier") count = 0;
    std::fill_n(input, count, static_cast<float>(rank_ + 1));
  }

  int call() {
    const std::string& kind = setup_.kind;
    const bool in = setup_.in_place(), root = rank_ == 0;
    const MPI_Comm comm = MPI_COMM_WORLD;
    if (kind == "allreduce")
      return MPI_Allreduce(in ? MPI_IN_PLACE : in_, in ? in_ : out_, count_, MPI_FLOAT, MPI_SUM, comm);
    if (kind == "reduce")
      return MPI_Reduce(in && root ? MPI_IN_PLACE : in_, in && root ? in_ : out_, count_, MPI_FLOAT, MPI_SUM,
                        0, comm);
    if (kind == "broadcast") return MPI_Bcast(in_, count_, MPI_FLOAT, 0, comm);
    if (kind == "gather")
      return MPI_Gather(in && root ? MPI_IN_PLACE : in_, block_, MPI_FLOAT, in && root ? in_ : out_, block_,
                        MPI_FLOAT, 0, comm);
    if (kind == "scatter")
      return MPI_Scatter(in_, block_, MPI_FLOAT, in && root ? MPI_IN_PLACE : out_, block_, MPI_FLOAT, 0,
                         comm);
    if (kind == "allgather")
      return MPI_Allgather(in ? MPI_IN_PLACE : in_, block_, MPI_FLOAT, in ? in_ : out_, block_, MPI_FLOAT,
                           comm);
    if (kind == "reduce_scatter")
      return MPI_Reduce_scatter_block(in ? MPI_IN_PLACE : in_, in ? in_ : out_, block_, MPI_FLOAT, MPI_SUM,
                                      comm);
    if (kind == "all_to_all")
      return MPI_Alltoall(in ? MPI_IN_PLACE : in_, block_, MPI_FLOAT, in ? in_ : out_, block_, MPI_FLOAT,
                          comm);
    return MPI_Barrier(comm);
  }

  // An input is the rank plus one everywhere.
  bool is_right() const {
    const std::string& kind = setup_.kind;
    if (kind == "barrier" || ((kind == "reduce" || kind == "gather") && rank_ != 0)) return true;
    const bool one = setup_.in_place() && (kind != "scatter" || rank_ == 0);
    const float* got = kind == "broadcast" || one ? in_ : out_;
    const bool small = kind == "scatter" || kind == "reduce_scatter";
    const bool by_block = kind == "gather" || kind == "allgather" || kind == "all_to_all";
    const bool sums = kind == "allreduce" || kind == "reduce" || kind == "reduce_scatter";
    for (std::int64_t i = 0; i < (small ? block_ : count_); ++i) {
      float expected = 1;
      if (by_block) expected = static_cast<float>(i / std::max(1, block_) + 1);
      if (sums) expected = static_cast<float>(world_ * (world_ + 1) / 2);
      if (got[i] != expected) return false;
    }
    return true;
  }

 private:
  bool in_is_in_all() const { return setup_.in_place() && (setup_.kind == "allgather" || rank_ == 0); }
  static float* allocate(std::int64_t elems) {
    const std::size_t bytes = (static_cast<std::size_t>(elems) * 4 + 64) / 64 * 64;
    auto* memory = static_cast<float*>(std::aligned_alloc(64, bytes));
    if (memory == nullptr) die("no memory");
    return memory;
  }

  int rank_, world_;
  Work setup_;
  bool ready_ = false;
  float *in_ = nullptr, *out_ = nullptr;
  int block_ = 0, count_ = 0;
};

std::string measure(Measured& measured, StartLine& line, const Work& w) {
  const bool fresh = !measured.serves(w);
  if (fresh) measured.set_up(w);
  std::string reply = "times";
  for (int i = fresh ? -w.warmup - 1 : -w.warmup; i < w.calls; ++i) {
    measured.rewrite();
    line.meet(w.crowded != 0);
    const std::int64_t begin = now_ns();
    const int code = measured.call();
    const std::int64_t end = now_ns();
    if (code != MPI_SUCCESS) return "error " + w.kind + " failed";
    if (i >= 0) reply += ' ' + std::to_string(end - begin);
    if (((fresh && i == -w.warmup - 1) || i == w.calls - 1) && !measured.is_right())
      die(w.kind + " gave a wrong result");
  }
  return reply;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, world = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  if (argc != 2) die("usage: bench_mpi_collectives SOCKET");
  Driver driver(argv[1]);
  driver.send_line("hello " + std::to_string(rank));
  StartLine line(driver.wait_for_page(), rank, world);
  driver.send_line("ready");
  Measured measured(rank, world);
  std::string text;
  while (driver.next_line(text) && text != "quit") {
    std::istringstream words(text);
    std::string verb;
    Work w;
    words >> verb >> w.kind >> w.elems >> w.place >> w.algorithm >> w.crowded >> w.warmup >> w.calls;
    if (!words || verb != "measure") die("a line makes no sense: " + text);
    driver.send_line(measure(measured, line, w));
  }
  MPI_Finalize();
  return 0;
}
