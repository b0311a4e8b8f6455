#include "trireme/agree/peer_letters.h"

#include "trireme/agree/vector_math.h"

namespace trireme::agree {

using runtime::Task;

Task<void> answer_later(comm::Mailbox* mail, int peer, comm::Letter asked, comm::Letter answer,
                        Tensor payload) {
  net::View view;
  if (!payload.is_null()) view = view_of(payload);
  const Status dropped = co_await mail->reply(peer, asked, answer, view);
  static_cast<void>(dropped);
}

Result<Tensor> VectorPool::take(std::size_t bucket) {
  if (free_[bucket].empty()) return new_vector(rt_, like_[bucket].shape().num_elems());
  Tensor vector = std::move(free_[bucket].back());
  free_[bucket].pop_back();
  return vector;
}

Result<std::vector<Tensor>> VectorPool::take_all() {
  std::vector<Tensor> vectors;
  for (std::size_t b = 0; b < like_.size(); ++b) {
    TR_ASSIGN_OR_RETURN(Tensor vector, take(b));
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

void VectorPool::give_all(std::vector<Tensor> vectors) {
  for (std::size_t b = 0; b < vectors.size(); ++b) give(b, std::move(vectors[b]));
}

}  // namespace trireme::agree
