// Files of the operating system, on the I/O thread.
#pragma once

#include <memory>

#include "trireme/runtime/files.h"
#include "trireme/runtime/real/io_thread.h"

namespace trireme::runtime::real {

// Operation number n passes the fault point ("disk", n), n from 0 in order of the calls. Both arguments must
// outlive it.
std::unique_ptr<Files> make_real_files(Runtime& rt, IoThread& io);

}  // namespace trireme::runtime::real
