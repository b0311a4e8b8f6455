#!/usr/bin/env bash
# tools/check_forbidden accepts the tree, refuses each planted violation, and does not cry wolf.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
check=$root/tools/check_forbidden

passes "$check"
mkdir -p "$scratch/tools"
cp "$root/tools/forbidden.txt" "$scratch/tools/"

# Rule, then a line that breaks it.
while IFS='~' read -r rule line; do
  plant trireme/plan/x.cc $'\n'"$line"
  refuses "trireme/plan/x.cc:2: " "$check" "$scratch"
  grep -qF "breaks rule '$rule'" "$scratch/out" || fail "'$line' should break rule '$rule'"
done <<'EOF'
thread~#include <thread>
thread~  std::jthread worker(run);
thread~  pthread_setname_np(self, name);
thread~  auto f = std::async(run);
lock~#include <mutex>
lock~  std::unique_lock<std::shared_mutex> guard(m_);
clock~  auto now = std::chrono::steady_clock::now();
clock~  seed = time(nullptr);
clock~  clock_gettime(CLOCK_MONOTONIC, &ts);
sleep~  std::this_thread::sleep_for(1ms);
sleep~  usleep(10);
file~#include <fstream>
file~  std::ofstream out(path);
file~  int fd = open(path, O_RDONLY);
file~  return ::open(path, 0);
file~  void* p = mmap(nullptr, n, PROT_READ, MAP_PRIVATE, fd, 0);
file~  namespace fs = std::filesystem;
output~  std::cout << loss;
output~  fmt::print("hello");
socket~  int s = socket(AF_INET, SOCK_STREAM, 0);
socket~#include <sys/epoll.h>
socket~  if (::poll(fds, 1, 10) > 0) {
process~  if (fork() == 0) {
socket~  ::send(fd, data, n, 0);
process~  ::kill(pid, SIGKILL);
process~  execvp(argv[0], argv);
process~#include <csignal>
environment~  const char* home = std::getenv("HOME");
entropy~  std::random_device source;
entropy~  int r = rand() % 6;
openmp~#pragma omp parallel for
mpi~  MPI_Send(buf, n, MPI_BYTE, 0, 0, comm);
cuda~  cudaMalloc(&p, n);
hwloc~#include <hwloc.h>
EOF

plant trireme/plan/x.cc '
// sleep(1), open(path), std::mutex and getenv in a comment
/* std::thread
   fork() */
const char* text = "see getenv(HOME), std::cout";
const auto lines = R"(MPI_Send and std::mutex)";
#include <atomic>
#include <chrono>
#include "trireme/runtime/thread.h"
std::atomic<int> count;
Result<File> open(const Path& path);
virtual Task<Status> send(Rank to, Bytes data) = 0;
  co_await link.send(to, data);
  co_await rt.sleep_for(5_ms);
Task<void> sleep_until(Time deadline);
  net->connect(peer).kill(reason);
  void stop() { close(); send(Message{}); poll(events); }
  Status Loop::poll(int events) { return queue_.select(events); }
constexpr int kBig = 1'"'"'000'"'"'000;
auto runtime = uptime(step), wall_time(step);
std::chrono::nanoseconds sleep_ns{5};
auto kept = std::remove_if(begin, end, is_stale);'
passes "$check" "$scratch"

# Line numbers survive a removed comment of several lines.
plant trireme/plan/x.cc $'/* one\ntwo */\nint a = rand();'
refuses "trireme/plan/x.cc:3: " "$check" "$scratch"

# An exception holds for its path and its rule only.
plant trireme/plan/x.cc ''
plant trireme/runtime/real/t.cc '#include <thread>'
passes "$check" "$scratch"
plant trireme/runtime/virtual/t.cc '#include <thread>'
refuses "trireme/runtime/virtual/t.cc:1: " "$check" "$scratch"
rm "$scratch/trireme/runtime/virtual/t.cc"
plant trireme/net/mpi/m.cc $'#include <mpi.h>\n#include <thread>'
refuses "trireme/net/mpi/m.cc:2: '<thread>'" "$check" "$scratch"

plant tools/forbidden.txt $'forbid a b\nallow trireme/x c'
refuses "unknown rule 'c'" "$check" "$scratch"
