// What libtrireme_mpi.so offers: the few calls of MPI that the transport needs, as a table of C functions, so
// that the library and the binary do not depend on MPI when they are loaded
// (docs/decisions/004-mpi-module.md).
//
// One thread at a time enters it: the loop of the rank. Functions that can fail return 0 or an error code of
// MPI; `describe` puts it in words. A buffer belongs to MPI from the call until its event.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct TriremeMpi;        // one communicator and what is outstanding on it
struct TriremeMpiWindow;  // memory of every rank of a communicator

struct TriremeMpiEvent {
  std::uint64_t cookie;
  std::uint64_t bytes;   // of a recv
  std::int32_t source;   // of a recv
  std::int32_t outcome;  // 0 done, 1 cancelled, 2 failed
};

struct TriremeMpiCalls {
  std::uint32_t version;  // kTriremeMpiVersion of the header it was compiled with; stays the first field

  // The process. state: 0 not initialised, 1 initialised, 2 finalized.
  int (*state)();
  int (*init)(int* rank, int* world);  // also when it is initialised already: then only tells
  int (*finalize)();
  void (*describe)(int error, char* text, std::size_t text_bytes);
  void (*library)(char* text, std::size_t text_bytes);  // "Open MPI v4.1.4, ..."

  // A communicator of the first `world` ranks; its event carries `cookie` when every one of them asked for
  // it. With fewer ranks than the process group has, open itself waits for them.
  int (*open)(int world, std::uint64_t cookie, TriremeMpi** out);
  // Cancels what is outstanding and forgets it. The communicator stays until finalize: a late message of a
  // peer must not find another one in its place.
  void (*close)(TriremeMpi* mpi);
  int (*max_tag)(TriremeMpi* mpi);

  int (*send)(TriremeMpi* mpi, int peer, int tag, const void* data, std::uint64_t bytes,
              std::uint64_t cookie);
  int (*recv)(TriremeMpi* mpi, int peer_or_any, int tag, void* data, std::uint64_t bytes,
              std::uint64_t cookie);
  int (*barrier)(TriremeMpi* mpi, std::uint64_t cookie);
  void (*cancel)(TriremeMpi* mpi, std::uint64_t cookie);  // of a recv; its event still comes
  int (*outstanding)(TriremeMpi* mpi);
  // Progress. Number of events written to `events`.
  int (*poll)(TriremeMpi* mpi, TriremeMpiEvent* events, int max_events);

  // Windows. Every rank allocates at the same time, right after a barrier; they stay until finalize, since
  // freeing one would wait for all ranks. `bytes` of one put or get are at most kTriremeMpiPiece.
  int (*win_allocate)(TriremeMpi* mpi, std::uint64_t bytes, void** local, TriremeMpiWindow** out);
  int (*win_put)(TriremeMpiWindow* window, int peer, std::uint64_t offset, const void* from,
                 std::uint64_t bytes, std::uint64_t cookie);
  int (*win_get)(TriremeMpiWindow* window, int peer, std::uint64_t offset, void* into, std::uint64_t bytes,
                 std::uint64_t cookie);
  int (*win_flush)(TriremeMpiWindow* window, int peer);  // what was put is there when it returns
};

// Null is never returned.
const TriremeMpiCalls* trireme_mpi_calls();

}  // extern "C"

inline constexpr std::uint32_t kTriremeMpiVersion = 1;
inline constexpr int kTriremeMpiAny = -1;
// MPI counts are ints: more travels in pieces.
inline constexpr std::uint64_t kTriremeMpiPiece = std::uint64_t{1} << 30;
