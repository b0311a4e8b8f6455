#include "trireme/train/distant_state.h"

#include <algorithm>

#include "trireme/train/coordinator_letters.h"

namespace trireme::train {
namespace {

using comm::Letter;
using runtime::Task;

// The bytes of a tensor that a letter is about. The view lies in the tensor.
struct Asked {
  Tensor tensor;
  net::View view;
};

Result<Asked> find_asked(const std::map<int, io::NamedTensors>& kept, int peer,
                         const Letter<KeptStateHead>& letter) {
  const KeptStateHead& head = letter.head;
  const auto whose = kept.find(static_cast<int>(head.whose));
  if (peer != 0 || whose == kept.end() || head.index >= whose->second.size())
    return error(
        Code::kMismatch,
        "[train] rank {} asks for tensor {} of {} {}, which is not here: all ranks must run the same "
        "version",
        peer, head.index, head.whose < 0 ? "replica" : "server", head.whose);
  const auto& [name, tensor] = whose->second[head.index];
  const std::uint64_t size = tensor.type().num_bytes();
  const std::uint64_t count = letter.bytes != 0 ? letter.bytes : head.count;
  if (head.tensor_bytes != size || head.begin > size || count > size - head.begin)
    return error(Code::kMismatch, "[train] state '{}': got bytes {} to {} of {}, expected some of {}", name,
                 head.begin, head.begin + count, head.tensor_bytes, size);
  return Asked{tensor, {tensor.raw() + head.begin, count}};
}

// Rank 0 alone asks; where it is gone the verdict ends this rank's own work too. A letter with a payload has
// written it.
Task<void> reply(comm::Mailbox& mail, int peer, Letter<KeptStateHead> letter, Asked asked) {
  KeptStateAnswer answer;
  answer.is_known = !asked.tensor.is_null();
  const net::View payload = letter.bytes == 0 ? asked.view : net::View{};
  (void)co_await mail.reply(peer, letter.ticket, answer, payload);
}

Task<Status> ask(comm::Mailbox& mail, KeptPlace place, KeptStateHead head, net::View payload,
                 net::View into) {
  head.index = place.index;
  head.whose = place.whose;
  head.tensor_bytes = place.tensor_bytes;
  const auto answer = co_await mail.ask(place.rank, head, payload, into);
  if (!answer.ok()) co_return answer.status();
  if (answer->head.is_known) co_return Status();
  co_return error(Code::kMismatch,
                  "[train] rank {} does not have what a checkpoint holds of it: all ranks must run the same "
                  "version",
                  place.rank);
}

}  // namespace

KeptState::~KeptState() {
  if (answers_) mail_.stop_handling<KeptStateHead>();
}

void KeptState::keep(int whose, io::NamedTensors tensors) { (*tensors_)[whose] = std::move(tensors); }
void KeptState::forget(int whose) { tensors_->erase(whose); }

void KeptState::answer() {
  answers_ = true;
  comm::Mailbox::Handler<KeptStateHead> handler;
  handler.place = [kept = tensors_](int peer, const Letter<KeptStateHead>& letter) -> Result<net::View> {
    TR_ASSIGN_OR_RETURN(const Asked asked, find_asked(*kept, peer, letter));
    return asked.view;
  };
  handler.arrived = [kept = tensors_, &rt = rt_, &mail = mail_](int peer,
                                                                const Letter<KeptStateHead>& letter) {
    Result<Asked> asked = find_asked(*kept, peer, letter);
    rt.spawn(reply(mail, peer, letter, asked.ok() ? std::move(*asked) : Asked{}));
  };
  mail_.handle(std::move(handler));
}

Task<Status> read_kept(comm::Mailbox& mail, KeptPlace from, std::uint64_t begin, MutByteView to) {
  if (to.empty()) co_return Status();
  KeptStateHead head;
  head.begin = begin;
  head.count = to.size();
  const net::View into{to.data(), to.size()};
  co_return co_await ask(mail, from, head, net::View{}, into);
}

Task<Status> write_kept(comm::Mailbox& mail, KeptPlace to, std::uint64_t begin, net::View bytes) {
  if (bytes.bytes == 0) co_return Status();
  KeptStateHead head;
  head.begin = begin;
  co_return co_await ask(mail, to, head, bytes, net::View{});
}

DistantTensor distant_tensor(comm::Mailbox& mail, std::string name, const TensorType& type, KeptPlace at) {
  at.tensor_bytes = type.num_bytes();
  const auto read = [&mail, at](std::uint64_t begin, MutByteView to) {
    return read_kept(mail, at, begin, to);
  };
  return {std::move(name), type, read};
}

io::CheckpointPart part_with_distant(const io::NamedTensors& here, std::vector<DistantTensor> distant) {
  struct Entry {
    DistantTensor tensor;
    Tensor memory;
  };
  std::vector<Entry> all;
  for (const auto& [name, tensor] : here) all.push_back({{name, tensor.type(), nullptr}, tensor});
  for (DistantTensor& t : distant) all.push_back({std::move(t), Tensor()});
  std::sort(all.begin(), all.end(),
            [](const Entry& a, const Entry& b) { return a.tensor.name < b.tensor.name; });
  io::CheckpointPart part;
  const auto tensors = std::make_shared<std::vector<DistantTensor>>();
  for (Entry& e : all) {
    part.pieces.push_back({parallel::Piece::of_whole(e.tensor.name, e.tensor.type), 0});
    part.tensors.emplace_back(e.tensor.name, e.memory);
    tensors->push_back(std::move(e.tensor));
  }
  if (!distant.empty())
    part.source = [tensors](std::size_t piece, std::uint64_t begin, MutByteView to) {
      return (*tensors)[piece].read(begin, to);
    };
  return part;
}

}  // namespace trireme::train
