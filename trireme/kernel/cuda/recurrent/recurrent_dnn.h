// One layer of recurrence through cuDNN's RNN functions: described once, run many times.
//
// cuDNN wants the four weights in one space of its own order (its gates come in ours: i, f, g, o and r, z, n)
// and keeps what the gradient needs in a reserve, which the gradient spoils. Always its standard algorithm:
// the persistent one is no faster in bf16, and slower in f16 and f32 (docs/studies/gpu.md).
#pragma once

#include <memory>
#include <vector>

#include "trireme/kernel/cuda/device/device.h"

namespace trireme::kernel::cuda {

struct RecurrentSpec {
  cudnnRNNMode_t cell = CUDNN_LSTM;
  DType dtype = DType::kF32;                               // f32, bf16, f16
  bool tf32 = false;                                       // f32 products may round their operands
  std::int64_t steps = 0, batch = 0, size = 0, units = 0;  // none is 0
};

// Destroyed with its owner.
struct DnnRecurrentParts;

// Const after it is made. Several threads may use one, each on its own stream.
class DnnRecurrent {
 public:
  // kUnavailable where cuDNN does not take it.
  static Result<std::shared_ptr<const DnnRecurrent>> make(CudaDevice& device, const RecurrentSpec& spec);
  ~DnnRecurrent();
  DnnRecurrent(const DnnRecurrent&) = delete;
  DnnRecurrent& operator=(const DnnRecurrent&) = delete;

  std::size_t weight_bytes() const { return weight_bytes_; }
  std::size_t reserve_bytes() const { return reserve_bytes_; }
  std::size_t work_bytes(bool training) const { return training ? training_bytes_ : inference_bytes_; }

  struct Weights {
    void *w_ih, *w_hh, *b_ih, *b_hh;
  };
  Status pack(CudaStream& stream, const Weights& weights, std::byte* space) const;
  Status unpack(CudaStream& stream, std::byte* space, const Weights& weights) const;

  // c, last_c: lstm only. last_h and last_c may be null. reserve null: nothing is kept for a gradient.
  struct Forward {
    void *x, *h, *c, *y, *last_h, *last_c;
    std::byte *weights, *work, *reserve;
  };
  Status forward(CudaStream& stream, const Forward& f) const;
  // From what a forward pass kept. The space of weights holds their gradients afterwards.
  struct Backward {
    void *x, *h, *c, *y, *dy, *dlast_h, *dlast_c, *dx, *dh, *dc;
    std::byte *weights, *work, *reserve;
  };
  Status backward(CudaStream& stream, const Backward& b) const;

 private:
  // Bytes that lie together in one of the weights and in their space.
  struct Piece {
    int weight;
    std::size_t from, to, bytes;
  };
  explicit DnnRecurrent(CudaDevice& device);
  Status describe(const RecurrentSpec& spec);
  Status measure(cudnnHandle_t handle);
  Status find_pieces(cudnnHandle_t handle, const RecurrentSpec& spec);
  void add_piece(Piece piece);
  Status check(cudnnStatus_t result, const char* what) const;

  const Libraries* lib_;
  CudaDevice* device_;
  std::unique_ptr<DnnRecurrentParts> parts_;
  std::vector<Piece> pieces_;
  std::size_t weight_bytes_ = 0, reserve_bytes_ = 0, training_bytes_ = 0, inference_bytes_ = 0;
};

}  // namespace trireme::kernel::cuda
