// State that other ranks keep and rank 0 writes into checkpoints: read, and after a restart written, by
// letters, a chunk of a tensor at a time. Nobody else has a copy of it.
//
// Waits hang on the membership: what is asked of a rank that is lost ends with kPeerLost where the rank is
// expendable, and with the group's verdict otherwise.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "trireme/comm/mailbox.h"
#include "trireme/io/checkpoint.h"

namespace trireme::train {

// Whose tensors of a rank: those of server 0, 1..., those of its replica, or its part of the agreed model.
inline constexpr int kReplicaState = -1, kAgreedState = -2;

// A rank's side. On the loop; the mailbox outlives it.
class KeptState {
 public:
  KeptState(runtime::Runtime& rt, comm::Mailbox& mail) : rt_(rt), mail_(mail) {}
  ~KeptState();
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

  // Live, contiguous memory, which does not change while rank 0 reads it. Takes the place of what was there.
  void keep(int whose, io::NamedTensors tensors);
  void forget(int whose);
  // From here on rank 0 is answered, also that something is not kept; its letters wait until then.
  void answer();

 private:
  using Tensors = std::map<int, io::NamedTensors>;

  runtime::Runtime& rt_;
  comm::Mailbox& mail_;
  const std::shared_ptr<Tensors> tensors_ = std::make_shared<Tensors>();  // shared with the handler
  bool answers_ = false;
};

// Rank 0's side: a tensor that a rank keeps.
struct KeptPlace {
  int rank = 0, whose = kReplicaState;
  std::uint32_t index = 0;         // of the list that is kept
  std::uint64_t tensor_bytes = 0;  // of the whole tensor
};
// Bytes of it from byte `begin` on. kMismatch: the rank keeps no such tensor, or one of another size.
runtime::Task<Status> read_kept(comm::Mailbox& mail, KeptPlace from, std::uint64_t begin, MutByteView to);
runtime::Task<Status> write_kept(comm::Mailbox& mail, KeptPlace to, std::uint64_t begin, net::View bytes);

// A tensor of a checkpoint of which rank 0 has no copy.
struct DistantTensor {
  std::string name;
  TensorType type;
  // Its bytes from byte `begin` on.
  std::function<runtime::Task<Status>(std::uint64_t begin, MutByteView to)> read;
};
// The whole of what a rank keeps.
DistantTensor distant_tensor(comm::Mailbox& mail, std::string name, const TensorType& type, KeptPlace at);

// A checkpoint of tensors that are here and tensors that are not, in the order of their names.
io::CheckpointPart part_with_distant(const io::NamedTensors& here, std::vector<DistantTensor> distant);

}  // namespace trireme::train
