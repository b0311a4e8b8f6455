// What travels over MPI. Internal to net/mpi.
//
// Small messages (tag kDataTag, ordered per pair; tag kControlTag beside them) start with an MpiHeader and
// have at most kSmallBytes, so that MPI sends them eagerly. A payload that does not fit is *offered*; the
// receiver *clears* it once it has posted a recv into the place where it belongs, and only then the payload
// goes, with a tag of its own, straight from the sender's buffer. So nothing of the callers' memory is in
// MPI's hands unless both sides are at it, and a message that nobody receives waits at the sender.
#pragma once

#include <cstdint>

namespace trireme::net::mpi {

inline constexpr std::uint32_t kMagic = 0x4D524954;  // "TIRM" as bytes
inline constexpr int kDataTag = 1, kControlTag = 2, kFirstPayloadTag = 16;
// The smallest eager limit in use is that of Open MPI's shared memory: 4096 bytes, its own headers included.
inline constexpr std::uint64_t kSmallBytes = 4000;

enum class Kind : std::uint32_t {
  kData = 1,     // header, payload
  kOffer = 2,    // header; payload comes with tag kFirstPayloadTag + slot
  kClear = 3,    // to the one who offered: the recv is posted
  kDiscard = 4,  // to the one who offered: nobody wants the payload
  kControl = 5,  // payload is a control message
  kBye = 6,      // nothing more comes with this tag
};

struct MpiHeader {
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kData;
  std::uint64_t high = 0, low = 0;  // Identity
  std::uint64_t fingerprint = 0;
  std::uint64_t bytes = 0;  // of the whole payload
  std::uint32_t phantom = 0;
  std::uint32_t slot = 0;        // of the sender's offer; clear and discard give it back
  std::uint32_t generation = 0;  // of the slot
  std::uint32_t reserved = 0;
};
static_assert(sizeof(MpiHeader) == 56);

inline constexpr std::uint64_t kInlineBytes = kSmallBytes - sizeof(MpiHeader);

}  // namespace trireme::net::mpi
