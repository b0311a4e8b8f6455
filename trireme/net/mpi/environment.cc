#include "trireme/net/mpi/environment.h"

#include <array>
#include <optional>

#include "trireme/runtime/real/executable.h"
#include "trireme/runtime/real/module.h"

namespace trireme::net::mpi {
namespace {

constexpr const char* kFile = "libtrireme_mpi.so";

Result<const TriremeMpiCalls*> load_calls() {
  const std::string program = runtime::executable_path();
  const std::string here = program.substr(0, program.find_last_of('/'));
  const std::array<std::string, 3> places{fmt::format("{}/{}", here, kFile),
                                          fmt::format("{}/../lib/{}", here, kFile), kFile};
  std::string tried;
  for (const std::string& place : places) {
    const Result<runtime::Module> module = runtime::Module::open(place);
    if (!module.ok()) {
      tried += fmt::format("\n  {}", module.status().message());
      continue;
    }
    using Entry = const TriremeMpiCalls* (*)();
    const auto entry = reinterpret_cast<Entry>(module->symbol("trireme_mpi_calls"));
    const TriremeMpiCalls* calls = entry != nullptr ? entry() : nullptr;
    if (calls == nullptr || calls->version != kTriremeMpiVersion)
      return error(
          Code::kUnavailable,
          "[net] the MPI module at '{}' is not of this build: got version {}, expected {}; rebuild both",
          place, calls != nullptr ? calls->version : 0, kTriremeMpiVersion);
    return calls;
  }
  return error(
      Code::kUnavailable,
      "[net] transport 'mpi' cannot be used: built without MPI, or MPI is not on this machine; install "
      "libopenmpi-dev (to run only: openmpi-bin) and rebuild. Tried:{}",
      tried);
}

}  // namespace

MpiEnvironment::~MpiEnvironment() {
  if (owner_ && !spoilt_) calls_.finalize();
}

std::string MpiEnvironment::describe(int error) const {
  std::array<char, 512> text{};
  calls_.describe(error, text.data(), text.size());
  return text.data();
}

std::string MpiEnvironment::library() const {
  std::array<char, 512> text{};
  calls_.library(text.data(), text.size());
  return text.data();
}

Result<std::shared_ptr<MpiEnvironment>> start_environment() {
  TR_ASSIGN_OR_RETURN(const TriremeMpiCalls* calls, load_calls());
  const int before = calls->state();
  if (before == 2)
    return error(
        Code::kUnavailable,
        "[net] MPI was finalized in this process; hold one session for as long as transports are made");
  int rank = 0, world = 0;
  const int failure = calls->init(&rank, &world);
  if (failure != 0) {
    std::array<char, 512> text{};
    calls->describe(failure, text.data(), text.size());
    return error(Code::kUnavailable,
                 "[net] MPI does not start: {}; run a plain MPI program to see whether it works",
                 text.data());
  }
  return std::make_shared<MpiEnvironment>(*calls, before == 0, rank, world);
}

}  // namespace trireme::net::mpi
