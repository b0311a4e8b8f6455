#include "trireme/runtime/real/start_thread.h"

#include <signal.h>

#include <system_error>

#include "trireme/runtime/real/exhausted.h"
#include "trireme/runtime/real/fd.h"

namespace trireme::runtime::real {

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& e) {
    throw CannotStart(
        fmt::format("[runtime] cannot start a thread: {}; memory (ulimit -v) or threads (ulimit -u) are "
                    "limited; raise the limit",
                    text_of_errno(e.code().value())));
  }
}

std::thread start_quiet_thread(std::function<void()> body) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restore{old};
  return start_thread(std::move(body));
}

}  // namespace trireme::runtime::real
