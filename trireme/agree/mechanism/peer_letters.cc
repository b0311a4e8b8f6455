#include "trireme/agree/mechanism/peer_letters.h"

#include "trireme/agree/mechanism/vector_math.h"

namespace trireme::agree {

using runtime::Task;

Result<Tensor> VectorPool::take(std::size_t bucket) {
  if (free_[bucket].empty()) {
    TR_ASSIGN_OR_RETURN(Tensor made, new_vector(rt_, like_[bucket].shape().num_elems()));
    made_.push_back(made);
    return made;
  }
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

namespace {

Task<void> keep(runtime::Runtime& rt, std::vector<Tensor> /*memory*/) {
  runtime::OneShot<bool> never(rt);
  co_await never.wait_until(kForever);
}

}  // namespace

void VectorPool::abandon() { rt_.spawn(keep(rt_, std::move(made_))); }

void VectorPool::give_all(std::vector<Tensor> vectors) {
  for (std::size_t b = 0; b < vectors.size(); ++b) give(b, std::move(vectors[b]));
}

}  // namespace trireme::agree
