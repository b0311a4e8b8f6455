#include "trireme/runtime/real/exhausted.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace trireme::runtime {
namespace {

std::atomic<int> code_at_end{1};
std::atomic_flag is_ending;

// Takes no memory. The first thread that comes here speaks for the process.
[[noreturn]] void end_with(const char* text) {
  while (is_ending.test_and_set()) ::pause();
  const auto say = [](const char* part) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, part, std::strlen(part));
  };
  if (::isatty(STDERR_FILENO) == 1) say("\n");  // a progress bar may stand there
  say("error: ");
  // Messages begin with their area, "[runtime] ", which people are not shown.
  const char* const area = text[0] == '[' ? std::strstr(text, "] ") : nullptr;
  say(area != nullptr ? area + 2 : text);
  say("\n");
  ::_exit(code_at_end.load());
}

[[noreturn]] void end_without_memory() {
  char text[160];
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    std::snprintf(text, sizeof text,
                  "out of memory: this process may use %llu KiB (ulimit -v); raise the limit",
                  static_cast<unsigned long long>(limit.rlim_cur / 1024));
    end_with(text);
  }
  end_with("out of memory: the system has no more; use a smaller model, batch or number of workers");
}

[[noreturn]] void end_by_exception() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (const CannotStart& e) {
    end_with(e.what());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "an exception was not caught: %s\n", e.what());
  } catch (...) {
    std::fputs("an exception was not caught\n", stderr);
  }
  std::abort();
}

}  // namespace

void end_plainly_when_exhausted(int exit_code) {
  code_at_end.store(exit_code);
  std::set_new_handler(end_without_memory);
  std::set_terminate(end_by_exception);
}

}  // namespace trireme::runtime
